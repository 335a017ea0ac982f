//! Paths and operations: the verbs of a resource, with their parameters.

use serde_json::{Map, Value, json};

use super::parameter::{self, Options, Parameter};
use super::schema::{Names, kind_extension, meta_reference, reference};
use super::{Descriptions, Resource, Subresource, group_version_path};

/// The operation of a verb: HTTP method, prefix of its id, action, status codes.
struct Shape {
    verb: &'static str,
    method: &'static str,
    prefix: &'static str,
    action: &'static str,
    codes: &'static [&'static str],
}

const fn shape(
    verb: &'static str,
    method: &'static str,
    prefix: &'static str,
    action: &'static str,
    codes: &'static [&'static str],
) -> Shape {
    Shape {
        verb,
        method,
        prefix,
        action,
        codes,
    }
}

const LIST: Shape = shape("list", "get", "list", "list", &["200"]);
const CREATE: Shape = shape("create", "post", "create", "post", &["200", "201", "202"]);
const GET: Shape = shape("get", "get", "read", "get", &["200"]);
const UPDATE: Shape = shape("update", "put", "replace", "put", &["200", "201"]);
const PATCH: Shape = shape("patch", "patch", "patch", "patch", &["200", "201"]);

const COLLECTION_SHAPES: &[Shape] = &[
    LIST,
    CREATE,
    shape(
        "deletecollection",
        "delete",
        "delete",
        "deletecollection",
        &["200"],
    ),
];
const ITEM_SHAPES: &[Shape] = &[
    GET,
    UPDATE,
    PATCH,
    shape("delete", "delete", "delete", "delete", &["200", "202"]),
];
const SUBRESOURCE_SHAPES: &[Shape] = &[CREATE, GET, UPDATE, PATCH];
const WATCH: Shape = shape("watch", "get", "watch", "watch", &["200"]);
const WATCH_LIST: Shape = shape("watch", "get", "watch", "watchlist", &["200"]);

const OBJECTS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const STREAMS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const CUSTOM_OBJECTS: &[&str] = &["application/json", "application/yaml"];
const LOGS: &[&str] = &[
    "text/plain",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const CUSTOM_PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];
const ANY: &[&str] = &["*/*"];

/// An operation without the parameters that it shares with others.
struct Operation<'d> {
    method: &'static str,
    json: Value,
    parameters: Vec<Parameter<'d>>,
}

/// The body of a request.
struct Body {
    schema: Value,
    media_types: &'static [&'static str],
    required: bool,
}

/// Writes the operations of one resource.
struct Writer<'a> {
    resource: &'a Resource<'a>,
    names: &'a Names,
    descriptions: &'a Descriptions,
    /// The path of the group version.
    root: String,
    paths: Map<String, Value>,
}

/// Returns the paths of a resource and its subresources.
pub(super) fn paths(
    resource: &Resource<'_>,
    names: &Names,
    descriptions: &Descriptions,
) -> Map<String, Value> {
    let mut writer = Writer {
        resource,
        names,
        descriptions,
        root: format!("/{}", group_version_path(resource.group, resource.version)),
        paths: Map::new(),
    };
    let plural = resource.plural;
    let scope = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let place = format!("{scope}/{plural}");
    let item = format!("{place}/{{name}}");
    writer.add(&place, resource.kind, writer.collection());
    writer.add(&item, resource.kind, writer.item());
    for (subresource, body) in resource.subresources.iter().zip(&names.subresources) {
        let path = format!("{item}/{}", subresource.name);
        writer.add_subresource(&path, subresource, body);
    }
    let is_listed_everywhere = resource.namespaced && resource.verbs.contains(&"list");
    if is_listed_everywhere {
        let list = writer.operation(&LIST, None, "", "ForAllNamespaces");
        writer.add(&format!("/{plural}"), resource.kind, vec![list]);
    }
    if !writer.is_custom() && resource.verbs.contains(&"watch") {
        let one = writer.operation(&WATCH, None, "", "");
        writer.add(&format!("/watch{item}"), resource.kind, vec![one]);
        let all = writer.operation(&WATCH_LIST, None, "", "List");
        writer.add(&format!("/watch{place}"), resource.kind, vec![all]);
        if is_listed_everywhere {
            let everywhere = writer.operation(&WATCH_LIST, None, "", "ListForAllNamespaces");
            writer.add(&format!("/watch/{plural}"), resource.kind, vec![everywhere]);
        }
    }
    writer.paths
}

/// Returns the path of the discovery document of a group version.
pub(super) fn discovery_path(group: &str, version: &str, descriptions: &Descriptions) -> (String, Value) {
    let id = format!("get{}APIResources", group_version_name(group, version));
    let mut get = json!({
        "tags": [tag(group, version)],
        "operationId": id,
        "responses": responses(&["200"], OBJECTS, &meta_reference("APIResourceList")),
    });
    if !descriptions.is_empty() {
        get["description"] = "get available resources".into();
    }
    let path = format!("/{}/", group_version_path(group, version));
    (path, json!({"get": get}))
}

impl<'a> Writer<'a> {
    fn is_custom(&self) -> bool {
        self.resource.schema.is_some()
    }

    /// Adds a path with its operations, unless it has none. `kind` is the kind of the object that a path names.
    fn add(&mut self, path: &str, kind: &str, mut operations: Vec<Operation<'a>>) {
        if operations.is_empty() {
            return;
        }
        operations.sort_by_key(|operation| operation.method);
        let path = format!("{}{path}", self.root);
        let in_path = Parameter::of_path(&path, kind, self.descriptions);
        let mut item = Map::new();
        let mut lists: Vec<Vec<Parameter<'_>>> = Vec::new();
        for mut operation in operations {
            operation.parameters.extend(in_path.iter().cloned());
            lists.push(operation.parameters);
            item.insert(operation.method.to_owned(), operation.json);
        }
        // Both are in the order of the methods.
        let common = parameter::take_common(&mut lists);
        for (operation, own) in item.values_mut().zip(lists) {
            if !own.is_empty() {
                operation["parameters"] = parameter::to_json(own);
            }
        }
        if !common.is_empty() {
            item.insert("parameters".to_owned(), parameter::to_json(common));
        }
        self.paths.insert(path, Value::Object(item));
    }

    fn collection(&self) -> Vec<Operation<'a>> {
        let shapes = served(COLLECTION_SHAPES, self.resource.verbs);
        shapes
            .map(|shape| {
                let middle = if shape.verb == "deletecollection" {
                    "Collection"
                } else {
                    ""
                };
                self.operation(shape, None, middle, "")
            })
            .collect()
    }

    fn item(&self) -> Vec<Operation<'a>> {
        let shapes = served(ITEM_SHAPES, self.resource.verbs);
        shapes.map(|shape| self.operation(shape, None, "", "")).collect()
    }

    fn add_subresource(&mut self, path: &str, subresource: &Subresource<'_>, body: &str) {
        let kind = if self.is_custom() {
            self.resource.kind
        } else {
            subresource.kind
        };
        if let Some(options) = parameter::of_connection(subresource.kind) {
            self.add(path, kind, self.connections(subresource, options, ""));
            if subresource.name == "proxy" {
                let path = format!("{path}/{{path}}");
                self.add(&path, kind, self.connections(subresource, options, "WithPath"));
            }
            return;
        }
        let shapes = served(SUBRESOURCE_SHAPES, subresource.verbs);
        let operations = shapes
            .map(|shape| {
                let suffix = capitalized(subresource.name);
                self.operation(shape, Some((subresource, body)), "", &suffix)
            })
            .collect();
        self.add(path, kind, operations);
    }

    /// Returns the operations of a connection: one for each method.
    fn connections(
        &self,
        subresource: &Subresource<'_>,
        options: &'static Options,
        suffix: &str,
    ) -> Vec<Operation<'a>> {
        const ALL: &[&str] = &["delete", "get", "head", "options", "patch", "post", "put"];
        let methods: &[&'static str] = if subresource.name == "proxy" {
            ALL
        } else {
            &["get", "post"]
        };
        let text = json!({"type": "string"});
        let operation = |method: &&'static str| {
            let prefix = format!(
                "connect{}",
                group_version_name(self.resource.group, self.resource.version)
            );
            let name = capitalized(subresource.name);
            let (scope, kind) = (self.scope(), self.resource.kind);
            let id = format!("{prefix}{}{scope}{kind}{name}{suffix}", capitalized(method));
            let mut json = json!({
                "tags": [tag(self.resource.group, self.resource.version)],
                "operationId": id,
                "responses": responses(&["200"], ANY, &text),
                "x-kubernetes-action": "connect",
                "x-kubernetes-group-version-kind":
                    kind_extension(subresource.group, subresource.version, subresource.kind),
            });
            if !self.descriptions.is_empty() {
                let (method, name) = (method.to_uppercase(), subresource.name);
                json["description"] = format!("connect {method} requests to {name} of {kind}").into();
            }
            Operation {
                method,
                json,
                parameters: Parameter::of_options(options, self.descriptions).collect(),
            }
        };
        methods.iter().map(operation).collect()
    }

    fn scope(&self) -> &'static str {
        if self.resource.namespaced {
            "Namespaced"
        } else {
            ""
        }
    }

    /// Returns the operation of a resource, or of a subresource and the component of its body.
    fn operation(
        &self,
        shape: &Shape,
        subresource: Option<(&Subresource<'_>, &str)>,
        middle: &str,
        suffix: &str,
    ) -> Operation<'a> {
        let resource = self.resource;
        let group_version = group_version_name(resource.group, resource.version);
        // An operation on all namespaces has no namespace in its id.
        let scope = if suffix.ends_with("ForAllNamespaces") {
            ""
        } else {
            self.scope()
        };
        let id = format!(
            "{}{group_version}{middle}{scope}{}{suffix}",
            shape.prefix, resource.kind
        );
        let kind = match subresource {
            Some((sub, _)) if !self.is_custom() => kind_extension(sub.group, sub.version, sub.kind),
            _ => kind_extension(resource.group, resource.version, resource.kind),
        };
        let codes: &[&str] = match shape.verb {
            "patch" if self.is_custom() => &["200"],
            _ => shape.codes,
        };
        let body = self.body(shape, subresource);
        let mut json = json!({
            "operationId": id,
            "tags": [tag(resource.group, resource.version)],
            "responses": responses(codes, self.media_types(shape, subresource), &self.answer(shape, subresource)),
            "x-kubernetes-action": shape.action,
            "x-kubernetes-group-version-kind": kind,
        });
        if let Some(body) = body {
            json["requestBody"] = json!({"content": content(body.media_types, &body.schema)});
            if body.required {
                json["requestBody"]["required"] = true.into();
            }
        }
        if !self.descriptions.is_empty() {
            json["description"] = self
                .description(shape, subresource.map(|(sub, _)| sub.name))
                .into();
        }
        let options = self.options(shape, subresource.map(|(sub, _)| sub));
        let of_options = options
            .iter()
            .flat_map(|options| Parameter::of_options(options, self.descriptions));
        let pretty = Parameter::pretty(self.descriptions);
        Operation {
            method: shape.method,
            json,
            parameters: std::iter::once(pretty).chain(of_options).collect(),
        }
    }

    fn answer(&self, shape: &Shape, subresource: Option<(&Subresource<'_>, &str)>) -> Value {
        match (shape.action, subresource) {
            (_, Some((sub, _))) if sub.name == "log" => json!({"type": "string"}),
            (_, Some((_, body))) => reference(body),
            ("watch" | "watchlist", _) => meta_reference("WatchEvent"),
            ("list", _) => reference(&self.names.list),
            ("delete", _) if self.resource.returns_deleted => reference(&self.names.object),
            ("delete" | "deletecollection", _) => meta_reference("Status"),
            _ => reference(&self.names.object),
        }
    }

    fn media_types(
        &self,
        shape: &Shape,
        subresource: Option<(&Subresource<'_>, &str)>,
    ) -> &'static [&'static str] {
        match (shape.verb, subresource) {
            _ if self.is_custom() => CUSTOM_OBJECTS,
            (_, Some((sub, _))) if sub.name == "log" => LOGS,
            ("list" | "watch", _) => STREAMS,
            _ => OBJECTS,
        }
    }

    fn body(&self, shape: &Shape, subresource: Option<(&Subresource<'_>, &str)>) -> Option<Body> {
        let is_custom = self.is_custom();
        let plain = if is_custom { CUSTOM_OBJECTS } else { ANY };
        let (schema, media_types, required) = match shape.action {
            "post" | "put" => {
                let component = subresource.map_or(self.names.object.as_str(), |(_, body)| body);
                (reference(component), plain, true)
            }
            "patch" if is_custom => (meta_reference("Patch"), CUSTOM_PATCHES, true),
            "patch" => (meta_reference("Patch"), PATCHES, true),
            "delete" => (meta_reference("DeleteOptions"), plain, false),
            "deletecollection" if !is_custom => (meta_reference("DeleteOptions"), plain, false),
            _ => return None,
        };
        Some(Body {
            schema,
            media_types,
            required,
        })
    }

    fn options(&self, shape: &Shape, subresource: Option<&Subresource<'_>>) -> &'static [Options] {
        match shape.action {
            "list" | "watch" | "watchlist" => &[parameter::LIST],
            "deletecollection" if self.is_custom() => &[parameter::LIST],
            "deletecollection" => &[parameter::SELECTION, parameter::DELETE],
            "post" | "put" => &[parameter::CREATE],
            "patch" => &[parameter::PATCH],
            "delete" => &[parameter::DELETE],
            "get" if subresource.is_some_and(|sub| sub.name == "log") => &[parameter::POD_LOG],
            "get" if self.is_custom() => &[parameter::GET],
            _ => &[],
        }
    }

    fn description(&self, shape: &Shape, subresource: Option<&str>) -> String {
        const DEPRECATED: &str = "deprecated: use the 'watch' parameter with a list operation instead";
        let kind = self.resource.kind;
        let of = subresource.map_or_else(String::new, |name| format!(" {name} of"));
        let is_watched = self.resource.verbs.contains(&"watch") && !self.is_custom();
        match shape.action {
            "list" if is_watched => format!("list or watch objects of kind {kind}"),
            "list" => format!("list objects of kind {kind}"),
            "get" | "put" => format!("{}{of} the specified {kind}", shape.prefix),
            "patch" => format!("partially update{of} the specified {kind}"),
            "deletecollection" => format!("delete collection of {kind}"),
            "watchlist" => format!("watch individual changes to a list of {kind}. {DEPRECATED}."),
            "watch" => format!(
                "watch changes to an object of kind {kind}. {DEPRECATED}, \
                 filtered to a single item with the 'fieldSelector' parameter."
            ),
            _ => format!("{}{of}{}{kind}", shape.prefix, article(kind)),
        }
    }
}

/// Returns the operations of the verbs of a resource.
fn served(shapes: &'static [Shape], verbs: &[&str]) -> impl Iterator<Item = &'static Shape> {
    shapes.iter().filter(|shape| verbs.contains(&shape.verb))
}

/// Returns the article before the name of a kind, with spaces around it; plurals have none.
fn article(kind: &str) -> &'static str {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return " ";
    }
    match kind.chars().next() {
        Some('a' | 'e' | 'i' | 'o' | 'u' | 'A' | 'E' | 'I' | 'O' | 'U') => " an ",
        _ => " a ",
    }
}

fn responses(codes: &[&str], media_types: &[&str], schema: &Value) -> Map<String, Value> {
    let success = codes.iter().map(|code| {
        let response = json!({"description": reason(code), "content": content(media_types, schema)});
        ((*code).to_owned(), response)
    });
    let rejected = ("401".to_owned(), json!({"description": reason("401")}));
    success.chain([rejected]).collect()
}

fn content(media_types: &[&str], schema: &Value) -> Map<String, Value> {
    media_types
        .iter()
        .map(|media_type| ((*media_type).to_owned(), json!({"schema": schema})))
        .collect()
}

fn reason(code: &str) -> &'static str {
    match code {
        "200" => "OK",
        "201" => "Created",
        "202" => "Accepted",
        _ => "Unauthorized",
    }
}

/// Returns a group version in the ids of operations: `AppsV1`.
fn group_version_name(group: &str, version: &str) -> String {
    format!("{}{}", capitalized(&group_name(group)), capitalized(version))
}

/// Returns the tag of a group version: `apps_v1`, `rbacAuthorization_v1`.
fn tag(group: &str, version: &str) -> String {
    format!("{}_{version}", group_name(group))
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
