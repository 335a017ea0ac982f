//! Operators: arithmetic with overflow checks, comparison, membership, indexing, optional values.

use std::cmp::Ordering;

use apimachinery::time::{OffsetTime, Timestamp};

use super::convert;
use super::{Called, Context};
use crate::value::{Entries, List, Map, Value, compare, equals};
use crate::work::Work;

pub(super) fn call<'a>(function: &str, args: &[Value<'a>], context: &Context<'_>) -> Called<'a> {
    let work = context.work;
    match (function, args) {
        ("!_", [Value::Bool(flag)]) => Some(Ok(Value::Bool(!flag))),
        ("-_", [Value::Int(value)]) => Some(value.checked_neg().map(Value::Int).ok_or_else(overflow)),
        ("-_", [Value::Double(value)]) => Some(Ok(Value::Double(-value))),
        ("_==_", [a, b]) => Some(Ok(Value::Bool(equals(a, b, work)))),
        ("_!=_", [a, b]) => Some(Ok(Value::Bool(!equals(a, b, work)))),
        ("_<_", [a, b]) => Some(ordered(a, b, Ordering::is_lt)),
        ("_<=_", [a, b]) => Some(ordered(a, b, Ordering::is_le)),
        ("_>_", [a, b]) => Some(ordered(a, b, Ordering::is_gt)),
        ("_>=_", [a, b]) => Some(ordered(a, b, Ordering::is_ge)),
        ("_+_", [a, b]) => add(a, b, work),
        ("_-_", [a, b]) => subtract(a, b),
        ("_*_" | "_/_" | "_%_", [a, b]) => multiply(function, a, b),
        ("@in", [item, Value::List(list)]) => Some(Ok(Value::Bool(
            list.iter()
                .any(|found| work.is_exhausted() || equals(&found, item, work)),
        ))),
        ("@in", [key, Value::Map(map)]) => Some(Ok(Value::Bool(map.get(key).is_some()))),
        ("_[_]", [target, index]) => Some(at(target, index)),
        ("_[?_]", [target, index]) => Some(optional_at(target, index)),
        ("cel.@mapInsert", [Value::Map(map), rest @ ..]) => Some(insert(map, rest, work)),
        _ => optional(function, args, work),
    }
}

fn overflow() -> String {
    "integer overflow".to_owned()
}

fn ordered<'a>(a: &Value<'_>, b: &Value<'_>, test: fn(Ordering) -> bool) -> Result<Value<'a>, String> {
    match compare(a, b) {
        Some(order) => Ok(Value::Bool(test(order))),
        // NaN is not comparable.
        None if matches!(a, Value::Double(_)) || matches!(b, Value::Double(_)) => Ok(Value::Bool(false)),
        None => Err("no such overload".to_owned()),
    }
}

fn add<'a>(a: &Value<'a>, b: &Value<'a>, work: &Work) -> Called<'a> {
    Some(match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(a), Value::Uint(b)) => a
            .checked_add(*b)
            .map(Value::Uint)
            .ok_or_else(|| "unsigned integer overflow".to_owned()),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) if !work.make(a.len() + b.len()) => Err(too_large()),
        (Value::Bytes(a), Value::Bytes(b)) if !work.make(a.len() + b.len()) => Err(too_large()),
        (Value::String(a), Value::String(b)) => Ok(Value::text(format!("{a}{b}"))),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::Bytes([&**a, &**b].concat().into())),
        (Value::List(a), Value::List(b)) => Ok(Value::List(a.concat(b, work))),
        (Value::Duration(a), Value::Duration(b)) => {
            a.checked_add(*b).map(Value::Duration).ok_or_else(overflow)
        }
        (Value::Timestamp(time), Value::Duration(nanos))
        | (Value::Duration(nanos), Value::Timestamp(time)) => shifted(*time, *nanos),
        _ => return None,
    })
}

fn too_large() -> String {
    "result is too large".to_owned()
}

fn shifted<'a>(start: OffsetTime, nanos: i64) -> Result<Value<'a>, String> {
    let OffsetTime { time, offset } = start;
    let total = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos) + i128::from(nanos);
    let seconds = i64::try_from(total.div_euclid(1_000_000_000)).map_err(|_| convert::time_overflow())?;
    let nanos = u32::try_from(total.rem_euclid(1_000_000_000)).unwrap_or_default();
    let time = Timestamp { seconds, nanos };
    convert::in_years(OffsetTime { time, offset }).map(Value::Timestamp)
}

fn subtract<'a>(a: &Value<'a>, b: &Value<'a>) -> Called<'a> {
    Some(match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.checked_sub(*b).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(a), Value::Uint(b)) => a
            .checked_sub(*b)
            .map(Value::Uint)
            .ok_or_else(|| "unsigned integer overflow".to_owned()),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Duration(a), Value::Duration(b)) => {
            a.checked_sub(*b).map(Value::Duration).ok_or_else(overflow)
        }
        (Value::Timestamp(time), Value::Duration(nanos)) => {
            shifted(*time, nanos.checked_neg().unwrap_or(i64::MAX))
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            let (a, b) = (a.time, b.time);
            let nanos =
                i128::from(a.seconds - b.seconds) * 1_000_000_000 + i128::from(a.nanos) - i128::from(b.nanos);
            i64::try_from(nanos).map(Value::Duration).map_err(|_| overflow())
        }
        _ => return None,
    })
}

fn multiply<'a>(function: &str, a: &Value<'a>, b: &Value<'a>) -> Called<'a> {
    let by_zero = || {
        if function == "_%_" {
            "modulus by zero"
        } else {
            "division by zero"
        }
        .to_owned()
    };
    Some(match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) if function != "_*_" => {
            Err(by_zero())
        }
        (Value::Int(a), Value::Int(b)) => match function {
            "_*_" => a.checked_mul(*b),
            "_/_" => a.checked_div(*b),
            _ => a.checked_rem(*b),
        }
        .map(Value::Int)
        .ok_or_else(overflow),
        (Value::Uint(a), Value::Uint(b)) => match function {
            "_*_" => a.checked_mul(*b),
            "_/_" => a.checked_div(*b),
            _ => a.checked_rem(*b),
        }
        .map(Value::Uint)
        .ok_or_else(|| "unsigned integer overflow".to_owned()),
        (Value::Double(a), Value::Double(b)) if function == "_*_" => Ok(Value::Double(a * b)),
        (Value::Double(a), Value::Double(b)) if function == "_/_" => Ok(Value::Double(a / b)),
        _ => return None,
    })
}

fn position(index: &Value<'_>, len: usize) -> Result<Option<usize>, String> {
    let number = match index {
        Value::Int(number) => *number,
        Value::Uint(number) => i64::try_from(*number).unwrap_or(-1),
        Value::Double(number) => apimachinery::go::whole(*number).unwrap_or(-1),
        _ => return Err("no such overload".to_owned()),
    };
    Ok(usize::try_from(number).ok().filter(|number| *number < len))
}

fn shown(value: &Value<'_>) -> String {
    super::convert::to_text(value).unwrap_or_default()
}

fn at<'a>(target: &Value<'a>, index: &Value<'a>) -> Result<Value<'a>, String> {
    match target {
        Value::List(list) => position(index, list.len())?
            .and_then(|index| list.get(index))
            .ok_or_else(|| format!("index out of bounds: {}", shown(index))),
        Value::Map(map) => map
            .get(index)
            .ok_or_else(|| format!("no such key: {}", shown(index))),
        Value::Optional(_) => optional_at(target, index),
        _ => Err("no such overload".to_owned()),
    }
}

fn optional_at<'a>(target: &Value<'a>, index: &Value<'a>) -> Result<Value<'a>, String> {
    let found = match target {
        Value::Optional(None) => None,
        Value::Optional(Some(inner)) => return optional_at(inner, index),
        Value::List(list) => position(index, list.len())?.and_then(|index| list.get(index)),
        Value::Map(map) => map.get(index),
        _ => return Err("no such overload".to_owned()),
    };
    Ok(Value::Optional(found.map(Box::new)))
}

fn insert<'a>(map: &Map<'a>, rest: &[Value<'a>], work: &Work) -> Result<Value<'a>, String> {
    if !work.spend(map.len()) || !work.make(map.len().saturating_mul(4 * size_of::<Value<'a>>())) {
        return Err(too_large());
    }
    let added = match rest {
        [key, value] => vec![(key.clone(), value.clone())],
        [Value::Map(other)] => other.entries(),
        _ => return Err("no such overload".to_owned()),
    };
    let mut entries = Entries::default();
    for (key, value) in map.entries().into_iter().chain(added) {
        let inserted = entries.insert(key.clone(), value);
        inserted.map_err(|why| super::insert_error(why, &key))?;
    }
    Ok(Value::Map(Map::new(entries)))
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Duration(0) => true,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.len() == 0,
        Value::Map(map) => map.len() == 0,
        Value::Optional(None) => true,
        _ => false,
    }
}

fn optional<'a>(function: &str, args: &[Value<'a>], work: &Work) -> Called<'a> {
    Some(match (function, args) {
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("optional.of", [value]) => Ok(Value::Optional(Some(Box::new(value.clone())))),
        ("optional.ofNonZeroValue", [value]) if is_zero(value) => Ok(Value::Optional(None)),
        ("optional.ofNonZeroValue", [value]) => Ok(Value::Optional(Some(Box::new(value.clone())))),
        ("hasValue", [Value::Optional(inner)]) => Ok(Value::Bool(inner.is_some())),
        ("value", [Value::Optional(Some(inner))]) => Ok((**inner).clone()),
        ("value", [Value::Optional(None)]) => Err("optional.none() dereference".to_owned()),
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => {
            let present = list.items(work).into_iter().filter_map(|item| match item {
                Value::Optional(inner) => inner.map(|inner| *inner),
                other => Some(other),
            });
            Ok(Value::List(List::new(present.collect())))
        }
        _ => return None,
    })
}
