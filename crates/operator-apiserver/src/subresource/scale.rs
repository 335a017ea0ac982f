//! `scale`: the replicas of an object as an `autoscaling/v1` Scale.

use std::sync::Arc;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};

use crate::call::{Answer, Call};
use crate::negotiate::Form;
use crate::negotiate::body::{self, Media};
use crate::object;
use crate::patch::{json as json_patch, merge};
use crate::registry::{Backing, Definition, Registry};
use crate::status::{self, Status};
use crate::verb;

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let paths = Paths::of(definition);
    let info = &call.info;
    if info.verb == "get" {
        let stored = registry.get(definition, &info.namespace, &info.name)?;
        let scale = paths.scale(&definition.serve(&stored.value));
        return Ok(Answer::object(StatusCode::OK, &scale, form));
    }
    let write = verb::write(call, definition)?;
    let change = |live: &Value| {
        let wanted = wanted(call, &paths.scale(live))?;
        let mut object = live.clone();
        let version = object::meta(&wanted, "resourceVersion").cloned();
        object::set_meta(&mut object, "resourceVersion", version);
        let replicas = wanted
            .pointer("/spec/replicas")
            .cloned()
            .unwrap_or_else(|| 0.into());
        set(&mut object, &paths.spec_replicas, replicas);
        Ok(object)
    };
    let updated = registry.update(&write, &change).await?;
    Ok(verb::warned(
        Answer::object(StatusCode::OK, &paths.scale(&updated), form),
        &write,
    ))
}

/// The Scale that the request wants, from the one that is.
fn wanted(call: &Call, live: &Value) -> Result<Value, Status> {
    let content_type = call.header(CONTENT_TYPE);
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let parse = || {
        crate::json::parse(&call.body)
            .map_err(|why| status::bad_request(format!("error decoding patch: {why}")))
    };
    let mut scale = live.clone();
    match (call.info.verb, media) {
        ("update", _) => {
            let media = Media::parse(content_type, false)?;
            let decoded = body::decode(&call.body, media, ("autoscaling/v1", "Scale"))
                .map_err(|why| body::unrecognized("Scale", &why, &call.body))?;
            return Ok(decoded.value);
        }
        (_, "application/json-patch+json") => {
            let patch = parse()?;
            let operations = patch.value.as_array().cloned().unwrap_or_default();
            json_patch::apply(&mut scale, &operations)
                .map_err(|error| status::bad_request(error.to_string()))?;
        }
        (_, "application/apply-patch+yaml") => {
            let patch = body::parse_yaml(&call.body).map_err(status::bad_request)?;
            merge::apply(&mut scale, &patch.value);
        }
        _ => merge::apply(&mut scale, &parse()?.value),
    }
    Ok(scale)
}

/// Where an object keeps the numbers of its Scale.
struct Paths {
    spec_replicas: Vec<String>,
    status_replicas: Vec<String>,
    selector: Option<Vec<String>>,
}

impl Paths {
    fn of(definition: &Definition) -> Self {
        let split = |path: &str| path.split('.').skip(1).map(str::to_owned).collect();
        match &definition.backing {
            Backing::Custom(version) if version.scale.is_some() => {
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

    fn scale(&self, object: &Value) -> Value {
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

fn get<'v>(object: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}

fn set(object: &mut Value, path: &[String], value: Value) {
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

/// A label selector, or a map of labels, as one text.
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
