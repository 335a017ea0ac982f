//! Tests that diffs equal the output of `diff -u`.

use operator_manifests::diff::unified;

#[test]
fn equal_texts_have_no_diff() {
    assert_eq!(unified("x", "a\n", "a\n"), "");
}

#[test]
fn a_new_file_is_all_added() {
    assert_eq!(
        unified("x", "", "a\nb\n"),
        "--- /dev/null\n+++ x\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    );
}

#[test]
fn far_changes_have_their_own_hunks() {
    let old: Vec<String> = (1..=20).map(|n| n.to_string()).collect();
    let mut new = old.clone();
    new[1] = "two".into();
    new.insert(18, "between".into());
    assert_eq!(
        unified("x", &(old.join("\n") + "\n"), &(new.join("\n") + "\n")),
        "--- x\n+++ x\n@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n@@ -16,5 +16,6 @@\n 16\n 17\n 18\n+between\n 19\n 20\n"
    );
}
