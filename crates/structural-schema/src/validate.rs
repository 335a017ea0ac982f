//! Validates values against a schema, with the order and texts of kube-openapi's validator, and ratcheting.

mod number;
mod ratchet;

pub(crate) use ratchet::Correlation;

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList, ErrorType, Path};
use apimachinery::go;
use kubernetes_cel::regexp::Regexp;
use serde_json::{Map, Value};

use crate::effort::{Effort, Place};
use crate::format;
use crate::node::{AdditionalProperties, Node, Pattern};

/// Validates `value`. The paths of errors start with `base`. Errors of values that are unchanged since `old` are
/// tolerated.
pub(crate) fn validate(value: &Value, old: Option<&Value>, schema: &Node, base: &Path) -> ErrorList {
    let correlation = old.map(|old| Correlation::new(value, old, schema));
    let effort = Effort::default();
    let found = check_node(value, schema, &Place::root(&effort), correlation.as_ref());
    let mut errors: ErrorList = found
        .problems
        .into_iter()
        .map(|problem| problem.into_error(base))
        .collect();
    if effort.is_exhausted() {
        let detail = "the object takes too much work to validate, or has too many errors";
        errors.push(Error::invalid(Path::nil(), Value::Null, detail));
    }
    errors
}

/// The result of one validator: its errors, and the number of passed checks. The best of several alternatives has the
/// highest number.
#[derive(Default)]
struct Found {
    problems: Vec<Problem>,
    matches: u64,
}

/// An error before the path of the validated value is known.
#[derive(Clone, Debug)]
struct Problem {
    /// The path below the validated value; `None` for errors about several schemas at once.
    name: Option<String>,
    kind: ErrorType,
    value: Option<String>,
    detail: String,
}

impl Problem {
    fn new(kind: ErrorType, path: &Place<'_>, value: &Value, detail: String) -> Self {
        let value = apimachinery::field::render(value);
        path.effort.report(value.len());
        Self {
            value: Some(value),
            ..Self::without_value(kind, path, detail)
        }
    }

    fn without_value(kind: ErrorType, path: &Place<'_>, detail: String) -> Self {
        path.effort.report(path.len() + detail.len());
        Self {
            name: Some(path.to_string()),
            kind,
            value: None,
            detail,
        }
    }

    fn composite(path: &Place<'_>, detail: String) -> Self {
        path.effort.report(detail.len());
        Self {
            name: None,
            kind: ErrorType::Invalid,
            value: Some("\"\"".to_owned()),
            detail,
        }
    }

    fn into_error(self, base: &Path) -> Error {
        let nil = || if base.is_root() { Path::nil() } else { base.clone() };
        let field = match self.name.as_deref().map(|name| name.trim_start_matches('.')) {
            None | Some("") => nil(),
            Some(name) => base.child(name),
        };
        Error {
            kind: self.kind,
            field,
            value: self.value,
            detail: self.detail,
        }
    }
}

impl Found {
    fn of(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
            matches: 0,
        }
    }

    fn matched() -> Self {
        Self {
            problems: Vec::new(),
            matches: 1,
        }
    }

    fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        self.problems.extend(other.problems);
    }

    /// Removes duplicate errors.
    fn without_duplicates(mut self) -> Self {
        if self.problems.len() > 1 {
            let mut seen = HashSet::new();
            let is_new: Vec<bool> = self
                .problems
                .iter()
                .map(|problem| {
                    seen.insert((
                        &problem.name,
                        problem.kind.reason(),
                        &problem.value,
                        &problem.detail,
                    ))
                })
                .collect();
            let mut is_new = is_new.into_iter();
            self.problems.retain(|_| is_new.next().unwrap_or(true));
        }
        self
    }
}

fn go_type(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.as_i64().is_some() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn check_node(
    value: &Value,
    schema: &Node,
    path: &Place<'_>,
    correlation: Option<&Correlation<'_>>,
) -> Found {
    let mut found = check_all(value, schema, path, correlation);
    if !found.is_valid() && correlation.is_some_and(Correlation::is_unchanged) {
        found.problems.clear();
    }
    found
}

fn check_all(value: &Value, schema: &Node, path: &Place<'_>, correlation: Option<&Correlation<'_>>) -> Found {
    let mut found = Found::default();
    if !path.effort.spend(1 + path.len() / 8) {
        return found;
    }
    if value.is_null() {
        found.merge(check_type(value, schema, path));
        found.merge(check_enum(value, schema, path));
        return found;
    }
    if !schema.types().is_empty() || !schema.checked_format().is_empty() {
        found.merge(check_type(value, schema, path));
        found.matches += 1;
    }
    found.merge(check_composites(value, schema, path, correlation));
    found.matches += 1;
    match value {
        Value::String(text) => {
            found.merge(check_text(text, value, schema, path));
            found.matches += 1;
            if format::applies(schema.checked_format()) {
                found.merge(check_format(text, value, schema, path));
                found.matches += 1;
            }
        }
        Value::Number(number) => {
            found.merge(number::check(number, schema, path));
            found.matches += 1;
        }
        Value::Array(items) => {
            found.merge(check_items(items, schema, path, correlation));
            found.matches += 1;
        }
        _ => {}
    }
    found.merge(check_enum(value, schema, path));
    found.matches += 1;
    if let Value::Object(map) = value {
        found.merge(check_object(map, schema, path, correlation));
        found.matches += 1;
    }
    found.matches += 1;
    found.without_duplicates()
}

fn type_problem(path: &Place<'_>, wanted: &str, shown: &str) -> Found {
    let detail = format!("{path} in body must be of type {wanted}: {}", go::quote(shown));
    Found::of(Problem::new(ErrorType::TypeInvalid, path, &shown.into(), detail))
}

fn check_type(value: &Value, schema: &Node, path: &Place<'_>) -> Found {
    let types = schema.types();
    let format = schema.checked_format();
    let (kind, value_format) = go_type(value);
    if value.is_null() {
        if types.is_empty() || schema.nullable {
            return Found::matched();
        }
        return type_problem(path, &types.join(","), "null");
    }
    let is_whole = value.as_f64().is_some_and(|float| go::whole(float).is_some());
    let fits = types.contains(&kind)
        || kind == "number" && is_whole && types.contains(&"integer")
        || kind == "integer" && types.contains(&"number");
    let is_text_or_list = matches!(value, Value::String(_) | Value::Array(_));
    if !is_text_or_list && !format.is_empty() && !fits && value_format != format {
        return type_problem(path, format, value_format);
    }
    let numeric = types.contains(&"number") || types.contains(&"integer");
    if !numeric && !format.is_empty() && is_text_or_list {
        return Found::matched();
    }
    if !types.is_empty() && !fits {
        return type_problem(path, &types.join(","), kind);
    }
    Found::matched()
}

fn check_enum(value: &Value, schema: &Node, path: &Place<'_>) -> Found {
    path.effort.spend(schema.allowed.len());
    if schema.allowed.is_empty() || schema.allowed.iter().any(|allowed| converts_to(value, allowed)) {
        return Found::default();
    }
    let allowed: Vec<String> = schema
        .allowed
        .iter()
        .map(|allowed| match allowed {
            Value::String(text) => go::quote(text),
            other => go::quote(&go::json(other)),
        })
        .collect();
    let detail = format!("supported values: {}", allowed.join(", "));
    Found::of(Problem::new(ErrorType::NotSupported, path, value, detail))
}

/// Returns true if a value equals an allowed value after Go converted it to the type of the allowed value. Null equals
/// nothing.
fn converts_to(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) => false,
        (Value::Number(a), Value::Number(b)) => match (b.as_i64(), a.as_i64()) {
            (Some(b), Some(a)) => a == b,
            #[expect(clippy::cast_possible_truncation, reason = "Go truncates here too")]
            (Some(b), None) => a.as_f64().is_some_and(|a| a as i64 == b),
            (None, _) => a.as_f64() == b.as_f64(),
        },
        _ => value == allowed,
    }
}

fn check_text(text: &str, value: &Value, schema: &Node, path: &Place<'_>) -> Found {
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(max) = schema.max_length
        && length() > max
    {
        let detail = format!(
            "may not be more than {max} {}",
            if max == 1 { "byte" } else { "bytes" }
        );
        return Found::of(Problem::without_value(ErrorType::TooLong, path, detail));
    }
    if let Some(min) = schema.min_length
        && length() < min
    {
        let detail = format!("{path} in body should be at least {min} chars long");
        return Found::of(Problem::new(ErrorType::Invalid, path, value, detail));
    }
    let matches = |program: &Regexp| path.effort.run(|steps| program.is_match(text, steps));
    if let Some(Pattern { source, program }) = &schema.pattern
        && !program
            .as_ref()
            .is_ok_and(|program| matches(program).unwrap_or(false))
    {
        let why = program.as_ref().err().map_or(String::new(), |error| {
            format!(", but pattern is invalid: {error}")
        });
        let detail = format!("{path} in body should match '{source}{why}'");
        return Found::of(Problem::new(ErrorType::Invalid, path, value, detail));
    }
    Found::default()
}

fn check_format(text: &str, value: &Value, schema: &Node, path: &Place<'_>) -> Found {
    let format = schema.checked_format();
    if format::is_valid(format, text) {
        return Found::default();
    }
    let detail = format!("{path} in body must be of type {format}: {}", go::quote(text));
    Found::of(Problem::new(ErrorType::TypeInvalid, path, value, detail))
}

fn check_items(
    items: &[Value],
    schema: &Node,
    path: &Place<'_>,
    correlation: Option<&Correlation<'_>>,
) -> Found {
    let mut found = Found::default();
    if let Some(item_schema) = &schema.items {
        for (index, item) in items.iter().enumerate() {
            let child = correlation.and_then(|correlation| correlation.item(item));
            found.merge(check_node(
                item,
                item_schema,
                &path.with(&format!("[{index}]")),
                child.as_ref(),
            ));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.min_items
        && size < min
    {
        let detail = format!("{path} in body should have at least {min} items");
        found
            .problems
            .push(Problem::new(ErrorType::Invalid, path, &size.into(), detail));
    }
    if let Some(max) = schema.max_items
        && size > max
    {
        found.problems.push(too_many(path, size, max));
    }
    if schema.unique_items {
        let mut seen = HashSet::new();
        if !items.iter().all(|item| seen.insert(go::json(item))) {
            let detail = format!("{path} in body shouldn't contain duplicates");
            found.problems.push(Problem {
                value: Some("\"\"".to_owned()),
                ..Problem::without_value(ErrorType::Invalid, path, detail)
            });
        }
    }
    found.matches += 1;
    found
}

fn too_many(path: &Place<'_>, size: i64, max: i64) -> Problem {
    let detail = format!(
        "must have at most {max} {}",
        if max == 1 { "item" } else { "items" }
    );
    Problem::new(ErrorType::TooMany, path, &size.into(), detail)
}

fn check_object(
    map: &Map<String, Value>,
    schema: &Node,
    path: &Place<'_>,
    correlation: Option<&Correlation<'_>>,
) -> Found {
    let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.min_properties
        && size < min
    {
        let detail = format!("{path} in body should have at least {min} properties");
        return Found::of(Problem::new(ErrorType::Invalid, path, &size.into(), detail));
    }
    if let Some(max) = schema.max_properties
        && size > max
    {
        return Found::of(too_many(path, size, max));
    }
    let mut found = Found::default();
    let others = map
        .iter()
        .filter(|(key, _)| !schema.properties.contains_key(*key));
    match &schema.additional_properties {
        Some(AdditionalProperties::Allowed(false)) => {
            for (key, _) in others.filter(|(key, _)| !matches!(key.as_str(), "$schema" | "id")) {
                let detail = format!("{path}.{key} in body is a forbidden property");
                found.problems.push(Problem::new(
                    ErrorType::Invalid,
                    path,
                    &key.as_str().into(),
                    detail,
                ));
            }
        }
        Some(AdditionalProperties::Schema(additional)) => {
            for (key, value) in others {
                let child = child_correlation(correlation, path, key, value);
                found.merge(check_node(
                    value,
                    additional,
                    &path.with(".").with(key),
                    child.as_ref(),
                ));
            }
        }
        _ => {}
    }
    for (key, value) in map {
        let Some(property) = schema.properties.get(key) else {
            continue;
        };
        let dot = if path.is_empty() { "" } else { "." };
        let name = path.with(dot).with(key);
        let child = child_correlation(correlation, path, key, value);
        found.merge(check_node(value, property, &name, child.as_ref()));
    }
    path.effort.spend(schema.required.len());
    for key in &schema.required {
        let defaulted = schema
            .properties
            .get(key)
            .is_some_and(|property| property.default.is_some());
        if !map.contains_key(key) && !defaulted {
            let name = path.with(".").with(key);
            found
                .problems
                .push(Problem::without_value(ErrorType::Required, &name, String::new()));
        }
    }
    found
}

fn child_correlation<'v>(
    correlation: Option<&Correlation<'v>>,
    path: &Place<'_>,
    key: &str,
    value: &'v Value,
) -> Option<Correlation<'v>> {
    if path.is_empty() && crate::prune::META_FIELDS.contains(&key) {
        return None;
    }
    correlation?.field(key, value)
}

fn check_composites(
    value: &Value,
    schema: &Node,
    path: &Place<'_>,
    correlation: Option<&Correlation<'_>>,
) -> Found {
    let mut found = Found::default();
    let check = |schema: &Node| check_all(value, schema, path, correlation);
    if !schema.any_of.is_empty() {
        any_of(&schema.any_of, path, &check, &mut found);
    }
    if !schema.one_of.is_empty() {
        one_of(&schema.one_of, path, &check, &mut found);
    }
    if !schema.all_of.is_empty() {
        all_of(&schema.all_of, path, &check, &mut found);
    }
    if let Some(not) = &schema.not
        && check(not).is_valid()
    {
        let detail = format!("{} must not validate the schema (not)", go::quote(path));
        found.problems.push(Problem::composite(path, detail));
    }
    found.matches += 1;
    found
}

fn any_of(schemas: &[Node], path: &Place<'_>, check: &dyn Fn(&Node) -> Found, found: &mut Found) {
    let mut best: Option<Found> = None;
    for schema in schemas {
        let result = check(schema);
        if result.is_valid() {
            found.merge(result);
            return;
        }
        if best.as_ref().is_none_or(|best| result.matches > best.matches) {
            best = Some(result);
        }
    }
    let detail = format!("{} must validate at least one schema (anyOf)", go::quote(path));
    found.problems.push(Problem::composite(path, detail));
    found.merge(best.unwrap_or_default());
}

fn one_of(schemas: &[Node], path: &Place<'_>, check: &dyn Fn(&Node) -> Found, found: &mut Found) {
    let mut best: Option<Found> = None;
    let mut first: Option<Found> = None;
    let mut valid = 0_usize;
    for schema in schemas {
        let result = check(schema);
        if result.is_valid() {
            valid += 1;
            best = None;
            first.get_or_insert(result);
        } else if valid == 0 && best.as_ref().is_none_or(|best| result.matches > best.matches) {
            best = Some(result);
        }
    }
    if valid == 1 {
        return found.merge(first.unwrap_or_default());
    }
    let why = if valid == 0 {
        "Found none valid".to_owned()
    } else {
        format!("Found {valid} valid alternatives")
    };
    let detail = format!(
        "{} must validate one and only one schema (oneOf). {why}",
        go::quote(path)
    );
    found.problems.push(Problem::composite(path, detail));
    found.merge(best.unwrap_or_default());
}

fn all_of(schemas: &[Node], path: &Place<'_>, check: &dyn Fn(&Node) -> Found, found: &mut Found) {
    let mut valid = 0_usize;
    for schema in schemas {
        let result = check(schema);
        valid += usize::from(result.is_valid());
        found.merge(result);
    }
    if valid != schemas.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        let detail = format!("{} must validate all the schemas (allOf){none}", go::quote(path));
        found.problems.push(Problem::composite(path, detail));
    }
}
