//! Shows protobuf responses as trees of field numbers, without the schemas of the messages.
//!
//! Fields with zero values are omitted: Go writes them, and readers cannot distinguish them from missing ones.

use std::sync::LazyLock;

use base64::Engine as _;
use regex::Regex;
use serde_json::{Map, Value};

/// The first bytes of a Kubernetes object in protobuf.
const MAGIC: &[u8] = b"k8s\0";

/// The maximum nesting of messages that are parsed.
const DEPTH_MAX: usize = 40;

static UID: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$").ok());

static ADDRESS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^10\.0\.0\.\d+$").ok());

/// Parses the fields of an object in protobuf; returns `None` for other bytes.
pub(crate) fn tree(bytes: &[u8]) -> Option<Value> {
    let mut tree = message(bytes.strip_prefix(MAGIC)?, 0)?;
    // The metadata of a list has its version in another field than the metadata of an object.
    if let Some(Value::Object(metadata)) = tree.pointer_mut("/2/0/1/0")
        && metadata
            .keys()
            .all(|field| matches!(field.as_str(), "1" | "2" | "3" | "4"))
        && let Some(version) = metadata.get_mut("2")
    {
        // The version is that of the whole server.
        *version = "LIST".into();
    }
    Some(tree)
}

/// Returns the JSON form of a tree that is a `Status`, so that its texts are compared like those of other responses.
pub(crate) fn status(tree: &Value) -> Option<Value> {
    if tree["1"][0]["1"][0] != "v1" || tree["1"][0]["2"][0] != "Status" {
        return None;
    }
    let mut status = named(
        &tree["2"][0],
        &[("2", "status"), ("3", "message"), ("4", "reason"), ("6", "code")],
    );
    let details = &tree["2"][0]["5"][0];
    if details.is_object() {
        let names = [
            ("1", "name"),
            ("2", "group"),
            ("3", "kind"),
            ("5", "retryAfterSeconds"),
            ("6", "uid"),
        ];
        let causes = details["4"].as_array().into_iter().flatten();
        let names_of_cause = [("1", "reason"), ("2", "message"), ("3", "field")];
        let causes: Vec<Value> = causes.map(|cause| named(cause, &names_of_cause)).collect();
        status["details"] = named(details, &names);
        if !causes.is_empty() {
            status["details"]["causes"] = causes.into();
        }
    }
    status["apiVersion"] = "v1".into();
    status["kind"] = "Status".into();
    Some(status)
}

/// Returns the fields of a message by name.
fn named(message: &Value, names: &[(&str, &str)]) -> Value {
    let field = |(number, name): &(&str, &str)| {
        let value = message.get(*number)?.get(0)?;
        Some(((*name).to_owned(), value.clone()))
    };
    Value::Object(names.iter().filter_map(field).collect())
}

fn message(mut bytes: &[u8], depth: usize) -> Option<Value> {
    let mut fields: Map<String, Value> = Map::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let value = match tag & 7 {
            0 => number(varint(&mut bytes)?),
            1 => Value::from(u64::from_le_bytes(take(&mut bytes, 8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                content(take(&mut bytes, length)?, depth + 1)
            }
            5 => Value::from(u32::from_le_bytes(take(&mut bytes, 4)?.try_into().ok()?)),
            _ => return None,
        };
        if tag >> 3 == 0 {
            return None;
        }
        let field = fields
            .entry((tag >> 3).to_string())
            .or_insert_with(|| Value::Array(Vec::new()));
        field.as_array_mut()?.push(value);
    }
    fields
        .retain(|_, values| !is_zero(&values[0]) || values.as_array().is_some_and(|values| values.len() > 1));
    let has_uid = fields
        .get("5")
        .and_then(|values| values[0].as_str())
        .is_some_and(|text| UID.as_ref().is_some_and(|uid| uid.is_match(text)));
    if has_uid {
        name_version(&mut fields, "6");
    }
    Some(Value::Object(fields))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Renames a field so that resource versions are normalised.
fn name_version(fields: &mut Map<String, Value>, number: &str) {
    let version = fields.get(number).map(|values| values[0].clone());
    if let Some(version @ Value::String(_)) = version {
        fields.remove(number);
        fields.insert("resourceVersion".to_owned(), version);
    }
}

/// Replaces seconds since 1970 and node ports, which differ from run to run.
fn number(value: u64) -> Value {
    match value {
        1_600_000_000..2_200_000_000 => "TIME".into(),
        30_000..=32_767 => "PORT".into(),
        _ => value.into(),
    }
}

/// Parses the strings of a tree as messages where the other tree has a message. Few bytes can be both, and a message of
/// a real server has zero values that prevent it from being printable.
pub(crate) fn align(tree: &mut Value, other: &Value) {
    match (&mut *tree, other) {
        (Value::String(text), Value::Object(_)) => {
            if let Some(message) = message(text.as_bytes(), 0) {
                *tree = message;
            }
        }
        (Value::Array(items), Value::Array(others)) => {
            for (item, other) in items.iter_mut().zip(others) {
                align(item, other);
            }
        }
        (Value::Object(fields), Value::Object(others)) => {
            for (name, field) in fields {
                if let Some(other) = others.get(name) {
                    align(field, other);
                }
            }
        }
        _ => {}
    }
}

/// Parses a string, a message, or other bytes.
fn content(bytes: &[u8], depth: usize) -> Value {
    let is_line = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let text = || std::str::from_utf8(bytes).ok();
    if is_line && let Some(text) = text() {
        if ADDRESS.as_ref().is_some_and(|address| address.is_match(text)) {
            return "IP".into();
        }
        // The certificates of the clients differ.
        if text.starts_with("X509SHA256=") {
            return "X509SHA256".into();
        }
        // Raw JSON has the white space of the request.
        return match serde_json::from_str(text) {
            Ok(json @ Value::Object(_)) => json.to_string().into(),
            _ => text.into(),
        };
    }
    if depth < DEPTH_MAX
        && let Some(message) = message(bytes, depth)
    {
        return message;
    }
    text().map_or_else(
        || base64::engine::general_purpose::STANDARD.encode(bytes).into(),
        Value::from,
    )
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::tree;

    #[test]
    fn fields_are_shown_with_their_numbers() {
        let uid = "00000000-0000-4000-8000-000000000000";
        let mut metadata = b"\x0a\x01n\x12\x00\x2a\x24".to_vec();
        metadata.extend(uid.as_bytes());
        metadata.extend(b"\x32\x0212\x42\x06\x08\x80\x89\xa0\xd0\x06");
        let mut object = vec![0x0a, u8::try_from(metadata.len()).expect("it is short")];
        object.extend(&metadata);
        let mut bytes = b"k8s\0\x0a\x04\x0a\x02v1\x12".to_vec();
        bytes.push(u8::try_from(object.len()).expect("it is short"));
        bytes.extend(&object);
        let metadata = json!({"1": ["n"], "5": [uid], "resourceVersion": "12", "8": [{"1": ["TIME"]}]});
        assert_eq!(
            tree(&bytes),
            Some(json!({"1": [{"1": ["v1"]}], "2": [{"1": [metadata]}]}))
        );
        assert_eq!(tree(b"{}"), None);
        assert_eq!(tree(&bytes[..bytes.len() - 1]), None);
    }
}
