//! Kustomizations are edited in place: what is the user's stays.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use operator_manifests::kustomize::add_entry;

#[track_caller]
fn check(before: &str, after: &str) {
    let edited = add_entry(before, "resources", "b.yaml").unwrap();
    assert_eq!(edited.as_deref(), Some(after));
    assert_eq!(
        add_entry(after, "resources", "b.yaml").unwrap(),
        None,
        "a second time changes nothing"
    );
}

#[test]
fn the_entry_goes_behind_the_last_one() {
    check(
        "# mine\nresources:\n  - a.yaml # why\n  # - off.yaml\n\npatches: []\n",
        "# mine\nresources:\n  - a.yaml # why\n  - b.yaml\n  # - off.yaml\n\npatches: []\n",
    );
}

#[test]
fn an_entry_of_several_lines_stays_whole() {
    check(
        "resources:\n- a.yaml\npatches:\n- path: p.yaml\n  target:\n    kind: Deployment\n",
        "resources:\n- a.yaml\n- b.yaml\npatches:\n- path: p.yaml\n  target:\n    kind: Deployment\n",
    );
}

#[test]
fn an_empty_or_missing_list_is_made() {
    check("resources: []\n", "resources:\n- b.yaml\n");
    check("# nothing yet\n", "# nothing yet\nresources:\n- b.yaml\n");
    check("namespace: x\n", "namespace: x\nresources:\n- b.yaml\n");
}

#[test]
fn a_list_in_one_line_is_refused_with_the_way_out() {
    let error = add_entry("resources: [a.yaml]\n", "resources", "b.yaml").unwrap_err();
    assert!(error.to_string().contains("add `- b.yaml`"), "{error}");
}

#[test]
fn broken_yaml_is_an_error() {
    assert!(add_entry("resources: {\n", "resources", "b.yaml").is_err());
}
