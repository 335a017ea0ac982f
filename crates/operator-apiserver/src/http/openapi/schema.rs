//! Component schemas: the built-in types of the served kinds, and the custom types.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use structured_merge::builtin::{self, Field, FieldKind, ListType, MapType, Type};

use super::{Descriptions, Resource};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
/// The component of quantities.
pub(super) const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const REFERENCE: &str = "#/components/schemas/";
/// The group versions in which a kube-apiserver registers the kinds that every group version has.
const GROUP_VERSIONS: &[(&str, &[&str])] = &[
    ("", &["v1"]),
    ("admission.k8s.io", &["v1", "v1beta1"]),
    ("admissionregistration.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1", "v1beta1"]),
    ("apiregistration.k8s.io", &["v1", "v1beta1"]),
    ("apps", &["v1", "v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1", "v1beta1"]),
    ("autoscaling", &["v1", "v2"]),
    ("batch", &["v1", "v1beta1"]),
    ("certificates.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", &["v1", "v1beta1"]),
    ("events.k8s.io", &["v1", "v1beta1"]),
    ("extensions", &["v1beta1"]),
    (
        "flowcontrol.apiserver.k8s.io",
        &["v1", "v1beta1", "v1beta2", "v1beta3"],
    ),
    ("imagepolicy.k8s.io", &["v1alpha1"]),
    ("internal.apiserver.k8s.io", &["v1alpha1"]),
    ("networking.k8s.io", &["v1", "v1beta1"]),
    ("node.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("policy", &["v1", "v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("resource.k8s.io", &["v1", "v1alpha3", "v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("storage.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("storagemigration.k8s.io", &["v1beta1"]),
];
/// Groups that are not registered in the server of custom resources.
const NOT_IN_EXTENSIONS: [&str; 4] = [
    "admission.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "imagepolicy.k8s.io",
];
/// The kinds that every group version has.
const EVERYWHERE: [&str; 2] = ["DeleteOptions", "WatchEvent"];
/// The package of the types of CustomResourceDefinitions.
const DEFINITIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";
/// The fields of `JSONSchemaProps` with any value, and the names of their types.
const ANY_FIELDS: &[(&str, &str)] = &[
    ("additionalItems", "JSONSchemaPropsOrBool"),
    ("additionalProperties", "JSONSchemaPropsOrBool"),
    ("default", "JSON"),
    ("dependencies", "JSONSchemaPropsOrStringArray"),
    ("enum", "JSON"),
    ("example", "JSON"),
    ("items", "JSONSchemaPropsOrArray"),
];
/// A type of which one field is set: its name, the field that names the set one, and the others with their names in it.
type Union = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);
const UNIONS: &[Union] = &[
    (
        "io.k8s.api.core.v1.AppArmorProfile",
        "type",
        &[("localhostProfile", "LocalhostProfile")],
    ),
    (
        "io.k8s.api.core.v1.PodSchedulingGroup",
        "",
        &[("podGroupName", "PodGroupName")],
    ),
    (
        "io.k8s.api.core.v1.SeccompProfile",
        "type",
        &[("localhostProfile", "LocalhostProfile")],
    ),
    (
        "io.k8s.api.flowcontrol.v1.LimitResponse",
        "type",
        &[("queuing", "Queuing")],
    ),
    (
        "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec",
        "type",
        &[("exempt", "Exempt"), ("limited", "Limited")],
    ),
    (
        "io.k8s.api.flowcontrol.v1.Subject",
        "kind",
        &[
            ("group", "Group"),
            ("serviceAccount", "ServiceAccount"),
            ("user", "User"),
        ],
    ),
];

/// The components of one document, by name.
#[derive(Debug)]
pub(super) struct Components<'d> {
    schemas: BTreeMap<String, Value>,
    descriptions: &'d Descriptions,
    /// The names of types of `v1` in a beta version that has the same types.
    beta: Option<Beta>,
    registered: Registered,
}

/// The group versions with the kinds that every group version has.
#[derive(Debug)]
enum Registered {
    All,
    /// Those of the server of custom resources.
    Extensions,
    /// The core group, and the group version of the document.
    Own(String, String),
}

/// The package of a beta version, and that of the version whose types it has.
#[derive(Debug)]
pub(super) struct Beta {
    version: String,
    package: String,
    stable_package: String,
}

impl Beta {
    /// Returns the packages of the version of a resource, if it is a beta version.
    fn of(resource: &Resource<'_>) -> Option<Self> {
        let kinds = builtin::BETA.iter();
        let mut kinds =
            kinds.filter(|(group, version, _)| (*group, *version) == (resource.group, resource.version));
        let (group, version, kinds) = kinds.next()?;
        let stable = builtin::types().for_kind(group, "v1", kinds.first()?)?;
        let (stable_package, _) = stable.name.rsplit_once('.')?;
        let (package, _) = stable_package.rsplit_once('.')?;
        Some(Self {
            version: (*version).to_owned(),
            package: format!("{package}.{version}"),
            stable_package: stable_package.to_owned(),
        })
    }

    /// Returns the name of a type in this version, if it is in the package of the stable version.
    fn name(&self, name: &str) -> Option<String> {
        let (package, kind) = name.rsplit_once('.')?;
        (package == self.stable_package).then(|| format!("{}.{kind}", self.package))
    }

    /// Replaces the names in all references. Documents nest at most as deeply as the schemas of types.
    fn rename_references(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get_mut("$ref")
                    && let Some(name) = reference.strip_prefix(REFERENCE)
                    && let Some(name) = self.name(name)
                {
                    *reference = format!("{REFERENCE}{name}");
                }
                fields
                    .values_mut()
                    .for_each(|value| self.rename_references(value));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.rename_references(item)),
            _ => {}
        }
    }
}

/// The components that a resource's operations refer to.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) object: String,
    pub(super) list: String,
    /// The bodies of the subresources, in their order.
    pub(super) subresources: Vec<String>,
}

/// Returns a reference to a component.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{name}")})
}

/// Returns a reference to a type of `meta/v1`.
pub(super) fn meta_reference(kind: &str) -> Value {
    reference(&format!("{META}.{kind}"))
}

/// Returns the name of a kind's component: its Go package for a built-in kind, its reversed group for a custom one.
pub(super) fn component_name(group: &str, version: &str, kind: &str) -> String {
    if let Some(built_in) = builtin::types().for_kind(group, version, kind) {
        return built_in.name.clone();
    }
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

impl<'d> Components<'d> {
    pub(super) fn new(descriptions: &'d Descriptions) -> Self {
        Self {
            schemas: BTreeMap::new(),
            descriptions,
            beta: None,
            registered: Registered::All,
        }
    }

    /// Limits the group versions in the components to those in the document of a resource.
    pub(super) fn only_for(mut self, resource: &Resource<'_>) -> Self {
        self.registered = match resource.schema {
            Some(_) => Registered::Extensions,
            None => Registered::Own(resource.group.to_owned(), resource.version.to_owned()),
        };
        self
    }

    pub(super) fn into_schemas(self) -> Map<String, Value> {
        self.schemas.into_iter().collect()
    }

    /// Returns the components and the paths of a document, with the names of types in its version.
    pub(super) fn finish(self, mut paths: Map<String, Value>) -> (Map<String, Value>, Map<String, Value>) {
        let Some(beta) = self.beta else {
            return (self.into_schemas(), paths);
        };
        let renamed = self.schemas.into_iter().map(|(name, mut schema)| {
            beta.rename_references(&mut schema);
            (beta.name(&name).unwrap_or(name), schema)
        });
        let schemas = renamed.collect();
        paths.values_mut().for_each(|item| beta.rename_references(item));
        (schemas, paths)
    }

    /// Adds all components that a resource's operations refer to.
    pub(super) fn add_resource(&mut self, resource: &Resource<'_>) -> Names {
        self.beta = Beta::of(resource);
        let is_custom = resource.schema.is_some();
        let has = |verb| is_custom || resource.verbs.contains(&verb);
        let is_deleted = has("delete") || has("deletecollection");
        let used = [
            ("Status", is_deleted),
            ("DeleteOptions", is_deleted),
            ("Patch", has("patch")),
            ("WatchEvent", !is_custom && has("watch")),
            ("APIResourceList", !is_custom),
        ];
        for (kind, _) in used.into_iter().filter(|(_, is_used)| *is_used) {
            self.add_named(&format!("{META}.{kind}"));
        }
        let (object, list) = match resource.schema {
            Some(schema) => self.add_custom(resource, schema),
            None => self.add_built_in(resource),
        };
        let body = |components: &mut Self, group: &str, version: &str, kind: &str| {
            let name = component_name(group, version, kind);
            components.add_named(&name);
            name
        };
        let subresources = resource
            .subresources
            .iter()
            .map(|sub| match (sub.group, sub.version, sub.kind) {
                own if own == (resource.group, resource.version, resource.kind) => object.clone(),
                (group, version, kind) => body(self, group, version, kind),
            })
            .collect();
        Names {
            object,
            list,
            subresources,
        }
    }

    fn add_built_in(&mut self, resource: &Resource<'_>) -> (String, String) {
        let object = component_name(resource.group, resource.version, resource.kind);
        let list = format!("{object}List");
        self.add_named(&object);
        if resource.verbs.contains(&"list") {
            self.add_named(&list);
        }
        (object, list)
    }

    fn add_custom(&mut self, resource: &Resource<'_>, schema: &Value) -> (String, String) {
        let object = component_name(resource.group, resource.version, resource.kind);
        let list = format!("{object}List");
        self.add_named(&format!("{META}.ObjectMeta"));
        self.add_named(&format!("{META}.ListMeta"));
        let selectable: Vec<Value> = resource
            .selectable
            .iter()
            .map(|path| json!({"fieldPath": path.trim_start_matches('.')}))
            .collect();
        let with_selectable = |mut schema: Value| {
            if !selectable.is_empty() {
                schema["x-kubernetes-selectable-fields"] = selectable.clone().into();
            }
            schema
        };
        let object_schema = with_selectable(custom_object(resource, schema, self.descriptions));
        self.schemas.insert(object.clone(), object_schema);
        let list_schema = with_selectable(custom_list(resource, &object, self.descriptions));
        self.schemas.insert(list.clone(), list_schema);
        (object, list)
    }

    /// Adds a schema that is not in the table of built-in types, with its descriptions and the types that it refers to.
    pub(super) fn add_schema(&mut self, name: &str, mut schema: Value) {
        let descriptions = self.descriptions;
        if let Some(schema) = schema.as_object_mut() {
            describe(schema, descriptions.of_type(name));
        }
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        for (field, property) in properties.into_iter().flatten() {
            let item = property
                .get("items")
                .and_then(|items| items.get("$ref")?.as_str());
            if let Some(item) = item.and_then(|item| item.strip_prefix(REFERENCE)) {
                self.add_named(item);
            }
            if let Some(property) = property.as_object_mut() {
                describe(property, descriptions.of_field(name, field));
            }
        }
        self.schemas.insert(name.to_owned(), schema);
    }

    /// Adds a built-in type and the types of its fields.
    pub(super) fn add_named(&mut self, name: &str) {
        if self.schemas.contains_key(name) {
            return;
        }
        let Some(found) = builtin::types().named(name) else {
            return;
        };
        self.schemas.insert(name.to_owned(), self.type_schema(found));
        for field in found.fields() {
            self.add_references(&field.kind);
            if let Some(any) = any_type(found, field) {
                self.add_named(&any);
            }
        }
    }

    /// Returns the schema of a built-in type.
    fn type_schema(&self, found: &Type) -> Value {
        let descriptions = self.descriptions;
        let own_name = self.beta.as_ref().and_then(|beta| beta.name(&found.name));
        let name = own_name.as_ref().unwrap_or(&found.name);
        let mut schema = Map::new();
        describe(&mut schema, descriptions.of_type(name));
        match &found.special {
            Some(kind) => {
                if let Value::Object(special) = plain_schema(kind) {
                    schema.extend(special);
                }
            }
            None => {
                schema.insert("type".to_owned(), "object".into());
            }
        }
        if !found.fields().is_empty() {
            let properties: Map<String, Value> = found
                .fields()
                .iter()
                .map(|field| {
                    let mut schema = field_schema(field);
                    if let Some(any) = any_type(found, field) {
                        refer(&mut schema, &field.kind, &reference(&any));
                    }
                    describe(&mut schema, descriptions.of_field(name, field.name));
                    (field.name.to_owned(), without_all_of(schema))
                })
                .collect();
            schema.insert("properties".to_owned(), Value::Object(properties));
        }
        if !found.required.is_empty() {
            schema.insert("required".to_owned(), json!(found.required));
        }
        if found.atomic {
            schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
        let union = UNIONS.iter().find(|(name, ..)| *name == found.name);
        if let Some((_, discriminator, fields)) = union {
            let fields: Map<String, Value> = fields
                .iter()
                .map(|(field, value)| ((*field).to_owned(), (*value).into()))
                .collect();
            let mut union = json!({"fields-to-discriminateBy": fields});
            if !discriminator.is_empty() {
                union["discriminator"] = (*discriminator).into();
            }
            schema.insert("x-kubernetes-unions".to_owned(), json!([union]));
        }
        let everywhere = EVERYWHERE.iter().find(|kind| {
            found
                .name
                .strip_prefix(META)
                .and_then(|rest| rest.strip_prefix('.'))
                == Some(**kind)
        });
        if let Some(kind) = everywhere {
            let kinds = self.registered(kind);
            schema.insert("x-kubernetes-group-version-kind".to_owned(), kinds);
        } else if !found.kinds.is_empty() {
            let version = |version| match &self.beta {
                Some(beta) if own_name.is_some() => beta.version.as_str(),
                _ => version,
            };
            let kinds: Vec<Value> = found
                .kinds
                .iter()
                .map(|(g, v, k)| kind_extension(g, version(v), k))
                .collect();
            schema.insert("x-kubernetes-group-version-kind".to_owned(), Value::Array(kinds));
        }
        Value::Object(schema)
    }

    /// Returns a kind that every group version has, in those that the document is about.
    fn registered(&self, kind: &str) -> Value {
        let all = GROUP_VERSIONS
            .iter()
            .flat_map(|(group, versions)| versions.iter().map(move |version| (*group, *version)));
        let is_included = |(group, version): &(&str, &str)| match &self.registered {
            Registered::All => true,
            Registered::Extensions => !NOT_IN_EXTENSIONS.contains(group),
            Registered::Own(own, own_version) => group.is_empty() || (own == group && own_version == version),
        };
        all.filter(is_included)
            .map(|(group, version)| kind_extension(group, version, kind))
            .collect()
    }

    fn add_references(&mut self, kind: &FieldKind) {
        match kind {
            FieldKind::Ref(id) => self.add_named(&id.resolve().name),
            FieldKind::List(item) | FieldKind::Map(item) => self.add_references(item),
            other => {
                if let Some(name) = special_name(other) {
                    self.add_named(name);
                }
            }
        }
    }
}

pub(super) fn kind_extension(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// Returns the component of a field that can have any value.
fn any_type(of: &Type, field: &Field) -> Option<String> {
    let name = of.name.strip_prefix(DEFINITIONS)?.strip_prefix('.')?;
    let (_, any) = ANY_FIELDS.iter().find(|(known, _)| *known == field.name)?;
    (name == "JSONSchemaProps").then(|| format!("{DEFINITIONS}.{any}"))
}

/// Makes a schema refer to a component: itself, or the items of a list or the values of a map.
fn refer(schema: &mut Map<String, Value>, kind: &FieldKind, reference: &Value) {
    let (keyword, value) = match kind {
        FieldKind::List(_) => ("items", reference.clone()),
        FieldKind::Map(_) => ("additionalProperties", reference.clone()),
        _ => ("allOf", json!([reference])),
    };
    schema.insert(keyword.to_owned(), value);
}

/// Returns the schema of a field as a plain reference if it has no other keyword.
fn without_all_of(schema: Map<String, Value>) -> Value {
    match schema.get("allOf").and_then(|all| all.get(0)) {
        Some(only) if schema.len() == 1 => only.clone(),
        _ => Value::Object(schema),
    }
}

fn field_schema(field: &Field) -> Map<String, Value> {
    let mut schema = Map::new();
    match kind_schema(&field.kind) {
        // Keywords beside a `$ref` are ignored in OpenAPI 3.0.
        Value::Object(reference) if reference.contains_key("$ref") => {
            schema.insert("allOf".to_owned(), json!([reference]));
        }
        Value::Object(plain) => schema.extend(plain),
        _ => {}
    }
    if !field.values.is_empty() {
        let values = json!(field.values);
        let part = match &field.kind {
            FieldKind::Map(_) => "additionalProperties",
            _ => "items",
        };
        match schema.get_mut(part).and_then(Value::as_object_mut) {
            Some(items) => items.insert("enum".to_owned(), values),
            None => schema.insert("enum".to_owned(), values),
        };
    }
    schema.extend(merge_keywords(field));
    schema
}

fn describe(schema: &mut Map<String, Value>, description: Option<&str>) {
    if let Some(text) = description {
        schema.insert("description".to_owned(), text.into());
    }
}

/// Returns the keywords of a field for defaults, list types, map types and patches.
fn merge_keywords(field: &Field) -> Map<String, Value> {
    let list_type = field.list_type.map(|list_type| match list_type {
        ListType::Atomic => "atomic",
        ListType::Set => "set",
        ListType::Map => "map",
    });
    let map_type = field.map_type.map(|map_type| match map_type {
        MapType::Atomic => "atomic",
        MapType::Granular => "granular",
    });
    let keys = (!field.list_map_keys.is_empty()).then(|| json!(field.list_map_keys));
    [
        ("default", field.default.clone()),
        ("x-kubernetes-list-type", list_type.map(Value::from)),
        ("x-kubernetes-list-map-keys", keys),
        ("x-kubernetes-map-type", map_type.map(Value::from)),
        (
            "x-kubernetes-patch-strategy",
            field.patch_strategy.map(Value::from),
        ),
        (
            "x-kubernetes-patch-merge-key",
            field.patch_merge_key.map(Value::from),
        ),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

/// Returns the component of a type that has its own format.
fn special_name(kind: &FieldKind) -> Option<&'static str> {
    match kind {
        FieldKind::IntOrString => Some("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
        FieldKind::Quantity => Some(QUANTITY),
        FieldKind::Time => Some("io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
        FieldKind::MicroTime => Some("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"),
        FieldKind::Object => Some("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"),
        FieldKind::Raw => Some("io.k8s.apimachinery.pkg.runtime.RawExtension"),
        _ => None,
    }
}

fn kind_schema(kind: &FieldKind) -> Value {
    special_name(kind).map_or_else(|| plain_schema(kind), reference)
}

/// Returns the schema of a kind without a reference to a type that has its own format.
fn plain_schema(kind: &FieldKind) -> Value {
    match kind {
        FieldKind::String => json!({"type": "string"}),
        FieldKind::Bytes => json!({"type": "string", "format": "byte"}),
        FieldKind::Boolean => json!({"type": "boolean"}),
        FieldKind::Int32 => json!({"type": "integer", "format": "int32"}),
        FieldKind::Int64 => json!({"type": "integer", "format": "int64"}),
        FieldKind::Number => json!({"type": "number", "format": "double"}),
        FieldKind::IntOrString => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        FieldKind::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        FieldKind::Time | FieldKind::MicroTime => json!({"type": "string", "format": "date-time"}),
        FieldKind::Ref(id) => reference(&id.resolve().name),
        FieldKind::List(item) => json!({"type": "array", "items": kind_schema(item)}),
        FieldKind::Map(value) => json!({"type": "object", "additionalProperties": kind_schema(value)}),
        FieldKind::Object | FieldKind::Raw => json!({"type": "object"}),
        FieldKind::Any => json!({}),
    }
}

/// Returns a custom resource's schema, with the fields that every object has.
fn custom_object(resource: &Resource<'_>, schema: &Value, descriptions: &Descriptions) -> Value {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        let metadata = json!({"allOf": [meta_reference("ObjectMeta")]});
        let fields = [
            ("apiVersion", json!({"type": "string"})),
            ("kind", json!({"type": "string"})),
            ("metadata", metadata),
        ];
        for (name, field) in fields {
            properties.insert(name.to_owned(), described(field, descriptions.of_object(name)));
        }
    }
    schema.insert("type".to_owned(), "object".into());
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        complete(property, descriptions);
    }
    let kind = kind_extension(resource.group, resource.version, resource.kind);
    schema.insert("x-kubernetes-group-version-kind".to_owned(), json!([kind]));
    Value::Object(schema)
}

/// Adds the types of values that can be a number or a text, and the fields of embedded resources. Schemas nest at most as
/// deeply as CustomResourceDefinitions may.
fn complete(schema: &mut Value, descriptions: &Descriptions) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    let is_set = |fields: &Map<String, Value>, name| fields.get(name) == Some(&Value::Bool(true));
    if is_set(fields, "x-kubernetes-int-or-string") && !fields.contains_key("anyOf") {
        fields.insert(
            "anyOf".to_owned(),
            json!([{"type": "integer"}, {"type": "string"}]),
        );
    }
    let nested = ["items", "additionalProperties"];
    for name in nested {
        if let Some(schema) = fields.get_mut(name) {
            complete(schema, descriptions);
        }
    }
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        complete(property, descriptions);
    }
    if is_set(fields, "x-kubernetes-embedded-resource") {
        embed(fields, descriptions);
    }
}

/// Adds the fields that every object has to the schema of an embedded resource.
fn embed(fields: &mut Map<String, Value>, descriptions: &Descriptions) {
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        for name in ["apiVersion", "kind"] {
            let field = described(json!({"type": "string"}), descriptions.of_embedded(name));
            properties.insert(name.to_owned(), field);
        }
        let metadata = json!({"allOf": [meta_reference("ObjectMeta")]});
        let metadata = described(metadata, descriptions.of_object("metadata"));
        properties.insert("metadata".to_owned(), metadata);
    }
    let required = fields.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
    }
}

fn custom_list(resource: &Resource<'_>, object: &str, descriptions: &Descriptions) -> Value {
    let kind = kind_extension(
        resource.group,
        resource.version,
        &format!("{}List", resource.kind),
    );
    let field = |name: &str, schema: Value| described(schema, descriptions.of_list(name));
    let items = json!({"type": "array", "items": reference(object)});
    let about_items = format!("List of {}. More info: {CONVENTIONS}", resource.plural);
    let about = format!("{}List is a list of {}", resource.kind, resource.kind);
    let has_own = !descriptions.is_empty();
    let list = json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": field("apiVersion", json!({"type": "string"})),
            "kind": field("kind", json!({"type": "string"})),
            "metadata": field("metadata", json!({"allOf": [meta_reference("ListMeta")]})),
            "items": described(items, has_own.then_some(about_items.as_str())),
        },
        "x-kubernetes-group-version-kind": [kind],
    });
    described(list, has_own.then_some(about.as_str()))
}

fn described(mut schema: Value, description: Option<&str>) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        describe(schema, description);
    }
    schema
}
