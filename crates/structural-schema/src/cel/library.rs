//! Functions and operators on values.

pub(super) mod quantity;
pub(super) mod semver;

mod convert;
mod lists;
mod network;
mod operator;
mod text;
mod time;

use super::value::{Opaque, Value};

/// What a call costs when it runs, beyond its arguments.
pub(super) fn cost(function: &str, args: &[Value<'_>]) -> u64 {
    let size = |index: usize| args.get(index).map_or(0, Value::size);
    match function {
        "matches" | "find" | "findAll" => {
            traversal(size(0).saturating_add(1)).saturating_mul(size(1).div_ceil(4))
        }
        "contains" => traversal(size(0)).saturating_mul(traversal(size(1))),
        "startsWith" | "endsWith" => traversal(size(1)),
        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => traversal(size(0).min(size(1))),
        "_+_" if matches!(args.first(), Some(Value::String(_) | Value::Bytes(_))) => {
            traversal(size(0).saturating_add(size(1)))
        }
        "@in" if matches!(args.get(1), Some(Value::List(_))) => size(1),
        "sets.contains" | "sets.equivalent" | "sets.intersects" => size(0).saturating_mul(size(1)).max(1),
        "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf" | "distinct" | "sort" | "flatten"
        | "join" | "reverse" | "slice" => size(0).max(1),
        "lowerAscii" | "upperAscii" | "replace" | "split" | "substring" | "trim" | "format"
        | "strings.quote" | "url" | "isURL" | "quantity" | "isQuantity" | "ip" | "isIP"
        | "ip.isCanonical" | "cidr" | "isCIDR" | "semver" | "isSemver" | "timestamp" | "duration" => {
            traversal(size(0))
        }
        "validate" => traversal(size(1)),
        "check" => AUTHORIZATION_COST,
        _ => 1,
    }
}

/// What one question to an authorizer costs: an expression has room for two.
const AUTHORIZATION_COST: u64 = 350_000;

/// A tenth of the length, at least 1.
fn traversal(size: u64) -> u64 {
    size.div_ceil(10).max(1)
}

/// Calls a function; the receiver of a method comes first.
pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Result<Value<'a>, String> {
    if let Some((Value::Opaque(opaque), rest)) = args.split_first()
        && let Opaque::Host(host) = &**opaque
        && let Some(result) = host.call(function, rest)
    {
        return result;
    }
    let found = operator::call(function, args)
        .or_else(|| convert::call(function, args))
        .or_else(|| text::call(function, args))
        .or_else(|| lists::call(function, args))
        .or_else(|| time::call(function, args))
        .or_else(|| network::call(function, args))
        .or_else(|| quantity::call(function, args))
        .or_else(|| semver::call(function, args));
    found.unwrap_or_else(|| Err("no such overload".to_owned()))
}

/// The result of a call, if the module has an overload for it.
type Called<'a> = Option<Result<Value<'a>, String>>;
