//! Tests that commands which overwrite or remove files warn about uncommitted changes.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::process::Command;

use common::{CREATE_MEMCACHED, Dir};

const TYPES: &str = "src/api/v1alpha1/memcached_types.rs";
const LOST: &str = "uncommitted changes are lost in";

fn git(dir: &Dir, arguments: &[&str]) {
    let mut command = Command::new("git");
    command
        .current_dir(&dir.path)
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Creates a project whose files are committed.
fn committed() -> Dir {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    git(&dir, &["init", "--quiet"]);
    git(&dir, &["add", "--all"]);
    git(&dir, &["commit", "--quiet", "--message", "a"]);
    dir
}

/// Runs a command and returns its warnings.
fn warnings(dir: &Dir, arguments: &[&str]) -> String {
    let output = dir.run(arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    errors
}

#[test]
fn writing_a_changed_file_again_warns() {
    let dir = committed();
    let again = [CREATE_MEMCACHED, &["--force"]].concat();
    assert!(!warnings(&dir, &again).contains(LOST));
    dir.replace(TYPES, "size", "count");
    let text = warnings(&dir, &again);
    assert!(text.contains(&format!("{LOST} {TYPES}\n")), "{text}");
    assert!(dir.read(TYPES).contains("size"));
}

#[test]
fn a_file_that_only_gets_more_lines_loses_no_changes() {
    let dir = committed();
    let library = dir.read("src/lib.rs");
    dir.write("src/lib.rs", &format!("{library}// mine\n"));
    let other = [
        "create",
        "api",
        "--group=cache",
        "--version=v1alpha1",
        "--kind=Redis",
        "--force",
    ];
    assert!(!warnings(&dir, &other).contains(LOST));
    let changed = dir.read("src/lib.rs");
    assert_ne!(changed, library);
    assert!(changed.contains("// mine"), "{changed}");
}

#[test]
fn removing_a_changed_file_warns() {
    let delete = [
        "delete",
        "api",
        "--group=cache",
        "--version=v1alpha1",
        "--kind=Memcached",
        "--yes",
    ];
    assert!(!warnings(&committed(), &delete).contains(LOST));
    let dir = committed();
    dir.replace(TYPES, "size", "count");
    let text = warnings(&dir, &delete);
    assert!(text.contains(&format!("{LOST} {TYPES}\n")), "{text}");
}
