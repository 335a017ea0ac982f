//! JSON merge patches (RFC 7386): their effect, and the difference of two objects. Pure.

use serde_json::{Map, Value};

use crate::cache::noop::is_same;

/// Returns the merge patch from `before` to `after`, or `None` if they are equal. Neither may contain nulls.
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

/// Returns true if the merge patch does not change the object, which must be complete.
pub(super) fn changes_nothing(patch: &Value, object: &Value) -> bool {
    is_unchanged(patch, object, Value::is_null)
}

/// `is_absent` returns true for members of a patch that are equivalent to a missing member of the object.
fn is_unchanged(patch: &Value, object: &Value, is_absent: fn(&Value) -> bool) -> bool {
    match (patch, object) {
        (Value::Object(patch), Value::Object(object)) => {
            patch
                .iter()
                .all(|(key, patch)| match (object.get(key), key.as_str()) {
                    (Some(object), "metadata") => is_unchanged(patch, object, is_empty),
                    (Some(object), _) => is_unchanged(patch, object, Value::is_null),
                    (None, _) => is_absent(patch),
                })
        }
        (patch, object) => is_same(patch, object),
    }
}

/// Returns true for maps without entries: empty labels or annotations are not stored.
fn is_empty(patch: &Value) -> bool {
    match patch {
        Value::Object(members) => members.values().all(Value::is_null),
        patch => patch.is_null(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn patch_has_only_the_changes() {
        let before = json!({"kept": 1, "changed": {"a": 1, "b": 2}, "gone": [1], "list": [1, 2]});
        let after = json!({"kept": 1, "changed": {"a": 1, "b": 3}, "list": [1], "new": {"c": 1}});
        let patch = json!({"changed": {"b": 3}, "gone": null, "list": [1], "new": {"c": 1}});
        assert_eq!(difference(&before, &after), Some(patch));
        assert_eq!(difference(&after, &after), None);
    }

    #[test]
    fn removal_of_a_missing_member_changes_nothing() {
        let object = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"size": 1}});
        for patch in [
            json!({"spec": {"size": 1}}),
            json!({"spec": {"size": 1.0, "other": null}}),
            json!({"metadata": {"labels": {"x": "1", "y": null}}}),
            json!({"metadata": {"annotations": {"y": null}}}),
        ] {
            assert!(changes_nothing(&patch, &object), "{patch}");
        }
        for patch in [
            json!({"metadata": {"labels": {"x": null}}}),
            json!({"metadata": {"annotations": {"y": "1"}}}),
            json!({"spec": {"size": 2}}),
            json!({"spec": {"map": {"x": null}}}),
            json!({"status": {}}),
        ] {
            assert!(!changes_nothing(&patch, &object), "{patch}");
        }
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
        /// Applying the difference of two objects to the first yields the second.
        #[test]
        fn difference_transforms_the_first_object_into_the_second(before in object(), after in object()) {
            let mut patched = before.clone();
            if let Some(patch) = difference(&before, &after) {
                json_patch::merge(&mut patched, &patch);
            }
            prop_assert_eq!(patched, after);
        }

        /// A patch for which `changes_nothing` returns true changes nothing.
        #[test]
        fn unchanged_patches_change_nothing(patch in object(), object in object()) {
            let mut patched = object.clone();
            json_patch::merge(&mut patched, &patch);
            if changes_nothing(&patch, &object) {
                prop_assert_eq!(patched, object);
            }
        }
    }
}
