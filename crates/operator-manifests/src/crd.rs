//! [`Crd`] completes a CustomResourceDefinition from kube's derive, so that it equals the output of controller-gen.
//!
//! A derived definition lacks `listKind`, `apiVersion`, `kind` and `metadata` at the root of its schema, has formats
//! that the API server does not know (`uint32`) and a title on every type, and lacks the rules of `metav1.Condition`.
//! [`Crd::complete`] corrects all of these.

use serde_json::{Map, Value, json};

/// Formats of unsigned and small integers, which OpenAPI does not know, and their replacements.
const INTEGER_FORMATS: [(&str, &str); 9] = [
    ("uint8", "int32"),
    ("uint16", "int32"),
    ("uint32", "int64"),
    ("uint64", "int64"),
    ("uint128", "int64"),
    ("uint", "int64"),
    ("int8", "int32"),
    ("int16", "int32"),
    ("int", "int64"),
];

const API_VERSION_DESCRIPTION: &str =
    "APIVersion defines the versioned schema of this representation of an object.
Servers should convert recognized schemas to the latest internal value, and
may reject unrecognized values.
More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";

const KIND_DESCRIPTION: &str = "Kind is a string value representing the REST resource this object represents.
Servers may infer this from the endpoint the client submits requests to.
Cannot be updated.
In CamelCase.
More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// A definition cannot be completed.
#[derive(Debug, thiserror::Error)]
#[error("a CustomResourceDefinition of the operator has no `{0}`")]
pub struct IncompleteCrd(&'static str);

/// The versions of a kind contradict each other.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The versions differ in a property that all versions of a kind share.
    #[error("the versions of {kind} differ in `{field}`: {left} and {right}; give their types the same")]
    Differs {
        /// The kind.
        kind: String,
        /// The field of the definition.
        field: &'static str,
        /// The value in the earlier versions.
        left: String,
        /// The value in the added version.
        right: String,
    },
    /// Not exactly one version is stored.
    #[error(
        "{kind} is stored in {}; write `storage = false` into the `kube` attribute of the types of all versions but one",
        if versions.is_empty() { "no version".to_owned() } else { versions.join(" and ") }
    )]
    Storage {
        /// The kind.
        kind: String,
        /// The stored versions.
        versions: Vec<String>,
    },
}

/// The properties that all versions of a kind share.
const COMMON: [(&str, &str); 5] = [
    ("/spec/group", "group"),
    ("/spec/names/kind", "kind"),
    ("/spec/names/plural", "plural"),
    ("/spec/names/singular", "singular"),
    ("/spec/scope", "scope"),
];

/// A complete CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq)]
pub struct Crd {
    group: String,
    plural: String,
    value: Value,
}

// === impl Crd ===

impl Crd {
    /// Completes a derived definition. `annotation` is added to it: its key and value name the tool that generated the
    /// file.
    ///
    /// # Errors
    /// Returns an error if the definition names no group, kind or plural.
    pub fn complete(mut value: Value, annotation: Option<(&str, &str)>) -> Result<Self, IncompleteCrd> {
        let text = |pointer: &str, what: &'static str| {
            let found = value.pointer(pointer).and_then(Value::as_str);
            found.map(str::to_owned).ok_or(IncompleteCrd(what))
        };
        let group = text("/spec/group", "spec.group")?;
        let kind = text("/spec/names/kind", "spec.names.kind")?;
        let plural = text("/spec/names/plural", "spec.names.plural")?;
        complete_metadata(&mut value, annotation);
        complete_names(&mut value, &kind);
        if let Some(versions) = value.pointer_mut("/spec/versions").and_then(Value::as_array_mut) {
            versions.sort_by_key(|version| version.get("name").and_then(Value::as_str).map(str::to_owned));
            for version in versions {
                complete_version(version, &kind, &plural);
            }
        }
        Ok(Self { group, plural, value })
    }

    /// Adds the versions of another definition of the same kind; an existing version is replaced.
    ///
    /// # Errors
    /// Returns an error if the two define different kinds, or differ in a shared property.
    pub fn join(&mut self, other: Self) -> Result<(), JoinError> {
        for (pointer, field) in COMMON {
            let (left, right) = (self.value.pointer(pointer), other.value.pointer(pointer));
            if left != right {
                let text = |value: Option<&Value>| value.map(ToString::to_string).unwrap_or_default();
                return Err(JoinError::Differs {
                    kind: self.kind().to_owned(),
                    field,
                    left: text(left),
                    right: text(right),
                });
            }
        }
        for list in ["shortNames", "categories"] {
            self.join_names(&other, list);
        }
        let mut versions = other.into_versions();
        let names: Vec<Value> = versions.iter().map(|version| version["name"].clone()).collect();
        if let Some(there) = self.versions_mut() {
            there.retain(|version| !names.contains(&version["name"]));
            there.append(&mut versions);
            there.sort_by_key(|version| version["name"].as_str().map(str::to_owned));
        }
        Ok(())
    }

    /// Checks that objects are stored in exactly one version.
    ///
    /// # Errors
    /// Returns an error if objects are stored in no version or in several.
    pub fn check_storage(&self) -> Result<(), JoinError> {
        let versions = self.value.pointer("/spec/versions").and_then(Value::as_array);
        let stored: Vec<String> = versions
            .into_iter()
            .flatten()
            .filter(|version| version["storage"] == true)
            .filter_map(|version| version["name"].as_str().map(str::to_owned))
            .collect();
        match stored.len() {
            1 => Ok(()),
            _ => Err(JoinError::Storage {
                kind: self.kind().to_owned(),
                versions: stored,
            }),
        }
    }

    /// Truncates descriptions to `limit` characters; 0 removes them. Without a limit they are kept, unless the
    /// definition would not fit into the `last-applied-configuration` annotation of `kubectl apply`. Returns the limit
    /// that was applied.
    pub fn shorten(&mut self, limit: Option<usize>) -> Option<usize> {
        if let Some(limit) = limit {
            shorten(&mut self.value, limit);
            return Some(limit);
        }
        let mut cut = None;
        for limit in SHORTER.into_iter().chain([0]) {
            if self.value.to_string().len() < APPLY_LIMIT {
                break;
            }
            shorten(&mut self.value, limit);
            cut = Some(limit);
        }
        cut
    }

    fn kind(&self) -> &str {
        let kind = self.value.pointer("/spec/names/kind");
        kind.and_then(Value::as_str).unwrap_or_default()
    }

    fn versions_mut(&mut self) -> Option<&mut Vec<Value>> {
        self.value.pointer_mut("/spec/versions")?.as_array_mut()
    }

    fn into_versions(mut self) -> Vec<Value> {
        self.versions_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Replaces short names or categories by the union of those of all versions.
    fn join_names(&mut self, other: &Self, list: &str) {
        let pointer = format!("/spec/names/{list}");
        let words = |crd: &Self| {
            let list = crd.value.pointer(&pointer).and_then(Value::as_array);
            list.cloned().unwrap_or_default()
        };
        let mut all = words(self);
        for word in words(other) {
            if !all.contains(&word) {
                all.push(word);
            }
        }
        if !all.is_empty() {
            self.value["spec"]["names"][list] = Value::Array(all);
        }
    }

    /// Returns the definition as a JSON tree.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the file name that controller-gen uses: `<group>_<plural>.yaml`.
    pub fn file_name(&self) -> String {
        format!("{}_{}.yaml", self.group, self.plural)
    }
}

/// The size limit of all annotations of an object, minus a reserve for others. `kubectl apply` stores the object in an
/// annotation.
const APPLY_LIMIT: usize = 256 * 1024 - 1024;
/// The description limits that are tried in order.
const SHORTER: [usize; 4] = [1000, 300, 100, 40];

/// Truncates the descriptions of all schemas of a definition.
fn shorten(crd: &mut Value, limit: usize) {
    let versions = crd.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            shorten_schema(schema, limit);
        }
    }
}

fn shorten_schema(schema: &mut Value, limit: usize) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    if limit == 0 {
        node.remove("description");
    } else if let Some(Value::String(description)) = node.get_mut("description") {
        *description = cut(description, limit);
    }
    inner_schemas(node).for_each(|schema| shorten_schema(schema, limit));
}

/// Returns the text up to the limit, truncated after its last complete sentence if there is one.
fn cut(text: &str, limit: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(limit) else {
        return text.to_owned();
    };
    let whole = text.get(..end).unwrap_or(text);
    let sentence = whole.rfind(". ").or_else(|| whole.rfind(".\n"));
    let end = sentence.map_or(whole.len(), |dot| dot + 1);
    whole.get(..end).unwrap_or(whole).trim_end().to_owned()
}

fn complete_metadata(crd: &mut Value, annotation: Option<(&str, &str)>) {
    let Some(root) = crd.as_object_mut() else { return };
    root.remove("status");
    let metadata = root.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    metadata.remove("creationTimestamp");
    if let Some((key, text)) = annotation {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(key.to_owned(), json!(text));
        }
    }
}

fn complete_names(crd: &mut Value, kind: &str) {
    let Some(names) = crd.pointer_mut("/spec/names").and_then(Value::as_object_mut) else {
        return;
    };
    names
        .entry("listKind")
        .or_insert_with(|| json!(format!("{kind}List")));
    names
        .entry("singular")
        .or_insert_with(|| json!(kind.to_lowercase()));
    drop_empty(names, &["shortNames", "categories"]);
}

fn complete_version(version: &mut Value, kind: &str, plural: &str) {
    if let Some(version) = version.as_object_mut() {
        drop_empty(
            version,
            &["additionalPrinterColumns", "selectableFields", "subresources"],
        );
    }
    if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
        complete_schema(schema);
        complete_root(schema, kind, plural);
    }
}

fn drop_empty(map: &mut Map<String, Value>, keys: &[&str]) {
    for key in keys {
        let empty = map.get(*key).is_some_and(|value| match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            other => other.is_null(),
        });
        if empty {
            map.remove(*key);
        }
    }
}

fn complete_root(schema: &mut Value, kind: &str, plural: &str) {
    let Some(root) = schema.as_object_mut() else {
        return;
    };
    let derived = root
        .get("description")
        .and_then(Value::as_str)
        .is_none_or(|text| text.starts_with("Auto-generated derived type"));
    if derived {
        root.insert(
            "description".to_owned(),
            json!(format!("{kind} is the Schema for the {plural} API.")),
        );
    }
    let properties = root.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else {
        return;
    };
    let text = |description: &str| json!({"description": description, "type": "string"});
    properties.insert("apiVersion".to_owned(), text(API_VERSION_DESCRIPTION));
    properties.insert("kind".to_owned(), text(KIND_DESCRIPTION));
    properties.insert("metadata".to_owned(), json!({"type": "object"}));
}

/// Completes one schema and all schemas inside it.
fn complete_schema(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else {
        return;
    };
    node.remove("title");
    clean_description(node);
    replace_format(node);
    if let Some(Value::Array(required)) = node.get_mut("required") {
        required.sort_by(|l, r| l.as_str().cmp(&r.as_str()));
    }
    if node.get("items").is_some_and(is_condition) {
        node.insert("items".to_owned(), condition_schema());
        node.entry("x-kubernetes-list-map-keys")
            .or_insert_with(|| json!(["type"]));
        node.entry("x-kubernetes-list-type")
            .or_insert_with(|| json!("map"));
    }
    inner_schemas(node).for_each(complete_schema);
}

/// Returns the schemas directly inside a schema.
fn inner_schemas(node: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    node.iter_mut()
        .flat_map(|(key, value)| -> Box<dyn Iterator<Item = &mut Value>> {
            match (key.as_str(), value) {
                ("properties", Value::Object(properties)) => Box::new(properties.values_mut()),
                ("items" | "additionalProperties" | "not", schema) => Box::new(std::iter::once(schema)),
                ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => Box::new(schemas.iter_mut()),
                _ => Box::new(std::iter::empty()),
            }
        })
}

/// Removes blank lines around the description and spaces at line ends; removes an empty description.
fn clean_description(node: &mut Map<String, Value>) {
    let Some(Value::String(description)) = node.get_mut("description") else {
        return;
    };
    let lines: Vec<&str> = description.trim().lines().map(str::trim_end).collect();
    *description = lines.join("\n");
    if description.is_empty() {
        node.remove("description");
    }
}

fn replace_format(node: &mut Map<String, Value>) {
    let Some(format) = node.get("format").and_then(Value::as_str) else {
        return;
    };
    let Some((unknown, known)) = INTEGER_FORMATS.iter().find(|(unknown, _)| *unknown == format) else {
        return;
    };
    node.insert("format".to_owned(), json!(known));
    if unknown.starts_with('u') {
        node.entry("minimum").or_insert_with(|| json!(0));
    }
}

/// Returns true if a schema is that of k8s-openapi's `Condition`.
fn is_condition(schema: &Value) -> bool {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return false;
    };
    let known = [
        "lastTransitionTime",
        "message",
        "observedGeneration",
        "reason",
        "status",
        "type",
    ];
    properties.len() == known.len() && known.iter().all(|name| properties.contains_key(*name))
}

/// Returns the schema of `metav1.Condition`, with the rules that the Go type carries as markers.
pub fn condition_schema() -> Value {
    json!({
        "description": "Condition contains details for one aspect of the current state of this API Resource.",
        "properties": {
            "lastTransitionTime": {
                "description": "lastTransitionTime is the last time the condition transitioned from one status to another.\nThis should be when the underlying condition changed.  If that is not known, then using the time when the API field changed is acceptable.",
                "format": "date-time",
                "type": "string",
            },
            "message": {
                "description": "message is a human readable message indicating details about the transition.\nThis may be an empty string.",
                "maxLength": 32768,
                "type": "string",
            },
            "observedGeneration": {
                "description": "observedGeneration represents the .metadata.generation that the condition was set based upon.\nFor instance, if .metadata.generation is currently 12, but the .status.conditions[x].observedGeneration is 9, the condition is out of date\nwith respect to the current state of the instance.",
                "format": "int64",
                "minimum": 0,
                "type": "integer",
            },
            "reason": {
                "description": "reason contains a programmatic identifier indicating the reason for the condition's last transition.\nProducers of specific condition types may define expected values and meanings for this field,\nand whether the values are considered a guaranteed API.\nThe value should be a CamelCase string.\nThis field may not be empty.",
                "maxLength": 1024,
                "minLength": 1,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                "type": "string",
            },
            "status": {
                "description": "status of the condition, one of True, False, Unknown.",
                "enum": ["True", "False", "Unknown"],
                "type": "string",
            },
            "type": {
                "description": "type of condition in CamelCase or in foo.example.com/CamelCase.",
                "maxLength": 316,
                "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                "type": "string",
            },
        },
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "type": "object",
    })
}
