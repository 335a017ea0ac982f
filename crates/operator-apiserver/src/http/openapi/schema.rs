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

/// The components of one document, by name.
#[derive(Debug)]
pub(super) struct Components<'d> {
    schemas: BTreeMap<String, Value>,
    descriptions: &'d Descriptions,
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
        }
    }

    pub(super) fn into_json(self) -> Value {
        Value::Object(self.schemas.into_iter().collect())
    }

    /// Adds all components that a resource's operations refer to.
    pub(super) fn add_resource(&mut self, resource: &Resource<'_>) -> Names {
        for kind in ["Status", "DeleteOptions", "Patch"] {
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
        self.add_named(&list);
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
        self.schemas
            .insert(name.to_owned(), type_schema(found, self.descriptions));
        for field in found.fields() {
            self.add_references(&field.kind);
        }
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

/// Returns the schema of a built-in type.
fn type_schema(found: &Type, descriptions: &Descriptions) -> Value {
    let mut schema = Map::new();
    describe(&mut schema, descriptions.of_type(&found.name));
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
                describe(&mut schema, descriptions.of_field(&found.name, field.name));
                (field.name.to_owned(), Value::Object(schema))
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
    if !found.kinds.is_empty() {
        let kinds: Vec<Value> = found
            .kinds
            .iter()
            .map(|(g, v, k)| kind_extension(g, v, k))
            .collect();
        schema.insert("x-kubernetes-group-version-kind".to_owned(), Value::Array(kinds));
    }
    Value::Object(schema)
}

pub(super) fn kind_extension(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
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
    let kind = kind_extension(resource.group, resource.version, resource.kind);
    schema.insert("x-kubernetes-group-version-kind".to_owned(), json!([kind]));
    Value::Object(schema)
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
