//! JSON Merge Patch (RFC 7386), as in the API server's Go library: objects in lists lose their nulls, too.

use serde_json::{Map, Value};

/// Merges a patch into a document.
pub(crate) fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        let was_object = target.is_object();
        *target = patch.clone();
        if !was_object {
            drop_nulls(target);
        }
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            apply(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Removes the nulls of all objects in a value; nulls in lists are kept.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_examples_of_the_rfc_hold() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": [1]}),
                json!({"a": {"b": null, "c": 1}}),
                json!({"a": {"c": 1}}),
            ),
            (json!([1]), json!({"a": 1}), json!({"a": 1})),
            (
                json!({"a": [1]}),
                json!({"a": [null, {"b": null, "c": 1}]}),
                json!({"a": [null, {"c": 1}]}),
            ),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        ];
        for (mut target, patch, want) in cases {
            apply(&mut target, &patch);
            assert_eq!(target, want, "{patch}");
        }
    }
}
