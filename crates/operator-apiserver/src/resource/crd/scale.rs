//! The scale subresource of custom resources: the paths of the replicas, and their limits.

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::go;
use serde_json::Value;

/// The fields of the scale subresource, as JSON paths.
#[derive(Debug)]
pub(crate) struct Scale {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) label_selector: Option<String>,
}

impl Scale {
    /// Returns the errors in the fields of the scale subresource; errors in the spec only if `with_spec` is true.
    pub(crate) fn check(&self, object: &Value, with_spec: bool) -> ErrorList {
        let spec = with_spec.then(|| replicas(object, &self.spec_replicas));
        let selector = self.label_selector.as_deref().map(|path| selector(object, path));
        spec.into_iter()
            .chain([replicas(object, &self.status_replicas)])
            .chain(selector)
            .flatten()
            .collect()
    }
}

fn replicas(object: &Value, json_path: &str) -> Option<Error> {
    let path = Path::new(json_path);
    let found = match lookup(object, json_path) {
        Ok(found) => found?,
        Err(why) => return Some(Error::invalid(path, 0.into(), why)),
    };
    let Some(count) = found.as_i64() else {
        let why = mismatch(json_path, found, "int64");
        return Some(Error::invalid(path, 0.into(), why));
    };
    let detail = if count < 0 {
        "should be a non-negative integer".to_owned()
    } else if count > i64::from(i32::MAX) {
        format!("should be less than or equal to {}", i32::MAX)
    } else {
        return None;
    };
    Some(Error::invalid(path, count.into(), detail))
}

fn selector(object: &Value, json_path: &str) -> Option<Error> {
    let path = Path::new(json_path);
    match lookup(object, json_path) {
        Ok(found) => {
            let wrong = found.filter(|found| !found.is_string())?;
            Some(Error::invalid(
                path,
                "".into(),
                mismatch(json_path, wrong, "string"),
            ))
        }
        Err(why) => Some(Error::invalid(path, "".into(), why)),
    }
}

/// Returns the value at a path such as `.spec.replicas`, or the reason why the path is invalid.
fn lookup<'o>(object: &'o Value, json_path: &str) -> Result<Option<&'o Value>, String> {
    let mut found = object;
    let mut walked = String::new();
    for name in json_path.trim_start_matches('.').split('.') {
        walked = format!("{walked}.{name}");
        found = match found {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(name) {
                Some(value) => value,
                None => return Ok(None),
            },
            other => return Err(mismatch(&walked, other, "map[string]interface{}")),
        };
    }
    Ok(Some(found))
}

fn mismatch(json_path: &str, found: &Value, wanted: &str) -> String {
    let kind = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!(
        "{json_path} accessor error: {} is of the type {kind}, expected {wanted}",
        shown(found)
    )
}

/// Formats a value as Go prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => go::number(number),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{key}:{}", shown(value)))
                .collect();
            entries.sort();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Scale;

    #[test]
    fn replicas_and_selectors_of_a_wrong_kind_are_named_as_go_names_them() {
        let scale = Scale {
            spec_replicas: ".spec.n".to_owned(),
            status_replicas: ".status.n".to_owned(),
            label_selector: Some(".status.sel".to_owned()),
        };
        let told = |object: serde_json::Value| -> Vec<String> {
            let errors = scale.check(&object, true);
            errors.iter().map(ToString::to_string).collect()
        };
        assert!(told(json!({"spec": {"n": 1}, "status": null})).is_empty());
        assert_eq!(
            told(json!({"spec": {"n": "x"}, "status": {"n": -1, "sel": ["a"]}})),
            [
                ".spec.n: Invalid value: 0: .spec.n accessor error: x is of the type string, expected int64",
                ".status.n: Invalid value: -1: should be a non-negative integer",
                ".status.sel: Invalid value: \"\": .status.sel accessor error: [a] is of the type []interface {}, expected string",
            ]
        );
        assert_eq!(
            told(json!({"spec": 3})),
            [
                ".spec.n: Invalid value: 0: .spec.n accessor error: 3 is of the type int64, expected map[string]interface{}"
            ]
        );
    }
}
