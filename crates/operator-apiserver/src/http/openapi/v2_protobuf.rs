//! The v2 document as the protobuf message `openapi.v2.Document` of the gnostic project, the only format that client-go
//! requests. The numbers of the fields are those of its published schema.

use serde_json::Value;

use crate::codec::protobuf::Writer;

/// The type of a field.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Bool,
    Integer,
    Double,
    /// Any JSON value, as a string.
    Any,
    One(&'static Message),
    /// One or more strings, in a separate message.
    Texts,
    /// `true`, or a schema.
    Additional,
    /// The schema of a response, and of the items of a list: each in a separate message.
    Wrapped,
    /// An object whose keys are arbitrary names.
    Named(&'static Message),
    /// A parameter, or a reference to a shared one.
    Parameter,
    /// The shared parameters, in a separate message with their names.
    Parameters,
    /// The means of authentication that a request needs: a list of strings for each name.
    Requirement,
    /// The means of authentication with a key, in a separate message with their names.
    Keys,
    /// The responses, in a separate message with the status codes as names.
    Answers,
    /// A list of values of a kind.
    Each(&'static Kind),
}

/// A message: its fields by name, number and kind; and the number of the list of fields that start with `x-`.
struct Message {
    fields: &'static [(&'static str, u64, Kind)],
    extensions: Option<u64>,
}

use Kind::{
    Additional, Answers, Any, Bool, Double, Each, Integer, Keys, Named, One, Parameter, Parameters,
    Requirement, Text, Texts, Wrapped,
};

/// The document without its paths and definitions, which are encoded separately.
static HEAD: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, One(&INFO)),
        ("parameters", 10, Parameters),
        ("security", 12, Each(&Requirement)),
        ("securityDefinitions", 13, Keys),
    ],
    extensions: None,
};
static INFO: Message = Message {
    fields: &[("title", 1, Text), ("version", 2, Text), ("description", 3, Text)],
    extensions: Some(7),
};
static KEY: Message = Message {
    fields: &[
        ("type", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("description", 4, Text),
    ],
    extensions: Some(5),
};
static REFERENCE: Message = Message {
    fields: &[("$ref", 1, Text)],
    extensions: None,
};
static PATH_ITEM: Message = Message {
    fields: &[
        ("get", 2, One(&OPERATION)),
        ("put", 3, One(&OPERATION)),
        ("post", 4, One(&OPERATION)),
        ("delete", 5, One(&OPERATION)),
        ("options", 6, One(&OPERATION)),
        ("head", 7, One(&OPERATION)),
        ("patch", 8, One(&OPERATION)),
        ("parameters", 9, Each(&Parameter)),
    ],
    extensions: Some(10),
};
static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Each(&Text)),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Each(&Text)),
        ("consumes", 7, Each(&Text)),
        ("parameters", 8, Each(&Parameter)),
        ("responses", 9, Answers),
        ("schemes", 10, Each(&Text)),
        ("deprecated", 11, Bool),
    ],
    extensions: Some(13),
};
static RESPONSE: Message = Message {
    fields: &[("description", 1, Text), ("schema", 2, Wrapped)],
    extensions: Some(5),
};
static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Bool),
        ("schema", 5, One(&SCHEMA)),
    ],
    extensions: Some(6),
};
static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("format", 7, Text),
        ("uniqueItems", 20, Bool),
    ],
    extensions: Some(23),
};
static PATH_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Bool),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("format", 6, Text),
        ("uniqueItems", 19, Bool),
    ],
    extensions: Some(22),
};
static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Bool),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Bool),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Bool),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, Each(&Text)),
        ("enum", 20, Each(&Any)),
        ("additionalProperties", 21, Additional),
        ("type", 22, Texts),
        ("items", 23, Wrapped),
        ("allOf", 24, Each(&One(&SCHEMA))),
        ("properties", 25, Named(&SCHEMA)),
        ("example", 30, Any),
    ],
    extensions: Some(31),
};

/// The field numbers of the paths and of the definitions in a document, and of their lists in their messages.
const PATHS: u64 = 8;
const DEFINITIONS: u64 = 9;
const PATH: u64 = 2;
const DEFINITION: u64 = 1;

/// Encodes a v2 document from its other fields, and its encoded paths and definitions.
pub(super) fn document(
    head: &Value,
    paths: impl Iterator<Item = Vec<u8>>,
    definitions: impl Iterator<Item = Vec<u8>>,
) -> Vec<u8> {
    let mut writer = message(head, &HEAD);
    writer.message(PATHS, &joined(paths));
    writer.message(DEFINITIONS, &joined(definitions));
    writer.bytes
}

fn joined(parts: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut all = Vec::new();
    parts.for_each(|mut part| all.append(&mut part));
    all
}

/// Encodes a path and its operations.
pub(super) fn path(path: &str, item: &Value) -> Vec<u8> {
    listed(PATH, path, item, &PATH_ITEM)
}

/// Encodes a definition and its name.
pub(super) fn definition(name: &str, schema: &Value) -> Vec<u8> {
    listed(DEFINITION, name, schema, &SCHEMA)
}

/// Returns an item of a list of values with names.
fn listed(number: u64, name: &str, value: &Value, kind: &Message) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.message(number, &named(name, &message(value, kind).bytes).bytes);
    writer.bytes
}

fn message(value: &Value, kind: &Message) -> Writer {
    let mut writer = Writer::default();
    let Some(fields) = value.as_object() else {
        return writer;
    };
    for (name, number, kind) in kind.fields {
        if let Some(value) = fields.get(*name) {
            field(&mut writer, *number, *kind, value);
        }
    }
    let extensions = fields.iter().filter(|(name, _)| name.starts_with("x-"));
    for (number, (name, value)) in kind
        .extensions
        .into_iter()
        .flat_map(|n| extensions.clone().map(move |e| (n, e)))
    {
        writer.message(number, &named(name, &any(value).bytes).bytes);
    }
    writer
}

/// Returns the message of a name and its value.
fn named(name: &str, value: &[u8]) -> Writer {
    let mut pair = Writer::default();
    pair.message(1, name.as_bytes()).message(2, value);
    pair
}

/// Returns the message of any value, as YAML text, which includes JSON.
fn any(value: &Value) -> Writer {
    let mut any = Writer::default();
    any.message(2, format!("{value}\n").as_bytes());
    any
}

/// Returns a message with one field, which contains another message.
fn wrapped(number: u64, inner: &Writer) -> Writer {
    let mut outer = Writer::default();
    outer.message(number, &inner.bytes);
    outer
}

fn field(writer: &mut Writer, number: u64, kind: Kind, value: &Value) {
    match kind {
        Text => {
            writer.message(number, value.as_str().unwrap_or_default().as_bytes());
        }
        Bool if value == &Value::Bool(true) => {
            writer.integer(number, 1);
        }
        Bool => {}
        // A negative number has ten bytes, as two's complement.
        Integer => {
            writer.integer(number, value.as_i64().unwrap_or_default() as u64);
        }
        Double => {
            writer.double(number, value.as_f64().unwrap_or_default());
        }
        Any => {
            writer.message(number, &any(value).bytes);
        }
        One(kind) => {
            writer.message(number, &message(value, kind).bytes);
        }
        Each(kind) => {
            for item in value.as_array().into_iter().flatten() {
                field(writer, number, *kind, item);
            }
        }
        Texts => {
            writer.message(number, &texts(value).bytes);
        }
        Additional => {
            let mut additional = Writer::default();
            match value {
                Value::Bool(allowed) => additional.integer(2, u64::from(*allowed)),
                schema => additional.message(1, &message(schema, &SCHEMA).bytes),
            };
            writer.message(number, &additional.bytes);
        }
        Wrapped => {
            writer.message(number, &wrapped(1, &message(value, &SCHEMA)).bytes);
        }
        Named(kind) => {
            let all = all_named(value, |item| message(item, kind));
            writer.message(number, &all.bytes);
        }
        Answers => {
            let all = all_named(value, |answer| wrapped(1, &message(answer, &RESPONSE)));
            writer.message(number, &all.bytes);
        }
        Parameter => {
            let item = match value.get("$ref") {
                Some(_) => wrapped(2, &message(value, &REFERENCE)),
                None => wrapped(1, &parameter(value)),
            };
            writer.message(number, &item.bytes);
        }
        Parameters => {
            writer.message(number, &all_named(value, parameter).bytes);
        }
        Requirement => {
            writer.message(number, &all_named(value, texts).bytes);
        }
        Keys => {
            let all = all_named(value, |key| wrapped(2, &message(key, &KEY)));
            writer.message(number, &all.bytes);
        }
    }
}

/// Returns the message of one or more strings.
fn texts(value: &Value) -> Writer {
    let mut texts = Writer::default();
    for text in value
        .as_array()
        .map_or(std::slice::from_ref(value), Vec::as_slice)
    {
        field(&mut texts, 1, Text, text);
    }
    texts
}

fn all_named(value: &Value, encode: impl Fn(&Value) -> Writer) -> Writer {
    let mut all = Writer::default();
    for (name, item) in value.as_object().into_iter().flatten() {
        all.message(1, &named(name, &encode(item).bytes).bytes);
    }
    all
}

/// Returns the message of a parameter, whose type depends on its location.
fn parameter(value: &Value) -> Writer {
    match value.get("in").and_then(Value::as_str) {
        Some("body") => wrapped(1, &message(value, &BODY_PARAMETER)),
        Some("path") => wrapped(2, &wrapped(4, &message(value, &PATH_PARAMETER))),
        _ => wrapped(2, &wrapped(3, &message(value, &QUERY_PARAMETER))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_written_by_the_numbers_of_its_fields() {
        let head = json!({"swagger": "2.0", "info": {"title": "K", "version": "v1"}});
        let item = json!({"get": {"operationId": "g", "responses": {"200": {"description": "OK"}}}});
        let paths = [path("/a", &item)];
        let definitions = [definition("D", &json!({"type": "object", "x-k": ["a"]}))];
        let length = |number: u8, inner: Vec<u8>| [vec![number << 3 | 2, inner.len() as u8], inner].concat();
        let pair = |name: &str, inner: Vec<u8>| [length(1, name.into()), length(2, inner)].concat();
        let response = length(1, length(1, "OK".into()));
        let operation = [length(5, "g".into()), length(9, length(1, pair("200", response)))].concat();
        let extension = pair("x-k", length(2, b"[\"a\"]\n".to_vec()));
        // The numbers 22 and 31 have two bytes with their wire type.
        let schema = [
            vec![0xb2, 0x01, 8],
            length(1, "object".into()),
            vec![0xfa, 0x01, extension.len() as u8],
            extension,
        ]
        .concat();
        let wanted = [
            length(1, "2.0".into()),
            length(2, [length(1, "K".into()), length(2, "v1".into())].concat()),
            length(8, length(2, pair("/a", length(2, operation)))),
            length(9, length(1, pair("D", schema))),
        ];
        let encoded = document(&head, paths.into_iter(), definitions.into_iter());
        assert_eq!(encoded, wanted.concat());
    }
}
