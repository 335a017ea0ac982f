//! OpenAPI documents.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{groups, negotiated};
use crate::call::{Answer, Call};
use crate::registry::{Definition, Registry, api_version};
use crate::status::Status;

/// `/openapi/v2`: not served; clients that need schemas read version 3.
pub(super) fn v2(_registry: &Registry, _call: &Call) -> Result<Answer, Status> {
    Ok(Answer::not_found())
}

/// `/openapi/v3` and the documents below it.
pub(super) fn v3(registry: &Registry, call: &Call, rest: &[&str]) -> Result<Answer, Status> {
    match rest {
        [] => index(registry, call),
        ["api", version] => document(registry, call, "", version),
        ["apis", group, version] => document(registry, call, group, version),
        _ => Ok(missing()),
    }
}

fn missing() -> Answer {
    Answer::new(StatusCode::NOT_FOUND, "text/plain", Default::default())
}

fn index(registry: &Registry, call: &Call) -> Result<Answer, Status> {
    let mut paths = Map::new();
    for group in groups(registry) {
        for version in &group.versions {
            let path = if group.name.is_empty() {
                format!("api/{}", version.name)
            } else {
                format!("apis/{}/{}", group.name, version.name)
            };
            let url = format!("/openapi/v3/{path}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    negotiated(call, &json!({"paths": paths}))
}

fn document(registry: &Registry, call: &Call, group: &str, version: &str) -> Result<Answer, Status> {
    let groups = groups(registry);
    let found = groups
        .iter()
        .find(|known| known.name == group)
        .and_then(|known| known.versions.iter().find(|known| known.name == version));
    let Some(found) = found else {
        return Ok(missing());
    };
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for definition in &found.resources {
        add_resource(&mut paths, &mut schemas, definition);
    }
    negotiated(
        call,
        &json!({
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "v1.36.2"},
            "paths": paths,
            "components": {"schemas": schemas},
        }),
    )
}

fn add_resource(paths: &mut Map<String, Value>, schemas: &mut Map<String, Value>, definition: &Definition) {
    let subject = &definition.subject;
    let gvk = json!({
        "group": subject.group, "version": definition.version, "kind": subject.kind,
    });
    let root = if subject.group.is_empty() {
        format!("/api/{}", definition.version)
    } else {
        format!("/apis/{}/{}", subject.group, definition.version)
    };
    let scope = if definition.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let path = format!("{root}{scope}/{}/{{name}}", subject.resource);
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"]
        .iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
        .collect();
    paths.insert(
        path,
        json!({
            "patch": {
                "parameters": parameters,
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": gvk,
            },
        }),
    );
    let name = format!(
        "{}.{}",
        api_version(&subject.group, &definition.version).replace('/', "."),
        subject.kind
    );
    let mut schema = match &definition.backing {
        crate::registry::Backing::Custom(version) => version.schema.clone(),
        crate::registry::Backing::Builtin { .. } => json!({"type": "object"}),
    };
    schema["x-kubernetes-group-version-kind"] = json!([gvk]);
    schemas.insert(name, schema);
}
