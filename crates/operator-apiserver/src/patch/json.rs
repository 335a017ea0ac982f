//! JSON Patch (RFC 6902), with the leniency of the library that the real server uses.
//!
//! `replace` of a missing key adds it. `copy` from a missing path writes null. Negative and zero-padded indexes are
//! accepted. A path without a leading `/` loses its first segment.

use apimachinery::go;
use apimachinery::json::DEPTH_MAX;
use serde_json::Value;

use crate::measure::Measure;

/// The maximum number of operations of a patch.
pub(crate) const OPERATIONS_MAX: usize = 10_000;
/// The maximum total size of the copies in one patch, as JSON: the limit of kube-apiserver.
const COPIED_BYTES_MAX: usize = 3 << 20;
/// The maximum number of list items that one patch may move plus the values that it may measure: about a second. A
/// patch that repeatedly changes the start of a long list needs time proportional to the product of both lengths.
const STEPS_MAX: usize = 100_000_000;

/// The reason why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PatchError(String);

const FAILED_TEST: &str = "testing value failed";

impl PatchError {
    /// Returns true if a `test` found another value.
    pub(crate) fn is_failed_test(&self) -> bool {
        self.0 == FAILED_TEST
    }
}

type Result<T> = std::result::Result<T, PatchError>;

fn error<T>(text: impl Into<String>) -> Result<T> {
    Err(PatchError(text.into()))
}

/// Applies all operations in order. After an error, the document is in an unspecified state, but never nested deeper
/// than a body may be.
pub(crate) fn apply(document: &mut Value, patch: &[Value]) -> Result<()> {
    let mut budget = Budget::default();
    for operation in patch {
        apply_one(document, operation, &mut budget)?;
    }
    Ok(())
}

/// The used parts of the limits of a patch.
#[derive(Default)]
struct Budget {
    copied_bytes: usize,
    steps: usize,
}

impl Budget {
    fn step(&mut self, steps: usize) -> Result<()> {
        self.steps += steps;
        if self.steps > STEPS_MAX {
            return error("the patch takes too many steps");
        }
        Ok(())
    }

    /// Charges the copy of a value.
    fn copy(&mut self, value: &Value) -> Result<()> {
        let measure = Measure::of(value);
        self.step(measure.nodes)?;
        self.copied_bytes += measure.json;
        if self.copied_bytes > COPIED_BYTES_MAX {
            return error(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {COPIED_BYTES_MAX}",
                self.copied_bytes
            ));
        }
        Ok(())
    }

    /// Checks that a value may be set at a path.
    fn nest(&mut self, path: &[String], value: &Value) -> Result<()> {
        let measure = Measure::of(value);
        self.step(measure.nodes)?;
        if path.len() + measure.depth > DEPTH_MAX {
            return error("exceeded max depth");
        }
        Ok(())
    }
}

/// An operation and its paths as they were given, for the texts of errors.
struct Names<'p> {
    operation: &'p str,
    path: &'p str,
    from: &'p str,
}

impl Names<'_> {
    /// Returns the error of an operation on its path.
    fn at_path(&self, fault: Fault) -> PatchError {
        let Self { operation, path, .. } = self;
        match (fault, *operation) {
            (Fault::NoContainer, "test") => {
                missing(&format!("test operation does not apply: is missing path: {path}"))
            }
            (Fault::NoContainer, "add" | "remove") => missing(&format!(
                "{operation} operation does not apply: doc is missing path: {path:?}"
            )),
            (Fault::NoContainer, "replace") => missing(&format!(
                "replace operation does not apply: doc is missing path: {path}"
            )),
            (Fault::NoContainer, _) => missing(&format!(
                "{operation} operation does not apply: doc is missing destination path: {path}"
            )),
            (Fault::OutOfBounds(_), "replace") => missing(&format!(
                "replace operation does not apply: doc is missing key: {path}"
            )),
            (fault, _) => PatchError(format!(
                "error in {operation} for path: '{path}': {}",
                fault.text()
            )),
        }
    }

    /// Returns the error of an operation on the path that it takes a value from.
    fn at_from(&self, fault: Fault) -> PatchError {
        let Self { operation, from, .. } = self;
        match fault {
            Fault::NoContainer => missing(&format!(
                "{operation} operation does not apply: doc is missing from path: {from}"
            )),
            fault => {
                let key = from.rsplit('/').next().unwrap_or_default();
                PatchError(format!(
                    "error in {operation} for path: '{key}': {}",
                    fault.text()
                ))
            }
        }
    }
}

fn missing(text: &str) -> PatchError {
    PatchError(format!("{text}: missing value"))
}

/// The reason why a path cannot be followed.
enum Fault {
    /// A container on the way does not exist.
    NoContainer,
    /// The text and the reason why it is not a number.
    NoIndex(String, String),
    OutOfBounds(String),
    NoKey(String),
}

impl Fault {
    fn text(&self) -> String {
        match self {
            Self::NoContainer => "missing value".to_owned(),
            Self::NoIndex(text, why) => format!("value was not a proper array index: '{text}': {why}"),
            Self::OutOfBounds(text) => {
                format!("Unable to access invalid index: {text}: invalid index referenced")
            }
            Self::NoKey(key) => format!("Unable to remove nonexistent key: {key}: missing value"),
        }
    }
}

type Followed<T> = std::result::Result<T, Fault>;

fn apply_one(document: &mut Value, operation: &Value, budget: &mut Budget) -> Result<()> {
    let field = |name: &str| operation.get(name).and_then(Value::as_str);
    let Some(path) = field("path") else {
        return error("operation has no path");
    };
    let names = Names {
        operation: field("op").unwrap_or_default(),
        path,
        from: field("from").unwrap_or_default(),
    };
    let path = segments(path);
    let value = operation.get("value").unwrap_or(&Value::Null);
    match field("op") {
        Some("add") => {
            budget.nest(&path, value)?;
            add(document, &path, value.clone(), budget, &names)
        }
        Some("remove") => {
            let removed = remove(document, &path, budget)?;
            removed.map(drop).map_err(|fault| names.at_path(fault))
        }
        Some("replace") => {
            budget.nest(&path, value)?;
            replace(document, &path, value.clone()).map_err(|fault| names.at_path(fault))
        }
        Some("move") => {
            let from = segments(field("from").unwrap_or_default());
            let moved = remove(document, &from, budget)?.map_err(|fault| names.at_from(fault))?;
            if path.len() > from.len() {
                budget.nest(&path, &moved)?;
            }
            add(document, &path, moved, budget, &names)
        }
        Some("copy") => {
            // The whole document cannot be copied.
            if !names.from.contains('/') {
                return Err(names.at_from(Fault::NoContainer));
            }
            let from = segments(names.from);
            let found = find(document, &from).map_err(|fault| names.at_from(fault))?;
            let found = found.unwrap_or(&Value::Null);
            budget.copy(found)?;
            budget.nest(&path, found)?;
            let copied = found.clone();
            add(document, &path, copied, budget, &names)
        }
        Some("test") => {
            let found = find(document, &path).map_err(|fault| names.at_path(fault))?;
            match found.unwrap_or(&Value::Null) == value {
                true => Ok(()),
                false => error(FAILED_TEST),
            }
        }
        other => error(format!("Unexpected kind: {}", other.unwrap_or("unknown"))),
    }
}

/// Returns the segments of a pointer, unescaped. Text before the first `/` is dropped.
fn segments(path: &str) -> Vec<String> {
    path.split('/')
        .skip(1)
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect()
}

/// Returns the container of the last segment, which must exist, and that segment.
fn parent<'v, 'p>(document: &'v mut Value, path: &'p [String]) -> Followed<(&'v mut Value, &'p str)> {
    let (last, parents) = path.split_last().ok_or(Fault::NoContainer)?;
    let mut value = document;
    for segment in parents {
        let next = match value {
            Value::Object(map) => map.get_mut(segment),
            Value::Array(list) => {
                let index = index(segment, list.len()).map_err(|_| Fault::NoContainer)?;
                list.get_mut(index)
            }
            _ => None,
        };
        value = next.ok_or(Fault::NoContainer)?;
    }
    match value {
        Value::Object(_) | Value::Array(_) => Ok((value, last)),
        _ => Err(Fault::NoContainer),
    }
}

/// Returns an index of a list of `length` items; negative ones count from the end.
fn index(segment: &str, length: usize) -> Followed<usize> {
    let number = go::atoi(segment).map_err(|why| Fault::NoIndex(segment.to_owned(), why))?;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let position = if number < 0 { number + length } else { number };
    usize::try_from(position).map_err(|_| Fault::OutOfBounds(segment.to_owned()))
}

fn add(
    document: &mut Value,
    path: &[String],
    value: Value,
    budget: &mut Budget,
    names: &Names<'_>,
) -> Result<()> {
    let refuse = |fault| names.at_path(fault);
    let (container, last) = parent(document, path).map_err(refuse)?;
    match container {
        Value::Object(map) => {
            map.insert(last.to_owned(), value);
            Ok(())
        }
        Value::Array(list) if last == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => {
            // A negative index of an insertion counts from after the last item.
            let position = index(last, list.len() + 1).map_err(refuse)?;
            if position > list.len() {
                return Err(refuse(Fault::OutOfBounds(last.to_owned())));
            }
            budget.step(list.len() - position)?;
            list.insert(position, value);
            Ok(())
        }
        _ => Err(refuse(Fault::NoContainer)),
    }
}

/// Removes the value at a path. The outer error is that of the budget.
fn remove(document: &mut Value, path: &[String], budget: &mut Budget) -> Result<Followed<Value>> {
    let (container, last) = match parent(document, path) {
        Ok(found) => found,
        Err(fault) => return Ok(Err(fault)),
    };
    Ok(match container {
        Value::Object(map) => map.remove(last).ok_or_else(|| Fault::NoKey(last.to_owned())),
        Value::Array(list) => match index(last, list.len()) {
            Ok(position) if position < list.len() => {
                budget.step(list.len().saturating_sub(position))?;
                Ok(list.remove(position))
            }
            Ok(_) => Err(Fault::OutOfBounds(last.to_owned())),
            Err(fault) => Err(fault),
        },
        _ => Err(Fault::NoContainer),
    })
}

fn replace(document: &mut Value, path: &[String], value: Value) -> Followed<()> {
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    let (container, last) = parent(document, path)?;
    match container {
        Value::Object(map) => {
            map.insert(last.to_owned(), value);
            Ok(())
        }
        Value::Array(list) => {
            let position = index(last, list.len())?;
            let item = list.get_mut(position);
            *item.ok_or_else(|| Fault::OutOfBounds(last.to_owned()))? = value;
            Ok(())
        }
        _ => Err(Fault::NoContainer),
    }
}

/// Returns the value at a path; an error if a container on the way is missing.
fn find<'v>(document: &'v mut Value, path: &[String]) -> Followed<Option<&'v Value>> {
    if path.is_empty() {
        return Ok(Some(document));
    }
    let (container, last) = parent(document, path)?;
    match container {
        Value::Object(map) => Ok(map.get(last)),
        Value::Array(list) => {
            let position = index(last, list.len())?;
            let item = list.get(position);
            item.map(Some).ok_or_else(|| Fault::OutOfBounds(last.to_owned()))
        }
        _ => Err(Fault::NoContainer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the cases are written as literals")]
    fn check(document: Value, patch: Value, want: Option<Value>) {
        let mut changed = document;
        let operations = patch.as_array().cloned().unwrap_or_default();
        let result = apply(&mut changed, &operations).map(|()| changed).ok();
        assert_eq!(result, want, "{patch}");
    }

    #[test]
    fn an_unknown_operation_has_the_error_of_the_real_server() {
        let error = apply(&mut json!({}), &[json!({"op": "nope", "path": "/a"})]).unwrap_err();
        assert_eq!(error.to_string(), "Unexpected kind: nope");
    }

    #[test]
    fn operations_change_the_document() {
        check(
            json!({"a": 1}),
            json!([{"op": "add", "path": "/b", "value": 2}]),
            Some(json!({"a": 1, "b": 2})),
        );
        check(
            json!({"a": [1, 3]}),
            json!([{"op": "add", "path": "/a/1", "value": 2}]),
            Some(json!({"a": [1, 2, 3]})),
        );
        check(
            json!({"a": [1]}),
            json!([{"op": "add", "path": "/a/-", "value": 2}]),
            Some(json!({"a": [1, 2]})),
        );
        check(
            json!({"a": 1, "b": 2}),
            json!([{"op": "remove", "path": "/a"}]),
            Some(json!({"b": 2})),
        );
        check(
            json!({"a": 1}),
            json!([{"op": "move", "from": "/a", "path": "/b"}]),
            Some(json!({"b": 1})),
        );
        check(
            json!({"a/b": 1}),
            json!([{"op": "test", "path": "/a~1b", "value": 1}]),
            Some(json!({"a/b": 1})),
        );
        check(
            json!({"a": 1}),
            json!([{"op": "test", "path": "/a", "value": 2}]),
            None,
        );
        check(json!({"a": 1}), json!([{"op": "remove", "path": "/b"}]), None);
        check(
            json!({"a": 1}),
            json!([{"op": "add", "path": "/b/c", "value": 1}]),
            None,
        );
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the cases are written as literals")]
    fn check_error(mut document: Value, patch: Vec<Value>, want: &str) {
        let error = apply(&mut document, &patch).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
        assert!(Measure::of(&document).depth <= DEPTH_MAX);
    }

    #[test]
    fn copies_are_limited() {
        let doubled = |index: usize| json!({"op": "copy", "from": "/d", "path": format!("/d/b{index}")});
        check_error(
            json!({"d": {"a": "x".repeat(1000)}}),
            (0..40).map(doubled).collect(),
            "exceeding the limit 3145728",
        );
        let text = vec![json!({"op": "copy", "from": "/a", "path": "/b"}); 40];
        let mut document = json!({"a": "x".repeat(100_000)});
        apply(&mut document, &text[..30]).unwrap();
        check_error(document, text, "exceeding the limit 3145728");
    }

    #[test]
    fn nesting_is_limited_for_every_operation() {
        let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"a": inner}));
        let path = |depth: usize| "/a".repeat(depth);
        let deep = nested(DEPTH_MAX - 10);
        for op in ["add", "replace"] {
            let patch = json!({"op": op, "path": path(DEPTH_MAX - 20), "value": nested(20)});
            check_error(deep.clone(), vec![patch], "exceeded max depth");
        }
        for op in ["move", "copy"] {
            let mut document = deep.clone();
            document["b"] = nested(20);
            let patch = json!({"op": op, "from": "/b", "path": path(DEPTH_MAX - 20)});
            check_error(document, vec![patch], "exceeded max depth");
        }
        let nesting = vec![json!({"op": "copy", "from": "/d", "path": "/d/a"}); 7_200];
        check_error(json!({"d": {}}), nesting, "exceeded max depth");
    }

    #[test]
    fn moving_the_items_of_a_long_list_is_limited() {
        let list: Vec<Value> = vec![json!(1); 300_000];
        let rotate = [
            json!({"op": "remove", "path": "/a/0"}),
            json!({"op": "add", "path": "/a/0", "value": 1}),
        ];
        let patch: Vec<Value> = rotate.iter().cycle().take(OPERATIONS_MAX).cloned().collect();
        check_error(json!({ "a": list }), patch, "too many steps");
        let half = [
            json!({"op": "move", "from": "/a", "path": "/b/c"}),
            json!({"op": "move", "from": "/b/c", "path": "/a"}),
        ];
        let patch: Vec<Value> = half.iter().cycle().take(OPERATIONS_MAX).cloned().collect();
        let list: Vec<Value> = vec![json!(1); 300_000];
        check_error(json!({"a": list, "b": {}}), patch, "too many steps");
    }

    #[test]
    fn leniency_is_that_of_the_real_server() {
        check(
            json!({}),
            json!([{"op": "replace", "path": "/a", "value": 1}]),
            Some(json!({"a": 1})),
        );
        check(
            json!({}),
            json!([{"op": "copy", "from": "/x", "path": "/a"}]),
            Some(json!({"a": null})),
        );
        check(
            json!({"a": [1, 2]}),
            json!([{"op": "replace", "path": "/a/-1", "value": 3}]),
            Some(json!({"a": [1, 3]})),
        );
        check(
            json!({"a": [1, 2]}),
            json!([{"op": "replace", "path": "/a/00", "value": 3}]),
            Some(json!({"a": [3, 2]})),
        );
        check(
            json!({"b": 1}),
            json!([{"op": "remove", "path": "a/b"}]),
            Some(json!({})),
        );
    }
}
