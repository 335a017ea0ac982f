//! [`patch`] returns the changes of a defaulter as a JSON patch of the object in the request. Pure.
//!
//! The operator's type may have fewer fields than the object. The changes are therefore computed from three states: the
//! object in the request, the object as the type serializes it, and the object after the defaulter.

use serde_json::{Map, Value};

/// Returns the patch from `sent` to the result of the defaulter. Fields that the type lacks are kept.
pub(super) fn patch(sent: &Value, before: &Value, after: &Value) -> json_patch::Patch {
    json_patch::diff(sent, &merged(sent, Some(before), after))
}

fn merged(sent: &Value, before: Option<&Value>, after: &Value) -> Value {
    match (sent, after) {
        (Value::Object(sent), Value::Object(after)) => {
            object(sent, before.and_then(Value::as_object), after).into()
        }
        // Unchanged values stay as in the request, even if the type serializes them in another form.
        _ if before == Some(after) => sent.clone(),
        (Value::Array(sent), Value::Array(after)) => array(
            sent,
            before.and_then(Value::as_array).map_or(&[], Vec::as_slice),
            after,
        )
        .into(),
        _ => after.clone(),
    }
}

fn object(
    sent: &Map<String, Value>,
    before: Option<&Map<String, Value>>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let before = |key: &str| {
        before
            .and_then(|before| before.get(key))
            .filter(|value| !value.is_null())
    };
    let mut merged = Map::new();
    for (key, sent) in sent {
        match after.get(key).filter(|value| !value.is_null()) {
            Some(after) => merged.insert(key.clone(), self::merged(sent, before(key), after)),
            None if before(key).is_some() => None,
            None => merged.insert(key.clone(), sent.clone()),
        };
    }
    let added = after
        .iter()
        .filter(|(key, value)| !sent.contains_key(*key) && !value.is_null());
    merged.extend(added.map(|(key, value)| (key.clone(), value.clone())));
    merged
}

/// Matches elements by position if both arrays have the same length. Otherwise unchanged elements keep their unknown
/// fields, at any position.
fn array(sent: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    if sent.len() == after.len() && sent.len() == before.len() {
        let elements = sent.iter().zip(before).zip(after);
        return elements
            .map(|((sent, before), after)| merged(sent, Some(before), after))
            .collect();
    }
    let mut known: Vec<_> = before.iter().zip(sent).collect();
    let keep = |after: &Value| match known.iter().position(|(before, _)| *before == after) {
        Some(found) => known.remove(found).1.clone(),
        None => after.clone(),
    };
    after.iter().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn assert_patched(sent: &Value, before: &Value, after: &Value, wanted: &Value) {
        let mut patched = sent.clone();
        json_patch::patch(&mut patched, &patch(sent, before, after)).unwrap();
        assert_eq!(patched, *wanted);
    }

    #[test]
    fn unknown_fields_stay() {
        let sent = json!({"spec": {"a": 1, "unknown": {"x": 1}}, "other": true});
        let (before, after) = (json!({"spec": {"a": 1}}), json!({"spec": {"a": 1, "b": 2}}));
        assert_patched(
            &sent,
            &before,
            &after,
            &json!({"spec": {"a": 1, "b": 2, "unknown": {"x": 1}}, "other": true}),
        );
    }

    #[test]
    fn fields_that_the_defaulter_removed_are_removed() {
        let (sent, after) = (json!({"a": 1, "b": 2, "c": 3}), json!({"a": 1}));
        assert_patched(&sent, &json!({"a": 1, "b": 2}), &after, &json!({"a": 1, "c": 3}));
        assert_patched(
            &sent,
            &json!({"a": 1, "b": 2}),
            &json!({"a": 1, "b": null}),
            &json!({"a": 1, "c": 3}),
        );
    }

    #[test]
    fn nothing_is_added_for_none() {
        let sent = json!({"a": 1});
        let typed = json!({"a": 1, "b": null, "c": {"d": null}});
        assert_patched(&sent, &typed, &json!({"a": 1, "b": null}), &json!({"a": 1}));
        assert!(patch(&sent, &json!({"a": 1, "b": null}), &json!({"a": 1, "b": null})).is_empty());
    }

    #[test]
    fn form_of_unchanged_values_is_kept() {
        let (sent, typed) = (json!({"cpu": "1000m"}), json!({"cpu": "1"}));
        assert!(patch(&sent, &typed, &typed).is_empty());
    }

    #[test]
    fn elements_keep_their_unknown_fields() {
        let sent = json!([{"n": "a", "u": 1}, {"n": "b", "u": 2}]);
        let before = json!([{"n": "a"}, {"n": "b"}]);
        let changed = json!([{"n": "a", "d": true}, {"n": "b"}]);
        assert_patched(
            &sent,
            &before,
            &changed,
            &json!([{"n": "a", "u": 1, "d": true}, {"n": "b", "u": 2}]),
        );
        let inserted = json!([{"n": "z"}, {"n": "a"}, {"n": "b"}]);
        assert_patched(
            &sent,
            &before,
            &inserted,
            &json!([{"n": "z"}, {"n": "a", "u": 1}, {"n": "b", "u": 2}]),
        );
        assert_patched(&sent, &before, &json!([{"n": "b"}]), &json!([{"n": "b", "u": 2}]));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3).prop_map(Value::from),
            Just(json!("s"))
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn patch_of_a_complete_type_is_exact(sent in values(), after in values()) {
            let mut patched = sent.clone();
            json_patch::patch(&mut patched, &patch(&sent, &sent, &after)).unwrap();
            prop_assert_eq!(patched, after);
        }

        #[test]
        fn defaulter_that_does_nothing_changes_nothing(sent in values()) {
            prop_assert!(patch(&sent, &sent, &sent).is_empty());
        }
    }
}
