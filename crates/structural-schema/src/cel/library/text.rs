//! Strings, regular expressions and named formats.

use super::Called;
use super::convert::to_text;
use crate::cel::value::{List, Opaque, Value, decode_base64};
use crate::go::{regexp, time, url};
use crate::{go, names};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Called<'a> {
    let text = match args.first() {
        Some(Value::String(text)) => text.as_ref(),
        _ => return on_others(function, args),
    };
    let rest = args.get(1..).unwrap_or_default();
    let characters = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    Some(match (function, rest) {
        ("size", []) => Ok(Value::Int(characters())),
        ("contains", [Value::String(part)]) => Ok(Value::Bool(text.contains(part.as_ref()))),
        ("startsWith", [Value::String(part)]) => Ok(Value::Bool(text.starts_with(part.as_ref()))),
        ("endsWith", [Value::String(part)]) => Ok(Value::Bool(text.ends_with(part.as_ref()))),
        ("matches", [Value::String(pattern)]) => {
            regexp::compile(pattern).map(|pattern| Value::Bool(pattern.is_match(text)))
        }
        ("find", [Value::String(pattern)]) => regexp::compile(pattern).map(|pattern| {
            Value::text(
                pattern
                    .find(text)
                    .map_or(String::new(), |found| found.as_str().to_owned()),
            )
        }),
        ("findAll", [Value::String(pattern)]) => find_all(text, pattern, -1),
        ("findAll", [Value::String(pattern), Value::Int(limit)]) => find_all(text, pattern, *limit),
        ("charAt", [Value::Int(index)]) => char_at(text, *index, characters()),
        ("indexOf", [Value::String(part)]) => Ok(Value::Int(index_of(text, part, 0))),
        ("indexOf", [Value::String(part), Value::Int(from)]) => match usize::try_from(*from) {
            Ok(start) if *from < characters() => Ok(Value::Int(index_of(text, part, start))),
            Ok(_) if part.is_empty() || *from == characters() => Ok(Value::Int(-1)),
            _ => Err(format!("index out of range: {from}")),
        },
        ("lastIndexOf", [Value::String(part)]) => Ok(Value::Int(last_index_of(text, part, i64::MAX))),
        ("lastIndexOf", [Value::String(part), Value::Int(to)]) if (0..characters().max(1)).contains(to) => {
            Ok(Value::Int(last_index_of(text, part, *to)))
        }
        ("lastIndexOf", [Value::String(_), Value::Int(to)]) => Err(format!("index out of range: {to}")),
        ("lowerAscii", []) => Ok(Value::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::text(text.trim().to_owned())),
        ("replace", [Value::String(from), Value::String(to)]) => replace(text, from, to, -1),
        ("replace", [Value::String(from), Value::String(to), Value::Int(count)]) => {
            replace(text, from, to, *count)
        }
        ("split", [Value::String(separator)]) => Ok(split(text, separator, -1)),
        ("split", [Value::String(separator), Value::Int(count)]) => Ok(split(text, separator, *count)),
        ("substring", [Value::Int(from)]) => substring(text, *from, characters()),
        ("substring", [Value::Int(from), Value::Int(to)]) => substring(text, *from, *to),
        ("format", [Value::List(list)]) => format(text, &list.items()).map(Value::text),
        ("jsonpatch.escapeKey", []) => Ok(Value::text(text.replace('~', "~0").replace('/', "~1"))),
        ("strings.quote", []) => Ok(Value::text(quote(text))),
        ("format.named", []) => {
            let found = FORMATS.iter().find(|name| **name == text);
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

fn find_all<'a>(text: &str, pattern: &str, limit: i64) -> Result<Value<'a>, String> {
    let pattern = regexp::compile(pattern)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = pattern
        .find_iter(text)
        .take(limit)
        .map(|found| Value::text(found.as_str().to_owned()));
    Ok(Value::List(List::new(found.collect())))
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

/// The last place at or before character `to`.
fn last_index_of(text: &str, part: &str, to: i64) -> i64 {
    let found = text
        .char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .zip(0_i64..)
        .take_while(|(_, index)| *index <= to)
        .filter(|(at, _)| text.get(*at..).is_some_and(|tail| tail.starts_with(part)))
        .last();
    found.map_or(-1, |(_, index)| index)
}

fn replace<'a>(text: &str, from: &str, to: &str, count: i64) -> Result<Value<'a>, String> {
    const MAX: usize = 3 << 20;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let found = text.matches(from).take(count).count();
    if found.saturating_mul(to.len()) > MAX {
        return Err("result of replace is too large".to_owned());
    }
    Ok(Value::text(text.replacen(from, to, count)))
}

fn split<'a>(text: &str, separator: &str, count: i64) -> Value<'a> {
    let parts: Vec<String> = match (separator, usize::try_from(count)) {
        (_, Ok(0)) => Vec::new(),
        ("", limit) => {
            let limit = limit.unwrap_or(usize::MAX);
            let chars: Vec<char> = text.chars().collect();
            let single = chars.len().min(limit.saturating_sub(1));
            let (first, last) = chars.split_at(if chars.len() <= limit { chars.len() } else { single });
            let mut parts: Vec<String> = first.iter().map(ToString::to_string).collect();
            if !last.is_empty() {
                parts.push(last.iter().collect());
            }
            parts
        }
        (_, Ok(limit)) => text.splitn(limit, separator).map(str::to_owned).collect(),
        (_, Err(_)) => text.split(separator).map(str::to_owned).collect(),
    };
    Value::List(List::new(parts.into_iter().map(Value::text).collect()))
}

fn substring<'a>(text: &str, from: i64, to: i64) -> Result<Value<'a>, String> {
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
    Ok(Value::text(
        text.chars().skip(skip).take(take).collect::<String>(),
    ))
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

/// `'%s: %d'.format([…])`
fn format(text: &str, args: &[Value<'_>]) -> Result<String, String> {
    let mut out = String::new();
    let mut args = args.iter();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut precision = None;
        if chars.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            precision = digits.parse::<usize>().ok().map(|digits| digits.min(100));
        }
        let verb = chars
            .next()
            .ok_or_else(|| "unexpected end of format string".to_owned())?;
        let arg = args.next().ok_or_else(|| "index 0 out of range".to_owned())?;
        out.push_str(&format_one(verb, precision, arg)?);
    }
    Ok(out)
}

fn format_one(verb: char, precision: Option<usize>, arg: &Value<'_>) -> Result<String, String> {
    let refuse = || {
        format!(
            "error during formatting: %{verb} does not accept a value of type {}",
            arg.type_name()
        )
    };
    Ok(match (verb, arg) {
        ('s', arg) => shown(arg),
        ('d', Value::Int(value)) => value.to_string(),
        ('d', Value::Uint(value)) => value.to_string(),
        ('d', Value::Double(value)) if value.is_nan() || value.is_infinite() => go::float(*value),
        ('f', Value::Double(value)) => format!("{value:.*}", precision.unwrap_or(6)),
        ('e', Value::Double(value)) => {
            let text = format!("{value:.*e}", precision.unwrap_or(6));
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, size) = exponent
                .strip_prefix('-')
                .map_or(('+', exponent), |size| ('-', size));
            format!("{mantissa}e{sign}{size:0>2}")
        }
        ('b', Value::Bool(flag)) => u8::from(*flag).to_string(),
        ('b', Value::Int(value)) => signed(*value, |size| format!("{size:b}")),
        ('b', Value::Uint(value)) => format!("{value:b}"),
        ('o', Value::Int(value)) => signed(*value, |size| format!("{size:o}")),
        ('o', Value::Uint(value)) => format!("{value:o}"),
        ('x', Value::Int(value)) => signed(*value, |size| format!("{size:x}")),
        ('X', Value::Int(value)) => signed(*value, |size| format!("{size:X}")),
        ('x', Value::Uint(value)) => format!("{value:x}"),
        ('X', Value::Uint(value)) => format!("{value:X}"),
        ('x', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ('X', Value::String(text)) => text.bytes().map(|byte| format!("{byte:02X}")).collect(),
        ('x', Value::Bytes(bytes)) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ('X', Value::Bytes(bytes)) => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
        ('d' | 'f' | 'e' | 'b' | 'o' | 'x' | 'X', _) => return Err(refuse()),
        _ => {
            return Err(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
            ));
        }
    })
}

fn signed(value: i64, show: fn(u64) -> String) -> String {
    format!(
        "{}{}",
        if value < 0 { "-" } else { "" },
        show(value.unsigned_abs())
    )
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::List(list) => {
            let items: Vec<String> = list.items().iter().map(shown).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let mut entries: Vec<String> = map
                .entries()
                .iter()
                .map(|(key, value)| format!("{}: {}", shown(key), shown(value)))
                .collect();
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Type(name) => name.to_string(),
        other => to_text(other).unwrap_or_else(|| other.type_name().to_owned()),
    }
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

/// What a named format has against a text.
fn validate<'a>(name: &str, text: &str) -> Value<'a> {
    // A prefix may end with a dash: it is judged with something behind it.
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
        "uuid" => when(
            !crate::format::is_valid("uuid", text),
            "does not match the UUID format",
        ),
        "byte" => when(decode_base64(text).is_none(), "invalid base64"),
        "date" => when(time::parse_date(text).is_none(), "invalid date"),
        "datetime" => when(time::parse_rfc3339(text, true).is_none(), "invalid datetime"),
        _ => Vec::new(),
    };
    if problems.is_empty() {
        return Value::Optional(None);
    }
    let list = List::new(problems.into_iter().map(Value::text).collect());
    Value::Optional(Some(Box::new(Value::List(list))))
}
