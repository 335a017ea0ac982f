//! Maps fields of a definition's schema to Rust types, and finds types that a definition cannot express.
//!
//! The input is the schema of the types themselves, with one definition in `$defs` for each type, before kube's derive
//! inlines and rewrites it for the API server.

use serde_json::{Map, Value};

use crate::operator::TypeSchema;

/// A field of a type, a variant of an enum, or a complete type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    /// The name of the type in the schema, which is the Rust name unless an attribute renames it.
    pub type_name: String,
    /// The JSON name of the field.
    pub name: Option<String>,
}

/// A type that the API server rejects, or accepts with another meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// True if the API server rejects it.
    pub is_error: bool,
    /// The kind of finding, such as `tagged-enum`.
    pub rule: &'static str,
    /// The location of the finding.
    pub field: Field,
    /// The problem.
    pub message: &'static str,
    /// The recommended replacement.
    pub fix: &'static str,
}

/// The prefix of references to types.
const DEFINITIONS: &str = "#/$defs/";

/// Returns the fields on a path in a definition, from the kind inwards.
///
/// ```
/// use operator_manifests::{operator::TypeSchema, types::fields_at};
/// use serde_json::json;
///
/// let types = TypeSchema {
///     type_name: "my_operator::Memcached".into(),
///     schema: json!({
///         "properties": {"spec": {"$ref": "#/$defs/MemcachedSpec"}},
///         "$defs": {"MemcachedSpec": {"properties": {"size": {"type": "integer"}}}},
///     }),
///     ..TypeSchema::default()
/// };
/// let fields = fields_at(&types, "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[size].format");
/// assert_eq!(fields[1].to_string(), "MemcachedSpec.size");
/// ```
pub fn fields_at(types: &TypeSchema, path: &str) -> Vec<Field> {
    let inner = path
        .split_once("openAPIV3Schema")
        .map_or(path, |(_, inner)| inner);
    let mut at = Node {
        type_name: types.name(),
        schema: &types.schema,
    };
    let mut fields = Vec::new();
    for step in inner.split('.').filter(|step| !step.is_empty()) {
        let next = match step.split_once('[') {
            Some(("properties", name)) => {
                let name = name.trim_end_matches(']');
                let found = at.property(types, name);
                if let Some((owner, _)) = &found {
                    fields.push(Field {
                        type_name: (*owner).to_owned(),
                        name: Some(name.to_owned()),
                    });
                }
                found.map(|(_, node)| node)
            }
            Some(_) => continue,
            None if step == "items" => at.inner("items", types),
            None if step == "additionalProperties" => at.inner("additionalProperties", types),
            None => continue,
        };
        match next {
            Some(node) => at = node,
            None => break,
        }
    }
    fields
}

/// Returns the findings about the types of a kind, each type once. Types of Kubernetes itself are skipped.
pub fn lint(types: &TypeSchema) -> Vec<Finding> {
    let mut findings = Vec::new();
    let definitions = types.schema.get("$defs").and_then(Value::as_object);
    let root = types.name();
    let own = definitions
        .into_iter()
        .flatten()
        .filter(|(name, _)| !name.starts_with("io.k8s."))
        .map(|(name, schema)| (name.as_str(), schema));
    for (name, schema) in std::iter::once((root, &types.schema)).chain(own) {
        let whole = Field {
            type_name: name.to_owned(),
            name: None,
        };
        lint_type(schema, &whole, &mut findings);
        if types.leads_to_itself(name) {
            findings.push(RECURSIVE.at(&whole));
        }
        each_field(schema, &mut |field, schema| {
            let field = Field {
                name: Some(field.to_owned()),
                ..whole.clone()
            };
            lint_field(schema, &field, &mut findings);
        });
    }
    findings
}

/// A finding without a location.
struct Rule {
    is_error: bool,
    name: &'static str,
    message: &'static str,
    fix: &'static str,
}

const INTERNALLY_TAGGED: Rule = Rule {
    is_error: true,
    name: "tagged-enum",
    message: "an enum with the name of its variant inside, `#[serde(tag = ...)]`, has no structural schema: its variants \
              would give one field several values",
    fix: "remove the `tag`, so that each variant becomes a separate field; or write a struct with an enum of plain names \
          as `type` and an `Option` for the data of each variant",
};
const ADJACENTLY_TAGGED: Rule = Rule {
    name: "tagged-enum",
    message: "an enum with `#[serde(tag = ..., content = ...)]` has no structural schema: its content would have several \
              types",
    ..INTERNALLY_TAGGED
};
const MIXED: Rule = Rule {
    is_error: true,
    name: "mixed-enum",
    message: "an enum in which some variants hold data and others are plain names has no structural schema: it would be \
              an object and a string",
    fix: "give the plain variants braces, as in `Memory {}`, so that all are objects",
};
const UNTAGGED: Rule = Rule {
    is_error: true,
    name: "untagged-enum",
    message: "an `#[serde(untagged)]` enum of values other than objects has no structural schema: a schema has one type",
    fix: "use `IntOrString` of k8s-openapi for a number or a string, or a struct with an `Option` for each form",
};
const RECURSIVE: Rule = Rule {
    is_error: true,
    name: "recursive-type",
    message: "the type contains itself, and a structural schema must end somewhere",
    fix: "hold the inner values as names of other objects, or as `serde_json::Value` with `#[schemars(schema_with = ...)]` \
          that says `x-kubernetes-preserve-unknown-fields`",
};
const TUPLE: Rule = Rule {
    is_error: true,
    name: "tuple",
    message: "a tuple has a type for each position, but all items in a structural schema have the same type",
    fix: "write a struct with a name for each position",
};
const MAP_KEYS: Rule = Rule {
    is_error: true,
    name: "map-key",
    message: "the keys of a map are strings in JSON: keys of other types become `patternProperties`, which a structural \
              schema cannot contain",
    fix: "use `String` as the key, or a list of structs with the key as a field and `x-kubernetes-list-type: map`",
};
const ANY: Rule = Rule {
    is_error: true,
    name: "any-value",
    message: "a value of any type has a schema without a type, which the API server rejects",
    fix: "use a specific type; or `#[schemars(extend(\"x-kubernetes-preserve-unknown-fields\" = true))]` to accept any value",
};
const UNIT: Rule = Rule {
    is_error: true,
    name: "unit",
    message: "`()` is always null, which a structural schema cannot express",
    fix: "remove the field, or use an empty struct",
};
const FLATTENED_MAP: Rule = Rule {
    is_error: true,
    name: "flattened-map",
    message: "`#[serde(flatten)]` of a map allows fields of any name in addition to the known ones, which a structural \
              schema cannot express",
    fix: "remove `flatten`, so that the map becomes a separate field",
};
const LARGE: Rule = Rule {
    is_error: false,
    name: "large-integer",
    message: "numbers over 9223372036854775807 are rejected: the largest format that a server knows is int64",
    fix: "use `i64` or `u32`; or a `String` if the numbers can be that large",
};

fn lint_type(schema: &Value, field: &Field, findings: &mut Vec<Finding>) {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(variants) = list("oneOf") {
        findings.extend(enum_rule(variants).map(|rule| rule.at(field)));
    }
    if let Some(variants) = list("anyOf") {
        let scalar = |variant: &&Value| {
            let kind = variant.get("type").and_then(Value::as_str);
            kind.is_some_and(|kind| kind != "object" && kind != "null")
        };
        if variants.iter().any(|variant| scalar(&variant)) && !is_optional(variants) {
            findings.push(UNTAGGED.at(field));
        }
    }
    let known = schema.get("properties").and_then(Value::as_object);
    let open = schema.get("additionalProperties");
    if known.is_some_and(|known| !known.is_empty()) && open.is_some_and(|open| *open != false) {
        findings.push(FLATTENED_MAP.at(field));
    }
}

/// Returns true if the variants are those of a nullable type, as `Option` generates it.
fn is_optional(variants: &[Value]) -> bool {
    variants.len() == 2 && variants.iter().any(|variant| variant["type"] == "null")
}

/// Returns the findings about the variants of an enum.
fn enum_rule(variants: &[Value]) -> Option<Rule> {
    let properties = |variant: &Value| variant.get("properties").and_then(Value::as_object).cloned();
    let objects: Vec<Map<String, Value>> = variants.iter().filter_map(properties).collect();
    if objects.is_empty() {
        return None;
    }
    if objects.len() < variants.len() {
        return Some(MIXED);
    }
    let tag = objects.first()?.iter().find(|(name, value)| {
        value.get("const").is_some()
            && objects.iter().all(|object| {
                object
                    .get(*name)
                    .is_some_and(|value| value.get("const").is_some())
            })
    });
    let (tag, _) = tag?;
    let mut contents: Vec<&String> = objects
        .iter()
        .flat_map(Map::keys)
        .filter(|name| *name != tag)
        .collect();
    let held = contents.len();
    contents.dedup();
    match contents.len() == 1 && held > 1 {
        true => Some(ADJACENTLY_TAGGED),
        false => Some(INTERNALLY_TAGGED),
    }
}

fn lint_field(schema: &Value, field: &Field, findings: &mut Vec<Finding>) {
    let Some(node) = schema.as_object() else {
        if *schema == true {
            findings.push(ANY.at(field));
        }
        return;
    };
    let typed = |word: &str| node.get("type").is_some_and(|kind| kind == word);
    let says_nothing = node
        .keys()
        .all(|key| matches!(key.as_str(), "description" | "title" | "default"));
    let rule = if says_nothing {
        ANY
    } else if node.contains_key("prefixItems") {
        TUPLE
    } else if node.contains_key("patternProperties") {
        MAP_KEYS
    } else if typed("null") {
        UNIT
    } else if is_large(node) {
        LARGE
    } else {
        for inner in ["items", "additionalProperties"] {
            if let Some(inner) = node.get(inner).filter(|inner| inner.is_object()) {
                lint_field(inner, field, findings);
            }
        }
        return;
    };
    findings.push(rule.at(field));
}

fn is_large(node: &Map<String, Value>) -> bool {
    let format = node.get("format").and_then(Value::as_str);
    let maximum = node.get("maximum").and_then(Value::as_f64);
    format.is_some_and(|format| ["uint64", "uint", "uint128", "int128"].contains(&format))
        && maximum.is_none_or(|maximum| maximum > 9.3e18)
}

/// Calls `visit` for each field of a type, including those of the variants of an enum.
fn each_field(schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        visit(name, schema);
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        let variants = schema.get(key).and_then(Value::as_array);
        for variant in variants.into_iter().flatten() {
            each_field(variant, visit);
        }
    }
}

// === impl Rule ===

impl Rule {
    fn at(&self, field: &Field) -> Finding {
        Finding {
            is_error: self.is_error,
            rule: self.name,
            field: field.clone(),
            message: self.message,
            fix: self.fix,
        }
    }
}

// === impl TypeSchema ===

impl TypeSchema {
    /// Returns the name of the type of the kind, without its path.
    pub fn name(&self) -> &str {
        let name = self.type_name.rsplit("::").next();
        name.unwrap_or(&self.type_name)
    }

    /// Returns the names of the types in the schema, that of the kind first.
    pub fn type_names(&self) -> impl Iterator<Item = &str> {
        let definitions = self.schema.get("$defs").and_then(Value::as_object);
        let names = definitions.into_iter().flatten().map(|(name, _)| name.as_str());
        std::iter::once(self.name()).chain(names)
    }

    fn definition<'a>(&'a self, reference: &'a str) -> Option<(&'a str, &'a Value)> {
        let name = reference.strip_prefix(DEFINITIONS)?;
        Some((name, self.schema.get("$defs")?.get(name)?))
    }

    /// Returns true if a type contains itself, directly or through other types.
    fn leads_to_itself(&self, name: &str) -> bool {
        let mut open = vec![name];
        let mut seen: Vec<&str> = Vec::new();
        while let Some(next) = open.pop() {
            let schema = self.schema.get("$defs").and_then(|all| all.get(next));
            let mut references = Vec::new();
            if let Some(schema) = schema {
                collect_references(schema, &mut references);
            }
            for reference in references {
                if reference == name {
                    return true;
                }
                if !seen.contains(&reference) {
                    seen.push(reference);
                    open.push(reference);
                }
            }
        }
        false
    }
}

fn collect_references<'a>(schema: &'a Value, references: &mut Vec<&'a str>) {
    match schema {
        Value::Object(node) => {
            let reference = node.get("$ref").and_then(Value::as_str);
            references.extend(reference.and_then(|reference| reference.strip_prefix(DEFINITIONS)));
            node.values()
                .for_each(|inner| collect_references(inner, references));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|inner| collect_references(inner, references)),
        _ => {}
    }
}

/// A schema and the type that it belongs to.
#[derive(Clone, Copy)]
struct Node<'a> {
    type_name: &'a str,
    schema: &'a Value,
}

// === impl Node ===

impl<'a> Node<'a> {
    /// Follows references, and unwraps `Option`.
    fn resolved(self, types: &'a TypeSchema) -> Self {
        let mut node = self;
        // Limits the number of steps, because references may form a cycle.
        for _ in 0..64 {
            let reference = node.schema.get("$ref").and_then(Value::as_str);
            if let Some((type_name, schema)) = reference.and_then(|reference| types.definition(reference)) {
                node = Node { type_name, schema };
                continue;
            }
            let variants = node.schema.get("anyOf").and_then(Value::as_array);
            let Some(variants) = variants.filter(|variants| is_optional(variants)) else {
                break;
            };
            let Some(schema) = variants.iter().find(|variant| variant["type"] != "null") else {
                break;
            };
            node = Node { schema, ..node };
        }
        node
    }

    /// Returns a property and the type that declares it: that of the schema, of a variant of an enum, or of a flattened
    /// type.
    fn property(self, types: &'a TypeSchema, name: &str) -> Option<(&'a str, Self)> {
        let node = self.resolved(types);
        if let Some(schema) = node.schema.get("properties").and_then(|all| all.get(name)) {
            let inner = Node { schema, ..node };
            return Some((node.type_name, inner));
        }
        ["oneOf", "anyOf", "allOf"].into_iter().find_map(|key| {
            let variants = node.schema.get(key).and_then(Value::as_array)?;
            variants
                .iter()
                .find_map(|schema| Node { schema, ..node }.property(types, name))
        })
    }

    fn inner(self, key: &str, types: &'a TypeSchema) -> Option<Self> {
        let node = self.resolved(types);
        let schema = node.schema.get(key)?;
        Some(Node { schema, ..node })
    }
}

// === impl Field ===

impl std::fmt::Display for Field {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(formatter, "{}.{name}", self.type_name),
            None => formatter.write_str(&self.type_name),
        }
    }
}
