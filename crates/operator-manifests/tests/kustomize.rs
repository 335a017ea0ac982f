//! Tests that kustomizations are edited in place and keep the user's content.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use operator_manifests::kustomize::{add_entry, remove_entry};
use operator_manifests::render;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Checks that adding `b.yaml` returns `after`, adding it again changes nothing, and removing it restores `before`.
#[track_caller]
fn check(before: &str, after: &str) {
    check_added(before, after);
    assert_eq!(remove(after).as_deref(), Some(before));
}

#[track_caller]
fn check_added(before: &str, after: &str) {
    assert_eq!(add(before).as_deref(), Some(after));
    assert_eq!(add(after), None, "a second time changes nothing");
}

fn add(text: &str) -> Option<String> {
    add_entry(text, "resources", &json!("b.yaml")).unwrap()
}

fn remove(text: &str) -> Option<String> {
    remove_entry(text, "resources", &json!("b.yaml")).unwrap()
}

#[test]
fn the_entry_is_added_after_the_last_one() {
    check(
        "# mine\nresources:\n  - a.yaml # why\n  # - off.yaml\n\npatches: []\n",
        "# mine\nresources:\n  - a.yaml # why\n  - b.yaml\n  # - off.yaml\n\npatches: []\n",
    );
}

#[test]
fn other_lists_stay_whole() {
    check(
        "resources:\n- a.yaml\npatches:\n- path: p.yaml\n  target:\n    kind: Deployment\n",
        "resources:\n- a.yaml\n- b.yaml\npatches:\n- path: p.yaml\n  target:\n    kind: Deployment\n",
    );
}

#[test]
fn an_item_of_several_lines_is_kept_whole() {
    check(
        "resources:\n- a.yaml\n- >-\n  long\n  name.yaml\n\n# the end\n",
        "resources:\n- a.yaml\n- >-\n  long\n  name.yaml\n- b.yaml\n\n# the end\n",
    );
}

#[test]
fn an_empty_or_missing_list_is_made() {
    check_added("resources: []\n", "resources:\n- b.yaml\n");
    check_added("resources: ~ # none\n", "resources: # none\n- b.yaml\n");
    check("# nothing yet\n", "# nothing yet\nresources:\n- b.yaml\n");
    check("namespace: x\n", "namespace: x\nresources:\n- b.yaml\n");
    check_added("namespace: x", "namespace: x\nresources:\n- b.yaml\n");
}

#[test]
fn a_list_in_one_line_is_kept_in_one() {
    check("resources: [a.yaml]\n", "resources: [a.yaml, b.yaml]\n");
    assert_eq!(
        remove("resources: [b.yaml, a.yaml] # two\n").as_deref(),
        Some("resources: [a.yaml] # two\n")
    );
    assert_eq!(remove("resources: [b.yaml]\n").as_deref(), Some(""));
}

#[test]
fn a_patch_is_identified_by_its_path() {
    let patch = json!({"path": "p.yaml", "target": {"kind": "Deployment"}});
    let before = "resources:\n- a.yaml\n";
    let after = "resources:\n- a.yaml\npatches:\n- path: p.yaml\n  target:\n    kind: Deployment\n";
    assert_eq!(
        add_entry(before, "patches", &patch).unwrap().as_deref(),
        Some(after)
    );
    let changed = "patches:\n- target: {kind: Pod}\n  path: p.yaml\n- path: q.yaml\n";
    assert_eq!(add_entry(changed, "patches", &patch).unwrap(), None);
    assert_eq!(
        remove_entry(changed, "patches", &patch).unwrap().as_deref(),
        Some("patches:\n- path: q.yaml\n")
    );
}

#[test]
fn text_that_is_not_ascii_keeps_its_place() {
    check(
        "# Größe 木\nresources:\n- ä.yaml # é\nnamePrefix: ü-\n",
        "# Größe 木\nresources:\n- ä.yaml # é\n- b.yaml\nnamePrefix: ü-\n",
    );
}

#[test]
fn keys_that_are_not_lists_are_errors_with_a_hint() {
    for text in ["resources: a.yaml\n", "resources: {a: b}\n", "{}\n"] {
        let error = add_entry(text, "resources", &json!("b.yaml")).unwrap_err();
        assert!(error.to_string().contains("add `- b.yaml`"), "{error}");
    }
}

#[test]
fn broken_yaml_is_an_error() {
    assert!(add_entry("resources: {\n", "resources", &json!("b.yaml")).is_err());
    assert!(remove_entry("resources: {\n", "resources", &json!("b.yaml")).is_err());
}

proptest! {
    #[test]
    fn adding_and_removing_are_inverse(
        names in proptest::collection::btree_set("[a-c]{1,3}", 0..4),
        others in any::<bool>(),
        entry in prop_oneof![Just(json!("new")), Just(json!({"path": "new", "x": [1, {"y": "z"}]}))],
    ) {
        let mut document = json!({});
        if !names.is_empty() {
            document["resources"] = json!(names);
        }
        if others {
            document["namePrefix"] = json!("p-");
            document["zeta"] = json!([{"a": ["b"]}]);
        }
        let before = if document == json!({}) { String::new() } else { render::yaml(&document) };
        let added = add_entry(&before, "resources", &entry).unwrap().unwrap();
        let read: Value = serde_saphyr::from_str(&added).unwrap();
        prop_assert_eq!(read["resources"].as_array().unwrap().len(), names.len() + 1);
        let removed = remove_entry(&added, "resources", &entry).unwrap().unwrap();
        prop_assert_eq!(removed, before);
    }
}
