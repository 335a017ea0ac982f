//! Functions of lists, maps and sets.

use super::{Called, Context};
use crate::value::{List, Members, Value, compare, equals};
use crate::work::Work;

pub(super) fn call<'a>(function: &str, args: &[Value<'a>], context: &Context<'_>) -> Called<'a> {
    let work = context.work;
    let list = match args.first() {
        Some(Value::List(list)) => list,
        Some(Value::Map(map)) if function == "size" => return Some(Ok(count(map.len()))),
        Some(Value::Int(end)) if function == "lists.range" => return Some(range(*end, work)),
        _ => return None,
    };
    let rest = args.get(1..).unwrap_or_default();
    let items = || list.items(work);
    Some(match (function, rest) {
        ("size", []) => Ok(count(list.len())),
        ("sum", []) => sum(&items(), context),
        ("min" | "max", []) => extreme(function, &compared(items(), work)),
        ("isSorted", []) => {
            let items = compared(items(), work);
            let sorted = items.windows(2).all(|pair| match pair {
                [a, b] => compare(a, b).is_some_and(std::cmp::Ordering::is_le),
                _ => true,
            });
            Ok(Value::Bool(sorted))
        }
        ("indexOf", [item]) => Ok(index(list.iter().position(|found| equals(&found, item, work)))),
        ("lastIndexOf", [item]) => Ok(index(items().iter().rposition(|found| equals(found, item, work)))),
        ("join", []) => join(&items(), "", work),
        ("join", [Value::String(separator)]) => join(&items(), separator, work),
        ("distinct", []) => Ok(made(Members::of(items(), work).items)),
        ("reverse", []) => Ok(made(items().into_iter().rev().collect())),
        ("first", []) => Ok(Value::Optional(list.get(0).map(Box::new))),
        ("last", []) => {
            let last = list.len().checked_sub(1).and_then(|index| list.get(index));
            Ok(Value::Optional(last.map(Box::new)))
        }
        ("slice", [Value::Int(from), Value::Int(to)]) => slice(list, *from, *to, work),
        ("flatten", []) => Ok(made(flatten(items(), 1, work))),
        ("flatten", [Value::Int(depth)]) => match usize::try_from(*depth) {
            Ok(depth) => Ok(made(flatten(items(), depth, work))),
            Err(_) => Err("level must be non-negative".to_owned()),
        },
        ("sort", []) => {
            let items = items();
            sort_by(items.clone(), &items, work)
        }
        ("@sortByAssociatedKeys", [Value::List(keys)]) => sort_by(items(), &keys.items(work), work),
        ("sets.contains", [Value::List(other)]) => {
            let members = Members::of(items(), work);
            Ok(Value::Bool(members.has_all(other.iter(), work)))
        }
        ("sets.equivalent", [Value::List(other)]) => {
            let (ours, theirs) = (Members::of(items(), work), Members::of(other.items(work), work));
            Ok(Value::Bool(
                ours.has_all(other.iter(), work) && theirs.has_all(list.iter(), work),
            ))
        }
        ("sets.intersects", [Value::List(other)]) => {
            let members = Members::of(items(), work);
            Ok(Value::Bool(other.iter().any(|item| members.has(&item, work))))
        }
        _ => return None,
    })
}

const TOO_LARGE: &str = "result is too large";

/// Returns the steps of comparing all strings of a list with another value.
fn text_effort(items: &[Value<'_>]) -> usize {
    let effort = |item: &Value<'_>| match item {
        Value::String(text) => 1 + text.len() / 64,
        Value::Bytes(bytes) => 1 + bytes.len() / 64,
        _ => 1,
    };
    items.iter().map(effort).fold(0, usize::saturating_add)
}

/// Returns the items of a list if enough work is left to compare each of them.
fn compared<'a>(items: Vec<Value<'a>>, work: &Work) -> Vec<Value<'a>> {
    if work.spend(text_effort(&items)) {
        items
    } else {
        Vec::new()
    }
}

fn made(items: Vec<Value<'_>>) -> Value<'_> {
    Value::List(List::new(items))
}

fn count<'a>(size: usize) -> Value<'a> {
    Value::Int(i64::try_from(size).unwrap_or(i64::MAX))
}

fn index<'a>(position: Option<usize>) -> Value<'a> {
    position.map_or(Value::Int(-1), count)
}

fn range<'a>(end: i64, work: &Work) -> Result<Value<'a>, String> {
    const MAX: i64 = 1_000_000;
    if end > MAX {
        return Err(format!("lists.range: {end} is more than {MAX}"));
    }
    let len = usize::try_from(end).unwrap_or(0);
    if !work.spend(len) || !work.make(len.saturating_mul(size_of::<Value<'a>>())) {
        return Err(TOO_LARGE.to_owned());
    }
    Ok(made((0..end.max(0)).map(Value::Int).collect()))
}

fn sum<'a>(items: &[Value<'a>], context: &Context<'_>) -> Result<Value<'a>, String> {
    let mut items = items.iter();
    let Some(first) = items.next() else {
        return Ok(Value::Int(0));
    };
    items.try_fold(first.clone(), |total, item| {
        super::dispatch("_+_", &[total, item.clone()], context)
    })
}

fn extreme<'a>(function: &str, items: &[Value<'a>]) -> Result<Value<'a>, String> {
    let mut items = items.iter();
    let first = items
        .next()
        .ok_or_else(|| format!("{function} called on empty list"))?;
    let better = if function == "min" {
        std::cmp::Ordering::Less
    } else {
        std::cmp::Ordering::Greater
    };
    Ok(items
        .fold(first, |best, item| {
            if compare(item, best) == Some(better) {
                item
            } else {
                best
            }
        })
        .clone())
}

fn join<'a>(items: &[Value<'a>], separator: &str, work: &Work) -> Result<Value<'a>, String> {
    let texts: Option<Vec<&str>> = items
        .iter()
        .map(|item| match item {
            Value::String(text) => Some(&**text),
            _ => None,
        })
        .collect();
    let texts = texts.ok_or_else(|| "no such overload".to_owned())?;
    let size = texts
        .iter()
        .map(|text| text.len().saturating_add(separator.len()))
        .fold(0, usize::saturating_add);
    if !work.spend(size / 16) || !work.make(size) {
        return Err(TOO_LARGE.to_owned());
    }
    Ok(Value::text(texts.join(separator)))
}

fn slice<'a>(list: &List<'a>, from: i64, to: i64, work: &Work) -> Result<Value<'a>, String> {
    let len = list.len();
    if from < 0 || to < 0 {
        return Err(format!(
            "cannot slice({from}, {to}), negative indexes not supported"
        ));
    }
    if from > to {
        return Err(format!(
            "cannot slice({from}, {to}), start index must be less than or equal to end index"
        ));
    }
    let bounds = usize::try_from(from).unwrap_or(usize::MAX)..usize::try_from(to).unwrap_or(usize::MAX);
    if bounds.end > len {
        return Err(format!("cannot slice({from}, {to}), list is length {len}"));
    }
    if !work.spend(bounds.len()) || !work.make(bounds.len().saturating_mul(size_of::<Value<'a>>())) {
        return Err(TOO_LARGE.to_owned());
    }
    Ok(made(bounds.filter_map(|index| list.get(index)).collect()))
}

fn flatten<'a>(items: Vec<Value<'a>>, depth: usize, work: &Work) -> Vec<Value<'a>> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Value::List(inner) if depth > 0 => out.extend(flatten(inner.items(work), depth - 1, work)),
            other => out.push(other),
        }
    }
    out
}

/// Sorts items by their keys; `keys` has one key for each item.
fn sort_by<'a>(items: Vec<Value<'a>>, keys: &[Value<'a>], work: &Work) -> Result<Value<'a>, String> {
    let rounds = keys.len().checked_ilog2().map_or(1, |rounds| rounds as usize + 1);
    if !work.spend(text_effort(keys).saturating_mul(rounds)) {
        return Err(TOO_LARGE.to_owned());
    }
    if let Some(first) = keys.first() {
        if compare(first, first).is_none() {
            return Err("list elements must be comparable".to_owned());
        }
        if keys.iter().any(|key| key.type_name() != first.type_name()) {
            return Err("list elements must have the same type".to_owned());
        }
    }
    let mut sorted: Vec<(Value<'a>, &Value<'a>)> = items.into_iter().zip(keys).collect();
    sorted.sort_by(|(_, a), (_, b)| compare(a, b).unwrap_or(std::cmp::Ordering::Equal));
    Ok(made(sorted.into_iter().map(|(item, _)| item).collect()))
}
