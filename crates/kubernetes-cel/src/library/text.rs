//! Functions of strings, regular expressions and named formats.

use apimachinery::go::{base64, url};
use apimachinery::{names, time};

use super::{Called, Context, format};
use crate::value::{List, Opaque, Text, Value};
use crate::work::Work;

pub(super) fn call<'a>(function: &str, args: &[Value<'a>], context: &Context<'_>) -> Called<'a> {
    let Some(Value::String(text)) = args.first() else {
        return on_others(function, args);
    };
    let work = context.work;
    let rest = args.get(1..).unwrap_or_default();
    let characters = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    Some(match (function, rest) {
        ("size", []) => Ok(Value::Int(characters())),
        ("contains", [Value::String(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::String(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::String(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("matches", [Value::String(pattern)]) => {
            let pattern = context.pattern(pattern);
            pattern.map(|pattern| Value::Bool(work.run(|steps| pattern.is_match(text, steps))))
        }
        ("find", [Value::String(pattern)]) => context.pattern(pattern).map(|pattern| {
            let found = work.run(|steps| pattern.find_at(text, 0, steps));
            Value::String(found.map_or(Text::from(""), |(start, end)| text.part(start..end)))
        }),
        ("findAll", [Value::String(pattern)]) => find_all(text, pattern, -1, context),
        ("findAll", [Value::String(pattern), Value::Int(limit)]) => find_all(text, pattern, *limit, context),
        ("charAt", [Value::Int(index)]) => char_at(text, *index, characters()),
        ("indexOf", [Value::String(part)]) => Ok(Value::Int(index_of(text, part, 0))),
        // An empty part is found at any position, even outside of the string.
        ("indexOf" | "lastIndexOf", [Value::String(part), Value::Int(at)]) if part.is_empty() => {
            Ok(Value::Int(*at))
        }
        ("indexOf" | "lastIndexOf", [Value::String(_), Value::Int(at)]) if *at >= characters() => {
            Ok(Value::Int(-1))
        }
        ("indexOf", [Value::String(part), Value::Int(from)]) => match usize::try_from(*from) {
            Ok(start) => Ok(Value::Int(index_of(text, part, start))),
            Err(_) => Err(format!("index out of range: {from}")),
        },
        ("lastIndexOf", [Value::String(part)]) => Ok(Value::Int(last_index_of(text, part, i64::MAX))),
        ("lastIndexOf", [Value::String(_), Value::Int(to)]) if *to < 0 => {
            Err(format!("index out of range: {to}"))
        }
        ("lastIndexOf", [Value::String(part), Value::Int(to)]) => {
            Ok(Value::Int(last_index_of(text, part, *to)))
        }
        ("lowerAscii", []) => copied(text.len(), work, || text.to_ascii_lowercase()),
        ("upperAscii", []) => copied(text.len(), work, || text.to_ascii_uppercase()),
        ("trim", []) => Ok(Value::String(text.part_of(text.trim()))),
        ("replace", [Value::String(from), Value::String(to)]) => replace(text, from, to, -1, work),
        ("replace", [Value::String(from), Value::String(to), Value::Int(count)]) => {
            replace(text, from, to, *count, work)
        }
        ("split", [Value::String(separator)]) => split(text, separator, -1, work),
        ("split", [Value::String(separator), Value::Int(count)]) => split(text, separator, *count, work),
        ("substring", [Value::Int(from)]) => substring(text, *from, characters()),
        ("substring", [Value::Int(from), Value::Int(to)]) => substring(text, *from, *to),
        ("format", [Value::List(list)]) => format::format(text, list, work).map(Value::text),
        ("jsonpatch.escapeKey", []) => copied(text.len().saturating_mul(2), work, || {
            text.replace('~', "~0").replace('/', "~1")
        }),
        ("strings.quote", []) => copied(text.len().saturating_mul(2), work, || quote(text)),
        ("format.named", []) => {
            let found = FORMATS.iter().find(|name| ***name == **text);
            Ok(Value::Optional(found.map(|name| Box::new(named(name)))))
        }
        _ => return None,
    })
}

fn on_others<'a>(function: &str, args: &[Value<'a>]) -> Called<'a> {
    match (function, args) {
        ("size", [Value::Bytes(bytes)]) => {
            Some(Ok(Value::Int(i64::try_from(bytes.len()).unwrap_or(i64::MAX))))
        }
        ("validate", [Value::Opaque(opaque), Value::String(text)]) => match **opaque {
            Opaque::Format(name) => Some(Ok(validate(name, text))),
            _ => None,
        },
        (name, []) => {
            let name = name.strip_prefix("format.")?;
            FORMATS
                .iter()
                .find(|found| **found == name)
                .map(|name| Ok(named(name)))
        }
        _ => None,
    }
}

pub(super) const TOO_LARGE: &str = "result is too large";

/// Returns a new string with at most `len` bytes, if enough memory is left.
fn copied<'a>(len: usize, work: &Work, make: impl FnOnce() -> String) -> Result<Value<'a>, String> {
    if work.make(len) {
        Ok(Value::text(make()))
    } else {
        Err(TOO_LARGE.to_owned())
    }
}

/// Returns the parts of a string at some ranges as a list.
fn parts<'a>(
    text: &Text<'a>,
    count: usize,
    ranges: impl Iterator<Item = (usize, usize)>,
    work: &Work,
) -> Result<Value<'a>, String> {
    if !work.make(count.saturating_mul(size_of::<Value<'a>>())) {
        return Err(TOO_LARGE.to_owned());
    }
    let parts = ranges.map(|(start, end)| Value::String(text.part(start..end)));
    Ok(Value::List(List::new(parts.collect())))
}

fn find_all<'a>(
    text: &Text<'a>,
    pattern: &str,
    limit: i64,
    context: &Context<'_>,
) -> Result<Value<'a>, String> {
    let pattern = context.pattern(pattern)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = context.work.run(|steps| pattern.find_all(text, limit, steps));
    parts(text, found.len(), found.into_iter(), context.work)
}

fn char_at<'a>(text: &str, index: i64, len: i64) -> Result<Value<'a>, String> {
    if index == len {
        return Ok(Value::text(""));
    }
    let found = usize::try_from(index)
        .ok()
        .and_then(|index| text.chars().nth(index));
    found
        .map(|c| Value::text(c.to_string()))
        .ok_or_else(|| format!("index out of range: {index}"))
}

fn index_of(text: &str, part: &str, from: usize) -> i64 {
    let start = text.char_indices().nth(from).map_or(text.len(), |(at, _)| at);
    let tail = text.get(start..).unwrap_or("");
    match tail.find(part) {
        Some(at) => i64::try_from(from + tail.get(..at).unwrap_or("").chars().count()).unwrap_or(-1),
        None => -1,
    }
}

/// Returns the last position of a part that starts at or before the character `to`.
fn last_index_of(text: &str, part: &str, to: i64) -> i64 {
    let skipped = usize::try_from(to).unwrap_or(usize::MAX);
    let start = text.char_indices().nth(skipped).map_or(text.len(), |(at, _)| at);
    let end = start.saturating_add(part.len()).min(text.len());
    // The end of the last possible match may be inside a character.
    let end = (end..=text.len())
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(text.len());
    let head = text.get(..end).unwrap_or("");
    let found = head.rfind(part).map(|at| at.min(start));
    found.map_or(-1, |at| {
        let before = text.get(..at).unwrap_or("").chars().count();
        i64::try_from(before).unwrap_or(-1)
    })
}

fn replace<'a>(text: &str, from: &str, to: &str, count: i64, work: &Work) -> Result<Value<'a>, String> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let found = text.matches(from).take(count).count();
    let size = text.len().saturating_add(found.saturating_mul(to.len()));
    copied(size, work, || text.replacen(from, to, count))
}

fn split<'a>(text: &Text<'a>, separator: &str, count: i64, work: &Work) -> Result<Value<'a>, String> {
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let mut ranges = Vec::new();
    let mut start = 0;
    if limit > 0 && !(separator.is_empty() && text.is_empty()) {
        let ends = text
            .match_indices(separator)
            .map(|(at, found)| (at, at + found.len()));
        // An empty separator matches between all characters, but not at the ends.
        let is_inside = |at: usize| !separator.is_empty() || at > 0 && at < text.len();
        for (end, next) in ends.filter(|(at, _)| is_inside(*at)).take(limit - 1) {
            if !work.make(size_of::<(usize, usize)>()) {
                return Err(TOO_LARGE.to_owned());
            }
            ranges.push((start, end));
            start = next;
        }
        ranges.push((start, text.len()));
    }
    parts(text, ranges.len(), ranges.into_iter(), work)
}

fn substring<'a>(text: &Text<'a>, from: i64, to: i64) -> Result<Value<'a>, String> {
    let len = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if from < 0 || from > len {
        return Err(format!("index out of range: {from}"));
    }
    if to < 0 || to > len {
        return Err(format!("index out of range: {to}"));
    }
    if from > to {
        return Err(format!("invalid substring range. start: {from}, end: {to}"));
    }
    let (skip, take) = (
        usize::try_from(from).unwrap_or(0),
        usize::try_from(to - from).unwrap_or(0),
    );
    let offset = |text: &str, count: usize| text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    let start = offset(text, skip);
    let end = start + offset(text.get(start..).unwrap_or(""), take);
    Ok(Value::String(text.part(start..end)))
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

const FORMATS: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

fn named<'a>(name: &'static str) -> Value<'a> {
    Value::Opaque(Opaque::Format(name).into())
}

/// Validates a string with a named format; returns the violations.
fn validate<'a>(name: &str, text: &str) -> Value<'a> {
    // A prefix may end with a dash, so it is validated with a suffix.
    let with_suffix = || {
        if text.ends_with('-') {
            format!("{}a", text.trim_end_matches('-'))
        } else {
            text.to_owned()
        }
    };
    let when = |bad: bool, message: &str| if bad { vec![message.to_owned()] } else { Vec::new() };
    let problems = match name {
        "dns1123Label" => names::dns1123_label(text),
        "dns1123Subdomain" => names::dns1123_subdomain(text),
        "dns1035Label" => names::dns1035_label(text),
        "qualifiedName" => names::qualified_name(text),
        "dns1123LabelPrefix" => names::dns1123_label(&with_suffix()),
        "dns1123SubdomainPrefix" => names::dns1123_subdomain(&with_suffix()),
        "dns1035LabelPrefix" => names::dns1035_label(&with_suffix()),
        "labelValue" => names::label_value(text),
        "uri" => url::parse_request_uri(text).err().into_iter().collect(),
        "uuid" => when(!names::is_uuid(text, None), "does not match the UUID format"),
        "byte" => when(!base64::is_byte_format(text), "invalid base64"),
        "date" => when(time::parse_date(text).is_none(), "invalid date"),
        "datetime" => when(!time::is_date_time(text), "invalid datetime"),
        _ => Vec::new(),
    };
    if problems.is_empty() {
        return Value::Optional(None);
    }
    let list = List::new(problems.into_iter().map(Value::text).collect());
    Value::Optional(Some(Box::new(Value::List(list))))
}
