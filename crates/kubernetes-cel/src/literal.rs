//! Rejects constants that would fail only at run time, like the validators of the checked tree and the planner in
//! cel-go.

use apimachinery::{go, time};

use crate::ast::{Expr, Issue, Kind, Literal, children};
use crate::library;
use crate::regexp::{self, Patterns};
use crate::types::Type;
use crate::value::{List, Value};

/// The argument types of each clause of a format string, with their names and messages in errors.
const CLAUSES: &[(char, &[&str], &str)] = &[
    (
        's',
        &[
            "list",
            "map",
            "int",
            "uint",
            "double",
            "bool",
            "string",
            "google.protobuf.Timestamp",
            "bytes",
            "google.protobuf.Duration",
            "type",
            "null_type",
        ],
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
    ),
    (
        'd',
        &["int", "uint"],
        "decimal clause can only be used on integers",
    ),
    (
        'f',
        &["double", "string"],
        "fixed-point clause can only be used on doubles",
    ),
    (
        'e',
        &["double", "string"],
        "scientific clause can only be used on doubles",
    ),
    (
        'b',
        &["int", "uint", "bool"],
        "only integers and bools can be formatted as binary",
    ),
    ('x', HEX, HEX_ONLY),
    ('X', HEX, HEX_ONLY),
    ('o', &["int", "uint"], "octal clause can only be used on integers"),
];
const HEX: &[&str] = &["int", "uint", "string", "bytes"];
const HEX_ONLY: &str = "only integers, byte buffers, and strings can be formatted as hex";

/// Validates the constants of a checked expression; returns its constant patterns.
pub(crate) fn validate<'t>(
    expr: &Expr,
    type_of: &dyn Fn(&Expr) -> &'t Type,
    patterns: &mut Patterns,
) -> Vec<Issue> {
    let mut issues = Vec::new();
    arguments(expr, "duration", &mut is_bad_duration, &mut issues);
    arguments(expr, "timestamp", &mut is_bad_timestamp, &mut issues);
    let mut is_bad_pattern =
        |literal: &Literal| matches!(literal, Literal::String(text) if patterns.compile(text).is_err());
    arguments(expr, "matches", &mut is_bad_pattern, &mut issues);
    // The planner reports invalid patterns of these functions.
    let mut others = Vec::new();
    arguments(expr, "find", &mut is_bad_pattern, &mut others);
    arguments(expr, "findAll", &mut is_bad_pattern, &mut others);
    formats(expr, type_of, &mut issues);
    mixed(expr, type_of, &mut issues);
    issues
}

/// Checks that the items of lists and maps have the type of the first one. The arguments of `format` may be mixed.
fn mixed<'t>(expr: &Expr, type_of: &dyn Fn(&Expr) -> &'t Type, issues: &mut Vec<Issue>) {
    let item_type = |item: &Expr, optional: bool| match type_of(item) {
        Type::Optional(inner) if optional => &**inner,
        found => found,
    };
    let mut differs = |first: &'t Type, item: &Expr, found: &'t Type| {
        let differs = first != found;
        if differs {
            issues.push(Issue {
                offset: item.offset,
                message: format!("expected type '{first}' but found '{found}'"),
            });
        }
        differs
    };
    match &expr.kind {
        Kind::Call { function, .. } if function == "format" => return,
        Kind::List(items) => {
            let mut items = items
                .iter()
                .map(|(item, optional)| (item, item_type(item, *optional)));
            if let Some((_, first)) = items.next() {
                // Only the first difference is reported.
                items.any(|(item, found)| differs(first, item, found));
            }
        }
        Kind::Map(entries) => {
            let mut entries = entries
                .iter()
                .map(|(key, value, optional)| ((key, type_of(key)), (value, item_type(value, *optional))));
            if let Some(((_, first_key), (_, first_value))) = entries.next() {
                for ((key, key_type), (value, value_type)) in entries {
                    differs(first_key, key, key_type);
                    differs(first_value, value, value_type);
                }
            }
        }
        _ => {}
    }
    for child in children(expr) {
        mixed(child, type_of, issues);
    }
}

fn arguments(expr: &Expr, wanted: &str, is_bad: &mut dyn FnMut(&Literal) -> bool, issues: &mut Vec<Issue>) {
    if let Kind::Call { function, args, .. } = &expr.kind
        && function == wanted
        && let Some(last) = if wanted == "findAll" {
            args.first()
        } else {
            args.last()
        }
        && let Kind::Literal(literal) = &last.kind
        && is_bad(literal)
    {
        issues.push(Issue {
            offset: last.offset,
            message: format!("invalid {function} argument"),
        });
    }
    for child in children(expr) {
        arguments(child, wanted, is_bad, issues);
    }
}

fn is_bad_duration(literal: &Literal) -> bool {
    match literal {
        Literal::String(text) => time::parse_duration(text).is_err(),
        literal => matches!(literal, Literal::Int(_)),
    }
}

fn is_bad_timestamp(literal: &Literal) -> bool {
    let is_convertible = matches!(literal, Literal::String(_) | Literal::Int(_));
    is_convertible && library::call_constant("timestamp", &[Value::of(literal)]).is_err()
}

/// Validates format strings against a list of arguments.
fn formats<'t>(expr: &Expr, type_of: &dyn Fn(&Expr) -> &'t Type, issues: &mut Vec<Issue>) {
    if let Kind::Call {
        function,
        target: Some(target),
        args,
    } = &expr.kind
        && function == "format"
        && let Kind::Literal(Literal::String(format)) = &target.kind
        && let [list] = args.as_slice()
        && let Kind::List(items) = &list.kind
    {
        let items: Vec<&Expr> = items.iter().map(|(item, _)| item).collect();
        if let Err((offset, message)) = check_format(format, &items, type_of) {
            issues.push(Issue {
                offset: offset.unwrap_or(expr.offset),
                message,
            });
        }
    }
    for child in children(expr) {
        formats(child, type_of, issues);
    }
}

/// Returns the error of a format string, and the position of the argument that causes the error.
fn check_format<'t>(
    format: &str,
    args: &[&Expr],
    type_of: &dyn Fn(&Expr) -> &'t Type,
) -> Result<(), (Option<usize>, String)> {
    let mut used = 0;
    let mut rest = format;
    while let Some((_, after)) = rest.split_once('%') {
        if let Some(escaped) = after.strip_prefix('%') {
            rest = escaped;
            continue;
        }
        if after.is_empty() {
            return Err((None, "unexpected end of string".to_owned()));
        }
        let Some(arg) = args.get(used) else {
            return Err((None, format!("index {used} out of range")));
        };
        let (allowed, words, tail) =
            clause(after).map_err(|why| (None, format!("could not parse formatting clause: {why}")))?;
        if let Some((offset, name)) = misfit(arg, allowed, type_of) {
            let message = format!("error during formatting: {words}, was given {name}");
            return Err((Some(offset), message));
        }
        used += 1;
        rest = tail;
    }
    if args.len() > used {
        let given = args.len();
        let message = format!("too many arguments supplied to string.format (expected {used}, got {given})");
        return Err((None, message));
    }
    Ok(())
}

type Clause<'f> = (&'static [&'static str], &'static str, &'f str);

/// Parses the clause at the start of a string: its argument types, the message for a wrong type, and the rest of the
/// string.
fn clause(text: &str) -> Result<Clause<'_>, String> {
    let mut rest = text;
    if let Some(after) = text.strip_prefix('.') {
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = after.get(..after.len() - rest.len()).unwrap_or("");
        if rest.is_empty() {
            return Err(
                "error while parsing precision: could not find end of precision specifier".to_owned(),
            );
        }
        go::atoi(digits).map_err(|why| {
            format!("error while parsing precision: error while converting precision to integer: {why}")
        })?;
    }
    let mut chars = rest.chars();
    let letter = chars.next().unwrap_or_default();
    let (_, allowed, words) = CLAUSES
        .iter()
        .find(|(known, ..)| *known == letter)
        .ok_or_else(|| format!("unrecognized formatting clause \"{letter}\""))?;
    Ok((allowed, words, chars.as_str()))
}

/// Returns the position of the argument's part that has none of the allowed types, and the name of its type.
fn misfit<'t>(arg: &Expr, allowed: &[&str], type_of: &dyn Fn(&Expr) -> &'t Type) -> Option<(usize, String)> {
    let found = type_of(arg);
    let name = found.name();
    if !matches!(found, Type::Dyn | Type::Var(_)) && !allowed.contains(&name.as_str()) {
        return Some((arg.offset, name));
    }
    if !allowed.contains(&"list") {
        return None;
    }
    match &arg.kind {
        Kind::List(items) => items.iter().find_map(|(item, _)| misfit(item, allowed, type_of)),
        Kind::Map(entries) => entries
            .iter()
            .flat_map(|(key, value, _)| [key, value])
            .find_map(|part| misfit(part, allowed, type_of)),
        _ => None,
    }
}

/// The conversions that are evaluated before the evaluation of the expression, and the types that they accept.
const CONVERSIONS: [(&str, &[&str]); 8] = [
    ("bool", &["bool", "string"]),
    ("bytes", &["bytes", "string"]),
    ("double", &["double", "int", "string", "uint"]),
    ("duration", &["google.protobuf.Duration", "int", "string"]),
    (
        "int",
        &[
            "int",
            "uint",
            "double",
            "string",
            "google.protobuf.Duration",
            "google.protobuf.Timestamp",
        ],
    ),
    (
        "string",
        &[
            "string",
            "bool",
            "bytes",
            "int",
            "uint",
            "double",
            "google.protobuf.Duration",
            "google.protobuf.Timestamp",
        ],
    ),
    ("timestamp", &["google.protobuf.Timestamp", "int", "string"]),
    ("uint", &["uint", "int", "double", "string"]),
];

/// Evaluates the conversions of constants and compiles the constant patterns. The reference implementation does this
/// before the evaluation.
///
/// # Errors
/// Returns the reference implementation's error for an invalid constant.
pub fn plan(expr: &Expr) -> Result<(), String> {
    children(expr).into_iter().try_for_each(plan)?;
    let Kind::Call { function, args, .. } = &expr.kind else {
        return Ok(());
    };
    match (function.as_str(), args.as_slice()) {
        ("find", [pattern]) | ("findAll", [pattern, ..]) => match &pattern.kind {
            Kind::Literal(Literal::String(text)) => regexp::compile(text).map(drop),
            _ => Ok(()),
        },
        (function, [arg]) => match constant(arg) {
            Some(value) => converted(function, value).unwrap_or(Ok(Value::Null)).map(drop),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Returns the types that a conversion accepts; `None` for functions that are not conversions.
pub(crate) fn accepted_by(function: &str) -> Option<&'static [&'static str]> {
    let (_, accepted) = CONVERSIONS.iter().find(|(name, _)| *name == function)?;
    Some(accepted)
}

/// Converts a constant; returns `None` for functions that are not conversions.
fn converted<'a>(function: &str, value: Value<'a>) -> Option<Result<Value<'a>, String>> {
    let accepted = accepted_by(function)?;
    let found = value.type_name().to_owned();
    Some(match accepted.contains(&found.as_str()) {
        true => library::call_constant(function, &[value]),
        false => Err(format!("no such overload: {function}({found})")),
    })
}

/// Returns the value of a literal, or of a conversion of one. Of lists, only the type is known.
fn constant(expr: &Expr) -> Option<Value<'_>> {
    match &expr.kind {
        Kind::Literal(literal) => Some(Value::of(literal)),
        Kind::List(items) => {
            let is_constant = items.iter().all(|(item, _)| constant(item).is_some());
            is_constant.then(|| Value::List(List::new(Vec::new())))
        }
        Kind::Call { function, args, .. } => match args.as_slice() {
            [arg] if function == "dyn" => constant(arg),
            [arg] => converted(function, constant(arg)?)?.ok(),
            _ => None,
        },
        _ => None,
    }
}
