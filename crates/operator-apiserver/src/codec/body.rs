//! Decoding and encoding of bodies.

use apimachinery::go;
use apimachinery::json::{self, Parsed};
use apimachinery::yaml;
use bytes::Bytes;
use serde_json::Value;

use super::Form;
use crate::codec::protobuf;
use crate::status::{self, Status};

/// The form of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Yaml,
    Protobuf,
}

const TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

impl Media {
    /// Parses a `Content-Type`; the default is JSON.
    pub(crate) fn parse(content_type: &str, custom: bool) -> Result<Self, Status> {
        if content_type.trim().is_empty() {
            return Ok(Self::Json);
        }
        let media = content_type.split(';').next().unwrap_or_default();
        match media.trim().to_ascii_lowercase().as_str() {
            "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            protobuf::MEDIA_TYPE if !custom => Ok(Self::Protobuf),
            _ => Err(status::unsupported_media_type(TYPES)),
        }
    }
}

/// Decodes a body. `default_kind` is the apiVersion and kind of a protobuf message without its own.
pub(crate) fn decode(bytes: &[u8], media: Media, default_kind: (&str, &str)) -> Result<Parsed, String> {
    match media {
        Media::Json => json::parse(bytes),
        Media::Yaml => parse_yaml(bytes),
        Media::Protobuf => protobuf::decode(bytes, default_kind)
            .map(|value| Parsed {
                value,
                ..Parsed::default()
            })
            .map_err(|error| error.to_string()),
    }
}

pub(crate) fn parse_yaml(bytes: &[u8]) -> Result<Parsed, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| yaml::encoding_error(bytes))?;
    yaml::parse(text)
}

/// The Go type in which the API server looks up the version and the kind of a body.
const VERSION_AND_KIND: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The maximum length of a body's excerpt in an error.
const EXCERPT_BYTES: usize = 30;

/// Returns the excerpt of an unreadable body: its beginning, in hexadecimal if it is not a JSON object.
fn excerpt(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "<empty>".to_owned();
    }
    let shown = bytes.get(..EXCERPT_BYTES).unwrap_or(bytes);
    let more = if shown.len() < bytes.len() { " ..." } else { "" };
    if bytes.starts_with(b"{") {
        format!("{}{more}", String::from_utf8_lossy(shown))
    } else {
        let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{hex}{more}")
    }
}

/// Returns the error for a body that could not be parsed.
///
/// An out-of-range number is reported only after the type of the object is known.
pub(crate) fn unrecognized((version, kind): (&str, &str), media: Media, why: &str, bytes: &[u8]) -> Status {
    let out_of_range = why.starts_with("json: cannot unmarshal number ")
        && !why.starts_with("json: cannot unmarshal number into Go value of type struct");
    if media == Media::Json && out_of_range {
        let version = apimachinery::go::quote(version);
        return status::bad_request(format!(
            "{kind} in version {version} cannot be handled as a {kind}: {why}"
        ));
    }
    untyped(kind, &unread(media, why), bytes)
}

/// Returns the error for a body whose version and kind are unknown.
fn unread(media: Media, why: &str) -> String {
    match media {
        Media::Json => format!("couldn't get version/kind; json parse error: {why}"),
        Media::Yaml | Media::Protobuf => why.to_owned(),
    }
}

/// Decodes an object that names its type, or an empty body.
pub(crate) fn decode_typed(bytes: &[u8], media: Media, default_kind: (&str, &str)) -> Result<Value, Status> {
    let decoded = decode(bytes, media, default_kind);
    let value = decoded
        .map_err(|why| status::bad_request(unread(media, &why)))?
        .value;
    let misfit = if value.is_object() || value.is_null() {
        unreadable_type(&value)
    } else {
        Some(unread(Media::Json, &cannot_unmarshal(&value, VERSION_AND_KIND)))
    };
    if let Some(why) = misfit {
        return Err(status::bad_request(why));
    }
    let version = apimachinery::object::text(&value, &["apiVersion"]);
    if version.matches('/').count() > 1 {
        return Err(status::bad_request(format!(
            "unexpected GroupVersion string: {version}"
        )));
    }
    Ok(value)
}

/// Returns the error for an object whose apiVersion or kind is not a string.
pub(crate) fn unreadable_type(value: &Value) -> Option<String> {
    ["apiVersion", "kind"].iter().find_map(|field| {
        let found = value.get(*field)?;
        if found.is_null() || found.is_string() {
            return None;
        }
        let why = cannot_unmarshal(found, "string");
        let why = why.replace("Go value of", &format!("Go struct field .{field} of"));
        Some(unread(Media::Json, &why))
    })
}

/// Returns the error for a body without a readable type.
pub(crate) fn untyped(kind: &str, why: &str, bytes: &[u8]) -> Status {
    status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({})",
        excerpt(bytes)
    ))
}

/// Returns the error for a body that is JSON, but not an object.
pub(crate) fn no_object(gvk: (&str, &str), media: Media, value: &Value, bytes: &[u8]) -> Status {
    let wanted = VERSION_AND_KIND;
    let why = cannot_unmarshal(value, wanted);
    let why = match media {
        Media::Yaml => format!("couldn't get version/kind; json parse error: {why}"),
        Media::Json | Media::Protobuf => why,
    };
    unrecognized(gvk, media, &why, bytes)
}

/// Returns the error for a custom resource without a type.
pub(crate) fn without_type(kind: &str, value: &Value, bytes: &[u8]) -> Option<Status> {
    let mistyped = unreadable_type(value);
    let is_missing = value
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .is_empty();
    let missing = || {
        let body = String::from_utf8_lossy(bytes);
        is_missing.then(|| format!("Object 'Kind' is missing in '{body}'"))
    };
    Some(untyped(kind, &mistyped.or_else(missing)?, bytes))
}

/// Returns Go's error for a JSON value of the wrong type.
pub(crate) fn cannot_unmarshal(value: &Value, wanted: &str) -> String {
    let found = go::json_kind(value);
    format!("json: cannot unmarshal {found} into Go value of type {wanted}")
}

/// Encodes a tree in the requested form.
pub(crate) fn encode(value: &Value, form: Form) -> Bytes {
    if form.protobuf {
        return Bytes::from(protobuf::encode::encode(value));
    }
    if form.yaml {
        return Bytes::from(yaml::to_string(value));
    }
    if form.pretty {
        let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
        text.push('\n');
        return Bytes::from(text);
    }
    let mut text = json::to_string(value);
    text.push('\n');
    Bytes::from(text)
}
