//! The OpenAPI documents of the served resources: one v3 document for each group version, and one v2 document.
//!
//! Schemas come from the table of built-in types or from the structural schema of a CustomResourceDefinition. The
//! descriptions of built-in fields are an optional table of the server ([`Descriptions`]).
//!
//! kubectl uses these documents to decide whether a patch may have `fieldValidation`, to merge lists in a client-side
//! apply, and for `kubectl explain`.

mod descriptions;
mod encoding;
mod endpoints;
mod operation;
mod parameter;
mod schema;
mod v2;
mod v2_protobuf;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub(crate) use descriptions::Descriptions;
pub(crate) use encoding::Encoding;
pub(crate) use endpoints::{PATHS as ENDPOINTS, endpoint_document};
pub(crate) use v2::Document as V2Document;

/// A resource in its OpenAPI document.
#[derive(Clone, Debug)]
pub(crate) struct Resource<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespaced: bool,
    pub(crate) verbs: &'a [&'a str],
    pub(crate) subresources: Vec<Subresource<'a>>,
    /// True if a delete returns the object.
    pub(crate) returns_deleted: bool,
    /// The structural schema of a custom resource; `None` for a built-in one.
    pub(crate) schema: Option<&'a Value>,
    /// The JSON paths of fields that field selectors can use.
    pub(crate) selectable: &'a [String],
}

/// A subresource: its name, its verbs and the type of its body.
#[derive(Clone, Debug)]
pub(crate) struct Subresource<'a> {
    pub(crate) name: &'a str,
    pub(crate) verbs: &'a [&'a str],
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

/// The number of custom resources whose paths and schemas are in memory as JSON values at a time.
const AT_A_TIME: usize = 16;

/// Returns the v3 document of a group version: `/openapi/v3/apis/GROUP/VERSION` or `/openapi/v3/api/VERSION`.
///
/// `resources` are the resources of that group version. They are either all built in or all custom.
pub(crate) fn v3_document(resources: &[Resource<'_>], descriptions: &Descriptions) -> Vec<u8> {
    let is_custom = resources.iter().any(|resource| resource.schema.is_some());
    let at_a_time = if is_custom {
        AT_A_TIME
    } else {
        resources.len().max(1)
    };
    let (mut paths, mut schemas) = (BTreeMap::new(), BTreeMap::new());
    let encoding = Encoding::Json;
    for some in resources.chunks(at_a_time) {
        let mut components = schema::Components::new(descriptions);
        if let Some(first) = some.first() {
            components = components.only_for(first);
        }
        let generated = generate(some, components, descriptions);
        for (path, item) in generated.paths {
            let item = encoding.member(&path, &item, 0);
            paths.insert(path, item);
        }
        for (name, schema) in generated.schemas {
            let schema = encoding.member(&name, &schema, 0);
            schemas.insert(name, schema);
        }
    }
    let mut components = vec![encoding.members("schemas", schemas.into_values(), 0)];
    let info = if is_custom {
        json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
    } else {
        components.push(encoding.member("securitySchemes", &security_schemes(), 0));
        info()
    };
    let members = [
        encoding.members("components", components.into_iter(), 0),
        encoding.member("info", &info, 0),
        encoding.member("openapi", &json!("3.0.0"), 0),
        encoding.members("paths", paths.into_values(), 0),
    ];
    encoding.document(members.into_iter())
}

/// The paths and the schemas of a v3 document.
struct Generated {
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
}

fn generate(
    resources: &[Resource<'_>],
    mut schemas: schema::Components<'_>,
    descriptions: &Descriptions,
) -> Generated {
    let mut paths = Map::new();
    for resource in resources {
        let names = schemas.add_resource(resource);
        paths.extend(operation::paths(resource, &names, descriptions));
    }
    // Built-in resources are of one group version.
    if let Some(first) = resources.first().filter(|first| first.schema.is_none()) {
        let discovery = operation::discovery_path(first.group, first.version, descriptions);
        paths.extend([discovery]);
    }
    let (schemas, paths) = schemas.finish(paths);
    Generated { paths, schemas }
}

/// Returns the title of the documents of built-in resources.
fn info() -> Value {
    json!({"title": "Kubernetes", "version": "1.36"})
}

/// Returns the means of authentication that the documents name.
fn security_schemes() -> Value {
    json!({"BearerToken": {
        "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
    }})
}

/// Returns the index at `/openapi/v3`: the path (`apis/apps/v1`) of each document, and the hash of its bytes.
pub(crate) fn v3_index<'a>(documents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let paths: Map<String, Value> = documents
        .into_iter()
        .map(|(path, hash)| {
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path.to_owned(), json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// Returns the path of a group version in URLs and in the index: `api/v1`, `apis/apps/v1`.
pub(crate) fn group_version_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

#[cfg(test)]
mod tests;
