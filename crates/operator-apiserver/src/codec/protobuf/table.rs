//! The messages of Kubernetes 1.36, parsed once from `messages-1.36.txt` (made by `generate.py`).

use std::collections::HashMap;
use std::sync::LazyLock;

use super::Special;

/// The type of a field's value, or of the items of a list or the values of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldType {
    String,
    Boolean,
    Integer,
    Double,
    Bytes,
    Message(usize),
}

/// The cardinality of a field in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cardinality {
    Optional,
    Repeated,
    Map,
    Inlined,
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// The JSON name of the field.
    pub(super) name: String,
    pub(super) kind: FieldType,
    pub(super) cardinality: Cardinality,
}

#[derive(Debug)]
struct Message {
    /// Sorted by number.
    fields: Vec<Field>,
    special: Option<Special>,
}

/// All messages that the body of a served kind can contain.
#[derive(Debug)]
pub(super) struct Messages {
    messages: Vec<Message>,
    by_name: HashMap<&'static str, usize>,
}

/// Returns the table, parsed at its first use.
pub(super) fn messages() -> &'static Messages {
    static TABLE: LazyLock<Messages> = LazyLock::new(|| Messages::parse(include_str!("messages-1.36.txt")));
    &TABLE
}

impl Messages {
    fn parse(text: &'static str) -> Self {
        let names = text.lines().filter_map(|line| line.split(' ').next());
        let by_name: HashMap<_, _> = names.enumerate().map(|(index, name)| (name, index)).collect();
        let messages = text.lines().map(|line| parse_message(line, &by_name)).collect();
        Self { messages, by_name }
    }

    /// Returns the message of a kind: `("apps/v1", "Deployment")`.
    pub(super) fn for_kind(&self, api_version: &str, kind: &str) -> Option<usize> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let name = match kind {
            // Every group version registers these kinds under its own name.
            "DeleteOptions" | "Status" | "APIGroup" | "APIGroupList" | "APIResourceList" | "APIVersions" => {
                format!("meta.v1.{kind}")
            }
            // The older version has the same fields.
            "PartialObjectMetadata" | "PartialObjectMetadataList" => format!("meta.v1.{kind}"),
            _ => {
                let of = kind.strip_suffix("List").unwrap_or(kind);
                let version = structured_merge::builtin::types_version(group, version, of);
                format!("{}.{version}.{kind}", package(group))
            }
        };
        self.by_name.get(name.as_str()).copied()
    }

    pub(super) fn field(&self, message: usize, number: u32) -> Option<&Field> {
        let fields = &self.messages.get(message)?.fields;
        let index = fields.binary_search_by_key(&number, |field| field.number).ok()?;
        fields.get(index)
    }

    /// Returns the message of a short name such as `meta.v1.ListMeta`.
    pub(super) fn by_name(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Returns the fields of a message, sorted by number.
    pub(super) fn fields(&self, message: usize) -> &[Field] {
        self.messages
            .get(message)
            .map(|message| &message.fields[..])
            .unwrap_or_default()
    }

    pub(super) fn special(&self, message: usize) -> Option<Special> {
        self.messages.get(message)?.special
    }
}

/// Returns the protobuf package of a group: its first label, with two exceptions.
fn package(group: &str) -> &str {
    match group {
        "" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or_default(),
    }
}

fn parse_message(line: &str, by_name: &HashMap<&str, usize>) -> Message {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let mut fields: Vec<Field> = words.filter_map(|word| parse_field(word, by_name)).collect();
    fields.sort_by_key(|field| field.number);
    Message {
        fields,
        special: special(name),
    }
}

fn parse_field(word: &str, by_name: &HashMap<&str, usize>) -> Option<Field> {
    let mut parts = word.splitn(3, ':');
    let (number, name, kind) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let (kind, cardinality) = [
        ("*", Cardinality::Repeated),
        ("{}", Cardinality::Map),
        (">", Cardinality::Inlined),
    ]
    .into_iter()
    .find_map(|(suffix, cardinality)| Some((kind.strip_suffix(suffix)?, cardinality)))
    .unwrap_or((kind, Cardinality::Optional));
    let kind = match kind {
        "s" => FieldType::String,
        "b" => FieldType::Boolean,
        "i" => FieldType::Integer,
        "d" => FieldType::Double,
        "y" => FieldType::Bytes,
        message => FieldType::Message(*by_name.get(message)?),
    };
    Some(Field {
        number,
        name: name.to_owned(),
        kind,
        cardinality,
    })
}

fn special(message: &str) -> Option<Special> {
    Some(match message {
        "meta.v1.Time" => Special::Time,
        "meta.v1.MicroTime" => Special::MicroTime,
        "meta.v1.Duration" => Special::Duration,
        "api.resource.Quantity" => Special::Quantity,
        "util.intstr.IntOrString" => Special::IntOrString,
        "pkg.runtime.RawExtension" | "meta.v1.FieldsV1" | "apiextensions.v1.JSON" => Special::Json,
        "apiextensions.v1.JSONSchemaPropsOrArray" => Special::SchemaOrArray,
        "apiextensions.v1.JSONSchemaPropsOrBool" => Special::SchemaOrBool,
        "apiextensions.v1.JSONSchemaPropsOrStringArray" => Special::SchemaOrStrings,
        "meta.v1.Verbs" => Special::Strings,
        name if name.ends_with(".ExtraValue") => Special::Strings,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_table_is_a_field() {
        let text = include_str!("messages-1.36.txt");
        let words: usize = text.lines().map(|line| line.split(' ').count() - 1).sum();
        let fields: usize = messages()
            .messages
            .iter()
            .map(|message| message.fields.len())
            .sum();
        assert_eq!(words, fields);
    }

    #[test]
    fn kinds_of_every_group_have_a_message() {
        for (api_version, kind) in [
            ("v1", "Pod"),
            ("apps/v1", "Deployment"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole"),
            ("policy/v1", "Eviction"),
            ("autoscaling/v1", "Scale"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            ("coordination.k8s.io/v1", "Lease"),
            ("apps/v1", "DeleteOptions"),
        ] {
            assert!(
                messages().for_kind(api_version, kind).is_some(),
                "{api_version} {kind}"
            );
        }
        assert!(messages().for_kind("example.com/v1", "Widget").is_none());
    }
}
