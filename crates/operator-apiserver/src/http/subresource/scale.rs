//! `scale`: the replicas of an object as an `autoscaling/v1` Scale.

use std::sync::Arc;

use apimachinery::object;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use crate::codec::body::{self, Media};
use crate::codec::protobuf::go_order;
use crate::codec::{Form, Transform};
use crate::http::call::{Answer, Call};
use crate::http::router;
use crate::http::table::{self, IncludeObject};
use crate::http::verb;
use crate::http::verb::options;
use crate::patch::managed_fields::{self, ScaleManagers};
use crate::patch::{json as json_patch, merge};
use crate::registry::{Registry, check_namespace};
use crate::resource::Definition;
use crate::resource::crd::conversion;
use crate::resource::scale::{ScalePaths, get, set};
use crate::status::{self, Status};
use crate::write::Write;
use crate::write::{FieldValidation, object_body};
use apimachinery::gvk::Gvk;

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let paths = ScalePaths::of(definition);
    let info = &call.info;
    if info.verb == "get" {
        let stored = registry.get(definition, &info.namespace, &info.name)?;
        conversion::prepare(&registry.converter, definition, [&stored.value]).await?;
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
    let given = match info.verb {
        "update" => Some(given(call, &write)?),
        _ => None,
    };
    let managers = ScaleManagers::new(definition, &paths.spec_replicas);
    let change = |live: &Value| {
        let mut scale = paths.scale(live);
        managers.show(live, &mut scale);
        let wanted = wanted(registry, call, &write, given.as_ref(), &scale)?;
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

/// Returns a Scale in the requested format.
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

/// Returns the Scale in the body of an update.
fn given(call: &Call, write: &Write) -> Result<Value, Status> {
    let given = if write.definition.is_custom() {
        let media = Media::parse(call.header(CONTENT_TYPE), false)?;
        let decoded = body::decode(&call.body, media, ("autoscaling/v1", "Scale"));
        decoded.map_err(status::bad_request)?.value
    } else {
        verb::object_body::read_other(call, &SCALE, &write.warnings)?
    };
    check_fields(call, write, &given)?;
    if write.definition.is_custom() {
        check_type(&given)?;
    }
    object_body::check_name(&given, &write.name)?;
    check_namespace(write, &given)?;
    if write.definition.namespaced && write.namespace.is_empty() {
        return Err(router::no_namespace());
    }
    router::check_segment(&write.name)?;
    Ok(given)
}

/// Returns the requested Scale, with its field managers, from the live one. `given` is the Scale of an update.
fn wanted(
    registry: &Registry,
    call: &Call,
    write: &Write,
    given: Option<&Value>,
    live: &Value,
) -> Result<Value, Status> {
    let media = call.header(CONTENT_TYPE);
    if given.is_none() && media.starts_with(crate::patch::APPLY_PATCH) {
        return verb::patch::parse_configuration(call).and_then(|(config, force)| {
            managed_fields::apply_scale(&registry.timestamp(), write, live, &config, force)
        });
    }
    let mut wanted = if let Some(given) = given {
        check_uid(write, given, live)?;
        given.clone()
    } else {
        let patched = patched(call, write, live)?;
        check_fields(call, write, &patched)?;
        patched
    };
    if let Some(spec) = wanted.get_mut("spec").and_then(Value::as_object_mut) {
        // A Go struct omits zero replicas.
        spec.retain(|field, value| field != "replicas" || !(value.is_null() || *value == 0));
    }
    Ok(managed_fields::update_scale(
        &registry.timestamp(),
        write,
        live,
        wanted,
    ))
}

/// Checks that the uid of a Scale, if it has one, is the uid of the object.
fn check_uid(write: &Write, wanted: &Value, live: &Value) -> Result<(), Status> {
    let (wanted, live) = (object::uid(wanted), object::uid(live));
    if wanted.is_empty() || wanted == live {
        return Ok(());
    }
    Err(write.precondition_failed("UID", wanted, live))
}

/// Reports unknown fields of a Scale.
fn check_fields(call: &Call, write: &Write, wanted: &Value) -> Result<(), Status> {
    let unknown = builtin_kinds::decode(&SCALE, &mut wanted.clone()).unwrap_or_default();
    let faults: Vec<String> = unknown
        .iter()
        .map(|field| object_body::unknown_field(field))
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

/// Checks that the new Scale of a custom resource has the kind and the version of a Scale.
fn check_type(wanted: &Value) -> Result<(), Status> {
    let is = |field: &str, expected: &str| matches!(object::text(wanted, &[field]), found if found.is_empty() || found == expected);
    if is("kind", "Scale") && is("apiVersion", "autoscaling/v1") {
        return Ok(());
    }
    Err(status::bad_request(
        "no kind is registered for the type v1.Scale in scheme \"pkg/apiserver/customresource_handler.go:781\"",
    ))
}

fn patched(call: &Call, write: &Write, live: &Value) -> Result<Value, Status> {
    let content_type = call.header(CONTENT_TYPE);
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let parse = || {
        apimachinery::json::parse(&call.body)
            .map_err(|why| status::bad_request(format!("error decoding patch: {why}")))
    };
    let mut scale = live.clone();
    // The objects on the path of a patch are shown with sorted fields.
    let touched = match media {
        "application/json-patch+json" => {
            let patch = parse()?;
            let operations = patch.value.as_array().map_or(&[][..], Vec::as_slice);
            verb::patch::check_count(operations)?;
            json_patch::apply(&mut scale, operations).map_err(|_| status::unprocessable())?;
            go_order::touched_by(operations)
        }
        _ => {
            let patch = parse()?.value;
            merge::apply(&mut scale, &patch);
            patch
        }
    };
    match scale.pointer("/spec/replicas") {
        None | Some(Value::Null) => Ok(scale),
        Some(replicas) if replicas.is_i64() => Ok(scale),
        Some(_) => {
            let why =
                "json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32";
            let shown = if write.definition.is_custom() {
                scale.to_string()
            } else {
                go_order::patched_text(&scale, live, &touched, ("autoscaling/v1", "Scale"))
            };
            Err(status::invalid_patch(&shown, why))
        }
    }
}
