//! Requests that create, update and patch objects and subresources.

use serde_json::{Value, json};

use super::Making;
use super::read::PROTOBUF;
use crate::differential::catalog::Kind;
use crate::differential::mutation::value;
use crate::differential::sequence::{Sequence, merge_patch, patch, request, send};
use crate::scenario::{Ordered, Step};

/// Creates a changed object.
pub(super) fn create(making: &mut Making<'_>) -> Sequence {
    let kind = making.kind("create");
    let mut object = making.object(&kind);
    let mut sequence = making.begin(&kind, &object);
    making.change(&kind, &mut object);
    let step = making.create(&kind, &object);
    let step = with_options(making, step);
    sequence.steps.push(step);
    sequence
}

/// Adds the options of a write to some requests.
fn with_options(making: &mut Making<'_>, mut step: Step) -> Step {
    let random = &mut making.random;
    if random.chance(5) {
        step = step.query("dryRun", random.text(&["All", "All", "All", "x", ""]));
    }
    if random.chance(10) {
        step = step.query("fieldValidation", random.text(&["Strict", "Warn", "Ignore"]));
    }
    if random.chance(3) {
        step = step.query("fieldManager", random.text(&["a", "", "\u{fc}", "a\tb"]));
    }
    if random.chance(3) {
        step = step.header("Accept", PROTOBUF);
    }
    step
}

/// Updates an object, with or without a resource version.
pub(super) fn update(making: &mut Making<'_>) -> Sequence {
    let kind = making.kind("update");
    let mut object = making.object(&kind);
    let mut sequence = making.begin(&kind, &object);
    let path = making.path(&kind, &object);
    sequence.steps.push(
        making
            .create(&kind, &object)
            .capture("rv", "metadata.resourceVersion"),
    );
    if making.random.chance(85) {
        object["metadata"]["resourceVersion"] = "${rv}".into();
    }
    if !making.random.chance(5) {
        making.change(&kind, &mut object);
    }
    let step = with_options(making, send("PUT", path, object));
    sequence.steps.push(step);
    sequence
}

/// Sends two patches of random types.
pub(super) fn patches(making: &mut Making<'_>) -> Sequence {
    let kind = making.kind("patch");
    let object = making.object(&kind);
    let mut sequence = making.begin(&kind, &object);
    let path = making.path(&kind, &object);
    if making.random.chance(85) {
        sequence.steps.push(making.create(&kind, &object));
    }
    for _ in 0..2 {
        let step = random_patch(making, &kind, &object, path.clone());
        let step = with_options(making, step);
        sequence.steps.push(step);
    }
    sequence
}

fn random_patch(making: &mut Making<'_>, kind: &Kind, object: &Value, path: String) -> Step {
    let mut changed = object.clone();
    making.change(kind, &mut changed);
    match making.random.below(4) {
        0 => patch(path, "merge-patch+json", merge_patch(object, &changed)),
        1 => patch(path, "strategic-merge-patch+json", merge_patch(object, &changed)),
        2 => {
            let operations = json_patch(making, object, &changed);
            patch(path, "json-patch+json", operations)
        }
        _ => {
            let manager = making.random.text(&["a", "b"]);
            let step = patch(path, "apply-patch+yaml", changed).query("fieldManager", manager);
            if making.random.chance(40) {
                step.query("force", "true")
            } else {
                step
            }
        }
    }
}

/// Returns the difference of two objects as JSON patch operations, some of them invalid.
fn json_patch(making: &mut Making<'_>, from: &Value, to: &Value) -> Value {
    let mut operations = Vec::new();
    collect_operations(from, to, "", &mut operations);
    if making.random.chance(15) {
        let wrong = [
            json!({"op": "test", "path": "/metadata/name", "value": "x"}),
            json!({"op": "remove", "path": "/nope/x"}),
            json!({"op": "move", "from": "/metadata/labels", "path": "/metadata/annotations"}),
            json!({"op": "copy", "from": "/metadata/name", "path": "/metadata/labels/a"}),
            json!({"op": "nope", "path": "/a"}),
            json!({"path": "/a"}),
            json!("x"),
        ];
        operations.extend(making.random.pick(&wrong).cloned());
    }
    operations.into()
}

fn collect_operations(from: &Value, to: &Value, path: &str, operations: &mut Vec<Value>) {
    if from == to {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        operations.push(json!({"op": "replace", "path": path, "value": to}));
        return;
    };
    let at = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
    for (name, value) in new {
        match old.get(name) {
            Some(before) => collect_operations(before, value, &at(name), operations),
            None => operations.push(json!({"op": "add", "path": at(name), "value": value})),
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        operations.push(json!({"op": "remove", "path": at(name)}));
    }
}

/// Sends requests to a subresource of an object.
pub(super) fn subresource(making: &mut Making<'_>) -> Sequence {
    let kinds: Vec<Kind> = making
        .catalog
        .kinds
        .iter()
        .filter(|kind| !kind.subresources.is_empty())
        .cloned()
        .collect();
    let Some(kind) = making.random.pick(&kinds).cloned() else {
        return create(making);
    };
    let object = making.object(&kind);
    let mut sequence = making.begin(&kind, &object);
    let path = making.path(&kind, &object);
    sequence.steps.push(making.create(&kind, &object));
    let names: Vec<String> = kind
        .subresources
        .iter()
        .filter(|name| !matches!(name.as_str(), "exec" | "attach" | "portforward" | "proxy" | "log"))
        .cloned()
        .collect();
    for _ in 0..2 {
        let Some(name) = making.random.pick(&names).cloned() else {
            break;
        };
        let step = subresource_step(making, &kind, &object, &name, format!("{path}/{name}"));
        let step = if step.method.as_deref() == Some("GET") {
            step
        } else {
            with_options(making, step)
        };
        sequence.steps.push(step);
    }
    sequence
}

fn subresource_step(making: &mut Making<'_>, kind: &Kind, object: &Value, name: &str, path: String) -> Step {
    let object_name = object["metadata"]["name"].clone();
    let metadata = json!({"name": object_name});
    match name {
        "scale" => {
            let replicas = making
                .random
                .pick(&[json!(0), json!(3), json!(-1), json!(null), json!("x")])
                .cloned();
            let body = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": object["metadata"]["name"], "namespace": making.namespace}, "spec": {"replicas": replicas}});
            match making.random.below(4) {
                0 => request("GET", path),
                1 => patch(path, "merge-patch+json", json!({"spec": {"replicas": replicas}})),
                2 => patch(path, "apply-patch+yaml", body).query("fieldManager", "a"),
                _ => send("PUT", path, body),
            }
        }
        "eviction" => send(
            "POST",
            path,
            json!({"apiVersion": making.random.text(&["policy/v1", "policy/v1", "policy/v2", "v1"]), "kind": "Eviction", "metadata": metadata}),
        ),
        "binding" => send(
            "POST",
            path,
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": making.random.text(&["Node", "Pod", ""]), "name": making.random.text(&["n", "", "A"])}}),
        ),
        "token" => send("POST", path, token_request(making)),
        _ => whole_object_step(making, kind, object, name, path),
    }
}

fn token_request(making: &mut Making<'_>) -> Value {
    let random = &mut making.random;
    let mut request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    if random.chance(60) {
        let audiences = [
            json!(["a"]),
            json!([]),
            json!([""]),
            json!(["a", "b"]),
            json!("a"),
        ];
        request["spec"]["audiences"] = random.pick(&audiences).cloned().unwrap_or_default();
    }
    if random.chance(60) {
        let times = [
            json!(600),
            json!(599),
            json!(3600),
            json!(-1),
            json!(4_294_967_297_i64),
            json!("x"),
        ];
        request["spec"]["expirationSeconds"] = random.pick(&times).cloned().unwrap_or_default();
    }
    if random.chance(30) {
        request["spec"]["boundObjectRef"] = json!({
            "apiVersion": random.text(&["v1", "v2", ""]),
            "kind": random.text(&["Pod", "Secret", "Node", "Job", ""]),
            "name": random.text(&["nope", "", "A"]),
        });
    }
    if random.chance(20) {
        request["metadata"] = json!({"name": random.text(&["a", "A", ""])});
    }
    request
}

/// Returns a request to a subresource with the body of the object, such as `status`.
fn whole_object_step(making: &mut Making<'_>, kind: &Kind, object: &Value, name: &str, path: String) -> Step {
    let mut changed = object.clone();
    if name == "status" || name == "approval" {
        let schema = &making.catalog.schema(kind)["properties"]["status"];
        changed["status"] = value(making.catalog, schema, "status", 0, &mut making.random);
    } else {
        making.change(kind, &mut changed);
    }
    match making.random.below(6) {
        0 => request("GET", path),
        1 => patch(path, "merge-patch+json", merge_patch(object, &changed)),
        2 => patch(path, "strategic-merge-patch+json", merge_patch(object, &changed)),
        3 => patch(path, "apply-patch+yaml", changed).query("fieldManager", "a"),
        _ => send("PUT", path, changed),
    }
}

/// Sends bodies with unknown and duplicate fields.
pub(super) fn field_validation(making: &mut Making<'_>) -> Sequence {
    let kind = making.kind("create");
    let object = making.object(&kind);
    let mut sequence = making.begin(&kind, &object);
    let path = making.path(&kind, &object);
    let first = strange(making, &object);
    let mut step = Step {
        body: Some(first),
        ..request("POST", kind.collection(making.namespace))
    };
    if making.random.chance(30) {
        step = as_yaml(step);
    }
    sequence.steps.push(validated(making, step));
    if making.random.chance(50) && kind.allows("patch") {
        let media_type = making.random.text(&[
            "merge-patch+json",
            "strategic-merge-patch+json",
            "apply-patch+yaml",
        ]);
        let body = if media_type == "apply-patch+yaml" {
            object.clone()
        } else {
            json!({"metadata": {"labels": {"z": "1"}}, "spec": object["spec"]})
        };
        let step = Step {
            body: Some(strange(making, &body)),
            ..patch(path, media_type, Value::Null).query("fieldManager", "a")
        };
        sequence.steps.push(validated(making, step));
    }
    sequence
}

fn validated(making: &mut Making<'_>, step: Step) -> Step {
    match making
        .random
        .text(&["Strict", "Strict", "Strict", "Warn", "Ignore", "", "nope"])
    {
        "" => step,
        level => step.query("fieldValidation", level),
    }
}

fn as_yaml(step: Step) -> Step {
    let text = step.body.as_ref().map(ToString::to_string);
    Step {
        body: None,
        body_text: text,
        ..step
    }
    .header("Content-Type", "application/yaml")
}

/// Adds unknown and duplicate fields at one to three positions.
fn strange(making: &mut Making<'_>, object: &Value) -> Ordered {
    let mut tree = Ordered::from(object.clone());
    for _ in 0..=making.random.below(3) {
        add_strange(making, &mut tree, 0);
    }
    tree
}

fn add_strange(making: &mut Making<'_>, tree: &mut Ordered, depth: usize) {
    match tree {
        Ordered::Object(fields) => {
            let nested: Vec<usize> = (0..fields.len())
                .filter(|index| !matches!(fields[*index].1, Ordered::Scalar(_)))
                .collect();
            let descends = making.random.chance(70);
            if let Some(index) = making.random.pick(&nested)
                && descends
            {
                return add_strange(making, &mut fields[*index].1, depth + 1);
            }
            let index = making.random.below(fields.len());
            match (making.random.below(3), fields.get(index).cloned()) {
                (0, Some(field)) if !(depth == 1 && field.0 == "name") => fields.push(field),
                (1, _) => {
                    let unknown = ("nope".to_owned(), Ordered::Scalar(json!("x")));
                    fields.extend([unknown.clone(), unknown]);
                }
                _ => {
                    let name = making.random.text(&["nope", "zed", "Name", "SPEC", "a.b"]);
                    fields.insert(
                        index.min(fields.len()),
                        (name.to_owned(), Ordered::Scalar(json!(1))),
                    );
                }
            }
        }
        Ordered::Array(items) => {
            let index = making.random.below(items.len());
            if let Some(item) = items.get_mut(index) {
                add_strange(making, item, depth + 1);
            }
        }
        Ordered::Scalar(_) => {}
    }
}
