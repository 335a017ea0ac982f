//! A schema as a tree ([`Node`]) with all keywords of `JSONSchemaProps`, parsed once from JSON.

use std::collections::BTreeMap;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::go;
use kubernetes_cel::regexp::{Patterns, Regexp};
use serde_json::{Map, Value};

use crate::format;

/// The maximum depth of a schema. It is limited because all functions on schemas are recursive.
pub const MAX_DEPTH: usize = 256;

/// One schema, which corresponds to `JSONSchemaProps`. Fields have the names of the keywords unless noted.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// `type`; empty if absent.
    pub kind: String,
    /// `format` as written.
    pub format: String,
    /// `title`.
    pub title: String,
    /// `description`.
    pub description: String,
    /// `nullable`.
    pub nullable: bool,
    /// `default`; `null` counts as absent, as in the API server.
    pub default: Option<Value>,
    /// `properties`.
    pub properties: BTreeMap<String, Node>,
    /// The names of the properties that have a default.
    pub(crate) defaulted: Vec<String>,
    /// `additionalProperties`.
    pub additional_properties: Option<AdditionalProperties>,
    /// `items`, if it is a single schema.
    pub items: Option<Box<Node>>,
    /// `required`, in the schema's order.
    pub required: Vec<String>,
    /// `enum`; empty if absent.
    pub allowed: Vec<Value>,
    /// `pattern`.
    pub pattern: Option<Pattern>,
    /// `minimum` and its `exclusiveMinimum`.
    pub minimum: Option<Bound>,
    /// `maximum` and its `exclusiveMaximum`.
    pub maximum: Option<Bound>,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `minLength`.
    pub min_length: Option<i64>,
    /// `maxLength`.
    pub max_length: Option<i64>,
    /// `minItems`.
    pub min_items: Option<i64>,
    /// `maxItems`.
    pub max_items: Option<i64>,
    /// `minProperties`.
    pub min_properties: Option<i64>,
    /// `maxProperties`.
    pub max_properties: Option<i64>,
    /// `uniqueItems`.
    pub unique_items: bool,
    /// `allOf`.
    pub all_of: Vec<Node>,
    /// `anyOf`.
    pub any_of: Vec<Node>,
    /// `oneOf`.
    pub one_of: Vec<Node>,
    /// `not`.
    pub not: Option<Box<Node>>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown_fields: Option<bool>,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<String>,
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type`.
    pub map_type: Option<String>,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// Keywords that are present although Kubernetes rejects them, such as `$ref`.
    pub unsupported: Option<Box<Unsupported>>,
    /// True if `externalDocs` or `example` is present.
    pub has_documents: bool,
    /// True if the schema has no keyword except `type`.
    pub is_bare: bool,
    /// True if this is an embedded resource, or has one below it.
    pub(crate) has_embedded: bool,
    /// True if this is a set or a map list, or has one below it.
    pub(crate) has_unique_items: bool,
}

/// The unsupported keywords of a schema. They are parsed because they are validated, too.
#[derive(Clone, Debug, Default)]
pub struct Unsupported {
    /// The names of the keywords, in the order in which they are rejected. `items` means a list of schemas.
    pub keywords: Vec<&'static str>,
    /// `definitions`.
    pub definitions: BTreeMap<String, Node>,
    /// The `dependencies` whose values are schemas.
    pub dependencies: BTreeMap<String, Node>,
    /// `items`, if it is a list of schemas.
    pub items: Vec<Node>,
    /// The first keyword that has no structural form.
    obstacle: Option<&'static str>,
}

/// `additionalProperties`: a schema or a boolean.
#[derive(Clone, Debug)]
pub enum AdditionalProperties {
    /// `true` or `false`.
    Allowed(bool),
    /// All other properties must match this schema.
    Schema(Box<Node>),
}

/// `minimum` or `maximum`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The limit.
    pub value: f64,
    /// True if the limit itself is excluded.
    pub exclusive: bool,
}

/// A `pattern`, which is compiled once.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The text of the pattern.
    pub source: String,
    /// The compiled program, or the error of the compilation.
    pub(crate) program: Result<Regexp, String>,
}

/// One rule of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// The CEL expression.
    pub rule: String,
    /// The message of a failed rule.
    pub message: String,
    /// A CEL expression that computes the message.
    pub message_expression: String,
    /// The reason, such as `FieldValueInvalid`.
    pub reason: Option<String>,
    /// The path of the error, relative to the schema.
    pub field_path: String,
    /// True if `oldSelf` is an optional value.
    pub optional_old_self: Option<bool>,
}

/// Keywords that are parsed, but always forbidden in a CRD.
const UNSUPPORTED: &[&str] = &[
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
];

/// Keywords that are forbidden in a structural schema, in the order of the checks.
const NOT_STRUCTURAL: &[(&str, &str)] = &[
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
];

/// Parses a schema.
///
/// # Errors
/// Returns an error for each keyword whose value has a wrong type.
pub fn parse(value: &Value) -> Result<Node, ErrorList> {
    let mut errors = ErrorList::new();
    let mut parser = Parser {
        errors: &mut errors,
        patterns: Patterns::default(),
    };
    let node = parser.node(value, &Path::default(), 0);
    if errors.is_empty() { Ok(node) } else { Err(errors) }
}

struct Parser<'a> {
    errors: &'a mut ErrorList,
    patterns: Patterns,
}

impl Parser<'_> {
    fn node(&mut self, value: &Value, path: &Path, depth: usize) -> Node {
        let Some(map) = value.as_object() else {
            self.errors.push(Error::type_invalid(
                path.clone(),
                value,
                "must be a schema object",
            ));
            return Node::default();
        };
        if depth > MAX_DEPTH {
            let detail = format!("schemas may not be nested deeper than {MAX_DEPTH} levels");
            self.errors.push(Error::new(
                apimachinery::field::ErrorType::Invalid,
                path.clone(),
                detail,
            ));
            return Node::default();
        }
        let mut node = Node::default();
        self.scalars(&mut node, map, path);
        self.children(&mut node, map, path, depth + 1);
        node.rules = self.rules(map, path);
        node.has_documents = ["externalDocs", "example"]
            .iter()
            .any(|name| map.get(*name).is_some_and(|value| !value.is_null()));
        node.unsupported = self.unsupported(map, path, depth + 1);
        node.is_bare = map
            .iter()
            .all(|(name, value)| name == "type" || !is_present(Some(value)) || *value == Value::Bool(false));
        let is_unique = matches!(node.list_type.as_deref(), Some("set" | "map"));
        node.has_embedded = node.embedded_resource || node.parts().any(|part| part.has_embedded);
        node.has_unique_items = is_unique || node.parts().any(|part| part.has_unique_items);
        node
    }

    fn unsupported(
        &mut self,
        map: &Map<String, Value>,
        path: &Path,
        depth: usize,
    ) -> Option<Box<Unsupported>> {
        let is_refused = |keyword: &&str| match map.get(*keyword) {
            Some(Value::String(_)) if *keyword == "$ref" => true,
            value => is_present(value),
        };
        let mut found = Unsupported {
            keywords: UNSUPPORTED.iter().copied().filter(is_refused).collect(),
            definitions: self.node_map(map, "definitions", path, depth),
            dependencies: self.node_map(map, "dependencies", path, depth),
            obstacle: NOT_STRUCTURAL
                .iter()
                .find(|(keyword, _)| is_present(map.get(*keyword)))
                .map(|(_, shown)| *shown),
            items: Vec::new(),
        };
        if map.get("items").is_some_and(Value::is_array) {
            found.items = self.nodes(map, "items", path, depth);
        }
        if !found.items.is_empty() {
            found.keywords.push("items");
        }
        let is_something = !found.keywords.is_empty() || found.obstacle.is_some();
        is_something.then(|| Box::new(found))
    }

    /// Parses a map from names to schemas; skips other values.
    fn node_map(
        &mut self,
        map: &Map<String, Value>,
        name: &str,
        path: &Path,
        depth: usize,
    ) -> BTreeMap<String, Node> {
        let entries = map.get(name).and_then(Value::as_object).into_iter().flatten();
        let mut nodes = BTreeMap::new();
        for (key, value) in entries.filter(|(_, value)| value.is_object()) {
            nodes.insert(key.clone(), self.node(value, &path.child(name).key(key), depth));
        }
        nodes
    }

    fn scalars(&mut self, node: &mut Node, map: &Map<String, Value>, path: &Path) {
        node.kind = self.text(map, "type", path);
        node.format = self.text(map, "format", path);
        node.title = self.text(map, "title", path);
        node.description = self.text(map, "description", path);
        node.nullable = self.flag(map, "nullable", path).unwrap_or(false);
        node.default = map.get("default").filter(|value| !value.is_null()).cloned();
        node.required = self.texts(map, "required", path);
        node.allowed = map
            .get("enum")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        node.pattern = Some(self.text(map, "pattern", path))
            .filter(|pattern| !pattern.is_empty())
            .map(|source| Pattern {
                program: self.patterns.compile(&source),
                source,
            });
        node.minimum = self.bound(map, "minimum", "exclusiveMinimum", path);
        node.maximum = self.bound(map, "maximum", "exclusiveMaximum", path);
        node.multiple_of = self.number(map, "multipleOf", path);
        node.min_length = self.integer(map, "minLength", path);
        node.max_length = self.integer(map, "maxLength", path);
        node.min_items = self.integer(map, "minItems", path);
        node.max_items = self.integer(map, "maxItems", path);
        node.min_properties = self.integer(map, "minProperties", path);
        node.max_properties = self.integer(map, "maxProperties", path);
        node.unique_items = self.flag(map, "uniqueItems", path).unwrap_or(false);
        let extension = |name: &str| format!("x-kubernetes-{name}");
        node.preserve_unknown_fields = self.flag(map, &extension("preserve-unknown-fields"), path);
        node.embedded_resource = self
            .flag(map, &extension("embedded-resource"), path)
            .unwrap_or(false);
        node.int_or_string = self.flag(map, &extension("int-or-string"), path).unwrap_or(false);
        node.list_type = self.optional_text(map, &extension("list-type"), path);
        node.list_map_keys = self.texts(map, &extension("list-map-keys"), path);
        node.map_type = self.optional_text(map, &extension("map-type"), path);
    }

    fn children(&mut self, node: &mut Node, map: &Map<String, Value>, path: &Path, depth: usize) {
        if let Some(properties) = self.object(map, "properties", path) {
            for (name, value) in properties {
                let child = self.node(value, &path.child("properties").key(name), depth);
                if child.default.is_some() {
                    node.defaulted.push(name.clone());
                }
                node.properties.insert(name.clone(), child);
            }
        }
        node.additional_properties = match map.get("additionalProperties") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(allowed)) => Some(AdditionalProperties::Allowed(*allowed)),
            Some(value) => {
                let child = self.node(value, &path.child("additionalProperties"), depth);
                Some(AdditionalProperties::Schema(Box::new(child)))
            }
        };
        node.items = match map.get("items") {
            None | Some(Value::Null | Value::Array(_)) => None,
            Some(value) => Some(Box::new(self.node(value, &path.child("items"), depth))),
        };
        node.not = match map.get("not") {
            None | Some(Value::Null) => None,
            Some(value) => Some(Box::new(self.node(value, &path.child("not"), depth))),
        };
        node.all_of = self.nodes(map, "allOf", path, depth);
        node.any_of = self.nodes(map, "anyOf", path, depth);
        node.one_of = self.nodes(map, "oneOf", path, depth);
    }

    fn nodes(&mut self, map: &Map<String, Value>, name: &str, path: &Path, depth: usize) -> Vec<Node> {
        self.array(map, name, path)
            .iter()
            .enumerate()
            .map(|(index, value)| self.node(value, &path.child(name).index(index), depth))
            .collect()
    }

    fn rules(&mut self, map: &Map<String, Value>, path: &Path) -> Vec<Rule> {
        let name = "x-kubernetes-validations";
        let mut rules = Vec::new();
        for (index, value) in self.array(map, name, path).iter().enumerate() {
            let path = path.child(name).index(index);
            let Some(map) = value.as_object() else {
                self.errors
                    .push(Error::type_invalid(path, value, "must be an object"));
                continue;
            };
            rules.push(Rule {
                rule: self.text(map, "rule", &path),
                message: self.text(map, "message", &path),
                message_expression: self.text(map, "messageExpression", &path),
                reason: self.optional_text(map, "reason", &path),
                field_path: self.text(map, "fieldPath", &path),
                optional_old_self: self.flag(map, "optionalOldSelf", &path),
            });
        }
        rules
    }

    fn wrong(&mut self, path: &Path, name: &str, value: &Value, wanted: &str) {
        let detail = format!("must be {wanted}");
        self.errors
            .push(Error::type_invalid(path.child(name), value, detail));
    }

    fn text(&mut self, map: &Map<String, Value>, name: &str, path: &Path) -> String {
        self.optional_text(map, name, path).unwrap_or_default()
    }

    fn optional_text(&mut self, map: &Map<String, Value>, name: &str, path: &Path) -> Option<String> {
        match map.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => {
                self.wrong(path, name, other, "a string");
                None
            }
        }
    }

    fn flag(&mut self, map: &Map<String, Value>, name: &str, path: &Path) -> Option<bool> {
        match map.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::Bool(flag)) => Some(*flag),
            Some(other) => {
                self.wrong(path, name, other, "a boolean");
                None
            }
        }
    }

    fn number(&mut self, map: &Map<String, Value>, name: &str, path: &Path) -> Option<f64> {
        let value = map.get(name).filter(|value| !value.is_null())?;
        if !value.is_number() {
            self.wrong(path, name, value, "a number");
        }
        value.as_f64()
    }

    fn integer(&mut self, map: &Map<String, Value>, name: &str, path: &Path) -> Option<i64> {
        let value = map.get(name).filter(|value| !value.is_null())?;
        let whole = value.as_i64().or_else(|| go::whole(value.as_f64()?));
        if whole.is_none() {
            self.wrong(path, name, value, "an integer");
        }
        whole
    }

    fn bound(&mut self, map: &Map<String, Value>, name: &str, exclusive: &str, path: &Path) -> Option<Bound> {
        let exclusive = self.flag(map, exclusive, path).unwrap_or(false);
        let value = self.number(map, name, path)?;
        Some(Bound { value, exclusive })
    }

    fn array<'v>(&mut self, map: &'v Map<String, Value>, name: &str, path: &Path) -> &'v [Value] {
        match map.get(name) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.wrong(path, name, other, "an array");
                &[]
            }
        }
    }

    fn object<'v>(
        &mut self,
        map: &'v Map<String, Value>,
        name: &str,
        path: &Path,
    ) -> Option<&'v Map<String, Value>> {
        match map.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::Object(fields)) => Some(fields),
            Some(other) => {
                self.wrong(path, name, other, "an object");
                None
            }
        }
    }

    fn texts(&mut self, map: &Map<String, Value>, name: &str, path: &Path) -> Vec<String> {
        let mut texts = Vec::new();
        for (index, value) in self.array(map, name, path).iter().enumerate() {
            match value.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => {
                    let path = path.child(name).index(index);
                    self.errors
                        .push(Error::type_invalid(path, value, "must be a string"));
                }
            }
        }
        texts
    }
}

fn is_present(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(_) => true,
    }
}

impl Node {
    /// Returns true if unknown fields are kept.
    pub fn preserves_unknown_fields(&self) -> bool {
        self.preserve_unknown_fields == Some(true)
    }

    /// Returns the schema of `additionalProperties`, if it is a schema.
    pub fn additional_schema(&self) -> Option<&Node> {
        match &self.additional_properties {
            Some(AdditionalProperties::Schema(node)) => Some(node),
            _ => None,
        }
    }

    /// Returns the schemas of properties, of `additionalProperties` and of items.
    fn parts(&self) -> impl Iterator<Item = &Node> {
        let others = self.additional_schema().into_iter().chain(self.items.as_deref());
        self.properties.values().chain(others)
    }

    /// Returns the schema of a property, or else the schema of `additionalProperties`.
    pub fn property(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or_else(|| self.additional_schema())
    }

    /// Returns the types that a value may have; empty if all types are allowed.
    pub(crate) fn types(&self) -> &[&str] {
        if self.int_or_string {
            return &["integer", "string"];
        }
        match self.kind.as_str() {
            "string" => &["string"],
            "integer" => &["integer"],
            "number" => &["number"],
            "boolean" => &["boolean"],
            "object" => &["object"],
            "array" => &["array"],
            _ => &[],
        }
    }

    /// Returns the format if it is checked; unknown formats are ignored.
    pub(crate) fn checked_format(&self) -> &str {
        if format::is_recognized(&self.kind, &self.format) {
            &self.format
        } else {
            ""
        }
    }

    /// Returns the reason why this schema has no structural form.
    pub(crate) fn structural_obstacle(&self) -> Option<String> {
        let refused = self.unsupported.as_deref();
        if let Some(keyword) = refused.and_then(|refused| refused.obstacle) {
            return Some(format!("OpenAPIV3Schema '{keyword}' is not supported"));
        }
        let restrictions = self
            .not
            .as_deref()
            .into_iter()
            .chain(&self.all_of)
            .chain(&self.any_of)
            .chain(&self.one_of);
        if let Some(obstacle) = restrictions.into_iter().find_map(Self::structural_obstacle) {
            return Some(obstacle);
        }
        if self.preserve_unknown_fields == Some(false) {
            let detail = "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
            return Some(detail.to_owned());
        }
        if refused.is_some_and(|refused| !refused.items.is_empty()) {
            return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
        }
        let children = self
            .items
            .as_deref()
            .into_iter()
            .chain(self.properties.values())
            .chain(self.additional_schema());
        children.into_iter().find_map(Self::structural_obstacle)
    }

    /// Calls `visit` for every schema of the tree, starting with this one.
    pub fn walk<'n>(&'n self, visit: &mut dyn FnMut(&'n Node)) {
        visit(self);
        let lists = [&self.all_of, &self.any_of, &self.one_of];
        let nested = lists.into_iter().flatten();
        let single = [
            self.items.as_deref(),
            self.not.as_deref(),
            self.additional_schema(),
        ];
        for node in self
            .properties
            .values()
            .chain(nested)
            .chain(single.into_iter().flatten())
        {
            node.walk(visit);
        }
    }
}

impl kubernetes_cel::Schema for Node {
    fn kind(&self) -> &str {
        if self.int_or_string { "" } else { &self.kind }
    }

    fn format(&self) -> &str {
        &self.format
    }

    fn items(&self) -> Option<&dyn kubernetes_cel::Schema> {
        self.items.as_deref().map(|items| items as _)
    }

    fn property(&self, name: &str) -> Option<&dyn kubernetes_cel::Schema> {
        Self::property(self, name).map(|property| property as _)
    }

    fn is_map(&self) -> bool {
        self.additional_schema().is_some()
    }

    fn list_type(&self) -> Option<&str> {
        self.list_type.as_deref()
    }

    fn list_map_keys(&self) -> &[String] {
        &self.list_map_keys
    }
}
