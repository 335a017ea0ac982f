//! Tests that written YAML is parsed as the same tree, and has the form of the Kubernetes tools.

use operator_manifests::render::{documents, yaml};
use proptest::prelude::*;
use serde_json::{Value, json};

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~\n\u{e9}\u{7}]{0,40}".prop_map(Value::from),
        "[a-z]{1,12}( [a-z:#'\"]{1,9}){0,30}".prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "y",
            "No",
            "1e3",
            "0x1f",
            "1_000",
            "12:30",
            "2026-01-02",
            "- a",
            "#a",
            "a: b",
            "a #b",
            "~",
            "<<",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z0-9./_-]{1,12}", inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #[test]
    fn rendered_files_read_back(value in tree()) {
        let text = yaml(&value);
        let read: Value = serde_saphyr::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(read, value, "{}", text);
    }
}

#[test]
fn keys_are_sorted_with_numbers_by_value() {
    let value = json!({"b10": 1, "b9": 2, "B": 3, "-a": 4, "a": 5});
    assert_eq!(yaml(&value), "-a: 4\nB: 3\na: 5\nb9: 2\nb10: 1\n");
}

#[test]
fn sequences_are_not_indented_and_nest() {
    let value = json!({"rules": [{"verbs": ["get"], "apiGroups": [""]}, [1, [2]]], "none": [], "map": {}});
    assert_eq!(
        yaml(&value),
        "map: {}\nnone: []\nrules:\n- apiGroups:\n  - \"\"\n  verbs:\n  - get\n- - 1\n  - - 2\n"
    );
}

#[test]
fn long_lines_fold_after_column_eighty() {
    let text = "Condition contains details for one aspect of the current state of this API Resource.";
    let value = json!({"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": {"description": text}}}}}}}}}});
    let rendered = yaml(&value);
    assert!(
        rendered.ends_with(
            "\n                  description: Condition contains details for one aspect of the current\n                    state of this API Resource.\n"
        ),
        "{rendered}"
    );
}

#[test]
fn text_of_several_lines_is_a_literal_block() {
    assert_eq!(yaml(&json!({"d": "one\ntwo"})), "d: |-\n  one\n  two\n");
    assert_eq!(yaml(&json!({"d": "one\n"})), "d: |\n  one\n");
}

#[test]
fn words_that_mean_something_else_are_quoted() {
    let value = json!(["True", "no", "1", "0.5", "*", "a: b", "it's", "# x", "plain text"]);
    assert_eq!(
        yaml(&value),
        "- \"True\"\n- \"no\"\n- \"1\"\n- \"0.5\"\n- '*'\n- 'a: b'\n- it's\n- '# x'\n- plain text\n"
    );
}

#[test]
fn whole_numbers_have_no_fraction() {
    assert_eq!(
        yaml(&json!({"minimum": 1.0, "half": 0.5})),
        "half: 0.5\nminimum: 1\n"
    );
}

#[test]
fn every_document_starts_with_dashes() {
    assert_eq!(
        documents(&[json!({"a": 1}), json!({"b": 2})]),
        "---\na: 1\n---\nb: 2\n"
    );
}

/// The order of such keys in Go's YAML encoder is not transitive, for example `1`, `1a` and `01a`.
#[test]
fn keys_without_a_total_order_are_rendered() {
    let names: Vec<String> = (0..60)
        .map(|number| match number % 3 {
            0 => format!("{number}"),
            1 => format!("{number}a"),
            _ => format!("0{number}a"),
        })
        .collect();
    for turn in 0..names.len() {
        let rotated = names.iter().cycle().skip(turn).take(names.len());
        let object: serde_json::Map<String, Value> =
            rotated.map(|name| (name.clone(), Value::from(1))).collect();
        let text = yaml(&object.into());
        assert_eq!(text.lines().count(), names.len(), "{text}");
    }
}
