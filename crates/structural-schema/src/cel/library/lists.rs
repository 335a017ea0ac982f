//! Lists, maps and sets.

use super::Called;
use crate::cel::value::{List, Value, compare, equals};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Called<'a> {
    let list = match args.first() {
        Some(Value::List(list)) => list,
        Some(Value::Map(map)) if function == "size" => return Some(Ok(count(map.len()))),
        Some(Value::Int(end)) if function == "lists.range" => return Some(range(*end)),
        _ => return None,
    };
    let rest = args.get(1..).unwrap_or_default();
    let items = || list.items();
    Some(match (function, rest) {
        ("size", []) => Ok(count(list.len())),
        ("sum", []) => sum(&items()),
        ("min" | "max", []) => extreme(function, &items()),
        ("isSorted", []) => {
            let items = items();
            let sorted = items.windows(2).all(|pair| match pair {
                [a, b] => compare(a, b).is_some_and(std::cmp::Ordering::is_le),
                _ => true,
            });
            Ok(Value::Bool(sorted))
        }
        ("indexOf", [item]) => Ok(index(items().iter().position(|found| equals(found, item)))),
        ("lastIndexOf", [item]) => Ok(index(items().iter().rposition(|found| equals(found, item)))),
        ("join", []) => join(&items(), ""),
        ("join", [Value::String(separator)]) => join(&items(), separator),
        ("distinct", []) => Ok(made(distinct(items()))),
        ("reverse", []) => Ok(made(items().into_iter().rev().collect())),
        ("first", []) => Ok(Value::Optional(list.get(0).map(Box::new))),
        ("last", []) => {
            let last = list.len().checked_sub(1).and_then(|index| list.get(index));
            Ok(Value::Optional(last.map(Box::new)))
        }
        ("slice", [Value::Int(from), Value::Int(to)]) => slice(&items(), *from, *to),
        ("flatten", []) => Ok(made(flatten(items(), 1))),
        ("flatten", [Value::Int(depth)]) => match usize::try_from(*depth) {
            Ok(depth) => Ok(made(flatten(items(), depth))),
            Err(_) => Err("level must be non-negative".to_owned()),
        },
        ("sort", []) => {
            let items = items();
            sort_by(items.clone(), &items)
        }
        ("@sortByAssociatedKeys", [Value::List(keys)]) => sort_by(items(), &keys.items()),
        ("sets.contains", [Value::List(other)]) => {
            let items = items();
            Ok(Value::Bool(contains_all(&items, &other.items())))
        }
        ("sets.equivalent", [Value::List(other)]) => {
            let (items, other) = (items(), other.items());
            Ok(Value::Bool(
                contains_all(&items, &other) && contains_all(&other, &items),
            ))
        }
        ("sets.intersects", [Value::List(other)]) => {
            let items = items();
            let any = other
                .items()
                .iter()
                .any(|item| items.iter().any(|found| equals(found, item)));
            Ok(Value::Bool(any))
        }
        _ => return None,
    })
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

fn range<'a>(end: i64) -> Result<Value<'a>, String> {
    const MAX: i64 = 1_000_000;
    if end > MAX {
        return Err(format!("lists.range: {end} is more than {MAX}"));
    }
    Ok(made((0..end.max(0)).map(Value::Int).collect()))
}

fn sum<'a>(items: &[Value<'a>]) -> Result<Value<'a>, String> {
    let mut items = items.iter();
    let Some(first) = items.next() else {
        return Ok(Value::Int(0));
    };
    items.try_fold(first.clone(), |total, item| {
        super::call("_+_", &[total, item.clone()])
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

fn join<'a>(items: &[Value<'a>], separator: &str) -> Result<Value<'a>, String> {
    let texts: Option<Vec<&str>> = items
        .iter()
        .map(|item| match item {
            Value::String(text) => Some(text.as_ref()),
            _ => None,
        })
        .collect();
    texts
        .map(|texts| Value::text(texts.join(separator)))
        .ok_or_else(|| "no such overload".to_owned())
}

fn distinct(items: Vec<Value<'_>>) -> Vec<Value<'_>> {
    let mut found: Vec<Value<'_>> = Vec::new();
    for item in items {
        if !found.iter().any(|other| equals(other, &item)) {
            found.push(item);
        }
    }
    found
}

fn slice<'a>(items: &[Value<'a>], from: i64, to: i64) -> Result<Value<'a>, String> {
    let len = items.len();
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
    let found = items
        .get(bounds)
        .ok_or_else(|| format!("cannot slice({from}, {to}), list is length {len}"))?;
    Ok(made(found.to_vec()))
}

fn flatten(items: Vec<Value<'_>>, depth: usize) -> Vec<Value<'_>> {
    let mut out = Vec::new();
    for item in items {
        match item {
            Value::List(inner) if depth > 0 => out.extend(flatten(inner.items(), depth - 1)),
            other => out.push(other),
        }
    }
    out
}

/// Sorts items by keys, of which there is one for each.
fn sort_by<'a>(items: Vec<Value<'a>>, keys: &[Value<'a>]) -> Result<Value<'a>, String> {
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

fn contains_all(items: &[Value<'_>], wanted: &[Value<'_>]) -> bool {
    wanted
        .iter()
        .all(|item| items.iter().any(|found| equals(found, item)))
}
