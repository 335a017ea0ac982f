//! Protobuf bodies of the built-in kinds, converted to and from JSON trees.
//!
//! client-go's typed clients use `application/vnd.kubernetes.protobuf`: the four bytes `k8s\0`, then a
//! `runtime.Unknown` whose `raw` is the object. The messages are parsed by field number from a table of Kubernetes 1.36
//! (`protobuf/messages-1.36.txt`), so that no generated type is needed.
//!
//! Every field on the wire appears in the tree, including zero values: Go always writes them. The typed normal form of
//! [`crate::builtin`] drops the values that Go's JSON encoding omits.

pub(crate) mod encode;
pub(crate) mod go_order;
mod table;
mod wire;

use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use self::table::{Cardinality, Field, FieldType, Messages};
pub(crate) use self::wire::Writer;
use self::wire::{Reader, WireValue};

/// The media type of protobuf bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of watches in protobuf.
pub(crate) const STREAM_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

const MAGIC: &[u8] = b"k8s\0";
/// The maximum nesting of messages, which is far more than the built-in kinds have.
const DEPTH_MAX: usize = 64;

/// An error of decoding a protobuf body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Magic,
    #[error("unexpected EOF")]
    UnexpectedEnd,
    #[error("proto: illegal wireType {0}")]
    WireType(u8),
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WrongWireType { wire_type: u8, field: String },
    #[error("proto: integer overflow")]
    Overflow,
    #[error("proto: message is nested too deeply")]
    Depth,
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\" in protobuf")]
    UnknownKind { api_version: String, kind: String },
    #[error("invalid JSON in field {field}: {reason}")]
    Json { field: String, reason: String },
}

/// Decodes a whole request body into an object with `apiVersion` and `kind`.
///
/// `default_kind` is the (apiVersion, kind) of a body without its own.
pub(crate) fn decode(body: &[u8], default_kind: (&str, &str)) -> Result<Value, Error> {
    decode_at(body, default_kind, 0)
}

/// Decodes an envelope at a nesting depth: an embedded object has its own envelope, and counts as one more level.
fn decode_at(body: &[u8], default_kind: (&str, &str), depth: usize) -> Result<Value, Error> {
    let unknown = Unknown::read(body.strip_prefix(MAGIC).ok_or(Error::Magic)?)?;
    let named = !unknown.kind.is_empty();
    let api_version = if named {
        unknown.api_version.as_str()
    } else {
        default_kind.0
    };
    let kind = if named {
        unknown.kind.as_str()
    } else {
        default_kind.1
    };
    if unknown.content_type == "application/json" {
        return json(unknown.raw, "raw");
    }
    let messages = table::messages();
    let message = messages
        .for_kind(api_version, kind)
        .ok_or_else(|| Error::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })?;
    let mut object = Map::new();
    read_message(messages, message, unknown.raw, &mut object, depth)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// `k8s.io.apimachinery.pkg.runtime.Unknown`: the envelope of every body.
#[derive(Default)]
struct Unknown<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
    content_type: String,
}

impl<'a> Unknown<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut unknown = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some((number, value)) = reader.next_field()? {
            match (number, value) {
                (1, WireValue::Bytes(type_meta)) => {
                    let mut reader = Reader::new(type_meta);
                    while let Some((number, value)) = reader.next_field()? {
                        match (number, value) {
                            (1, WireValue::Bytes(text)) => unknown.api_version = utf8(text),
                            (2, WireValue::Bytes(text)) => unknown.kind = utf8(text),
                            _ => {}
                        }
                    }
                }
                (2, WireValue::Bytes(raw)) => unknown.raw = raw,
                (4, WireValue::Bytes(text)) => unknown.content_type = utf8(text),
                _ => {}
            }
        }
        Ok(unknown)
    }
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(bytes: &[u8], field: &str) -> Result<Value, Error> {
    serde_json::from_slice(bytes).map_err(|error| Error::Json {
        field: field.to_owned(),
        reason: error.to_string(),
    })
}

/// Decodes a message into the JSON object of its fields; inlined messages share their parent's object.
fn read_message(
    messages: &Messages,
    message: usize,
    bytes: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(Error::Depth);
    }
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next_field()? {
        if let Some(field) = messages.field(message, number) {
            read_field(messages, field, &value, object, depth)?;
        }
    }
    Ok(())
}

fn read_field(
    messages: &Messages,
    field: &Field,
    value: &WireValue<'_>,
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Error> {
    match (field.cardinality, field.kind) {
        (Cardinality::Inlined, FieldType::Message(message)) => {
            read_message(messages, message, value.bytes(field)?, object, depth + 1)
        }
        (Cardinality::Map, kind) => {
            let (key, value) = read_entry(messages, field, kind, value.bytes(field)?, depth)?;
            if let Value::Object(map) = entry(object, field, || Value::Object(Map::new())) {
                map.insert(key, value);
            }
            Ok(())
        }
        (Cardinality::Repeated, kind) => {
            let items = read_items(messages, field, kind, value, depth)?;
            if let Value::Array(list) = entry(object, field, || Value::Array(Vec::new())) {
                list.extend(items);
            }
            Ok(())
        }
        (_, kind) => {
            let previous = object.remove(&field.name);
            let value = read_value(messages, field, kind, value, previous, depth)?;
            // Go writes a zero Time as an empty message, and JSON omits it.
            if !value.is_null() {
                object.insert(field.name.clone(), value);
            }
            Ok(())
        }
    }
}

fn entry<'a>(object: &'a mut Map<String, Value>, field: &Field, empty: fn() -> Value) -> &'a mut Value {
    object.entry(field.name.clone()).or_insert_with(empty)
}

/// Returns the items of one occurrence of a repeated field: one, or several if numbers are packed.
fn read_items(
    messages: &Messages,
    field: &Field,
    kind: FieldType,
    value: &WireValue<'_>,
    depth: usize,
) -> Result<Vec<Value>, Error> {
    let packed = match (kind, value) {
        (FieldType::Integer | FieldType::Boolean, WireValue::Bytes(bytes)) => *bytes,
        _ => return Ok(vec![read_value(messages, field, kind, value, None, depth)?]),
    };
    let mut reader = Reader::new(packed);
    let mut items = Vec::new();
    while !reader.is_empty() {
        let number = WireValue::Varint(reader.varint()?);
        items.push(read_value(messages, field, kind, &number, None, depth)?);
    }
    Ok(items)
}

/// Returns a map entry: a message of key (1) and value (2), each of which may be omitted.
fn read_entry(
    messages: &Messages,
    field: &Field,
    kind: FieldType,
    bytes: &[u8],
    depth: usize,
) -> Result<(String, Value), Error> {
    let mut key = String::new();
    let mut found = None;
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next_field()? {
        match number {
            1 => key = utf8(value.bytes(field)?),
            2 => found = Some(read_value(messages, field, kind, &value, None, depth)?),
            _ => {}
        }
    }
    let value = match found {
        Some(value) => value,
        None => read_value(messages, field, kind, &WireValue::empty(kind), None, depth)?,
    };
    Ok((key, value))
}

fn read_value(
    messages: &Messages,
    field: &Field,
    kind: FieldType,
    value: &WireValue<'_>,
    previous: Option<Value>,
    depth: usize,
) -> Result<Value, Error> {
    Ok(match kind {
        FieldType::String => Value::String(utf8(value.bytes(field)?)),
        FieldType::Bytes => Value::String(base64(value.bytes(field)?)),
        FieldType::Boolean => Value::Bool(value.varint(field)? != 0),
        FieldType::Integer => Value::from(value.varint(field)?.cast_signed()),
        FieldType::Double => number(value.double(field)?),
        FieldType::Message(message) => {
            let bytes = value.bytes(field)?;
            match messages.special(message) {
                Some(special) => read_special(messages, special, message, field, bytes, depth)?,
                None => {
                    // An optional message that occurs twice is merged, as in all protobuf decoders.
                    let mut object = match previous {
                        Some(Value::Object(object)) => object,
                        _ => Map::new(),
                    };
                    read_message(messages, message, bytes, &mut object, depth + 1)?;
                    Value::Object(object)
                }
            }
        }
    })
}

/// Returns a number as JSON writes it: whole numbers have no fraction.
fn number(value: f64) -> Value {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT_MAX {
        return (value as i64).into();
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Messages whose JSON form is not an object of their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// RawExtension, FieldsV1 and JSON: bytes that are JSON.
    Json,
    /// ExtraValue and Verbs: a list of strings.
    Strings,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
}

fn read_special(
    messages: &Messages,
    special: Special,
    message: usize,
    field: &Field,
    bytes: &[u8],
    depth: usize,
) -> Result<Value, Error> {
    if special == Special::Json {
        return raw_json(field, bytes, depth);
    }
    let mut fields = Map::new();
    read_message(messages, message, bytes, &mut fields, depth + 1)?;
    let integer = |name: &str| fields.get(name).and_then(Value::as_i64).unwrap_or_default();
    Ok(match special {
        Special::Time if bytes.is_empty() => Value::Null,
        Special::MicroTime if bytes.is_empty() => Value::Null,
        Special::Time => Timestamp::from_second(integer("seconds")).map_or(Value::Null, |time| {
            time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
        }),
        Special::MicroTime => {
            let nanoseconds = i32::try_from(integer("nanos")).unwrap_or_default();
            Timestamp::new(integer("seconds"), nanoseconds).map_or(Value::Null, |time| {
                time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into()
            })
        }
        Special::Duration => go_duration(integer("duration")).into(),
        Special::Quantity => fields.remove("string").unwrap_or_else(|| "0".into()),
        Special::IntOrString if integer("type") == 1 => fields.remove("strVal").unwrap_or_else(|| "".into()),
        Special::IntOrString => integer("intVal").into(),
        Special::Strings => fields.remove("items").unwrap_or_else(|| Value::Array(Vec::new())),
        Special::SchemaOrArray => either(&mut fields, "jSONSchemas", "schema"),
        Special::SchemaOrBool => either(&mut fields, "schema", "allows"),
        Special::SchemaOrStrings => either(&mut fields, "property", "schema"),
        Special::Json => Value::Null,
    })
}

fn either(fields: &mut Map<String, Value>, first: &str, second: &str) -> Value {
    fields
        .remove(first)
        .or_else(|| fields.remove(second))
        .unwrap_or(Value::Null)
}

/// Returns the JSON in field 1. An embedded object may also be protobuf, with its own envelope.
fn raw_json(field: &Field, bytes: &[u8], depth: usize) -> Result<Value, Error> {
    let mut raw: &[u8] = &[];
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next_field()? {
        if number == 1 {
            raw = value.bytes(field)?;
        }
    }
    match raw {
        [] => Ok(Value::Null),
        raw if raw.starts_with(MAGIC) => decode_at(raw, ("", ""), depth + 1),
        raw => json(raw, &field.name),
    }
}

/// Writes nanoseconds as Go's `time.Duration.String` does: `1h2m3.5s`, `300ms`, `0s`.
fn go_duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let total = nanoseconds.unsigned_abs();
    if total == 0 {
        return "0s".to_owned();
    }
    for (unit, size) in [("ns", 1_u64), ("µs", 1_000), ("ms", 1_000_000)] {
        if total < size * 1_000 {
            return format!("{sign}{}{unit}", decimal(total, size));
        }
    }
    let (minutes, rest) = (total / 60_000_000_000, total % 60_000_000_000);
    let seconds = decimal(rest, 1_000_000_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// Returns `value / unit` as a decimal without trailing zeros.
fn decimal(value: u64, unit: u64) -> String {
    let digits = unit.ilog10() as usize;
    let text = format!("{}.{:0digits$}", value / unit, value % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
