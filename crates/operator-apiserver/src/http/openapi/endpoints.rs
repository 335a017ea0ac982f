//! The v3 documents of endpoints that are not resources: discovery, the version, and the keys of service account tokens.

use serde_json::{Map, Value, json};

use super::schema::{Components, kind_extension, reference};
use super::{Descriptions, Generated, operation};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const VERSION: &str = "io.k8s.apimachinery.pkg.version.Info";

/// An endpoint: its path in the index, and its operation.
struct Endpoint {
    tag: String,
    about: &'static str,
    operation: String,
    /// The type of the response; `None` for plain text.
    answer: Option<(String, Option<Value>)>,
    media_types: &'static [&'static str],
}

/// The paths of the documents that do not depend on the groups.
pub(crate) const PATHS: [&str; 5] = [
    ".well-known/openid-configuration",
    "api",
    "apis",
    "openid/v1/jwks",
    "version",
];

const OBJECTS: &[&str] = &[
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/yaml",
];
const JSON: &[&str] = &["application/json"];

/// Returns the document of a path in the index: one of [`PATHS`], or `apis/GROUP` of a served group.
pub(crate) fn endpoint_document(path: &str, descriptions: &Descriptions) -> Value {
    let Generated { paths, schemas } = endpoint(path, descriptions);
    let mut components = json!({"securitySchemes": super::security_schemes()});
    if !schemas.is_empty() {
        components["schemas"] = schemas.into();
    }
    json!({"openapi": "3.0.0", "info": super::info(), "paths": paths, "components": components})
}

/// Returns the path and the schemas of an endpoint.
pub(super) fn endpoint(path: &str, descriptions: &Descriptions) -> Generated {
    let endpoint = described(path);
    let mut schemas = Components::new(descriptions);
    let schema = match &endpoint.answer {
        None => json!({"type": "string"}),
        Some((name, Some(schema))) => {
            schemas.add_schema(name, schema.clone());
            reference(name)
        }
        Some((name, None)) => {
            schemas.add_named(name);
            reference(name)
        }
    };
    let content: Map<String, Value> = endpoint
        .media_types
        .iter()
        .map(|media_type| ((*media_type).to_owned(), json!({"schema": schema})))
        .collect();
    let get = json!({
        "tags": [endpoint.tag], "description": endpoint.about, "operationId": endpoint.operation,
        "responses": {"200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}},
    });
    let mut paths = Map::new();
    paths.insert(format!("/{path}/"), json!({"get": get}));
    Generated {
        paths,
        schemas: schemas.into_schemas(),
    }
}

fn described(path: &str) -> Endpoint {
    let meta = |kind: &str| format!("{META}.{kind}");
    let endpoint = |tag: &str, about, operation: &str, answer, media_types| Endpoint {
        tag: tag.to_owned(),
        about,
        operation: operation.to_owned(),
        answer,
        media_types,
    };
    match path {
        "api" => {
            let answer = Some((meta("APIVersions"), Some(api_versions())));
            endpoint(
                "core",
                "get available API versions",
                "getCoreAPIVersions",
                answer,
                OBJECTS,
            )
        }
        "apis" => {
            let answer = Some((meta("APIGroupList"), Some(api_group_list())));
            endpoint(
                "apis",
                "get available API versions",
                "getAPIVersions",
                answer,
                OBJECTS,
            )
        }
        "version" => {
            let answer = Some((VERSION.to_owned(), Some(version_info())));
            let about = "get the version information for this server";
            endpoint("version", about, "getCodeVersion", answer, JSON)
        }
        "openid/v1/jwks" => endpoint(
            "openid",
            "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
            "getServiceAccountIssuerOpenIDKeyset",
            None,
            &["application/jwk-set+json"],
        ),
        ".well-known/openid-configuration" => endpoint(
            "WellKnown",
            "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
            "getServiceAccountIssuerOpenIDConfiguration",
            None,
            JSON,
        ),
        group => {
            let name = operation::group_name(group.strip_prefix("apis/").unwrap_or(group));
            let id = format!("get{}APIGroup", operation::capitalized(&name));
            let answer = Some((meta("APIGroup"), None));
            endpoint(&name, "get information of a group", &id, answer, OBJECTS)
        }
    }
}

fn atomic_list(items: &Value) -> Value {
    json!({"type": "array", "items": items, "x-kubernetes-list-type": "atomic"})
}

fn object(required: &[&str], mut properties: Value, kind: Option<&str>) -> Value {
    if kind.is_some() {
        for field in ["apiVersion", "kind"] {
            properties[field] = json!({"type": "string"});
        }
    }
    let mut schema = json!({"type": "object", "required": required, "properties": properties});
    if let Some(kind) = kind {
        schema["x-kubernetes-group-version-kind"] = json!([kind_extension("", "v1", kind)]);
    }
    schema
}

fn api_versions() -> Value {
    let address = reference(&format!("{META}.ServerAddressByClientCIDR"));
    let properties = json!({
        "serverAddressByClientCIDRs": atomic_list(&address),
        "versions": atomic_list(&json!({"type": "string"})),
    });
    object(
        &["versions", "serverAddressByClientCIDRs"],
        properties,
        Some("APIVersions"),
    )
}

fn api_group_list() -> Value {
    let properties = json!({"groups": atomic_list(&reference(&format!("{META}.APIGroup")))});
    object(&["groups"], properties, Some("APIGroupList"))
}

fn version_info() -> Value {
    const REQUIRED: [&str; 9] = [
        "major",
        "minor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    const OPTIONAL: [&str; 4] = [
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
    ];
    let mut properties = Map::new();
    for field in REQUIRED {
        properties.insert(field.to_owned(), json!({"type": "string", "default": ""}));
    }
    for field in OPTIONAL {
        properties.insert(field.to_owned(), json!({"type": "string"}));
    }
    object(&REQUIRED, properties.into(), None)
}
