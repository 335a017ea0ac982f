//! Functions that convert between types.

use apimachinery::go;
use apimachinery::time::{self as clock, OffsetTime, Timestamp};

use super::{Called, Context};
use crate::value::{Opaque, Value};

/// The error for bytes that are not UTF-8.
pub(super) const NOT_TEXT: &str = "invalid UTF-8 in bytes, cannot convert to string";

pub(super) fn call<'a>(function: &str, args: &[Value<'a>], context: &Context<'_>) -> Called<'a> {
    let [value] = args else { return None };
    let refuse = |to: &str| format!("type conversion error from '{}' to '{to}'", value.type_name());
    Some(match function {
        "type" => Ok(Value::Type(value.type_name().into())),
        "dyn" => Ok(value.clone()),
        "bool" => to_bool(value).map(Value::Bool).ok_or_else(|| refuse("bool")),
        "int" => to_int(value)
            .unwrap_or_else(|| Err(refuse("int")))
            .map(Value::Int),
        "uint" => to_uint(value)
            .unwrap_or_else(|| Err(refuse("uint")))
            .map(Value::Uint),
        "double" => to_double(value)
            .map(Value::Double)
            .ok_or_else(|| refuse("double")),
        "string" if matches!(value, Value::String(_)) => Ok(value.clone()),
        "bytes" | "string" if !context.work.make(usize::try_from(value.size()).unwrap_or(0)) => {
            Err(refuse(function))
        }
        "string" => to_text(value).map(Value::text).ok_or_else(|| match value {
            Value::Bytes(_) => NOT_TEXT.to_owned(),
            _ => refuse("string"),
        }),
        "bytes" => match value {
            Value::Bytes(_) => Ok(value.clone()),
            Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
            _ => Err(refuse("bytes")),
        },
        "duration" => match value {
            Value::Duration(_) => Ok(value.clone()),
            Value::String(text) => clock::parse_duration(text)
                .map(Value::Duration)
                .map_err(|_| refuse("google.protobuf.Duration")),
            _ => Err(refuse("google.protobuf.Duration")),
        },
        "timestamp" => match value {
            Value::Timestamp(_) => Ok(value.clone()),
            Value::String(text) => match clock::parse_rfc3339(text) {
                Ok(time) => in_years(time).map(Value::Timestamp),
                Err(_) => Err(refuse("google.protobuf.Timestamp")),
            },
            Value::Int(seconds) => {
                let (seconds, nanos) = (*seconds, 0);
                in_years(Timestamp { seconds, nanos }.into()).map(Value::Timestamp)
            }
            _ => Err(refuse("google.protobuf.Timestamp")),
        },
        _ => return None,
    })
}

/// Checks that a time is in the years 1 to 9999.
pub(super) fn in_years(time: OffsetTime) -> Result<OffsetTime, String> {
    let is_valid = (-62_135_596_800..=253_402_300_799).contains(&time.time.seconds);
    if is_valid { Ok(time) } else { Err(time_overflow()) }
}

pub(super) fn time_overflow() -> String {
    "timestamp overflow".to_owned()
}

fn to_bool(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match text.as_ref() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn to_int(value: &Value<'_>) -> Option<Result<i64, String>> {
    let overflow = || "integer overflow".to_owned();
    match value {
        Value::Int(value) => Some(Ok(*value)),
        Value::Uint(value) => Some(i64::try_from(*value).map_err(|_| overflow())),
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        Value::Double(value) => {
            let fits = value.abs() < 9.223_372_036_854_775e18;
            Some(if fits { Ok(*value as i64) } else { Err(overflow()) })
        }
        Value::Duration(nanos) => Some(Ok(*nanos)),
        Value::Timestamp(time) => Some(Ok(time.time.seconds)),
        Value::String(text) => text.parse().ok().map(Ok),
        _ => None,
    }
}

fn to_uint(value: &Value<'_>) -> Option<Result<u64, String>> {
    let overflow = || "unsigned integer overflow".to_owned();
    match value {
        Value::Uint(value) => Some(Ok(*value)),
        Value::Int(value) => Some(u64::try_from(*value).map_err(|_| overflow())),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked"
        )]
        Value::Double(value) => {
            let fits = (0.0..1.844_674_407_370_955e19).contains(value);
            Some(if fits { Ok(*value as u64) } else { Err(overflow()) })
        }
        // The standard library would accept a sign.
        Value::String(text) if text.starts_with('+') => None,
        Value::String(text) => text.parse().ok().map(Ok),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "doubles are what is asked for")]
fn to_double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::Int(value) => Some(*value as f64),
        Value::Uint(value) => Some(*value as f64),
        Value::String(text) => go::parse_float(text),
        _ => None,
    }
}

/// Converts a value to a string: `string(value)`.
pub(super) fn to_text(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::String(text) => text.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => go::float(*value),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok()?,
        Value::Duration(nanos) => clock::duration_seconds(*nanos),
        Value::Timestamp(time) => time.to_rfc3339(),
        Value::Opaque(opaque) => match &**opaque {
            Opaque::Ip(ip) => ip.to_string(),
            Opaque::Cidr(cidr) => cidr.to_string(),
            Opaque::Url(url) => url.to_string(),
            Opaque::Semver(version) => version.to_string(),
            _ => return None,
        },
        _ => return None,
    })
}
