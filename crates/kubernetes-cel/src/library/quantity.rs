//! Functions of quantities.

use std::cmp::Ordering;

use super::Called;
use crate::quantity::{NANO, Quantity};
use crate::value::{Opaque, Value};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Called<'a> {
    if let [Value::String(text)] = args {
        return match function {
            "quantity" => Some(Quantity::parse(text).map(made)),
            "isQuantity" => Some(Ok(Value::Bool(Quantity::parse(text).is_ok()))),
            _ => None,
        };
    }
    let [Value::Opaque(opaque), rest @ ..] = args else {
        return None;
    };
    let Opaque::Quantity(quantity) = **opaque else {
        return None;
    };
    let other = match rest {
        [Value::Opaque(opaque)] => match **opaque {
            Opaque::Quantity(other) => Some(other),
            _ => None,
        },
        [Value::Int(number)] => Some(Quantity(i128::from(*number) * NANO)),
        _ => None,
    };
    Some(match (function, other) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "the function says that it is approximate"
        )]
        ("asApproximateFloat", None) => Ok(Value::Double(quantity.0 as f64 / NANO as f64)),
        ("sign", None) => Ok(Value::Int(if quantity.0 < 0 {
            -1
        } else {
            i64::from(quantity.0 > 0)
        })),
        ("isInteger", None) => Ok(Value::Bool(quantity.integer().is_some())),
        ("asInteger", None) => quantity
            .integer()
            .map(Value::Int)
            .ok_or_else(|| "cannot convert value to integer".to_owned()),
        ("isGreaterThan", Some(other)) => Ok(Value::Bool(quantity > other)),
        ("isLessThan", Some(other)) => Ok(Value::Bool(quantity < other)),
        ("compareTo", Some(other)) => Ok(Value::Int(match quantity.cmp(&other) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        })),
        ("add", Some(other)) => Ok(made(Quantity(quantity.0.saturating_add(other.0)))),
        ("sub", Some(other)) => Ok(made(Quantity(quantity.0.saturating_sub(other.0)))),
        _ => return None,
    })
}

fn made<'a>(quantity: Quantity) -> Value<'a> {
    Value::Opaque(Opaque::Quantity(quantity).into())
}
