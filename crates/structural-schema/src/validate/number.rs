//! Validates the bounds and ranges of numbers.

use apimachinery::field::ErrorType;
use apimachinery::go;
use serde_json::{Number, Value};

use super::{Found, Problem};
use crate::effort::Place;
use crate::node::{Bound, Node};

/// Checks the range of the type and format, then `multipleOf`, `minimum` and `maximum`.
pub(super) fn check(number: &Number, schema: &Node, path: &Place<'_>) -> Found {
    let kind = match schema.types() {
        [single] => *single,
        _ => "",
    };
    let format = schema.checked_format();
    let mut found = Found::matched();
    let mut report = |problem: Option<Problem>| found.problems.extend(problem);
    report(range(number, kind, format, "Checked", path));
    let constant = |value: f64| Number::from_f64(value).unwrap_or_else(|| 0.into());
    if let Some(factor) = schema.multiple_of {
        match range(&constant(factor), kind, format, "MultipleOf", path) {
            None => report(multiple_of(number, factor, path)),
            Some(problem) => {
                report(Some(problem));
                report(multiple_of_float(number, factor, path));
            }
        }
    }
    for (bound, is_minimum, prefix) in [
        (schema.minimum, true, "Minimum boundary"),
        (schema.maximum, false, "Maximum boundary"),
    ] {
        let Some(bound) = bound else { continue };
        let unfit = range(&constant(bound.value), kind, format, prefix, path);
        let native = unfit.is_none();
        report(unfit);
        report(limit(number, bound, is_minimum, native, path));
    }
    found
}

/// Checks the range of the type and format. As in Go, the number is formatted and parsed again.
fn range(number: &Number, kind: &str, format: &str, prefix: &str, path: &Place<'_>) -> Option<Problem> {
    let integer = number.as_i64().or_else(|| whole(number.as_f64()?));
    let fits = match (kind, format) {
        ("integer", "int32") => integer.is_some_and(|integer| i32::try_from(integer).is_ok()),
        ("integer", _) => integer.is_some(),
        (_, "float") => number
            .as_f64()
            .is_some_and(|value| value.abs() <= f64::from(f32::MAX)),
        _ => true,
    };
    if fits {
        return None;
    }
    let kind = if kind.is_empty() { "number" } else { kind };
    let format = if format.is_empty() {
        "(default format)".to_owned()
    } else {
        format!("with format {format}")
    };
    Some(Problem::composite(
        path,
        format!("{prefix} value must be of type {kind} {format} in {path}"),
    ))
}

#[expect(clippy::cast_possible_truncation, reason = "the value is whole and in range")]
fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < 9.223_372_036_854_775e18).then_some(value as i64)
}

fn multiple_of(number: &Number, factor: f64, path: &Place<'_>) -> Option<Problem> {
    let Some(integer) = number.as_i64() else {
        return multiple_of_float(number, factor, path);
    };
    let factor = go::truncate(factor);
    if factor <= 0 {
        return Some(not_positive(&factor.into(), path));
    }
    (integer % factor != 0).then(|| not_multiple(&factor.to_string(), number, path))
}

fn multiple_of_float(number: &Number, factor: f64, path: &Place<'_>) -> Option<Problem> {
    let value = number.as_f64()?;
    if factor <= 0.0 {
        return Some(not_positive(&factor.into(), path));
    }
    let quotient = if factor < 1.0 {
        1.0 / factor * value
    } else {
        value / factor
    };
    (!is_json_integer(quotient)).then(|| not_multiple(&go::float(factor), number, path))
}

/// Returns true for a float that is nearly an integer, like `IsFloat64AJSONInteger` of go-openapi.
fn is_json_integer(value: f64) -> bool {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    let rounded = value.round();
    let is_exact = (-EXACT..=EXACT).contains(&value);
    is_exact && (value == rounded || (value - rounded).abs() < 1e-9 * rounded.abs())
}

fn not_positive(factor: &Value, path: &Place<'_>) -> Problem {
    let shown = apimachinery::field::render(factor);
    let detail = format!("factor MultipleOf declared for {path} must be positive: {shown}");
    Problem::new(ErrorType::Invalid, path, factor, detail)
}

fn not_multiple(factor: &str, number: &Number, path: &Place<'_>) -> Problem {
    let detail = format!("{path} in body should be a multiple of {factor}");
    Problem::new(ErrorType::Invalid, path, &Value::Number(number.clone()), detail)
}

fn limit(number: &Number, bound: Bound, is_minimum: bool, native: bool, path: &Place<'_>) -> Option<Problem> {
    let Bound {
        value: limit,
        exclusive,
    } = bound;
    let (outside, shown) = match number.as_i64() {
        Some(integer) if native => {
            let limit = go::truncate(limit);
            let beyond = if is_minimum {
                integer < limit
            } else {
                integer > limit
            };
            (beyond || exclusive && integer == limit, limit.to_string())
        }
        _ => {
            let value = number.as_f64()?;
            let beyond = if is_minimum { value < limit } else { value > limit };
            #[expect(clippy::float_cmp, reason = "an exclusive limit is itself outside")]
            let on_limit = value == limit;
            (beyond || exclusive && on_limit, go::float(limit))
        }
    };
    let words = match (is_minimum, exclusive) {
        (true, false) => "greater than or equal to",
        (true, true) => "greater than",
        (false, false) => "less than or equal to",
        (false, true) => "less than",
    };
    outside.then(|| {
        let detail = format!("{path} in body should be {words} {shown}");
        Problem::new(ErrorType::Invalid, path, &Value::Number(number.clone()), detail)
    })
}
