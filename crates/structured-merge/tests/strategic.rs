//! Tests of strategic merge patches of built-in kinds.
#![expect(clippy::unwrap_used, reason = "a patch that fails fails the test")]

use serde_json::{Value, json};
use structured_merge::builtin;
use structured_merge::strategic::{self, StrategicError};

fn patch(live: &Value, patch: &Value) -> Result<Value, StrategicError> {
    strategic::apply(live, patch, builtin::types().for_kind("", "v1", "Pod").unwrap())
}

fn containers(live: &Value, patched: &Value) -> Result<Value, StrategicError> {
    let pod = |containers: &Value| json!({"spec": {"containers": containers}});
    patch(&pod(live), &pod(patched)).map(|mut pod| pod["spec"]["containers"].take())
}

#[track_caller]
fn assert_containers(live: &Value, patched: &Value, expected: Value) {
    assert_eq!(containers(live, patched), Ok(expected));
}

#[test]
fn items_merge_by_their_key() {
    assert_containers(
        &json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]),
        &json!([{"name": "b", "image": "2"}]),
        json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]),
    );
}

#[test]
fn new_items_come_before_those_only_the_server_has() {
    assert_containers(
        &json!([{"name": "a"}, {"name": "b"}]),
        &json!([{"name": "c"}]),
        json!([{"name": "c"}, {"name": "a"}, {"name": "b"}]),
    );
}

#[test]
fn directives_delete_and_replace_items() {
    let live = json!([{"name": "a"}, {"name": "b"}]);
    let deleted = json!([{"name": "a", "$patch": "delete"}]);
    assert_containers(&live, &deleted, json!([{"name": "b"}]));
    let replaced = json!([{"name": "c"}, {"$patch": "replace"}]);
    assert_containers(&live, &replaced, json!([{"name": "c"}]));
}

#[test]
fn order_is_set_for_the_items_that_are_named() {
    let live = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "x"}]}});
    let order = json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}});
    let expected = json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}, {"name": "x"}]}});
    assert_eq!(patch(&live, &order), Ok(expected));
}

#[test]
fn lists_of_scalars_merge_and_lose_items() {
    let live = json!({"metadata": {"finalizers": ["a/a", "b/b"]}});
    let added = patch(&live, &json!({"metadata": {"finalizers": ["c/c", "a/a"]}})).unwrap();
    assert_eq!(added, json!({"metadata": {"finalizers": ["c/c", "a/a", "b/b"]}}));
    let deleted = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a", "z/z"]}});
    assert_eq!(
        patch(&live, &deleted),
        Ok(json!({"metadata": {"finalizers": ["b/b"]}}))
    );
}

#[test]
fn other_lists_are_replaced() {
    let live = json!({"spec": {"tolerations": [{"key": "a"}]}});
    let new = json!({"spec": {"tolerations": [{"key": "b"}]}});
    assert_eq!(patch(&live, &new), Ok(new));
}

#[test]
fn retained_keys_are_all_that_is_left() {
    let live = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
    let new = json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {}}]}});
    assert_eq!(
        patch(&live, &new),
        Ok(json!({"spec": {"volumes": [{"name": "v", "secret": {}}]}}))
    );
    let incomplete = json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["secret"], "secret": {}}]}});
    let error = patch(&live, &incomplete).unwrap_err();
    assert_eq!(
        error,
        StrategicError::BadRequest("invalid patch format of retainKeys")
    );
}

#[test]
fn null_removes_and_directives_do_not_survive_where_nothing_was() {
    let live = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"hostname": "h"}});
    let new = json!({
        "metadata": {"labels": null, "annotations": {"x": "1", "y": null}},
        "spec": {"volumes": [{"name": "v"}, {"name": "w", "$patch": "delete"}]},
    });
    let expected = json!({
        "metadata": {"annotations": {"x": "1"}},
        "spec": {"hostname": "h", "volumes": [{"name": "v"}]},
    });
    assert_eq!(patch(&live, &new), Ok(expected));
}

#[test]
fn errors_are_worded_as_the_server_words_them() {
    let live = json!([{"name": "c", "image": "i"}]);
    let text = |patch: Value| containers(&live, &patch).unwrap_err().to_string();
    assert_eq!(
        text(json!([{"image": "x"}])),
        "map: map[image:x] does not contain declared merge key: name"
    );
    assert_eq!(
        text(json!([{"name": "c", "$patch": "explode"}])),
        "unknown patch type: explode in map: map[$patch:explode name:c]"
    );
    let pod = json!({"spec": {"containers": live}});
    let error = patch(&pod, &json!({"spec": {"$patch": 5}})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown patch type: %!s(int64=5) in map: map[$patch:5]"
    );
    let mismatch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "x"}], "containers": [{"image": "y", "name": "c"}],
    }});
    assert_eq!(
        patch(&pod, &mismatch).unwrap_err().to_string(),
        "The order in patch list:\n[map[image:y name:c]]\n doesn't match $setElementOrder list:\n[map[name:x]]\n"
    );
}
