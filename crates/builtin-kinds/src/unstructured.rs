//! Go's conversion from unstructured trees to structs, which apply and strategic merge patches use. It rejects the same
//! values as the decoder of bodies, with other texts. Numbers are an exception: those without a fraction are converted
//! to the type of the field.

use apimachinery::go::base64;
use apimachinery::time::{self, TimeForm};
use serde_json::Value;
use structured_merge::builtin::{FieldKind, Type};

use crate::decode::describe;
use crate::go_fields::go_struct;

/// Returns the position of a field in its Go struct, for a type and the name of the field.
pub type Order<'a> = &'a dyn Fn(&Type, &str) -> (u32, u32, u32);

/// Converts a tree to the form of the Go struct of a type. The error is the converter's text for the first mismatch in
/// the order of the structs.
pub fn convert(of_type: &Type, value: &mut Value, order: Order<'_>) -> Result<(), String> {
    let object = match value {
        Value::Null => return Ok(()),
        Value::Object(object) => object,
        other => return Err(format!("cannot restore struct from: {}", kind(other))),
    };
    let mut faults = Vec::new();
    for (name, value) in object {
        if let Some(field) = of_type.field(name)
            && go_struct(of_type).is_none_or(|go| go.has_field(name))
            && let Err(fault) = convert_field(&field.kind, value, order)
        {
            faults.push((name, fault));
        }
    }
    let first = faults.into_iter().min_by_key(|(name, _)| order(of_type, name));
    first.map_or(Ok(()), |(_, fault)| Err(fault))
}

fn convert_field(of_kind: &FieldKind, value: &mut Value, order: Order<'_>) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    match (of_kind, value) {
        (FieldKind::Ref(part), value) => convert(part.resolve(), value, order),
        (FieldKind::List(item), Value::Array(items)) => items
            .iter_mut()
            .try_for_each(|value| convert_field(item, value, order)),
        (FieldKind::List(_), other) => Err(format!("cannot restore slice from {}", kind(other))),
        (FieldKind::Map(of_value), Value::Object(map)) => map
            .values_mut()
            .try_for_each(|value| convert_field(of_value, value, order)),
        (FieldKind::Map(_), other) => Err(format!("cannot restore map from {}", kind(other))),
        (FieldKind::String, Value::String(_)) | (FieldKind::Boolean, Value::Bool(_)) => Ok(()),
        // Go could convert an integer to a string, but rejects it.
        (FieldKind::String, value) if kind(value) == "int64" => {
            Err("cannot convert int64 to string".to_owned())
        }
        (FieldKind::String, _) => Err("unrecognized type: string".to_owned()),
        (FieldKind::Boolean, _) => Err("unrecognized type: bool".to_owned()),
        (FieldKind::Int32, value) => convert_integer("int32", value, |number| i64::from(number as i32)),
        (FieldKind::Int64, value) => convert_integer("int64", value, |number| number),
        (FieldKind::Number, value) if !value.is_number() => Err("unrecognized type: float64".to_owned()),
        (FieldKind::Bytes, Value::String(text)) => check_base64(text),
        (FieldKind::Bytes, other) => Err(format!("cannot restore slice from {}", kind(other))),
        (FieldKind::Time, value) => check_time(TimeForm::Seconds, value),
        (FieldKind::MicroTime, value) => check_time(TimeForm::Micros, value),
        (FieldKind::IntOrString, value) if !value.is_string() && !value.is_i64() => {
            Err(cannot_unmarshal(value, "int32"))
        }
        // Other types with their own decoder have the same errors in both conversions.
        _ => Ok(()),
    }
}

fn check_time(form: TimeForm, value: &Value) -> Result<(), String> {
    match value.as_str() {
        Some(text) => time::canonical(text, form).map(drop),
        None => Err(cannot_unmarshal(value, "string")),
    }
}

/// Returns the error of a type with its own decoder.
fn cannot_unmarshal(value: &Value, wanted: &str) -> String {
    let found = describe(value, wanted);
    format!("json: cannot unmarshal {found} into Go value of type {wanted}")
}

/// Converts a number to an integer. Like Go, it silently truncates values that are too large, and rejects only
/// fractions.
fn convert_integer(name: &str, value: &mut Value, narrow: impl Fn(i64) -> i64) -> Result<(), String> {
    let Value::Number(number) = value else {
        return Err(format!("unrecognized type: {name}"));
    };
    let whole = match number.as_i64() {
        Some(whole) => Some(whole),
        None => number
            .as_f64()
            .filter(|number| number.fract() == 0.0)
            .map(whole_number),
    };
    let whole = whole.ok_or_else(|| format!("cannot convert float64 to {name}"))?;
    *value = narrow(whole).into();
    Ok(())
}

/// Converts a float to an integer. As on the processor, a float out of range becomes the minimum.
fn whole_number(float: f64) -> i64 {
    let limit = 9_223_372_036_854_775_808.0;
    if (-limit..limit).contains(&float) {
        float as i64
    } else {
        i64::MIN
    }
}

fn check_base64(text: &str) -> Result<(), String> {
    base64::decode(text)
        .map(|_| ())
        .map_err(|place| format!("error decoding from json: illegal base64 data at input byte {place}"))
}

/// Returns the `reflect.Kind` of a decoded value.
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
