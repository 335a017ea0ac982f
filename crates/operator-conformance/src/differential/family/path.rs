//! Requests to paths that are unusual or do not exist.

use serde_json::{Value, json};

use super::Making;
use crate::differential::catalog::Kind;
use crate::differential::sequence::{Sequence, patch, request, send};
use crate::scenario::Step;

const METHODS: [&str; 7] = ["GET", "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Creates an object, and sends requests to paths around it.
pub(super) fn paths(making: &mut Making<'_>) -> Sequence {
    let kind = making.kind("get");
    let object = making.object(&kind);
    let mut sequence = making.begin(&kind, &object);
    if kind.allows("create") {
        sequence.steps.push(making.create(&kind, &object));
    }
    for _ in 0..5 {
        let step = step(making, &kind, &object);
        sequence.steps.push(step);
    }
    sequence
}

fn step(making: &mut Making<'_>, kind: &Kind, object: &Value) -> Step {
    let (path, watches) = path(making, kind, object);
    let random = &mut making.random;
    let method = random.text(&METHODS);
    let mut step = match method {
        "POST" | "PUT" => send(method, path, json!({})),
        "PATCH" => patch(path, "merge-patch+json", json!({})),
        _ => request(method, path),
    };
    // Other objects of the cluster differ between the servers, and a watch would not end.
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    step = match method {
        "GET" if watches => step.query("limit", "-1").query("timeoutSeconds", "x"),
        _ => step.query("fieldSelector", &format!("metadata.name={name}")),
    };
    if method != "GET" {
        step = step.query("dryRun", "All");
    }
    if random.chance(25) {
        step = step.header("Impersonate-User", "jane");
    }
    step
}

/// Returns a path, and whether it is one of a watch.
fn path(making: &mut Making<'_>, kind: &Kind, object: &Value) -> (String, bool) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = making.namespace;
    let random = &mut making.random;
    let root = kind.root();
    if random.chance(10) {
        let (group, _) = root.rsplit_once('/').unwrap_or_default();
        let end = random.text(&["", "/", "/x", "/v9", "//", "/watch", "/proxy/"]);
        return (
            format!("{}{end}", if random.chance(50) { group } else { &root }),
            false,
        );
    }
    let mut path = root;
    let prefix = random.text(&["", "", "", "", "/watch", "/proxy"]);
    path.push_str(prefix);
    if random.chance(if kind.namespaced { 80 } else { 20 }) {
        let namespace = if random.chance(80) {
            namespace
        } else {
            random.text(&["", "unknown"])
        };
        path.push_str(&format!("/namespaces/{namespace}"));
    }
    let resource = match random.below(10) {
        0 => random.text(&["", "unknown", "pods", "deployments"]),
        _ => &kind.resource,
    };
    path.push_str(&format!("/{resource}"));
    if random.chance(75) {
        let name = if random.chance(70) {
            name
        } else {
            random.text(&["", "unknown", "A B"])
        };
        path.push_str(&format!("/{}", name.replace(' ', "%20")));
        if random.chance(60) {
            let known = random.pick(&kind.subresources).map(String::as_str);
            let other = random.text(&["", "status", "scale", "proxy", "unknown"]);
            let subresource = known.filter(|_| random.chance(60)).unwrap_or(other);
            path.push_str(&format!("/{subresource}"));
            path.push_str(random.text(&["", "", "", "/", "/x", "/x/y", "//x"]));
        }
    }
    path.push_str(random.text(&["", "", "", "", "/", "//"]));
    (path, prefix == "/watch")
}
