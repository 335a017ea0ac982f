//! Endpoints that are not resources: discovery, health, version, OpenAPI.

mod aggregated;
mod health;
mod legacy;
mod openapi;
pub(crate) mod openid;
mod version;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;

pub(crate) use self::version::GIT_VERSION;
use crate::codec::Representations;
use crate::http::call::{Answer, Call};
use crate::http::handler::Handler;
use crate::registry::aggregation::check::Found;
use crate::resource::crd::{CustomCatalog, State};
use crate::resource::version_priority;
use crate::resource::{Catalog, Definition, Resources};
use crate::status::{self, Status};

/// Answers a path that is not a resource.
pub(crate) fn serve(handler: &Handler, method: &Method, call: &Call) -> Result<Answer, Status> {
    let path = call.info.path.as_str();
    let is_get = method == Method::GET;
    let gates = &handler.gates;
    match path {
        "/" | "/index.html" => return legacy::index(handler, call),
        "/metrics" if method == Method::DELETE => {
            handler.metrics.reset();
            return Ok(Answer::text(StatusCode::OK, "metrics reset\n"));
        }
        "/metrics" => return Ok(metrics(handler)),
        "/flagz" if gates.is_enabled("ComponentFlagz") => return Ok(health::flags(handler)),
        "/statusz" if gates.is_enabled("ComponentStatusz") => return Ok(health::status(handler)),
        "/apis" | "/apis/" => return aggregated_or(handler, call, false, legacy::group_list),
        "/openapi/v2" => return openapi::v2(handler, call),
        _ => {}
    }
    let builtin = handler.registry.resources.builtin();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments.as_slice() {
        ["version"] if is_get => Ok(Answer::json(&version::info())),
        ["version", rest @ ..] if !rest.is_empty() => Err(status::unknown_resource()),
        [check @ ("healthz" | "livez" | "readyz"), rest @ ..] if !path.ends_with('/') => {
            Ok(health::serve(handler, call, check, &rest.join("/")))
        }
        ["api"] if is_get => aggregated_or(handler, call, true, legacy::versions),
        ["api", version @ "v1"] if is_get => legacy::resources(handler, call, "", version),
        ["api" | "version"] | ["api", "v1"] => Err(status::method_not_allowed()),
        ["api", ..] => Err(status::unknown_resource()),
        // The aggregator serves the documents of groups, also for other methods; that of its own group and paths with two
        // slashes at the end have a router.
        ["apis", group]
            if !is_get
                && builtin.has_group(group)
                && (path.ends_with("//") || *group == "apiregistration.k8s.io") =>
        {
            Err(status::method_not_allowed())
        }
        ["apis", group] => legacy::group(handler, call, group),
        ["apis", group, version] if !is_get && builtin.has_version(group, version) => {
            Err(status::method_not_allowed())
        }
        ["apis", group, version] => legacy::resources(handler, call, group, version),
        ["openapi", "v3", rest @ ..] => {
            let rest: Vec<&str> = rest.iter().copied().filter(|part| !part.is_empty()).collect();
            openapi::v3(handler, call, &rest)
        }
        _ => Ok(Answer::not_found()),
    }
}

fn metrics(handler: &Handler) -> Answer {
    let mut answer = Answer::text(StatusCode::OK, &crate::http::request_metrics::render(handler));
    answer.set(
        CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
    );
    answer
}

fn aggregated_or(
    handler: &Handler,
    call: &Call,
    core: bool,
    legacy: fn(&Handler, &Call) -> Result<Answer, Status>,
) -> Result<Answer, Status> {
    match aggregated::serve(handler, call, core) {
        Some(answer) => Ok(answer),
        None => legacy(handler, call),
    }
}

/// The documents about all resources. They are created by the first request, and kept until a definition changes.
#[derive(Debug)]
pub(crate) struct Documents {
    groups: Vec<Group>,
    /// The indices of the groups by name.
    places: HashMap<String, usize>,
    /// The documents of aggregated discovery, with their ETags: the core group, and all other groups.
    aggregated: [OnceLock<(Bytes, String)>; 2],
    /// The OpenAPI document of version 2 in JSON and in protobuf.
    openapi: [OnceLock<Bytes>; 2],
    /// The same with the documents of the last answers of extension APIs.
    extended: Mutex<Option<Arc<Extended>>>,
    /// The endpoints that are not resources, with the hashes of their OpenAPI documents of version 3.
    endpoints: OnceLock<Vec<(String, String)>>,
}

/// The OpenAPI document of version 2 in JSON and in protobuf, with those of extension APIs.
#[derive(Debug)]
struct Extended {
    extensions: Vec<(String, Arc<Found>)>,
    documents: [OnceLock<Bytes>; 2],
}

/// The documents for the last requested state of the resources.
#[derive(Debug, Default)]
pub(crate) struct DocumentCache(Mutex<Option<(Arc<State>, Arc<Documents>)>>);

impl DocumentCache {
    /// Returns the documents about all resources.
    fn of(&self, resources: &Resources) -> Arc<Documents> {
        let custom = resources.custom();
        let mut cached = self.0.lock();
        if let Some((state, documents)) = &*cached
            && Arc::ptr_eq(state, custom.state())
        {
            return documents.clone();
        }
        let documents = Arc::new(Documents::new(resources.builtin(), &custom));
        *cached = Some((custom.state().clone(), documents.clone()));
        documents
    }
}

impl Documents {
    fn new(builtin: &Catalog, custom: &CustomCatalog) -> Self {
        let (groups, places) = groups(builtin, custom);
        Self {
            groups,
            places,
            aggregated: Default::default(),
            openapi: Default::default(),
            extended: Mutex::default(),
            endpoints: OnceLock::new(),
        }
    }

    /// Returns the slots for the documents that include those of extension APIs.
    fn extended(&self, extensions: &[(String, Arc<Found>)]) -> Arc<Extended> {
        let mut extended = self.extended.lock();
        let is_same = |known: &Extended| {
            known.extensions.len() == extensions.len()
                && known
                    .extensions
                    .iter()
                    .zip(extensions)
                    .all(|(known, new)| known.0 == new.0 && Arc::ptr_eq(&known.1, &new.1))
        };
        if let Some(known) = extended.as_ref().filter(|known| is_same(known)) {
            return known.clone();
        }
        let new = Arc::new(Extended {
            extensions: extensions.to_vec(),
            documents: Default::default(),
        });
        *extended = Some(new.clone());
        new
    }

    fn group(&self, name: &str) -> Option<&Group> {
        let place = self.places.get(name)?;
        self.groups.get(*place)
    }

    fn version(&self, group: &str, version: &str) -> Option<&GroupVersion> {
        let versions = &self.group(group)?.versions;
        versions.iter().find(|known| known.name == version)
    }
}

/// One group, with its versions in order of preference.
#[derive(Debug)]
struct Group {
    name: String,
    versions: Vec<GroupVersion>,
}

#[derive(Debug)]
struct GroupVersion {
    name: String,
    /// The hash of the OpenAPI document, which is a part of its URL.
    hash: OnceLock<String>,
    resources: Vec<Arc<Definition>>,
}

/// Returns all groups: the built-in ones in their order, followed by those of CRDs.
fn groups(builtin: &Catalog, custom: &CustomCatalog) -> (Vec<Group>, HashMap<String, usize>) {
    let mut groups: Vec<Group> = Vec::new();
    let mut places = HashMap::new();
    let mut definitions: Vec<&Arc<Definition>> = custom.definitions().collect();
    definitions.sort_by(|a, b| a.subject.resource.cmp(&b.subject.resource));
    definitions.sort_by(|a, b| a.subject.group.cmp(&b.subject.group));
    for definition in builtin.definitions().iter().chain(definitions) {
        insert(&mut groups, &mut places, definition);
    }
    for group in &mut groups {
        group
            .versions
            .sort_by_key(|version| version_priority(&version.name));
    }
    (groups, places)
}

fn insert(groups: &mut Vec<Group>, places: &mut HashMap<String, usize>, definition: &Arc<Definition>) {
    let name = &definition.subject.group;
    let index = *places.entry(name.clone()).or_insert_with(|| {
        groups.push(Group {
            name: name.clone(),
            versions: Vec::new(),
        });
        groups.len() - 1
    });
    let Some(group) = groups.get_mut(index) else {
        return;
    };
    match group
        .versions
        .iter_mut()
        .find(|version| version.name == definition.version)
    {
        Some(version) => version.resources.push(definition.clone()),
        None => group.versions.push(GroupVersion {
            name: definition.version.clone(),
            hash: OnceLock::new(),
            resources: vec![definition.clone()],
        }),
    }
}

fn negotiated(call: &Call, value: &Value) -> Result<Answer, Status> {
    let form = crate::http::pipeline::negotiated(call, Representations::Document)?;
    Ok(Answer::object(StatusCode::OK, value, form))
}
