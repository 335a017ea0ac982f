//! The functions of semantic versions.

use std::cmp::Ordering;

use super::Called;
use crate::semver::Version;
use crate::value::{Opaque, Value};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Called<'a> {
    if let [Value::String(text), rest @ ..] = args {
        let normalise = match rest {
            [] => false,
            [Value::Bool(normalise)] => *normalise,
            _ => return None,
        };
        let parse = || {
            if normalise {
                Version::normalised(text)
            } else {
                Version::parse(text)
            }
        };
        return match function {
            "semver" => Some(parse().map(|version| Value::Opaque(Opaque::Semver(version).into()))),
            "isSemver" => Some(Ok(Value::Bool(parse().is_ok()))),
            _ => None,
        };
    }
    let [Value::Opaque(opaque), rest @ ..] = args else {
        return None;
    };
    let Opaque::Semver(version) = &**opaque else {
        return None;
    };
    let [major, minor, patch] = version.numbers;
    let number = |number: u64| Ok(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)));
    if rest.is_empty() {
        return match function {
            "major" => Some(number(major)),
            "minor" => Some(number(minor)),
            "patch" => Some(number(patch)),
            _ => None,
        };
    }
    let [Value::Opaque(other)] = rest else { return None };
    let Opaque::Semver(other) = &**other else {
        return None;
    };
    let order = version.compare(other);
    match function {
        "isGreaterThan" => Some(Ok(Value::Bool(order.is_gt()))),
        "isLessThan" => Some(Ok(Value::Bool(order.is_lt()))),
        "compareTo" => Some(Ok(Value::Int(match order {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }))),
        _ => None,
    }
}
