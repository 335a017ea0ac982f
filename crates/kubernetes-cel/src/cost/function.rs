//! The cost of each function without its arguments, and the size of its result.

use super::size::{Size, tenth};
use crate::types::Type;

/// The arguments of a call. The receiver of a method is the first one.
pub(super) struct Call<'c> {
    pub(super) is_member: bool,
    pub(super) kinds: &'c [&'c Type],
    pub(super) sizes: &'c [Size],
    /// The size of the items of the first argument, if the schema declares it.
    pub(super) elements: Option<Size>,
    /// The first argument that is not the receiver, if it is an integer.
    pub(super) first: Option<u64>,
    /// The second argument that is not the receiver, if it is an integer.
    pub(super) limit: Option<u64>,
}

impl Call<'_> {
    fn size(&self, index: usize) -> Size {
        self.sizes.get(index).copied().unwrap_or(Size::exactly(0))
    }

    fn kind(&self, index: usize) -> &Type {
        self.kinds.get(index).copied().unwrap_or(&Type::Dyn)
    }

    /// Returns true if the argument may have one of these types; an unknown type matches all functions.
    fn may_be(&self, index: usize, is: fn(&Type) -> bool) -> bool {
        let kind = self.kind(index);
        is(kind) || kind.is_dyn()
    }
}

fn is_text(kind: &Type) -> bool {
    matches!(kind, Type::String | Type::Bytes)
}

fn is_list(kind: &Type) -> bool {
    matches!(kind, Type::List(_))
}

/// The cost of comparing IP addresses by their bytes: at most 16 bytes, twice.
const NETWORK_COMPARISON: u64 = 4;
const NETWORK_MASK: u64 = 3;
/// The cost for each character of the longest pattern of a named format.
const FORMAT_FACTOR: u64 = 32;
const AUTHORIZATION: u64 = 350_000;

/// Returns the cost of a call without its arguments, and the size of its result if it is known.
pub(super) fn estimate(function: &str, call: &Call<'_>) -> (u64, Option<Size>) {
    let (a, b) = (call.size(0), call.size(1));
    match function {
        "check" => (AUTHORIZATION, None),
        "_==_" | "_!=_" => (equality(function, call), None),
        "_<_" | "_<=_" | "_>_" | "_>=_" if call.may_be(0, is_text) && call.may_be(1, is_text) => {
            (tenth(a.max.min(b.max)), None)
        }
        "_+_" if call.kinds.len() == 2 => addition(call),
        "@in" if call.may_be(1, is_list) => (b.max, None),
        "startsWith" | "endsWith" => (b.traversal(), None),
        "contains" if call.is_member => (a.traversal().saturating_mul(b.traversal()), None),
        "matches" if call.is_member => (pattern(a, b), None),
        "find" | "findAll" => (pattern(a, b), Some(Size { min: 0, max: a.max })),
        "bytes" if call.may_be(0, is_text) && *call.kind(0) != Type::Bytes => {
            let max = a.max.saturating_mul(4);
            (a.traversal(), Some(Size { min: a.min, max }))
        }
        "string" if matches!(call.kind(0), Type::Bytes | Type::Dyn) => {
            let min = a.min / 4;
            (a.traversal(), Some(Size { min, max: a.max }))
        }
        "format" => (a.traversal(), None),
        "strings.quote" => {
            let doubled = a.multiply(Size { min: 1, max: 2 });
            (a.traversal(), Some(doubled.add(Size::exactly(2))))
        }
        "url" | "jsonpatch.escapeKey" | "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            (a.traversal(), Some(a))
        }
        "ip" if *call.kind(0) == Type::Opaque("net.CIDR") => (1, None),
        "ip" | "isIP" | "cidr" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            (a.traversal(), None)
        }
        "ip.isCanonical" => (twice(a), None),
        "replace" => (twice(a), Some(replaced(a, b, call.size(2)))),
        "split" => {
            let max = call.limit.unwrap_or(a.max);
            (twice(a), Some(Size { min: 0, max }))
        }
        "join" => joined(call),
        "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf" => (compared(call), None),
        "sets.contains" | "sets.intersects" => (a.multiply(b).max.saturating_add(1), None),
        "sets.equivalent" => (a.multiply(b).max.saturating_mul(2).saturating_add(1), None),
        "validate" => (a_format(b), None),
        "containsIP" => (NETWORK_COMPARISON.saturating_add(parsed(call)), None),
        "containsCIDR" => (
            (NETWORK_COMPARISON + NETWORK_MASK).saturating_add(parsed(call)),
            None,
        ),
        "slice" | "flatten" | "reverse" | "distinct" | "sort" | "@sortByAssociatedKeys" | "lists.range" => {
            list_function(function, call)
        }
        _ => (1, None),
    }
}

fn equality(function: &str, call: &Call<'_>) -> u64 {
    let opaque = matches!((call.kind(0), call.kind(1)), (Type::Opaque(a), Type::Opaque(b)) if a == b);
    if opaque && function == "_==_" {
        let is_format = call.kind(0) == &Type::Opaque("kubernetes.NamedFormat");
        return if is_format { 7 } else { 1 };
    }
    tenth(call.size(0).max.min(call.size(1).max))
}

fn addition(call: &Call<'_>) -> (u64, Option<Size>) {
    let sum = call.size(0).add(call.size(1));
    let texts = call.may_be(0, is_text) && call.may_be(1, is_text);
    let lists = call.may_be(0, is_list) && call.may_be(1, is_list);
    match (texts, lists) {
        (true, _) => (sum.traversal().max(u64::from(lists)), Some(sum)),
        (false, true) => (1, Some(sum)),
        (false, false) => (1, None),
    }
}

/// Returns the cost of matching a pattern with a string. Four characters of the pattern count as one expression.
fn pattern(text: Size, pattern: Size) -> u64 {
    tenth(text.max.saturating_add(1)).saturating_mul(quarter(pattern.max))
}

fn quarter(size: u64) -> u64 {
    if size == u64::MAX { size } else { size.div_ceil(4) }
}

/// Returns the cost of traversing a string and creating one from it.
fn twice(text: Size) -> u64 {
    if text.max == u64::MAX {
        return u64::MAX;
    }
    text.max.saturating_mul(2).div_ceil(10)
}

fn replaced(text: Size, from: Size, to: Size) -> Size {
    let (mut count, mut kept) = (Size::exactly(0), Size::exactly(0));
    if from.min == 0 {
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if to.max <= from.min {
        kept.max = text.max;
    } else {
        count.max = text.max.div_ceil(from.min);
    }
    if from.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if from.max <= to.min {
        kept.min = text.min;
    } else {
        count.min = text.min.div_ceil(from.max);
    }
    count.multiply(to).add(kept)
}

fn joined(call: &Call<'_>) -> (u64, Option<Size>) {
    let list = call.size(0);
    let texts = list.multiply(call.elements.unwrap_or(Size::ANY));
    let gaps = Size {
        min: list.min.saturating_sub(1),
        max: list.max.saturating_sub(1),
    };
    let whole = texts.add(call.size(1).multiply(gaps));
    (whole.traversal(), Some(whole))
}

/// Returns the cost of a function that visits every item once, and traverses strings in it.
fn compared(call: &Call<'_>) -> u64 {
    let list = call.size(0);
    match call.kind(0) {
        Type::List(item) => {
            let walk = if is_text(item) {
                call.elements.unwrap_or(Size::ANY).traversal()
            } else {
                0
            };
            list.max.saturating_mul(walk.saturating_add(1))
        }
        _ => list.traversal(),
    }
}

/// Returns the cost of validating a string with a named format.
fn a_format(text: Size) -> u64 {
    text.traversal().saturating_mul(FORMAT_FACTOR)
}

/// Returns the cost of parsing a string argument as an address.
fn parsed(call: &Call<'_>) -> u64 {
    match call.kind(1) {
        Type::String | Type::Dyn => call.size(1).traversal(),
        _ => 0,
    }
}

/// Returns the cost of a function that creates a list: 10, and 1 for the call.
fn list_function(function: &str, call: &Call<'_>) -> (u64, Option<Size>) {
    const OWN: u64 = 11;
    let list = call.size(0);
    let square = |keys: Size, items: &Type| {
        let all = keys.multiply(keys);
        let cost = all.max.saturating_mul(2);
        let texts = if is_text(items) { all.traversal() } else { 0 };
        (cost.saturating_add(texts), all)
    };
    let item = |index: usize| match call.kind(index) {
        Type::List(item) => (**item).clone(),
        _ => Type::Dyn,
    };
    let (cost, size) = match function {
        "slice" => {
            let end = call.limit.unwrap_or(list.max);
            let size = Size::exactly(end.saturating_sub(call.first.unwrap_or(0)));
            (size.max, size)
        }
        "lists.range" => {
            let size = Size::exactly(call.first.unwrap_or(u64::MAX));
            (size.max, size)
        }
        "flatten" => {
            let depth = if call.kinds.len() > 1 {
                call.first.unwrap_or(u64::MAX)
            } else {
                1
            };
            (list.max.saturating_mul(depth), list)
        }
        "distinct" => {
            let all = list.multiply(list);
            (all.max.saturating_mul(2), all)
        }
        "sort" => square(list, &item(0)),
        "@sortByAssociatedKeys" => square(call.size(1), &item(1)),
        _ => (list.max, list),
    };
    (cost.saturating_add(OWN), Some(size))
}
