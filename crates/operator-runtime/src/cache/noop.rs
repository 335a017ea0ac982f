//! Decides from the cached object alone whether a server-side apply would change anything. Pure.
//!
//! The API server records in `managedFields` the fields that the operator's last apply set. A new apply changes nothing
//! if it sets exactly these fields and each of them already has the value to set. The recorded field set also shows how
//! the server treats each list (as a map by keys, as a set, or as one value), so no schema is needed. In case of doubt
//! the request is sent, and the server decides.

use serde_json::{Map, Value};

/// Returns true if applying `configuration` again leaves `live` as it is. `applied` is the API version and the `fieldsV1`
/// of the operator's last apply, separated by a space.
pub(crate) fn is_applied(configuration: &Value, applied: &str, live: &Value) -> bool {
    let Some((version, fields)) = parse(applied) else {
        return false;
    };
    configuration["apiVersion"] == version && is_unchanged(&fields, &owned_part(configuration), live)
}

/// Returns true if all fields that the operator applied have the same values in `after` as in `before`. `applied` is as in
/// [`is_applied`].
pub(super) fn has_same_applied_fields(applied: &str, before: &Value, after: &Value) -> bool {
    let applied = parse(applied).and_then(|(_, fields)| {
        let part = part_of(&fields, before)?;
        Some(is_unchanged(&fields, &part, after))
    });
    applied.unwrap_or(false)
}

/// Returns the API version and the field set of an apply.
fn parse(applied: &str) -> Option<(&str, Value)> {
    let (version, fields) = applied.split_once(' ')?;
    Some((version, serde_json::from_str(fields).ok()?))
}

/// Returns the part of an object that a field set selects, or `None` if the object lacks one of the fields.
fn part_of(fields: &Value, object: &Value) -> Option<Value> {
    let fields = fields.as_object()?;
    let children = || fields.iter().filter(|(path, _)| path.as_str() != ".");
    let Some((first, _)) = children().next() else {
        return Some(object.clone());
    };
    match (first.get(..2), object) {
        (Some("f:"), Value::Object(members)) => {
            let part = children().map(|(path, fields)| {
                let name = path.strip_prefix("f:")?;
                Some((name.to_owned(), part_of(fields, members.get(name)?)?))
            });
            part.collect::<Option<_>>().map(Value::Object)
        }
        (Some("k:"), Value::Array(items)) => {
            let mut part = Vec::new();
            for (path, fields) in children() {
                let keys = item_keys(path)?;
                let place = items.iter().position(|item| has_keys(item, &keys))?;
                part.push((place, part_of(fields, &items[place])?));
            }
            part.sort_unstable_by_key(|(place, _)| *place);
            Some(part.into_iter().map(|(_, item)| item).collect())
        }
        (Some("v:"), Value::Array(items)) => {
            let is_named = |item: &&Value| children().any(|(path, _)| is_value(path, item));
            Some(items.iter().filter(is_named).cloned().collect())
        }
        _ => None,
    }
}

/// Compares values as a Kubernetes client does: `1` and `1.0` are the same number, and null is the same as a missing
/// member.
pub(crate) fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let others = other.iter().filter(|(name, _)| !one.contains_key(*name));
            one.iter()
                .all(|(name, value)| is_same(value, other.get(name).unwrap_or(&Value::Null)))
                && others.into_iter().all(|(_, value)| value.is_null())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
        }
        _ => one == other,
    }
}

/// Removes the members that are null, at any depth.
pub(crate) fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

/// Returns the configuration without the fields that identify the object, which no manager owns.
fn owned_part(configuration: &Value) -> Value {
    let mut part = configuration.clone();
    if let Some(object) = part.as_object_mut() {
        object.remove("apiVersion");
        object.remove("kind");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("name");
            metadata.remove("namespace");
            if metadata.is_empty() {
                object.remove("metadata");
            }
        }
    }
    part
}

/// `fields` is a node of `fieldsV1`: `f:` members, `k:` items by keys, `v:` items by value, or a leaf.
fn is_unchanged(fields: &Value, desired: &Value, live: &Value) -> bool {
    let Some(fields) = fields.as_object() else {
        return false;
    };
    let children = || fields.iter().filter(|(path, _)| path.as_str() != ".");
    let Some((first, _)) = children().next() else {
        return is_same(desired, live);
    };
    let count = children().count();
    match (first.get(..2), desired, live) {
        (Some("f:"), Value::Object(desired), Value::Object(live)) => {
            count == desired.len()
                && children().all(|(path, fields)| member_is_unchanged(path, fields, desired, live))
        }
        (Some("k:"), Value::Array(desired), Value::Array(live)) => {
            count == desired.len() && items_are_unchanged(children(), desired, live)
        }
        (Some("v:"), Value::Array(desired), Value::Array(live)) => {
            count == desired.len()
                && children().all(|(path, _)| is_among(path, desired))
                && is_in_order(desired, live)
        }
        _ => false,
    }
}

fn member_is_unchanged(
    path: &str,
    fields: &Value,
    desired: &Map<String, Value>,
    live: &Map<String, Value>,
) -> bool {
    let name = path.strip_prefix("f:");
    let members = name.and_then(|name| desired.get(name).zip(live.get(name)));
    members.is_some_and(|(desired, live)| is_unchanged(fields, desired, live))
}

/// Compares items by their keys. The items of `desired` must have the same order in `live`.
fn items_are_unchanged<'a>(
    items: impl Iterator<Item = (&'a String, &'a Value)>,
    desired: &[Value],
    live: &[Value],
) -> bool {
    let mut places = Vec::with_capacity(desired.len());
    for (path, fields) in items {
        let Some(keys) = item_keys(path) else {
            return false;
        };
        let find = |items: &[Value]| items.iter().position(|item| has_keys(item, &keys));
        let Some((at, in_live)) = find(desired).zip(find(live)) else {
            return false;
        };
        if !is_unchanged(fields, &desired[at], &live[in_live]) {
            return false;
        }
        places.push((at, in_live));
    }
    places.sort_unstable();
    places
        .windows(2)
        .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1)
}

fn item_keys(path: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(path.strip_prefix("k:")?).ok()
}

/// `protocol` is the only key that built-in types omit and default.
fn has_keys(item: &Value, keys: &Map<String, Value>) -> bool {
    keys.iter().all(|(key, value)| match item.get(key) {
        Some(own) => own == value,
        None => key == "protocol" && value == "TCP",
    })
}

fn is_among(path: &str, items: &[Value]) -> bool {
    items.iter().any(|item| is_value(path, item))
}

/// Returns true if a path of a set, such as `v:"a"`, selects this item.
fn is_value(path: &str, item: &Value) -> bool {
    let value = path.strip_prefix("v:").map(serde_json::from_str::<Value>);
    matches!(value, Some(Ok(value)) if value == *item)
}

fn is_in_order(desired: &[Value], live: &[Value]) -> bool {
    let mut live = live.iter();
    desired.iter().all(|value| live.any(|other| other == value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A defaulted Deployment with fields of other managers.
    fn live() -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "default", "uid": "1", "generation": 1,
                "labels": {"app": "web", "added-by": "others"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Web", "name": "web", "uid": "9", "controller": true}],
            },
            "spec": {
                "replicas": 3,
                "revisionHistoryLimit": 10,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {
                    "containers": [
                        {"name": "sidecar", "image": "proxy:1"},
                        {
                            "name": "web", "image": "web:1", "imagePullPolicy": "IfNotPresent",
                            "args": ["-m", "64"],
                            "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
                        },
                    ],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                }},
            },
            "status": {"replicas": 3},
        })
    }

    fn applied() -> String {
        let fields = json!({
            "f:metadata": {
                "f:labels": {"f:app": {}},
                "f:ownerReferences": {r#"k:{"uid":"9"}"#: {}},
            },
            "f:spec": {
                "f:replicas": {},
                "f:selector": {},
                "f:template": {"f:spec": {
                    "f:containers": {r#"k:{"name":"web"}"#: {
                        ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                        "f:ports": {r#"k:{"containerPort":80,"protocol":"TCP"}"#: {
                            ".": {}, "f:name": {}, "f:containerPort": {},
                        }},
                    }},
                    "f:volumes": {r#"k:{"name":"tmp"}"#: {".": {}, "f:name": {}, "f:emptyDir": {}}},
                }},
            },
        });
        format!("apps/v1 {fields}")
    }

    fn desired() -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "default", "labels": {"app": "web"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Web", "name": "web", "uid": "9", "controller": true}],
            },
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {
                    "containers": [{
                        "name": "web", "image": "web:1", "args": ["-m", "64"],
                        "ports": [{"name": "http", "containerPort": 80}],
                    }],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                }},
            },
        })
    }

    #[test]
    fn same_fields_with_the_same_values_change_nothing() {
        assert!(is_applied(&desired(), &applied(), &live()));
    }

    #[track_caller]
    fn check_change(pointer: &str, value: Value) {
        let mut changed = desired();
        *changed.pointer_mut(pointer).unwrap() = value;
        assert!(!is_applied(&changed, &applied(), &live()), "{pointer}");
    }

    #[test]
    fn every_changed_value_is_noticed() {
        check_change("/spec/replicas", json!(4));
        check_change("/spec/selector", json!({"matchLabels": {"app": "other"}}));
        check_change("/spec/template/spec/containers/0/image", json!("web:2"));
        check_change("/spec/template/spec/containers/0/args", json!(["-m", "128"]));
        check_change(
            "/spec/template/spec/containers/0/ports/0/containerPort",
            json!(81),
        );
        check_change("/spec/template/spec/containers/0/name", json!("renamed"));
        check_change("/metadata/ownerReferences/0/controller", json!(false));
        check_change("/apiVersion", json!("apps/v2"));
    }

    #[test]
    fn every_added_or_removed_field_is_noticed() {
        check_change("/metadata/labels", json!({"app": "web", "added-by": "others"}));
        check_change("/metadata/labels", json!({}));
        check_change("/spec/template/spec/volumes", json!([]));
        let two = json!([{"name": "web", "image": "web:1"}, {"name": "sidecar", "image": "proxy:1"}]);
        check_change("/spec/template/spec/containers", two);
        let udp = json!([{"name": "http", "containerPort": 80, "protocol": "UDP"}]);
        check_change("/spec/template/spec/containers/0/ports", udp);
    }

    #[test]
    fn change_by_others_is_noticed() {
        for (pointer, value) in [
            ("/spec/replicas", json!(1)),
            ("/metadata/labels", json!({"added-by": "others"})),
            ("/spec/template/spec/containers", json!([])),
        ] {
            let mut live = live();
            *live.pointer_mut(pointer).unwrap() = value;
            assert!(!is_applied(&desired(), &applied(), &live), "{pointer}");
        }
    }

    #[test]
    fn order_of_own_items_matters() {
        let fields =
            r#"v1 {"f:list":{"k:{\"name\":\"a\"}":{"f:name":{}},"k:{\"name\":\"b\"}":{"f:name":{}}}}"#;
        let object = |names: &[&str]| {
            let items: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"apiVersion": "v1", "list": items})
        };
        assert!(is_applied(
            &object(&["a", "b"]),
            fields,
            &object(&["x", "a", "y", "b"])
        ));
        assert!(!is_applied(&object(&["b", "a"]), fields, &object(&["a", "b"])));
    }

    #[test]
    fn sets_are_compared_by_value() {
        let fields = r#"v1 {"f:finalizers":{"v:\"a\"":{}}}"#;
        let object = |items: &[&str]| json!({"apiVersion": "v1", "finalizers": items});
        assert!(is_applied(&object(&["a"]), fields, &object(&["other", "a"])));
        assert!(!is_applied(&object(&["b"]), fields, &object(&["b"])));
    }

    #[test]
    fn unreadable_record_is_not_applied() {
        assert!(!is_applied(&desired(), "apps/v1 nonsense", &live()));
        assert!(!is_applied(&desired(), "apps/v1 null", &live()));
    }
}
