//! Encodes objects as protobuf: the reverse of [`super::decode`].
//!
//! A field is written if it is in the tree. Go also writes zero values that JSON omits; readers cannot distinguish
//! them.

use apimachinery::json;
use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::table::{self, Cardinality, Field, FieldType, Messages};
use super::{MAGIC, Special};

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

/// Returns an object in the envelope of protobuf bodies; only the envelope if its kind has no message.
pub(crate) fn encode(object: &Value) -> Vec<u8> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    envelope((api_version, kind), &body((api_version, kind), object))
}

/// Returns the message of an object of a kind, without the envelope.
pub(crate) fn body((api_version, kind): (&str, &str), object: &Value) -> Vec<u8> {
    let messages = table::messages();
    let mut out = Backward::default();
    if let (Some(message), Some(fields)) = (messages.for_kind(api_version, kind), object.as_object()) {
        write_message(messages, message, fields, &mut out);
    }
    out.finish()
}

/// Wraps the message of an object.
pub(crate) fn envelope((api_version, kind): (&str, &str), body: &[u8]) -> Vec<u8> {
    let mut out = Backward::with_capacity(body.len() + 64);
    out.field(4, &[]);
    out.field(3, &[]);
    out.field(2, body);
    out.nested(1, |out| {
        out.field(2, kind.as_bytes());
        out.field(1, api_version.as_bytes());
    });
    out.put(MAGIC);
    out.finish()
}

/// Returns a list of items that are already encoded.
pub(crate) fn list<'b>(
    (api_version, kind): (&str, &str),
    metadata: &Value,
    items: impl DoubleEndedIterator<Item = &'b [u8]>,
) -> Vec<u8> {
    let messages = table::messages();
    let mut out = Backward::default();
    for item in items.rev() {
        out.field(2, item);
    }
    if let (Some(message), Some(fields)) = (messages.by_name("meta.v1.ListMeta"), metadata.as_object()) {
        out.nested(1, |out| write_message(messages, message, fields, out));
    }
    envelope((api_version, kind), &out.finish())
}

/// Returns one frame of a watch: a length of four bytes, and the event with the object in its envelope.
pub(crate) fn watch_frame(event: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Backward::with_capacity(object.len() + 32);
    out.nested(2, |out| out.field(1, object));
    out.field(1, event.as_bytes());
    let length = u32::try_from(out.bytes.len()).unwrap_or(u32::MAX);
    out.put(&length.to_be_bytes());
    out.finish()
}

/// A message that is built backwards, so that the length of a nested message is known when it is written.
#[derive(Debug, Default)]
struct Backward {
    bytes: Vec<u8>,
}

impl Backward {
    fn with_capacity(capacity: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes.iter().rev());
    }

    fn varint(&mut self, mut value: u64) {
        let mut bytes = [0_u8; 10];
        let mut length = 0;
        for byte in &mut bytes {
            length += 1;
            *byte = (value & 0x7f) as u8;
            value >>= 7;
            if value == 0 {
                break;
            }
            *byte |= 0x80;
        }
        self.put(bytes.get(..length).unwrap_or_default());
    }

    fn tag(&mut self, number: u32, wire_type: u64) {
        self.varint(u64::from(number) << 3 | wire_type);
    }

    fn field(&mut self, number: u32, bytes: &[u8]) {
        self.put(bytes);
        self.varint(bytes.len() as u64);
        self.tag(number, LENGTH_DELIMITED);
    }

    fn number(&mut self, number: u32, value: i64) {
        self.varint(value.cast_unsigned());
        self.tag(number, VARINT);
    }

    fn nested(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        let before = self.bytes.len();
        write(self);
        self.varint((self.bytes.len() - before) as u64);
        self.tag(number, LENGTH_DELIMITED);
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.reverse();
        self.bytes
    }
}

/// Writes the fields of a message, last to first. The server limits the nesting of the tree, and so the recursion.
fn write_message(messages: &Messages, message: usize, object: &Map<String, Value>, out: &mut Backward) {
    for field in messages.fields(message).iter().rev() {
        if let (Cardinality::Inlined, FieldType::Message(inner)) = (field.cardinality, field.kind) {
            out.nested(field.number, |out| write_message(messages, inner, object, out));
            continue;
        }
        match (field.cardinality, object.get(&field.name)) {
            (_, None | Some(Value::Null)) => {}
            (Cardinality::Repeated, Some(Value::Array(items))) => {
                for item in items.iter().rev() {
                    write_value(messages, field.kind, field.number, item, out);
                }
            }
            (Cardinality::Map, Some(Value::Object(entries))) => {
                for (key, value) in entries.iter().rev() {
                    out.nested(field.number, |out| {
                        write_value(messages, field.kind, 2, value, out);
                        out.field(1, key.as_bytes());
                    });
                }
            }
            (_, Some(value)) => write_field(messages, field, value, out),
        }
    }
}

fn write_field(messages: &Messages, field: &Field, value: &Value, out: &mut Backward) {
    if field.cardinality == Cardinality::Optional {
        write_value(messages, field.kind, field.number, value, out);
    }
}

fn write_value(messages: &Messages, kind: FieldType, number: u32, value: &Value, out: &mut Backward) {
    match kind {
        FieldType::String => out.field(number, value.as_str().unwrap_or_default().as_bytes()),
        FieldType::Bytes => {
            let text = value.as_str().unwrap_or_default();
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            out.field(number, &bytes.unwrap_or_default());
        }
        FieldType::Boolean => out.number(number, i64::from(value == &Value::Bool(true))),
        FieldType::Integer => out.number(number, value.as_i64().unwrap_or_default()),
        FieldType::Double => {
            out.put(&value.as_f64().unwrap_or_default().to_le_bytes());
            out.tag(number, FIXED_64);
        }
        FieldType::Message(message) => out.nested(number, |out| match messages.special(message) {
            Some(special) => write_special(messages, special, message, value, out),
            None => {
                if let Some(fields) = value.as_object() {
                    write_message(messages, message, fields, out);
                }
            }
        }),
    }
}

/// Writes a message whose JSON form is not an object of its fields.
fn write_special(messages: &Messages, special: Special, message: usize, value: &Value, out: &mut Backward) {
    let text = || value.as_str().unwrap_or_default();
    match special {
        Special::Time | Special::MicroTime => {
            if let Ok(time) = text().parse::<Timestamp>() {
                out.number(2, i64::from(time.subsec_nanosecond()));
                out.number(1, time.as_second());
            }
        }
        // No served kind has one.
        Special::Duration => {}
        Special::Quantity => match value {
            Value::String(text) => out.field(1, text.as_bytes()),
            other => out.field(1, other.to_string().as_bytes()),
        },
        Special::IntOrString => {
            let is_text = value.is_string();
            out.field(3, text().as_bytes());
            out.number(2, value.as_i64().unwrap_or_default());
            out.number(1, i64::from(is_text));
        }
        Special::Json => out.field(1, json::to_string(value).as_bytes()),
        Special::Strings => {
            for item in value.as_array().into_iter().flatten().rev() {
                out.field(1, item.as_str().unwrap_or_default().as_bytes());
            }
        }
        Special::SchemaOrArray => write_alternative(messages, message, value, ["schema", "jSONSchemas"], out),
        Special::SchemaOrStrings => write_alternative(messages, message, value, ["schema", "property"], out),
        Special::SchemaOrBool => {
            if value.is_object() {
                write_alternative(messages, message, value, ["schema", ""], out);
            }
            out.number(1, i64::from(value.is_object() || value == &Value::Bool(true)));
        }
    }
}

/// Writes a schema to the first field, and a list to the second field, of a union of the two.
fn write_alternative(
    messages: &Messages,
    message: usize,
    value: &Value,
    [of_object, of_list]: [&str; 2],
    out: &mut Backward,
) {
    let name = if value.is_object() { of_object } else { of_list };
    let Some(field) = messages.fields(message).iter().find(|field| field.name == name) else {
        return;
    };
    match value {
        Value::Array(items) => {
            for item in items.iter().rev() {
                write_value(messages, field.kind, field.number, item, out);
            }
        }
        value => write_value(messages, field.kind, field.number, value, out),
    }
}
