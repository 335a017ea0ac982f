//! Discovery without aggregation: one document for each group and version.

use serde_json::{Value, json};

use super::{Group, negotiated};
use crate::http::call::{Answer, Call};
use crate::http::handler::Handler;
use crate::resource::Definition;
use crate::resource::api_version;
use crate::status::{self, Status};

/// Serves `/`: the paths of the server.
pub(super) fn index(handler: &Handler, _call: &Call) -> Result<Answer, Status> {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    let resources = &handler.registry.resources;
    let documents = handler.documents.of(resources);
    let groups = &documents.groups;
    for group in groups.iter().filter(|group| !group.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        for version in &group.versions {
            paths.push(format!("/apis/{}/{}", group.name, version.name));
        }
    }
    let others = [
        "/.well-known/openid-configuration",
        "/apis/",
        "/flagz",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/openid/v1/jwks",
        "/statusz",
        "/version",
    ];
    let is_served = |path: &&str| match *path {
        "/flagz" => handler.gates.is_enabled("ComponentFlagz"),
        "/statusz" => handler.gates.is_enabled("ComponentStatusz"),
        _ => true,
    };
    paths.extend(others.into_iter().filter(is_served).map(str::to_owned));
    paths.extend(super::health::paths());
    paths.sort();
    Ok(Answer::json(&json!({"paths": paths})))
}

/// Serves `/api`.
pub(super) fn versions(_handler: &Handler, call: &Call) -> Result<Answer, Status> {
    negotiated(
        call,
        &json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}],
        }),
    )
}

/// Serves `/apis`.
pub(super) fn group_list(handler: &Handler, call: &Call) -> Result<Answer, Status> {
    let resources = &handler.registry.resources;
    let documents = handler.documents.of(resources);
    let mut groups: Vec<Value> = documents
        .groups
        .iter()
        .filter(|group| !group.name.is_empty())
        .map(group_body)
        .collect();
    let remote = handler.registry.aggregation.groups();
    let remote = remote.iter().filter(|(name, _)| documents.group(name).is_none());
    groups.extend(remote.map(|(name, versions)| remote_group(name, versions)));
    negotiated(
        call,
        &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
    )
}

fn group_body(group: &Group) -> Value {
    let versions: Vec<String> = group
        .versions
        .iter()
        .map(|version| version.name.clone())
        .collect();
    remote_group(&group.name, &versions)
}

/// Returns a group with the names of its versions.
fn remote_group(name: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": api_version(name, version), "version": version}))
        .collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

/// Serves `/apis/GROUP`.
pub(super) fn group(handler: &Handler, call: &Call, name: &str) -> Result<Answer, Status> {
    let resources = &handler.registry.resources;
    let documents = handler.documents.of(resources);
    let found = documents.group(name).filter(|_| !name.is_empty());
    let remote = handler.registry.aggregation.groups();
    let mut body = match (found, remote.get(name)) {
        (Some(group), _) => group_body(group),
        (None, Some(versions)) => remote_group(name, versions),
        (None, None) => return Ok(Answer::not_found()),
    };
    body["kind"] = "APIGroup".into();
    body["apiVersion"] = "v1".into();
    negotiated(call, &body)
}

/// Serves `/api/v1` and `/apis/GROUP/VERSION`.
pub(super) fn resources(
    handler: &Handler,
    call: &Call,
    group: &str,
    version: &str,
) -> Result<Answer, Status> {
    let resources = &handler.registry.resources;
    let documents = handler.documents.of(resources);
    let Some(found) = documents.group(group) else {
        return Ok(Answer::not_found());
    };
    let Some(found) = found.versions.iter().find(|known| known.name == version) else {
        if handler.registry.resources.builtin().has_group(group) {
            return Err(status::unknown_resource());
        }
        return Ok(Answer::not_found());
    };
    let resources: Vec<Value> = found
        .resources
        .iter()
        .flat_map(|definition| resource_bodies(definition, handler.gates.is_enabled("StorageVersionHash")))
        .collect();
    let mut body = json!({
        "kind": "APIResourceList", "groupVersion": api_version(group, version),
        "resources": resources,
    });
    if !group.is_empty() {
        body["apiVersion"] = "v1".into();
    }
    negotiated(call, &body)
}

/// Returns a resource and its subresources.
fn resource_bodies(definition: &Definition, has_hash: bool) -> Vec<Value> {
    let mut body = json!({
        "name": definition.subject.resource, "singularName": definition.singular,
        "namespaced": definition.namespaced, "kind": definition.subject.kind,
        "verbs": definition.verbs,
    });
    if !definition.short_names.is_empty() {
        body["shortNames"] = definition.short_names.clone().into();
    }
    if !definition.categories.is_empty() {
        body["categories"] = definition.categories.clone().into();
    }
    if has_hash && definition.allows("update") {
        body["storageVersionHash"] = super::version::storage_version_hash(definition).into();
    }
    let mut bodies = vec![body];
    for subresource in &definition.subresources {
        let mut body = json!({
            "name": format!("{}/{}", definition.subject.resource, subresource.name),
            "singularName": "", "namespaced": definition.namespaced, "kind": subresource.kind,
            "verbs": subresource.verbs,
        });
        if (subresource.group.as_str(), subresource.version.as_str())
            != (definition.subject.group.as_str(), definition.version.as_str())
        {
            if !subresource.group.is_empty() {
                body["group"] = subresource.group.clone().into();
            }
            body["version"] = subresource.version.clone().into();
        }
        bodies.push(body);
    }
    bodies
}
