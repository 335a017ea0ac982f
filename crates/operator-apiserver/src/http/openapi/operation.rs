//! Paths and operations: the verbs of a resource, with their parameters.

use serde_json::{Map, Value, json};

use super::schema::{Names, kind_extension, meta_reference, reference};
use super::{Resource, Subresource, group_version_path};

type Parameter = (&'static str, &'static str);

const LIST: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const GET: &[Parameter] = &[("resourceVersion", "string")];
const WRITE: &[Parameter] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];
const PATCH: &[Parameter] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];
const DELETE: &[Parameter] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

/// The operation of a verb: HTTP method, operation prefix, action, parameters, responses.
struct Shape {
    verb: &'static str,
    method: &'static str,
    prefix: &'static str,
    action: &'static str,
    parameters: &'static [Parameter],
    codes: &'static [&'static str],
}

const fn shape(
    verb: &'static str,
    method: &'static str,
    prefix: &'static str,
    action: &'static str,
    parameters: &'static [Parameter],
    codes: &'static [&'static str],
) -> Shape {
    Shape {
        verb,
        method,
        prefix,
        action,
        parameters,
        codes,
    }
}

const COLLECTION_SHAPES: &[Shape] = &[
    shape("list", "get", "list", "list", LIST, &["200"]),
    shape("create", "post", "create", "post", WRITE, &["200", "201", "202"]),
    shape(
        "deletecollection",
        "delete",
        "delete",
        "deletecollection",
        LIST,
        &["200"],
    ),
];
const ITEM_SHAPES: &[Shape] = &[
    shape("get", "get", "read", "get", GET, &["200"]),
    shape("update", "put", "replace", "put", WRITE, &["200", "201"]),
    shape("patch", "patch", "patch", "patch", PATCH, &["200"]),
    shape("delete", "delete", "delete", "delete", DELETE, &["200", "202"]),
];
const SUBRESOURCE_SHAPES: &[Shape] = &[
    shape("create", "post", "create", "post", WRITE, &["200", "201", "202"]),
    shape("get", "get", "read", "get", GET, &["200"]),
    shape("update", "put", "replace", "put", WRITE, &["200", "201"]),
    shape("patch", "patch", "patch", "patch", PATCH, &["200"]),
];

/// Returns the paths of a resource and its subresources.
pub(super) fn paths(resource: &Resource<'_>, names: &Names) -> Map<String, Value> {
    let root = format!("/{}", group_version_path(resource.group, resource.version));
    let collection = match resource.namespaced {
        true => format!("{root}/namespaces/{{namespace}}/{}", resource.plural),
        false => format!("{root}/{}", resource.plural),
    };
    let item = format!("{collection}/{{name}}");
    let mut paths = Map::new();
    add(&mut paths, collection, collection_item(resource, names));
    add(&mut paths, item.clone(), named_item(resource, names));
    for (subresource, body) in resource.subresources.iter().zip(&names.subresources) {
        add(
            &mut paths,
            format!("{item}/{}", subresource.name),
            subresource_item(resource, subresource, body),
        );
    }
    if resource.namespaced && resource.verbs.contains(&"list") {
        paths.insert(
            format!("{root}/{}", resource.plural),
            all_namespaces_item(resource, names),
        );
    }
    paths
}

/// Adds a path with its parameters, unless it has no operation.
fn add(paths: &mut Map<String, Value>, path: String, mut item: Map<String, Value>) {
    if item.is_empty() {
        return;
    }
    let mut parameters = Vec::new();
    for name in ["name", "namespace"] {
        if path.contains(&format!("{{{name}}}")) {
            parameters.push(json!({"name": name, "in": "path", "required": true, "schema": text("string")}));
        }
    }
    parameters.push(query("pretty", "string"));
    item.insert("parameters".to_owned(), Value::Array(parameters));
    paths.insert(path, Value::Object(item));
}

fn collection_item(resource: &Resource<'_>, names: &Names) -> Map<String, Value> {
    operations(COLLECTION_SHAPES, resource.verbs, |shape| {
        let (answer, middle) = match shape.verb {
            "list" => (reference(&names.list), ""),
            "create" => (reference(&names.object), ""),
            _ => (meta_reference("Status"), "Collection"),
        };
        let body = (shape.verb == "create").then(|| reference(&names.object));
        operation(
            resource,
            shape,
            &operation_id(resource, shape.prefix, middle, ""),
            &answer,
            body.as_ref(),
        )
    })
}

fn named_item(resource: &Resource<'_>, names: &Names) -> Map<String, Value> {
    operations(ITEM_SHAPES, resource.verbs, |shape| {
        let answer = match shape.verb {
            "delete" => meta_reference("Status"),
            _ => reference(&names.object),
        };
        let body = match shape.verb {
            "get" => None,
            "delete" => Some(meta_reference("DeleteOptions")),
            "patch" => Some(meta_reference("Patch")),
            _ => Some(reference(&names.object)),
        };
        operation(
            resource,
            shape,
            &operation_id(resource, shape.prefix, "", ""),
            &answer,
            body.as_ref(),
        )
    })
}

fn subresource_item(
    resource: &Resource<'_>,
    subresource: &Subresource<'_>,
    body: &str,
) -> Map<String, Value> {
    operations(SUBRESOURCE_SHAPES, subresource.verbs, |shape| {
        let sent = match shape.verb {
            "get" => None,
            "patch" => Some(meta_reference("Patch")),
            _ => Some(reference(body)),
        };
        let id = operation_id(resource, shape.prefix, "", &capitalized(subresource.name));
        operation(resource, shape, &id, &reference(body), sent.as_ref())
    })
}

fn all_namespaces_item(resource: &Resource<'_>, names: &Names) -> Value {
    let camel = group_version_name(resource);
    let id = format!("list{camel}{}ForAllNamespaces", resource.kind);
    let list = shape("list", "get", "list", "list", &[], &["200"]);
    let mut parameters: Vec<Value> = LIST.iter().map(|(name, kind)| query(name, kind)).collect();
    parameters.push(query("pretty", "string"));
    json!({"get": operation(resource, &list, &id, &reference(&names.list), None), "parameters": parameters})
}

fn operations(shapes: &[Shape], verbs: &[&str], make: impl Fn(&Shape) -> Value) -> Map<String, Value> {
    shapes
        .iter()
        .filter(|shape| verbs.contains(&shape.verb))
        .map(|shape| (shape.method.to_owned(), make(shape)))
        .collect()
}

fn operation(
    resource: &Resource<'_>,
    shape: &Shape,
    id: &str,
    answer: &Value,
    body: Option<&Value>,
) -> Value {
    let mut responses: Map<String, Value> = shape
        .codes
        .iter()
        .map(|code| {
            (
                (*code).to_owned(),
                json!({"description": reason(code), "content": content(resource, answer)}),
            )
        })
        .collect();
    responses.insert("401".to_owned(), json!({"description": reason("401")}));
    let mut operation = json!({
        "operationId": id,
        "tags": [tag(resource)],
        "responses": responses,
        "x-kubernetes-action": shape.action,
        "x-kubernetes-group-version-kind": kind_extension(resource.group, resource.version, resource.kind),
    });
    if !shape.parameters.is_empty() {
        operation["parameters"] = shape
            .parameters
            .iter()
            .map(|(name, kind)| query(name, kind))
            .collect();
    }
    if let Some(body) = body {
        operation["requestBody"] = match shape.verb {
            "patch" => json!({"content": patch_content(resource, body), "required": true}),
            "delete" => json!({"content": content(resource, body)}),
            _ => json!({"content": content(resource, body), "required": true}),
        };
    }
    operation
}

fn content(resource: &Resource<'_>, schema: &Value) -> Map<String, Value> {
    let mut types = vec!["application/json", "application/yaml"];
    if resource.schema.is_none() {
        types.push("application/vnd.kubernetes.protobuf");
    }
    media_types(&types, schema)
}

fn patch_content(resource: &Resource<'_>, schema: &Value) -> Map<String, Value> {
    let mut types = vec![
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ];
    if resource.schema.is_none() {
        types.push("application/strategic-merge-patch+json");
    }
    media_types(&types, schema)
}

fn media_types(types: &[&str], schema: &Value) -> Map<String, Value> {
    types
        .iter()
        .map(|media_type| ((*media_type).to_owned(), json!({"schema": schema})))
        .collect()
}

fn query(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": text(kind)})
}

fn text(kind: &str) -> Value {
    json!({"type": kind, "uniqueItems": true})
}

fn reason(code: &str) -> &'static str {
    match code {
        "200" => "OK",
        "201" => "Created",
        "202" => "Accepted",
        _ => "Unauthorized",
    }
}

/// Returns the id of an operation: `listAppsV1NamespacedDeployment`, `readAppsV1NamespacedDeploymentStatus`.
fn operation_id(resource: &Resource<'_>, prefix: &str, middle: &str, suffix: &str) -> String {
    let scope = if resource.namespaced { "Namespaced" } else { "" };
    format!(
        "{prefix}{}{middle}{scope}{}{suffix}",
        group_version_name(resource),
        resource.kind
    )
}

fn group_version_name(resource: &Resource<'_>) -> String {
    format!(
        "{}{}",
        capitalized(&group_name(resource.group)),
        capitalized(resource.version)
    )
}

/// Returns the tag of a resource: `apps_v1`, `rbacAuthorization_v1`.
fn tag(resource: &Resource<'_>) -> String {
    format!("{}_{}", group_name(resource.group), resource.version)
}

/// Returns the group in camel case, without the common suffix of Kubernetes' own groups.
pub(super) fn group_name(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    let mut labels = group.trim_end_matches(".k8s.io").split(['.', '-']);
    let first = labels.next().unwrap_or_default().to_owned();
    labels.fold(first, |name, label| name + &capitalized(label))
}

pub(super) fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
