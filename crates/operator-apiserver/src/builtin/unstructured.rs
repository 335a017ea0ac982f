//! Go's other way from JSON to structs: from trees, as apply and strategic patches go. It refuses the same values as
//! the decoder of bodies, in other words.

use serde_json::Value;
use structured_merge::builtin::{FieldKind, Type};

use super::decode::decode_base64;
use super::go_fields::go_struct;

/// Checks a tree against the Go struct of a type; the text is what the converter says of the first misfit.
pub(crate) fn check(of_type: &Type, value: &Value) -> Result<(), String> {
    let object = match value {
        Value::Null => return Ok(()),
        Value::Object(object) => object,
        other => return Err(format!("cannot restore struct from: {}", kind(other))),
    };
    for (name, value) in object {
        if let Some(field) = of_type.field(name)
            && go_struct(of_type).is_none_or(|go| go.has_field(name))
        {
            check_field(&field.kind, value)?;
        }
    }
    Ok(())
}

fn check_field(of_kind: &FieldKind, value: &Value) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    match (of_kind, value) {
        (FieldKind::Ref(part), value) => check(part.resolve(), value),
        (FieldKind::List(item), Value::Array(items)) => {
            items.iter().try_for_each(|value| check_field(item, value))
        }
        (FieldKind::List(_), other) => Err(format!("cannot restore slice from {}", kind(other))),
        (FieldKind::Map(of_value), Value::Object(map)) => {
            map.values().try_for_each(|value| check_field(of_value, value))
        }
        (FieldKind::Map(_), other) => Err(format!("cannot restore map from {}", kind(other))),
        (FieldKind::String, Value::String(_)) | (FieldKind::Boolean, Value::Bool(_)) => Ok(()),
        (FieldKind::String, _) => Err("unrecognized type: string".to_owned()),
        (FieldKind::Boolean, _) => Err("unrecognized type: bool".to_owned()),
        (FieldKind::Int32, value) => check_integer("int32", value),
        (FieldKind::Int64, value) => check_integer("int64", value),
        (FieldKind::Number, value) if !value.is_number() => Err("unrecognized type: float64".to_owned()),
        (FieldKind::Bytes, Value::String(text)) => check_base64(text),
        (FieldKind::Bytes, other) => Err(format!("cannot restore slice from {}", kind(other))),
        // What decodes itself says the same in both ways.
        _ => Ok(()),
    }
}

fn check_integer(name: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number)
            if number.is_f64() && number.as_f64().is_none_or(|number| number.fract() != 0.0) =>
        {
            Err(format!("cannot convert float64 to {name}"))
        }
        Value::Number(_) => Ok(()),
        _ => Err(format!("unrecognized type: {name}")),
    }
}

fn check_base64(text: &str) -> Result<(), String> {
    decode_base64(text)
        .map(|_| ())
        .map_err(|place| format!("error decoding from json: illegal base64 data at input byte {place}"))
}

/// The `reflect.Kind` of a decoded value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
