//! The functions and operators on values: [`call`].

mod convert;
mod format;
mod lists;
mod network;
mod operator;
mod quantity;
mod semver;
mod text;
mod time;

use crate::regexp::{Patterns, Regexp};
use crate::value::{InsertError, Opaque, Value};
use crate::work::Work;

/// Returns the run-time cost of a call without its arguments.
pub(crate) fn cost(function: &str, args: &[Value<'_>]) -> u64 {
    let size = |index: usize| args.get(index).map_or(0, Value::size);
    match function {
        "matches" | "find" | "findAll" => {
            traversal(size(0).saturating_add(1)).saturating_mul(size(1).div_ceil(4))
        }
        "contains" => traversal(size(0)).saturating_mul(traversal(size(1))),
        "startsWith" | "endsWith" => traversal(size(0)),
        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => traversal(size(0).min(size(1))),
        "_+_" if matches!(args.first(), Some(Value::String(_) | Value::Bytes(_))) => {
            traversal(size(0).saturating_add(size(1)))
        }
        "@in" if matches!(args.get(1), Some(Value::List(_))) => size(1),
        "bytes" | "string" if matches!(args.first(), Some(Value::String(_) | Value::Bytes(_))) => {
            traversal(size(0))
        }
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)).saturating_add(1),
        "sets.equivalent" => size(0)
            .saturating_mul(size(1))
            .saturating_mul(2)
            .saturating_add(1),
        "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf" => walk(args.first()),
        "distinct" | "sort" => NEW_LIST.saturating_add(square(size(0))),
        "@sortByAssociatedKeys" => NEW_LIST.saturating_add(square(size(1))),
        "flatten" => NEW_LIST.saturating_add(size(0).saturating_mul(natural(args.get(1)).unwrap_or(1))),
        "reverse" if matches!(args.first(), Some(Value::List(_))) => NEW_LIST.saturating_add(size(0)),
        "lists.range" => NEW_LIST.saturating_add(natural(args.first()).unwrap_or(0)),
        "slice" => {
            let (from, to) = (natural(args.get(1)), natural(args.get(2)));
            NEW_LIST.saturating_add(to.unwrap_or(0).saturating_sub(from.unwrap_or(0)))
        }
        "join" => joined(args),
        "replace" | "split" | "ip.isCanonical" => twice(size(0)),
        "lowerAscii" | "upperAscii" | "substring" | "trim" | "format" | "strings.quote" | "url" | "isURL"
        | "quantity" | "isQuantity" | "ip" | "isIP" | "cidr" | "isCIDR" | "semver" | "isSemver"
        | "timestamp" | "duration" => traversal(size(0)),
        "containsIP" | "containsCIDR" => contained(function, args),
        "validate" => formatted(args),
        "check" => AUTHORIZATION_COST,
        _ => 1,
    }
}

/// The cost of one authorizer check. An expression can make two.
const AUTHORIZATION_COST: u64 = 350_000;

/// The cost of a call that creates a list.
const NEW_LIST: u64 = 11;

/// Returns the cost of comparing all items of a list with each other.
fn square(size: u64) -> u64 {
    size.saturating_mul(size).saturating_mul(2)
}

fn natural(value: Option<&Value<'_>>) -> Option<u64> {
    match value {
        Some(Value::Int(number)) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// Returns the cost of visiting all items of a list and their characters, or all characters of a string.
fn walk(value: Option<&Value<'_>>) -> u64 {
    match value {
        Some(Value::List(list)) => list
            .iter()
            .map(|item| traversal(item.size()))
            .fold(0, u64::saturating_add),
        Some(value) => traversal(value.size()),
        None => 1,
    }
}

/// Returns the cost of a joined string: a fifth of its length.
fn joined(args: &[Value<'_>]) -> u64 {
    let Some(Value::List(list)) = args.first() else {
        return 1;
    };
    let gaps = (list.len() as u64).saturating_sub(1);
    let separators = args.get(1).map_or(0, Value::size).saturating_mul(gaps);
    let texts = list.iter().map(|text| text.size()).fold(0, u64::saturating_add);
    twice(texts.saturating_add(separators))
}

/// Returns the cost of comparing addresses by their bytes. A string argument is parsed first.
fn contained(function: &str, args: &[Value<'_>]) -> u64 {
    let bytes = match args.first() {
        Some(Value::Opaque(opaque)) => match **opaque {
            Opaque::Cidr(cidr) if cidr.ip.is_ipv6() => 16,
            _ => 4,
        },
        _ => 4,
    };
    let parsed = match args.get(1) {
        Some(text @ Value::String(_)) => traversal(text.size()),
        _ => 0,
    };
    let mask = if function == "containsCIDR" {
        traversal(bytes) + 1
    } else {
        0
    };
    twice(bytes).saturating_add(mask).saturating_add(parsed)
}

/// Returns the cost of a named format: the cost of its pattern, whose length is an upper bound.
fn formatted(args: &[Value<'_>]) -> u64 {
    let pattern: u64 = match args.first() {
        Some(Value::Opaque(opaque)) => match **opaque {
            Opaque::Format("dns1123Label" | "dns1123LabelPrefix" | "dns1035Label" | "dns1035LabelPrefix") => {
                30
            }
            Opaque::Format("dns1123Subdomain" | "dns1123SubdomainPrefix" | "qualifiedName") => 60,
            Opaque::Format("labelValue") => 40,
            Opaque::Format("uuid" | "date" | "datetime") => 72,
            Opaque::Format("byte") => 80,
            _ => 1000,
        },
        _ => 1000,
    };
    let text = args.get(1).map_or(0, Value::size);
    traversal(text.saturating_add(1)).saturating_mul(pattern.div_ceil(4))
}

/// Returns a fifth of the length, at least 1.
fn twice(size: u64) -> u64 {
    traversal(size.saturating_mul(2))
}

/// Returns a tenth of the length, at least 1.
fn traversal(size: u64) -> u64 {
    size.div_ceil(10).max(1)
}

/// Returns the steps of a call, without those that it counts itself. Most functions visit all of their arguments.
pub(crate) fn effort(function: &str, args: &[Value<'_>]) -> usize {
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

/// Returns the error for an entry that cannot be inserted into a map.
pub(crate) fn insert_error(why: InsertError, key: &Value<'_>) -> String {
    match why {
        InsertError::NoKey => "unsupported key type".to_owned(),
        InsertError::Repeated => {
            let key = convert::to_text(key).unwrap_or_default();
            format!("insert failed: key {key} already exists")
        }
    }
}

/// Calls a function with constant arguments.
pub(crate) fn call_constant<'a>(function: &str, args: &[Value<'a>]) -> Result<Value<'a>, String> {
    let work = Work::default();
    dispatch(
        function,
        args,
        &Context {
            constants: None,
            work: &work,
        },
    )
}

/// The context of a function call.
struct Context<'c> {
    /// The constant patterns of the expression.
    constants: Option<&'c Patterns>,
    work: &'c Work,
}

impl Context<'_> {
    /// Returns a compiled pattern; each pattern is compiled once.
    fn pattern(&self, source: &str) -> Result<Regexp, String> {
        let constant = self.constants.and_then(|patterns| patterns.get(source));
        constant.map_or_else(|| self.work.pattern(source), |pattern| Ok(pattern.clone()))
    }
}

/// Calls a function. The receiver of a method is the first argument.
pub(crate) fn call<'a>(
    function: &str,
    args: &[Value<'a>],
    constants: &Patterns,
    work: &Work,
) -> Result<Value<'a>, String> {
    let constants = Some(constants);
    dispatch(function, args, &Context { constants, work })
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

/// The result of a call; `None` if the module has no overload for it.
type Called<'a> = Option<Result<Value<'a>, String>>;
