//! JSON patch, RFC 6902, with the leniency of the library that the real server uses.
//!
//! `replace` of a missing key adds it, `copy` from a missing path writes null, negative and zero-padded indexes
//! work, and a path without a leading `/` loses its first segment.

use serde_json::Value;

/// The most operations that one patch may have.
pub(crate) const OPERATIONS_MAX: usize = 10_000;

/// Why a patch does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PatchError(String);

const FAILED_TEST: &str = "testing value failed";

impl PatchError {
    /// Whether a `test` found another value.
    pub(crate) fn is_failed_test(&self) -> bool {
        self.0 == FAILED_TEST
    }
}

type Result<T> = std::result::Result<T, PatchError>;

fn error<T>(text: impl Into<String>) -> Result<T> {
    Err(PatchError(text.into()))
}

/// Applies all operations in order.
pub(crate) fn apply(document: &mut Value, patch: &[Value]) -> Result<()> {
    for operation in patch {
        apply_one(document, operation)?;
    }
    Ok(())
}

fn apply_one(document: &mut Value, operation: &Value) -> Result<()> {
    let field = |name: &str| operation.get(name).and_then(Value::as_str);
    let Some(path) = field("path") else {
        return error("operation has no path");
    };
    let path = segments(path);
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match field("op") {
        Some("add") => add(document, &path, value()),
        Some("remove") => remove(document, &path).map(drop),
        Some("replace") => replace(document, &path, value()),
        Some("move") => {
            let from = segments(field("from").unwrap_or_default());
            let moved = remove(document, &from)?;
            add(document, &path, moved)
        }
        Some("copy") => {
            let from = segments(field("from").unwrap_or_default());
            let copied = find(document, &from)?.cloned().unwrap_or(Value::Null);
            add(document, &path, copied)
        }
        Some("test") => test(document, &path, &value()),
        other => error(format!("unexpected kind: {}", other.unwrap_or("unknown"))),
    }
}

/// The segments of a pointer, unescaped. What stands before the first `/` is dropped.
fn segments(path: &str) -> Vec<String> {
    path.split('/')
        .skip(1)
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect()
}

/// The container of the last segment, which must exist, and that segment.
fn parent<'v, 'p>(document: &'v mut Value, path: &'p [String]) -> Result<(&'v mut Value, &'p str)> {
    let Some((last, parents)) = path.split_last() else {
        return error("the whole document cannot be the target");
    };
    let mut value = document;
    for segment in parents {
        let next = match value {
            Value::Object(map) => map.get_mut(segment),
            Value::Array(list) => {
                let index = index(segment, list.len())?;
                list.get_mut(index)
            }
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => return error(format!("missing path: {segment}")),
        }
    }
    Ok((value, last))
}

/// An index of a list of `length` items; negative ones count from the end.
fn index(segment: &str, length: usize) -> Result<usize> {
    let Ok(number) = segment.parse::<i64>() else {
        return error(format!("no index: {segment}"));
    };
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let position = if number < 0 { number + length } else { number };
    match usize::try_from(position) {
        Ok(position) => Ok(position),
        Err(_) => error(format!("index out of bounds: {segment}")),
    }
}

fn add(document: &mut Value, path: &[String], value: Value) -> Result<()> {
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
        Value::Array(list) if last == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => {
            // A negative index of an insertion counts from behind the last item.
            let position = index(last, list.len() + 1)?;
            if position > list.len() {
                return error(format!("index out of bounds: {last}"));
            }
            list.insert(position, value);
            Ok(())
        }
        _ => error(format!("no container for {last}")),
    }
}

fn remove(document: &mut Value, path: &[String]) -> Result<Value> {
    let (container, last) = parent(document, path)?;
    let removed = match container {
        Value::Object(map) => map.remove(last),
        Value::Array(list) => {
            let position = index(last, list.len())?;
            (position < list.len()).then(|| list.remove(position))
        }
        _ => None,
    };
    removed.ok_or_else(|| PatchError(format!("unable to remove nonexistent key: {last}")))
}

fn replace(document: &mut Value, path: &[String], value: Value) -> Result<()> {
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
            match list.get_mut(position) {
                Some(item) => {
                    *item = value;
                    Ok(())
                }
                None => error(format!("index out of bounds: {last}")),
            }
        }
        _ => error(format!("no container for {last}")),
    }
}

/// The value at a path; an error if a container on the way is missing.
fn find<'v>(document: &'v mut Value, path: &[String]) -> Result<Option<&'v Value>> {
    if path.is_empty() {
        return Ok(Some(document));
    }
    let (container, last) = parent(document, path)?;
    Ok(match container {
        Value::Object(map) => map.get(last),
        Value::Array(list) => {
            let position = index(last, list.len())?;
            list.get(position)
        }
        _ => None,
    })
}

fn test(document: &mut Value, path: &[String], want: &Value) -> Result<()> {
    let found = find(document, path)?.unwrap_or(&Value::Null);
    if found == want { Ok(()) } else { error(FAILED_TEST) }
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
