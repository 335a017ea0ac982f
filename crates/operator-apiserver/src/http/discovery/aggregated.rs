//! Aggregated discovery, `apidiscovery.k8s.io/v2`: all groups in one document, with an ETag.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use super::{Documents, Group};
use crate::codec::{Form, body};
use crate::http::call::{Answer, Call};
use crate::http::handler::Handler;
use crate::registry::aggregation::check::{Entry, Health};
use crate::resource::Definition;

const CONTENT_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the aggregated document of `/api` (core) or `/apis`, if the client prefers it.
pub(super) fn serve(handler: &Handler, call: &Call, core: bool) -> Option<Answer> {
    if !wanted(call.header(ACCEPT)) {
        return None;
    }
    let resources = &handler.registry.resources;
    let documents = &*handler.documents.of(resources);
    let entries = handler.registry.aggregation.entries();
    let with_extensions;
    let (bytes, etag) = if core || entries.is_empty() {
        documents.aggregated[usize::from(core)].get_or_init(|| document(documents, core, &[]))
    } else {
        entries.iter().for_each(|entry| entry.start(&handler.registry));
        with_extensions = document(documents, core, &entries);
        &with_extensions
    };
    let mut answer = if call.header(IF_NONE_MATCH) == etag {
        Answer::new(StatusCode::NOT_MODIFIED, CONTENT_TYPE, Default::default())
    } else {
        Answer::new(StatusCode::OK, CONTENT_TYPE, bytes.clone())
    };
    answer.set(ETAG, etag);
    answer.set(VARY, "Accept");
    answer.set(CACHE_CONTROL, "public");
    Some(answer)
}

/// Returns the document, and its ETag.
fn document(documents: &Documents, core: bool, extensions: &[Arc<Entry>]) -> (Bytes, String) {
    let mut items: Vec<Value> = documents
        .groups
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(group_body)
        .collect();
    for entry in extensions {
        add_extension(&mut items, entry);
    }
    let document = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    });
    let bytes = body::encode(&document, Form::default());
    let digest = Sha512::digest(&bytes);
    let hex: String = digest.iter().map(|byte| format!("{byte:02X}")).collect();
    (bytes, format!("\"{hex}\""))
}

/// Adds the group version of an extension API server.
fn add_extension(items: &mut Vec<Value>, entry: &Entry) {
    let remote = &entry.remote;
    let version = match entry.health() {
        Health::Available(found) => json!({
            "version": remote.version, "freshness": "Current",
            "resources": extension_resources(&remote.group, &remote.version, &found.resources),
        }),
        _ => json!({"version": remote.version, "freshness": "Stale"}),
    };
    let known = items
        .iter_mut()
        .find(|item| item["metadata"]["name"] == remote.group.as_str());
    match known.and_then(|item| item["versions"].as_array_mut()) {
        Some(versions) => versions.push(version),
        None => items.push(json!({"metadata": {"name": remote.group}, "versions": [version]})),
    }
}

/// Converts an APIResourceList of an extension API server.
fn extension_resources(group: &str, version: &str, list: &Value) -> Vec<Value> {
    let all = list["resources"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let text = |resource: &Value, field: &str| resource[field].as_str().unwrap_or_default().to_owned();
    let or = |given: String, default: &str| {
        if given.is_empty() {
            default.to_owned()
        } else {
            given
        }
    };
    let response = |resource: &Value| {
        let group = or(text(resource, "group"), group);
        kind(
            &group,
            &or(text(resource, "version"), version),
            &text(resource, "kind"),
        )
    };
    let main = all
        .iter()
        .filter(|resource| !text(resource, "name").contains('/'));
    main.map(|resource| {
        let name = text(resource, "name");
        let mut body = json!({
            "resource": name, "responseKind": response(resource),
            "scope": if resource["namespaced"] == true { "Namespaced" } else { "Cluster" },
            "singularResource": text(resource, "singularName"), "verbs": resource["verbs"],
        });
        for field in ["shortNames", "categories"] {
            if resource[field].is_array() {
                body[field] = resource[field].clone();
            }
        }
        let prefix = format!("{name}/");
        let subresources: Vec<Value> = all
            .iter()
            .filter_map(|sub| Some((sub, text(sub, "name").strip_prefix(&prefix)?.to_owned())))
            .map(|(sub, name)| json!({"subresource": name, "verbs": sub["verbs"], "responseKind": response(sub)}))
            .collect();
        if !subresources.is_empty() {
            body["subresources"] = subresources.into();
        }
        body
    })
    .collect()
}

/// Returns true if the first clause that the server can serve requests the aggregated form.
fn wanted(accept: &str) -> bool {
    for clause in accept.split(',') {
        let parts: Vec<&str> = clause.split(';').map(str::trim).collect();
        let has = |part: &str| parts.contains(&part);
        if parts.first() != Some(&"application/json") {
            continue;
        }
        if has("g=apidiscovery.k8s.io") && has("v=v2") && has("as=APIGroupDiscoveryList") {
            return true;
        }
        if parts.len() == 1 {
            return false;
        }
    }
    false
}

fn group_body(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = version
                .resources
                .iter()
                .map(|definition| resource_body(definition))
                .collect();
            json!({"version": version.name, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.name.is_empty() {
        json!({})
    } else {
        json!({"name": group.name})
    };
    json!({"metadata": metadata, "versions": versions})
}

fn resource_body(definition: &Definition) -> Value {
    let subject = &definition.subject;
    let mut body = json!({
        "resource": subject.resource,
        "responseKind": kind(&subject.group, &definition.version, &subject.kind),
        "scope": if definition.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": definition.singular,
        "verbs": definition.verbs,
    });
    if !definition.short_names.is_empty() {
        body["shortNames"] = definition.short_names.clone().into();
    }
    if !definition.categories.is_empty() {
        body["categories"] = definition.categories.clone().into();
    }
    let subresources: Vec<Value> = definition
        .subresources
        .iter()
        .map(|sub| {
            json!({
                "subresource": sub.name, "verbs": sub.verbs,
                "responseKind": kind(&sub.group, &sub.version, &sub.kind),
            })
        })
        .collect();
    if !subresources.is_empty() {
        body["subresources"] = subresources.into();
    }
    body
}

/// Returns the type of an answer. Those of the core group have no version, as in a real server.
fn kind(group: &str, version: &str, kind: &str) -> Value {
    let version = if group.is_empty() { "" } else { version };
    json!({"group": group, "version": version, "kind": kind})
}
