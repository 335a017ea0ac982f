//! Functions and operators on values.

pub(super) mod quantity;
pub(super) mod semver;

mod convert;
mod lists;
mod network;
mod operator;
mod text;
mod time;

use super::check::Checked;
use crate::go::regexp::Regexp;

use super::value::{InsertError, Opaque, Value};
use super::work::Work;

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

/// The steps that a call takes, beyond those that it counts itself: most functions look at all of their arguments.
pub(super) fn effort(function: &str, args: &[Value<'_>]) -> usize {
    let is_constant = matches!(
        function,
        "_[_]" | "_[?_]" | "type" | "dyn" | "optional.of" | "value" | "hasValue" | "first" | "last"
    );
    if is_constant {
        return 0;
    }
    let looks_at_items = !matches!(function, "size" | "_+_" | "_==_" | "_!=_" | "@in" | "slice");
    let effort = |arg: &Value<'_>| match arg {
        Value::String(text) => text.len() / 16,
        Value::Bytes(bytes) => bytes.len() / 16,
        Value::List(list) if looks_at_items => list.len(),
        _ => 0,
    };
    args.iter().map(effort).fold(0, usize::saturating_add)
}

/// The message of an entry that cannot be inserted into a map.
pub(super) fn insert_error(why: InsertError, key: &Value<'_>) -> String {
    match why {
        InsertError::NoKey => "unsupported key type".to_owned(),
        InsertError::Repeated => {
            let key = convert::to_text(key).unwrap_or_default();
            format!("insert failed: key {key} already exists")
        }
    }
}

/// Calls a function of constants.
pub(super) fn call_constant<'a>(function: &str, args: &[Value<'a>]) -> Result<Value<'a>, String> {
    let work = Work::default();
    dispatch(
        function,
        args,
        &Context {
            checked: None,
            work: &work,
        },
    )
}

/// What a function needs beside its arguments.
struct Context<'c> {
    checked: Option<&'c Checked>,
    work: &'c Work,
}

impl Context<'_> {
    /// A pattern, compiled once.
    fn pattern(&self, source: &str) -> Result<Regexp, String> {
        let constant = self.checked.and_then(|checked| checked.patterns.get(source));
        constant.map_or_else(|| self.work.pattern(source), |pattern| Ok(pattern.clone()))
    }
}

/// Calls a function; the receiver of a method comes first.
pub(super) fn call<'a>(
    function: &str,
    args: &[Value<'a>],
    checked: &Checked,
    work: &Work,
) -> Result<Value<'a>, String> {
    let checked = Some(checked);
    dispatch(function, args, &Context { checked, work })
}

fn dispatch<'a>(function: &str, args: &[Value<'a>], context: &Context<'_>) -> Result<Value<'a>, String> {
    if let Some((Value::Opaque(opaque), rest)) = args.split_first()
        && let Opaque::Host(host) = &**opaque
        && let Some(result) = host.call(function, rest)
    {
        return result;
    }
    let found = operator::call(function, args, context)
        .or_else(|| convert::call(function, args, context))
        .or_else(|| text::call(function, args, context))
        .or_else(|| lists::call(function, args, context))
        .or_else(|| time::call(function, args))
        .or_else(|| network::call(function, args, context))
        .or_else(|| quantity::call(function, args))
        .or_else(|| semver::call(function, args));
    found.unwrap_or_else(|| Err("no such overload".to_owned()))
}

/// The result of a call, if the module has an overload for it.
type Called<'a> = Option<Result<Value<'a>, String>>;
