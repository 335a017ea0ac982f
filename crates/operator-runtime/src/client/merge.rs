//! JSON merge patches (RFC 7386): what one does, and the one that makes one object of another. It is pure.

use serde_json::{Map, Value};

/// The merge patch that turns `before` into `after`; `None` if they are the same. Neither has nulls.
pub(super) fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(before) => {
                if let Some(change) = difference(before, value) {
                    patch.insert(key.clone(), change);
                }
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    let removed = old.keys().filter(|key| !new.contains_key(*key));
    patch.extend(removed.map(|key| (key.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Whether the merge patch leaves the object as it is.
///
/// The object may be of a type that does not know all fields, so a patch that removes a field that is not there is no
/// proof of nothing, but in `metadata`, which every type knows.
pub(super) fn changes_nothing(patch: &Value, object: &Value) -> bool {
    match (patch, object) {
        (Value::Object(patch), Value::Object(object)) => patch.iter().all(|(key, patch)| {
            object.get(key).is_some_and(|object| match key.as_str() {
                "metadata" => metadata_is_unchanged(patch, object),
                _ => changes_nothing(patch, object),
            })
        }),
        (patch, object) => patch == object,
    }
}

fn metadata_is_unchanged(patch: &Value, object: &Value) -> bool {
    match (patch, object) {
        (Value::Object(patch), Value::Object(object)) => {
            patch.iter().all(|(key, patch)| match (patch, object.get(key)) {
                (Value::Null, None) => true,
                (Value::Object(patch), None) => patch.values().all(Value::is_null),
                (patch, Some(object)) => metadata_is_unchanged(patch, object),
                _ => false,
            })
        }
        (patch, object) => patch == object,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_changes_is_in_the_patch() {
        let before = json!({"kept": 1, "changed": {"a": 1, "b": 2}, "gone": [1], "list": [1, 2]});
        let after = json!({"kept": 1, "changed": {"a": 1, "b": 3}, "list": [1], "new": {"c": 1}});
        let patch = json!({"changed": {"b": 3}, "gone": null, "list": [1], "new": {"c": 1}});
        assert_eq!(difference(&before, &after), Some(patch));
        assert_eq!(difference(&after, &after), None);
    }

    #[test]
    fn removal_of_what_the_type_may_not_know_is_no_proof() {
        let object = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"size": 1}});
        assert!(changes_nothing(&json!({"spec": {"size": 1}}), &object));
        assert!(changes_nothing(
            &json!({"metadata": {"labels": {"x": "1", "y": null}}}),
            &object
        ));
        assert!(changes_nothing(
            &json!({"metadata": {"annotations": {"y": null}}}),
            &object
        ));
        assert!(!changes_nothing(
            &json!({"metadata": {"labels": {"x": null}}}),
            &object
        ));
        assert!(!changes_nothing(
            &json!({"metadata": {"annotations": {"y": "1"}}}),
            &object
        ));
        assert!(!changes_nothing(&json!({"spec": {"unknown": null}}), &object));
        assert!(!changes_nothing(&json!({"spec": {"size": 2}}), &object));
        assert!(!changes_nothing(&json!({"status": {}}), &object));
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3i32).prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::btree_map("[a-c]", inner.clone(), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
                proptest::collection::vec(inner, 0..3).prop_map(Value::Array),
            ]
        })
    }

    fn object() -> impl Strategy<Value = Value> {
        proptest::collection::btree_map("[a-c]", tree(), 0..4)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
    }

    proptest! {
        /// Applied as RFC 7386 says, the difference of two objects makes the one of the other.
        #[test]
        fn difference_leads_from_one_to_the_other(before in object(), after in object()) {
            let mut patched = before.clone();
            if let Some(patch) = difference(&before, &after) {
                json_patch::merge(&mut patched, &patch);
            }
            prop_assert_eq!(patched, after);
        }

        /// What is said to change nothing changes nothing.
        #[test]
        fn nothing_is_nothing(patch in object(), object in object()) {
            let mut patched = object.clone();
            json_patch::merge(&mut patched, &patch);
            if changes_nothing(&patch, &object) {
                prop_assert_eq!(patched, object);
            }
        }
    }
}
