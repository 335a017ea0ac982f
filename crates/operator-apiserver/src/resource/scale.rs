//! The Scale of an object, and the paths of the replicas.

use apimachinery::field;
use apimachinery::object;
use serde_json::{Map, Value, json};

use super::{Definition, Source};
use crate::status::{self, NamedResource, Status};

/// Returns the Scale of an object.
pub(crate) fn scale_of(definition: &Definition, object: &Value) -> Value {
    ScalePaths::of(definition).scale(object)
}

/// Sets the replicas of an object from a Scale.
pub(crate) fn set_replicas(definition: &Definition, object: &mut Value, scale: &Value) {
    let replicas = scale.pointer("/spec/replicas").cloned();
    let paths = ScalePaths::of(definition);
    set(object, &paths.spec_replicas, replicas.unwrap_or_else(|| 0.into()));
}

/// The paths of a Scale's numbers in an object.
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: Vec<String>,
    status_replicas: Vec<String>,
    selector: Option<Vec<String>>,
}

impl ScalePaths {
    pub(crate) fn of(definition: &Definition) -> Self {
        let split = |path: &str| path.split('.').skip(1).map(str::to_owned).collect();
        match &definition.source {
            Source::Custom(version) if version.scale.is_some() => {
                let scale = version.scale.as_ref();
                let path = |text: Option<&String>| split(text.map_or("", String::as_str));
                Self {
                    spec_replicas: path(scale.map(|scale| &scale.spec_replicas)),
                    status_replicas: path(scale.map(|scale| &scale.status_replicas)),
                    selector: scale.and_then(|scale| scale.label_selector.as_deref()).map(split),
                }
            }
            _ => Self {
                spec_replicas: split(".spec.replicas"),
                status_replicas: split(".status.replicas"),
                selector: Some(split(".spec.selector")),
            },
        }
    }

    pub(crate) fn spec_replicas_text(&self) -> String {
        self.spec_replicas.iter().map(|name| format!(".{name}")).collect()
    }

    /// Checks that the replicas are not negative. For built-in kinds the error is about the Scale, for custom ones
    /// about the object.
    pub(crate) fn check(&self, definition: &Definition, name: &str, replicas: &Value) -> Result<(), Status> {
        if definition.is_custom() || replicas.as_i64().is_none_or(|replicas| replicas >= 0) {
            return Ok(());
        }
        let scale = NamedResource {
            group: "autoscaling".to_owned(),
            resource: "scales".to_owned(),
            kind: "Scale".to_owned(),
        };
        let path = field::Path::new("spec").child("replicas");
        let error = field::Error::invalid(path, replicas.clone(), "must be greater than or equal to 0");
        Err(status::invalid(&scale, name, &[error]))
    }

    pub(crate) fn scale(&self, object: &Value) -> Value {
        let number = |path: &[String]| get(object, path).and_then(Value::as_i64);
        let mut metadata = Map::new();
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object::meta(object, field) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        let mut spec = json!({});
        if let Some(replicas) = number(&self.spec_replicas).filter(|replicas| *replicas != 0) {
            spec["replicas"] = replicas.into();
        }
        let mut status = json!({"replicas": number(&self.status_replicas).unwrap_or_default()});
        let selector = self
            .selector
            .as_deref()
            .and_then(|path| get(object, path))
            .map(selector_text)
            .unwrap_or_default();
        if !selector.is_empty() {
            status["selector"] = selector.into();
        }
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": metadata, "spec": spec, "status": status,
        })
    }
}

pub(crate) fn get<'v>(object: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}

pub(crate) fn set(object: &mut Value, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *object = value;
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    if let Some(map) = object.as_object_mut() {
        set(map.entry(first.clone()).or_insert(Value::Null), rest, value);
    }
}

/// Formats a label selector, or a map of labels, as one string.
fn selector_text(selector: &Value) -> String {
    let labels = match selector.get("matchLabels") {
        Some(labels) => labels,
        None if selector.get("matchExpressions").is_none() => selector,
        None => &Value::Null,
    };
    if let Value::String(text) = selector {
        return text.clone();
    }
    let mut terms: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        terms.push(expression_text(expression));
    }
    terms.sort();
    terms.join(",")
}

fn expression_text(expression: &Value) -> String {
    let key = object::text(expression, &["key"]);
    let values: Vec<&str> = expression
        .get("values")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let values = values.join(",");
    match object::text(expression, &["operator"]) {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "DoesNotExist" => format!("!{key}"),
        _ => key.to_owned(),
    }
}
