//! Aggregated discovery, `apidiscovery.k8s.io/v2`: all groups in one document, with an ETag.

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use super::{Documents, Group};
use crate::codec::{Form, body};
use crate::http::call::{Answer, Call};
use crate::http::handler::Handler;
use crate::resource::Definition;

const CONTENT_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the aggregated document of `/api` (core) or `/apis`, if that is what the client prefers.
pub(super) fn serve(handler: &Handler, call: &Call, core: bool) -> Option<Answer> {
    if !wanted(call.header(ACCEPT)) {
        return None;
    }
    let custom = handler.registry.resources.custom();
    let documents = &*handler.documents.of(&custom);
    let (bytes, etag) = documents.aggregated[usize::from(core)].get_or_init(|| document(documents, core));
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
fn document(documents: &Documents, core: bool) -> (Bytes, String) {
    let items: Vec<Value> = documents
        .groups
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(group_body)
        .collect();
    let document = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    });
    let bytes = body::encode(&document, Form::default());
    let digest = Sha512::digest(&bytes);
    let hex: String = digest.iter().map(|byte| format!("{byte:02X}")).collect();
    (bytes, format!("\"{hex}\""))
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

fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}
