//! `scale`: the replicas of an object as an `autoscaling/v1` Scale.

use std::sync::Arc;

use apimachinery::field;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};

use crate::builtin::{self, Gvk};
use crate::codec::{Form, Transform};
use crate::http::call::{Answer, Call};
use crate::http::table::{self, IncludeObject};
use crate::http::verb;
use crate::http::verb::options::{self, FieldValidation};
use crate::object;
use crate::patch::managed_fields::{self, ScaleManagers};
use crate::patch::{json as json_patch, merge};
use crate::registry::Registry;
use crate::resource::crd::conversion;
use crate::resource::{Backing, Definition};
use crate::status::{self, Status, Subject};
use crate::write::Write;

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
        conversion::prepare(registry, definition, [&stored.value]).await?;
        let object = definition.serve(&stored.value);
        if definition.is_custom() && get(&object, &paths.spec_replicas).is_none() {
            let path = paths.spec_replicas_text();
            let why = format!("the spec replicas field {path:?} does not exist");
            return Err(status::internal(&why));
        }
        let scale = paths.scale(&object);
        return answer(registry, call, definition, form, &scale);
    }
    verb::patch::check_media(call, definition)?;
    let mut write = verb::write(call, definition)?;
    write.tracked = true;
    let managers = ScaleManagers::new(definition, &paths.spec_replicas);
    let change = |live: &Value| {
        let mut scale = paths.scale(live);
        managers.show(live, &mut scale);
        let wanted = wanted(registry, call, &write, &scale)?;
        let mut object = live.clone();
        managers.take_over(live, &wanted, &mut object);
        let version = object::meta(&wanted, "resourceVersion").cloned();
        object::set_meta(&mut object, "resourceVersion", version);
        let replicas = wanted
            .pointer("/spec/replicas")
            .cloned()
            .unwrap_or_else(|| 0.into());
        paths.check(definition, &write.name, &replicas)?;
        set(&mut object, &paths.spec_replicas, replicas);
        Ok(object)
    };
    let updated = registry.update(&write, &change).await?;
    answer(registry, call, definition, form, &paths.scale(&updated))
}

/// Returns a Scale in the form asked for.
fn answer(
    registry: &Registry,
    call: &Call,
    definition: &Definition,
    form: Form,
    scale: &Value,
) -> Result<Answer, Status> {
    if form.transform == Transform::Table {
        let include = IncludeObject::parse(call)?;
        let rendered = table::render_scale(registry, definition, scale, (form, include));
        return Ok(Answer::object(StatusCode::OK, &rendered, form));
    }
    Ok(super::transient(StatusCode::OK, scale, form))
}

/// The Scale of an object.
pub(crate) fn scale_of(definition: &Definition, object: &Value) -> Value {
    Paths::of(definition).scale(object)
}

/// Gives an object the replicas that a Scale wants.
pub(crate) fn set_replicas(definition: &Definition, object: &mut Value, scale: &Value) {
    let replicas = scale.pointer("/spec/replicas").cloned();
    let paths = Paths::of(definition);
    set(object, &paths.spec_replicas, replicas.unwrap_or_else(|| 0.into()));
}

/// The Scale that the request wants, with its managers, from the one that is.
fn wanted(registry: &Registry, call: &Call, write: &Write, live: &Value) -> Result<Value, Status> {
    let media = call.header(CONTENT_TYPE);
    if call.info.verb != "update" && media.starts_with(verb::patch::APPLY_PATCH) {
        return verb::patch::parse_configuration(call)
            .and_then(|(config, force)| managed_fields::apply_scale(registry, write, live, &config, force));
    }
    let mut wanted = changed(call, live)?;
    check_fields(call, write, &wanted)?;
    if call.info.verb == "update" && write.definition.is_custom() {
        check_type(&wanted)?;
    }
    if call.info.verb == "update" {
        verb::object_body::check_name(&wanted, &write.name)?;
        check_uid(write, &wanted, live)?;
    }
    if let Some(spec) = wanted.get_mut("spec").and_then(Value::as_object_mut) {
        // A Go struct leaves zero replicas out.
        spec.retain(|field, value| field != "replicas" || !(value.is_null() || *value == 0));
    }
    Ok(managed_fields::update_scale(registry, write, live, wanted))
}

/// A Scale with a uid is one of that object alone.
fn check_uid(write: &Write, wanted: &Value, live: &Value) -> Result<(), Status> {
    let (wanted, live) = (object::uid(wanted), object::uid(live));
    if wanted.is_empty() || wanted == live {
        return Ok(());
    }
    Err(write.precondition_failed("UID", wanted, live))
}

/// Reports the fields that no Scale has.
fn check_fields(call: &Call, write: &Write, wanted: &Value) -> Result<(), Status> {
    let unknown = builtin::decode(&SCALE, &mut wanted.clone()).unwrap_or_default();
    let faults: Vec<String> = unknown
        .iter()
        .map(|field| format!("unknown field {}", object::go_quote(field)))
        .collect();
    match options::field_validation(call) {
        _ if faults.is_empty() => {}
        FieldValidation::Ignore => {}
        FieldValidation::Warn => faults.iter().for_each(|fault| write.warnings.add(fault.as_str())),
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", faults.join(", "));
            if call.info.verb == "patch" {
                return Err(status::invalid_patch(&wanted.to_string(), &why));
            }
            let why = format!("Scale in version \"v1\" cannot be handled as a Scale: {why}");
            return Err(status::bad_request(why));
        }
    }
    Ok(())
}

const SCALE: Gvk = Gvk {
    group: "autoscaling",
    version: "v1",
    kind: "Scale",
};

/// What replaces the Scale of a custom resource is a Scale.
fn check_type(wanted: &Value) -> Result<(), Status> {
    let is = |field: &str, expected: &str| matches!(object::text(wanted, &[field]), found if found.is_empty() || found == expected);
    if is("kind", "Scale") && is("apiVersion", "autoscaling/v1") {
        return Ok(());
    }
    Err(status::bad_request(
        "no kind is registered for the type v1.Scale in scheme \"pkg/apiserver/customresource_handler.go:781\"",
    ))
}

fn changed(call: &Call, live: &Value) -> Result<Value, Status> {
    let content_type = call.header(CONTENT_TYPE);
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let parse = || {
        crate::json::parse(&call.body)
            .map_err(|why| status::bad_request(format!("error decoding patch: {why}")))
    };
    let mut scale = live.clone();
    match (call.info.verb, media) {
        ("update", _) => return super::decode(call, "autoscaling/v1", "Scale"),
        (_, "application/json-patch+json") => {
            let patch = parse()?;
            let operations = patch.value.as_array().map_or(&[][..], Vec::as_slice);
            verb::patch::check_count(operations)?;
            json_patch::apply(&mut scale, operations).map_err(|_| status::unprocessable())?;
        }
        _ => merge::apply(&mut scale, &parse()?.value),
    }
    match scale.pointer("/spec/replicas") {
        None | Some(Value::Null) => Ok(scale),
        Some(replicas) if replicas.is_i64() => Ok(scale),
        Some(_) => {
            let why =
                "json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32";
            Err(status::invalid_patch(&scale.to_string(), why))
        }
    }
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

    fn spec_replicas_text(&self) -> String {
        self.spec_replicas.iter().map(|name| format!(".{name}")).collect()
    }

    /// Replicas are never negative; built-in kinds say so of the Scale, custom ones later of the object.
    fn check(&self, definition: &Definition, name: &str, replicas: &Value) -> Result<(), Status> {
        if definition.is_custom() || replicas.as_i64().is_none_or(|replicas| replicas >= 0) {
            return Ok(());
        }
        let scale = Subject {
            group: "autoscaling".to_owned(),
            resource: "scales".to_owned(),
            kind: "Scale".to_owned(),
        };
        let path = field::Path::new("spec").child("replicas");
        let error = field::Error::invalid(path, replicas.clone(), "must be greater than or equal to 0");
        Err(status::invalid(&scale, name, &[error]))
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
