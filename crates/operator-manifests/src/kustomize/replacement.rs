//! Replacements: copy a value of one object into others.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::build::{BuildError, documents, invalid};
use super::kustomization::Selector;
use super::patch::Matcher;
use super::resource::Resource;

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Replacement {
    source: Option<Source>,
    source_value: Option<String>,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Source {
    group: Option<String>,
    version: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    field_path: Option<String>,
    #[serde(default)]
    options: Options,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Target {
    select: Selector,
    #[serde(default)]
    reject: Vec<Selector>,
    #[serde(default)]
    field_paths: Vec<String>,
    #[serde(default)]
    options: Options,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(default)]
    delimiter: String,
    #[serde(default)]
    index: i64,
    #[serde(default)]
    create: bool,
}

/// Applies the replacements of a file.
pub(super) fn apply_file(path: &str, resources: &mut [Resource], text: &str) -> Result<(), BuildError> {
    for document in documents(path, text)? {
        let entries = match document {
            Value::Array(entries) => entries,
            other => vec![other],
        };
        for entry in entries {
            let rule: Replacement = serde_json::from_value(entry)
                .map_err(|error| invalid(path, format!("a replacement: {error}")))?;
            apply(path, resources, &rule)?;
        }
    }
    Ok(())
}

pub(super) fn apply(path: &str, resources: &mut [Resource], rule: &Replacement) -> Result<(), BuildError> {
    let value = match (&rule.source, &rule.source_value) {
        (Some(source), _) => value_of(path, resources, source)?,
        (None, Some(text)) => Value::String(text.clone()),
        (None, None) => return Err(invalid(path, "a replacement has no `source`")),
    };
    for target in &rule.targets {
        let select = Matcher::of(path, &target.select)?;
        let reject: Vec<Matcher> = target
            .reject
            .iter()
            .map(|selector| Matcher::of(path, selector))
            .collect::<Result<_, _>>()?;
        for resource in resources.iter_mut() {
            if !select.is_for(resource) || reject.iter().any(|matcher| matcher.is_for(resource)) {
                continue;
            }
            for field in paths_of(&target.field_paths) {
                let written =
                    write(&mut resource.value, &keys(field), &target.options, &value).map_err(|reason| {
                        invalid(path, format!("{field} of {}: {reason}", resource.describe()))
                    })?;
                if !written && target.options.create {
                    return Err(invalid(
                        path,
                        format!("{field} of {} cannot be made", resource.describe()),
                    ));
                }
                if !written {
                    return Err(invalid(
                        path,
                        format!("{} has no field {field}", resource.describe()),
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Returns the field paths; the default is the name.
fn paths_of(paths: &[String]) -> Vec<&str> {
    if paths.is_empty() {
        return vec!["metadata.name"];
    }
    paths.iter().map(String::as_str).collect()
}

fn value_of(path: &str, resources: &[Resource], source: &Source) -> Result<Value, BuildError> {
    let escaped = |text: &Option<String>| text.as_deref().map(regex::escape);
    let matcher = Matcher::of(
        path,
        &Selector {
            group: escaped(&source.group),
            version: escaped(&source.version),
            kind: escaped(&source.kind),
            name: escaped(&source.name),
            namespace: escaped(&source.namespace),
            ..Selector::default()
        },
    )?;
    let found: Vec<&Resource> = resources
        .iter()
        .filter(|resource| matcher.is_for(resource))
        .collect();
    let described = || {
        format!(
            "{} {}",
            source.kind.as_deref().unwrap_or("*"),
            source.name.as_deref().unwrap_or("*")
        )
    };
    let resource = match found.as_slice() {
        [one] => *one,
        [] => {
            return Err(invalid(
                path,
                format!("nothing is selected by the source {}", described()),
            ));
        }
        _ => {
            return Err(invalid(
                path,
                format!("several objects are selected by the source {}", described()),
            ));
        }
    };
    let field = source.field_path.as_deref().unwrap_or("metadata.name");
    let mut value = &resource.value;
    for key in keys(field) {
        let next = step(value, &key);
        value = next.ok_or_else(|| invalid(path, format!("{} has no field {field}", resource.describe())))?;
    }
    part_of(value, &source.options).ok_or_else(|| {
        invalid(
            path,
            format!("{field} of {} has no such part", resource.describe()),
        )
    })
}

fn part_of(value: &Value, options: &Options) -> Option<Value> {
    if options.delimiter.is_empty() {
        return Some(value.clone());
    }
    let text = text_of(value)?;
    let index = usize::try_from(options.index).ok()?;
    let part = text.split(options.delimiter.as_str()).nth(index)?;
    Some(Value::String(part.to_owned()))
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// Returns the keys of a path. Dots separate keys, `\.` is a dot, and brackets contain a key or `name=value` literally.
fn keys(path: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut key = String::new();
    let mut bracketed = false;
    let mut characters = path.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if !bracketed && characters.peek() == Some(&'.') => {
                key.push('.');
                characters.next();
            }
            '[' if key.is_empty() => {
                bracketed = true;
                key.push(character);
            }
            ']' if bracketed => {
                bracketed = false;
                key.push(character);
            }
            '.' if !bracketed => keys.push(std::mem::take(&mut key)),
            other => key.push(other),
        }
    }
    keys.push(key);
    let plain = |key: String| match key.strip_prefix('[').and_then(|key| key.strip_suffix(']')) {
        Some(inner) if !inner.contains('=') => inner.to_owned(),
        _ => key,
    };
    keys.into_iter()
        .filter(|key| !key.is_empty())
        .map(plain)
        .collect()
}

/// Returns the two sides of `[name=value]`.
fn predicate(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix('[')?.strip_suffix(']')?.split_once('=')
}

fn step<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match (value, predicate(key)) {
        (Value::Array(items), Some((name, text))) => items.iter().find(|item| is_item(item, name, text)),
        (Value::Array(items), None) => items.get(key.parse::<usize>().ok()?),
        (Value::Object(map), _) => map.get(key),
        _ => None,
    }
}

fn is_item(item: &Value, name: &str, text: &str) -> bool {
    item.get(name)
        .and_then(text_of)
        .is_some_and(|there| there == text)
}

/// Writes `value` at a path. Returns false if the path does not exist.
fn write(at: &mut Value, keys: &[String], options: &Options, value: &Value) -> Result<bool, String> {
    let Some((key, rest)) = keys.split_first() else {
        put(at, options, value)?;
        return Ok(true);
    };
    match at {
        Value::Array(items) if key == "*" => {
            let mut any = false;
            for item in items {
                any |= write(item, rest, options, value)?;
            }
            Ok(any)
        }
        Value::Array(items) => {
            let place = match predicate(key) {
                Some((name, text)) => items.iter().position(|item| is_item(item, name, text)),
                None => key.parse().ok(),
            };
            match place.and_then(|place| items.get_mut(place)) {
                Some(item) => write(item, rest, options, value),
                None => Ok(false),
            }
        }
        Value::Object(map) if options.create || map.contains_key(key) => {
            let next = map.entry(key.as_str()).or_insert(Value::Null);
            write(next, rest, options, value)
        }
        Value::Null if options.create && predicate(key).is_none() => {
            *at = Value::Object(Map::new());
            write(at, keys, options, value)
        }
        _ => Ok(false),
    }
}

fn put(at: &mut Value, options: &Options, value: &Value) -> Result<(), String> {
    if options.delimiter.is_empty() {
        *at = value.clone();
        return Ok(());
    }
    let text = text_of(value).ok_or("the source is not text, and a part of a text is to be replaced")?;
    let there = text_of(at).unwrap_or_default();
    let mut parts: Vec<String> = there
        .split(options.delimiter.as_str())
        .map(str::to_owned)
        .collect();
    match usize::try_from(options.index) {
        Err(_) => parts.insert(0, text),
        Ok(index) => match parts.get_mut(index) {
            Some(part) => *part = text,
            None => parts.push(text),
        },
    }
    *at = Value::String(parts.join(&options.delimiter));
    Ok(())
}
