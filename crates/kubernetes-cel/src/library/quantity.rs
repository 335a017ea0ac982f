//! The functions of quantities.

use std::cmp::Ordering;

use apimachinery::quantity::{Quantity, QuantityError};

use super::Called;
use crate::value::{Opaque, Value};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Called<'a> {
    if let [Value::String(text)] = args {
        return match function {
            "quantity" => Some(
                Quantity::parse(text)
                    .map(made)
                    .map_err(|error: QuantityError| error.to_string()),
            ),
            "isQuantity" => Some(Ok(Value::Bool(Quantity::parse(text).is_ok()))),
            _ => None,
        };
    }
    let [Value::Opaque(opaque), rest @ ..] = args else {
        return None;
    };
    let Opaque::Quantity(quantity) = &**opaque else {
        return None;
    };
    let other = match rest {
        [Value::Opaque(opaque)] => match &**opaque {
            Opaque::Quantity(other) => Some(other.clone()),
            _ => None,
        },
        [Value::Int(number)] => Some(Quantity::of_integer(*number)),
        _ => None,
    };
    Some(match (function, other) {
        ("asApproximateFloat", None) => Ok(Value::Double(quantity.as_float())),
        ("sign", None) => Ok(Value::Int(if quantity.is_zero() {
            0
        } else if quantity.is_negative() {
            -1
        } else {
            1
        })),
        ("isInteger", None) => Ok(Value::Bool(quantity.as_integer().is_some())),
        ("asInteger", None) => quantity
            .as_integer()
            .map(Value::Int)
            .ok_or_else(|| "cannot convert value to integer".to_owned()),
        ("isGreaterThan", Some(other)) => Ok(Value::Bool(*quantity > other)),
        ("isLessThan", Some(other)) => Ok(Value::Bool(*quantity < other)),
        ("compareTo", Some(other)) => Ok(Value::Int(match quantity.cmp(&other) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        })),
        ("add", Some(other)) => Ok(made(quantity.plus(&other))),
        ("sub", Some(other)) => Ok(made(quantity.minus(&other))),
        _ => return None,
    })
}

fn made<'a>(quantity: Quantity) -> Value<'a> {
    Value::Opaque(Opaque::Quantity(quantity).into())
}
