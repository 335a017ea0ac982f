//! OpenAPI documents over HTTP; [`crate::http::openapi`] generates them.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY};
use serde_json::Value;
use sha2::{Digest, Sha512};

use super::{Documents, GroupVersion, negotiated};
use crate::codec::{Form, Representations, body};
use crate::http::call::{Answer, Call};
use crate::http::handler::Handler;
use crate::http::openapi::{self, Descriptions, Resource, Subresource};
use crate::registry::aggregation::check::{Found, Health};
use crate::resource::{Definition, Source};
use crate::status::Status;

/// The time (a year) for which a client may cache a document whose URL identifies its content.
const FAR_FUTURE: &str = "Thu, 31 Dec 2037 23:55:55 GMT";

/// `/openapi/v2`.
pub(super) fn v2(handler: &Handler, call: &Call) -> Result<Answer, Status> {
    let resources = &handler.registry.resources;
    let documents = &*handler.documents.of(resources);
    let extensions = extensions(handler);
    let extended = (!extensions.is_empty()).then(|| documents.extended(&extensions));
    let [json, protobuf] = match &extended {
        Some(extended) => &extended.documents,
        None => &documents.openapi,
    };
    let whole = || {
        let mut document = v2_document(documents, &handler.descriptions);
        for (group_version, found) in &extensions {
            if let Some(extension) = &found.openapi_v2 {
                openapi::merge_v2(&mut document, extension, group_version);
            }
        }
        document
    };
    if wants_protobuf(call) {
        let encode = || Bytes::from(openapi::encode_v2(&whole()));
        let bytes = protobuf.get_or_init(encode).clone();
        return Ok(Answer::new(StatusCode::OK, PROTOBUF, bytes));
    }
    let form = match crate::http::pipeline::negotiated(call, Representations::Document) {
        Ok(form) if !form.protobuf => form,
        _ => return Ok(refusal()),
    };
    if form.yaml || form.pretty {
        return Ok(Answer::object(StatusCode::OK, &whole(), form));
    }
    let encode = || body::encode(&whole(), Form::default());
    let bytes = json.get_or_init(encode).clone();
    Ok(Answer::new(StatusCode::OK, form.content_type(), bytes))
}

/// Returns the servers of extension APIs that have a document in version 2, with their groups and versions.
fn extensions(handler: &Handler) -> Vec<(String, Arc<Found>)> {
    let entries = handler.registry.aggregation.entries().into_iter();
    let found = entries.filter_map(|entry| {
        entry.start(&handler.registry);
        match entry.health() {
            Health::Available(found) if found.openapi_v2.is_some() => {
                let remote = &entry.remote;
                Some((format!("{}/{}", remote.group, remote.version), found))
            }
            _ => None,
        }
    });
    found.collect()
}

/// Returns the answer to a client that reads no form of the document.
fn refusal() -> Answer {
    let mut answer = Answer::new(StatusCode::NOT_ACCEPTABLE, "", Bytes::new());
    answer.headers.remove(CONTENT_TYPE);
    answer
}

fn v2_document(documents: &Documents, descriptions: &Descriptions) -> Value {
    let versions = documents.groups.iter().flat_map(|group| &group.versions);
    let definitions: Vec<&Definition> = versions
        .flat_map(|version| &version.resources)
        .map(|definition| &**definition)
        .collect();
    with_resources(&definitions, |resources| {
        openapi::v2_document(resources, descriptions)
    })
}

/// The content type of the v2 document in protobuf; the `@` of the requested name must not occur in an answer.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Returns true if the first supported format of the client is protobuf.
fn wants_protobuf(call: &Call) -> bool {
    let accepted = call.header(ACCEPT);
    let mut names = accepted
        .split(',')
        .map(|clause| clause.split(';').next().unwrap_or_default().trim());
    let known = names.find(|name| {
        name.starts_with("application/com.github.proto-openapi.spec.v2")
            || matches!(*name, "application/json" | "*/*" | "application/*")
    });
    known.is_some_and(|name| name.ends_with("v1.0+protobuf"))
}

/// `/openapi/v3` and the documents below it.
pub(super) fn v3(handler: &Handler, call: &Call, rest: &[&str]) -> Result<Answer, Status> {
    match rest {
        [] => index(handler, call),
        path if is_endpoint(handler, path) => Ok(endpoint(handler, call, &path.join("/"))),
        ["api", version] => document(handler, call, "", version),
        ["apis", group, version] => document(handler, call, group, version),
        _ => Ok(missing()),
    }
}

fn missing() -> Answer {
    Answer::new(StatusCode::NOT_FOUND, "text/plain", Bytes::new())
}

fn index(handler: &Handler, call: &Call) -> Result<Answer, Status> {
    let resources = &handler.registry.resources;
    let mut entries: Vec<(String, &str)> = Vec::new();
    let documents = handler.documents.of(resources);
    let groups = documents.groups.iter().map(|group| &group.name);
    let built_in = groups.filter(|group| !group.is_empty() && resources.builtin().has_group(group));
    let endpoints: Vec<(String, String)> = openapi::ENDPOINTS
        .iter()
        .map(|path| (*path).to_owned())
        .chain(built_in.map(|group| format!("apis/{group}")))
        .map(|path| {
            let document = openapi::endpoint_document(&path, &handler.descriptions).to_string();
            (path, digest([document.as_bytes()]))
        })
        .collect();
    entries.extend(endpoints.iter().map(|(path, hash)| (path.clone(), hash.as_str())));
    for group in &documents.groups {
        for version in &group.versions {
            let path = openapi::group_version_path(&group.name, &version.name);
            entries.push((path, hash_of(&group.name, version, &handler.descriptions)));
        }
    }
    let entries = entries.iter().map(|(path, hash)| (path.as_str(), *hash));
    let mut index = openapi::v3_index(entries);
    for entry in handler.registry.aggregation.entries() {
        entry.start(&handler.registry);
        if let Health::Available(found) = entry.health()
            && let Some(url) = &found.openapi
        {
            let path = openapi::group_version_path(&entry.remote.group, &entry.remote.version);
            index["paths"][path] = serde_json::json!({"serverRelativeURL": url});
        }
    }
    negotiated(call, &index)
}

/// Returns true for the path of an endpoint that is not a resource.
fn is_endpoint(handler: &Handler, path: &[&str]) -> bool {
    match path {
        ["apis", group] => {
            let documents = handler.documents.of(&handler.registry.resources);
            let is_built_in = handler.registry.resources.builtin().has_group(group);
            is_built_in && documents.group(group).is_some() && !group.is_empty()
        }
        path => openapi::ENDPOINTS.contains(&path.join("/").as_str()),
    }
}

fn endpoint(handler: &Handler, call: &Call, path: &str) -> Answer {
    let document = Bytes::from(openapi::endpoint_document(path, &handler.descriptions).to_string());
    let hash = digest([&*document]);
    cached(call, &hash, || document)
}

fn document(handler: &Handler, call: &Call, group: &str, version: &str) -> Result<Answer, Status> {
    let resources = &handler.registry.resources;
    let documents = handler.documents.of(resources);
    let Some(found) = documents.version(group, version) else {
        return Ok(missing());
    };
    let hash = hash_of(group, found, &handler.descriptions);
    Ok(cached(call, hash, || render(found, &handler.descriptions)))
}

/// Returns a document, which the client may have.
fn cached(call: &Call, hash: &str, document: impl FnOnce() -> Bytes) -> Answer {
    let etag = format!("\"{hash}\"");
    let asked = call.query.text("hash");
    if !asked.is_empty() && asked != hash {
        let mut moved = Answer::new(StatusCode::MOVED_PERMANENTLY, "text/plain", Bytes::new());
        moved.set(LOCATION, &format!("{}?hash={hash}", call.info.path));
        return moved;
    }
    let mut answer = if call.header(IF_NONE_MATCH) == etag {
        Answer::new(StatusCode::NOT_MODIFIED, "application/json", Bytes::new())
    } else {
        Answer::new(StatusCode::OK, "application/json", document())
    };
    answer.set(ETAG, &etag);
    answer.set(VARY, "Accept");
    if !asked.is_empty() {
        answer.set(CACHE_CONTROL, "public, immutable");
        answer.set(EXPIRES, FAR_FUTURE);
    }
    answer
}

/// Returns the document of a version.
fn render(version: &GroupVersion, descriptions: &Descriptions) -> Bytes {
    let definitions: Vec<&Definition> = version.resources.iter().map(|definition| &**definition).collect();
    let document: Value = with_resources(&definitions, |resources| {
        openapi::v3_document(resources, descriptions)
    });
    Bytes::from(document.to_string())
}

/// Returns the hash of the document of a version for its URL. It is computed from the definitions where possible: an
/// index of thousands of versions does not generate thousands of documents.
fn hash_of<'v>(group: &str, version: &'v GroupVersion, descriptions: &Descriptions) -> &'v str {
    version.hash.get_or_init(|| {
        let custom = version
            .resources
            .iter()
            .map(|definition| match &definition.source {
                Source::Custom(custom) => Some(custom.identity.as_str()),
                Source::Builtin { .. } => None,
            });
        match custom.collect::<Option<Vec<&str>>>() {
            Some(identities) => {
                let name = format!("{group}/{}", version.name);
                let described = if descriptions.is_empty() { "" } else { "described" };
                let parts = [name.as_str(), described].into_iter().chain(identities);
                digest(parts.flat_map(|part| [part.as_bytes(), b"\0"]))
            }
            None => digest([&*render(version, descriptions)]),
        }
    })
}

fn digest<'b>(parts: impl IntoIterator<Item = &'b [u8]>) -> String {
    let mut digest = Sha512::new();
    parts.into_iter().for_each(|part| digest.update(part));
    let digest = digest.finalize();
    digest.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Converts definitions to the input of the document generator.
fn with_resources<T>(definitions: &[&Definition], generate: impl FnOnce(&[Resource<'_>]) -> T) -> T {
    let verbs: Vec<Vec<&str>> = definitions
        .iter()
        .map(|definition| definition.verbs.iter().map(String::as_str).collect())
        .collect();
    let subresource_verbs: Vec<Vec<Vec<&str>>> = definitions
        .iter()
        .map(|definition| {
            let subresources = definition.subresources.iter();
            subresources
                .map(|sub| sub.verbs.iter().map(String::as_str).collect())
                .collect()
        })
        .collect();
    let resources: Vec<Resource<'_>> = definitions
        .iter()
        .zip(&verbs)
        .zip(&subresource_verbs)
        .map(|((definition, verbs), subresource_verbs)| resource(definition, verbs, subresource_verbs))
        .collect();
    generate(&resources)
}

fn resource<'a>(
    definition: &'a Definition,
    verbs: &'a [&'a str],
    subresource_verbs: &'a [Vec<&'a str>],
) -> Resource<'a> {
    let subresources = definition.subresources.iter().zip(subresource_verbs);
    Resource {
        group: &definition.subject.group,
        version: &definition.version,
        plural: &definition.subject.resource,
        kind: &definition.subject.kind,
        namespaced: definition.namespaced,
        verbs,
        subresources: subresources
            .map(|(sub, verbs)| Subresource {
                name: &sub.name,
                verbs,
                group: &sub.group,
                version: &sub.version,
                kind: &sub.kind,
            })
            .collect(),
        schema: match &definition.source {
            Source::Custom(version) => Some(version.schema.source()),
            Source::Builtin { .. } => None,
        },
        selectable: match &definition.source {
            Source::Custom(version) => &version.selectable_fields,
            Source::Builtin { .. } => &[],
        },
    }
}
