//! PATCH of an object or of its subresource.

use std::sync::Arc;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};
use structured_merge::strategic::{self, StrategicError};

use super::options::{self, FieldValidation};
use super::{object_body, render, write};
use crate::builtin::unstructured;
use crate::codec::{Form, body};
use crate::http::call::{Answer, Call};
use crate::json::FAULTS_MAX;
use crate::object;
use crate::patch::managed_fields;
use crate::patch::{json, merge};
use crate::registry::Registry;
use crate::resource::{Backing, Definition};
use crate::status::{self, Status};
use crate::write::Write;

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A parsed patch.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    Json(Vec<Value>),
    Merge(Value),
    Strategic(Value),
    Apply { config: Value, force: bool },
}

/// A patch, and how its target is to be checked.
#[derive(Clone, Debug)]
pub(crate) struct Patching {
    pub(crate) patch: Patch,
    pub(crate) validation: FieldValidation,
    /// What the text of the patch says twice, and what its operations have too much.
    pub(crate) faults: Vec<String>,
}

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    check_media(call, definition)?;
    let mut write = write(call, definition)?;
    let media = call.header(CONTENT_TYPE);
    let is_strategic = media == STRATEGIC_PATCH && definition.builtin_type().is_some();
    if matches!(media, JSON_PATCH | MERGE_PATCH) || is_strategic {
        // A missing object is told before a patch that cannot be read.
        registry.load(&write)?;
    }
    let patching = parse(call)?;
    let (code, patched) = apply(registry, &mut write, &patching).await?;
    render::object(registry, call, definition, form, code, &patched)
}

/// Applies a patch to the object that a write names; server-side apply creates what is missing.
pub(crate) async fn apply(
    registry: &Registry,
    write: &mut Write,
    patching: &Patching,
) -> Result<(StatusCode, Arc<Value>), Status> {
    let Patch::Apply { config, force } = &patching.patch else {
        let change = |live: &Value| {
            let object = patched(write, live, patching)?;
            check_identity(&object)?;
            Ok(object)
        };
        return Ok((StatusCode::OK, registry.update(write, &change).await?));
    };
    write.tracked = true;
    let write = &*write;
    let applied = |live: Option<&Value>| {
        let object = managed_fields::apply(registry, write, live, config, *force)?;
        warn(write, patching);
        finish_applied(write, config, object)
    };
    if write.subresource.is_empty() && registry.load(write).is_err() {
        let mut object = applied(None)?;
        let uid = object::uid(&object);
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(status::conflict(&write.definition.subject, &write.name, &why));
        }
        object::set_meta(&mut object, "resourceVersion", None);
        return Ok((StatusCode::CREATED, registry.create(write, object).await?));
    }
    let change = |live: &Value| {
        let object = applied(Some(live))?;
        check_identity(&object)?;
        Ok(object)
    };
    Ok((StatusCode::OK, registry.update(write, &change).await?))
}

/// The live object with a JSON, merge or strategic patch applied.
fn patched(write: &Write, live: &Value, patching: &Patching) -> Result<Value, Status> {
    let mut object = live.clone();
    match &patching.patch {
        Patch::Json(operations) => {
            json::apply(&mut object, operations).map_err(|_| status::unprocessable())?;
        }
        Patch::Merge(patch) => merge::apply(&mut object, patch),
        Patch::Strategic(patch) => object = strategic(write, live, patch)?,
        Patch::Apply { .. } => {}
    }
    let shown = match &patching.patch {
        Patch::Strategic(patch) => structured_merge::go::plain(patch),
        _ => object.to_string(),
    };
    let faults = &patching.faults;
    if patching.validation == FieldValidation::Strict && !faults.is_empty() {
        let why = format!("strict decoding error: {}", faults.join(", "));
        return Err(status::invalid_patch(&shown, &why));
    }
    warn(write, patching);
    finish(write, object, patching.validation).map_err(|status| match decoding_error(&status) {
        Some(why) => status::invalid_patch(&shown, why),
        None => status,
    })
}

/// What the decoder of the kind has to say, if it is the decoder that refuses.
fn decoding_error(status: &Status) -> Option<&str> {
    let (_, rest) = status.message().split_once(CANNOT)?;
    let why = rest.split_once(": ").map_or(rest, |(_, why)| why);
    (status.code == 400).then_some(why)
}

fn strategic(write: &Write, live: &Value, patch: &Value) -> Result<Value, Status> {
    let kind = write.definition.builtin_type();
    let kind = kind.ok_or_else(|| unsupported(&write.definition))?;
    let mut patched = strategic::apply(live, patch, kind).map_err(|error| match error {
        StrategicError::BadRequest(why) => status::bad_request(why),
        StrategicError::Unprocessable(why) => status::unprocessable_because(why),
        StrategicError::Internal(why) => status::plain(why),
    })?;
    unstructured::convert(kind, &mut patched)
        .map_err(|why| status::invalid_patch(&structured_merge::go::plain(patch), &why))?;
    Ok(patched)
}

/// Separates the kind from the reason in a decoding error.
const CANNOT: &str = " cannot be handled as a ";

fn warn(write: &Write, patching: &Patching) {
    if patching.validation == FieldValidation::Warn {
        for fault in &patching.faults {
            write.warnings.add(fault.as_str());
        }
    }
}

/// Checks that the resourceVersion of a patched object is a number. Its uid is no precondition, as that of a PUT is:
/// validation refuses another one.
fn check_identity(object: &Value) -> Result<(), Status> {
    let version = object::resource_version(object);
    if version.parse::<u64>().is_err() && !version.is_empty() {
        let version = object::go_quote(version);
        return Err(status::plain(format!(
            "strconv.ParseUint: parsing {version}: invalid syntax"
        )));
    }
    Ok(())
}

/// Checks the name of an applied object and brings it into normal form.
fn finish_applied(write: &Write, config: &Value, mut object: Value) -> Result<Value, Status> {
    let Backing::Custom(version) = &write.definition.backing else {
        return finish(write, object, FieldValidation::Ignore).map_err(|status| {
            match decoding_error(&status) {
                Some(why) => managed_fields::unconverted(write, config, why),
                None => status,
            }
        });
    };
    check_name(write, &object)?;
    version
        .schema
        .decode_applied(&mut object)
        .map_err(|malformed| status::bad_request(malformed.to_string()))?;
    version.default(&mut object);
    Ok(object)
}

/// Checks the name of a patched object and brings it into normal form.
fn finish(write: &Write, mut object: Value, validation: FieldValidation) -> Result<Value, Status> {
    check_name(write, &object)?;
    object_body::complete(
        &write.definition,
        &mut object,
        Vec::new(),
        validation,
        &write.warnings,
    )?;
    Ok(object)
}

fn check_name(write: &Write, object: &Value) -> Result<(), Status> {
    let name = object::name(object);
    if name.is_empty() {
        let name = &write.name;
        return Err(status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != write.name {
        return Err(status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            write.name
        )));
    }
    Ok(())
}

fn parse(call: &Call) -> Result<Patching, Status> {
    let media = media(call);
    if media == APPLY_PATCH {
        return parse_apply(call);
    }
    let undecodable = |why: String| match media {
        STRATEGIC_PATCH => status::bad_request(why),
        _ => status::bad_request(format!("error decoding patch: {why}")),
    };
    let parsed = crate::json::parse(&call.body).map_err(undecodable)?;
    let validation = options::field_validation(call);
    let mut faults = parsed.duplicates;
    let patch = match (media, parsed.value) {
        (JSON_PATCH, Value::Array(operations)) => {
            if let Some(other) = operations.iter().find(|operation| !operation.is_object()) {
                return Err(undecodable(body::cannot_unmarshal(other, "handlers.jsonPatchOp")));
            }
            check_count(&operations)?;
            let duplicates = faults.iter().map(|fault| format!("json patch {fault}"));
            faults = unknown_members(&operations)
                .into_iter()
                .chain(duplicates)
                .collect();
            Patch::Json(operations)
        }
        (JSON_PATCH, other) => {
            return Err(undecodable(body::cannot_unmarshal(
                &other,
                "[]handlers.jsonPatchOp",
            )));
        }
        (MERGE_PATCH, patch @ Value::Object(_)) => Patch::Merge(patch),
        (STRATEGIC_PATCH, patch @ Value::Object(_)) => Patch::Strategic(patch),
        (STRATEGIC_PATCH, Value::Null) => Patch::Strategic(Value::Object(Map::new())),
        (_, other) => {
            return Err(undecodable(body::cannot_unmarshal(
                &other,
                "map[string]interface {}",
            )));
        }
    };
    Ok(Patching {
        patch,
        validation,
        faults,
    })
}

/// Checks the number of operations of a JSON patch.
pub(crate) fn check_count(operations: &[Value]) -> Result<(), Status> {
    if operations.len() <= json::OPERATIONS_MAX {
        return Ok(());
    }
    Err(status::too_large(format!(
        "The allowed maximum operations in a JSON patch is {}, got {}",
        json::OPERATIONS_MAX,
        operations.len()
    )))
}

fn unknown_members(operations: &[Value]) -> Vec<String> {
    let known = ["op", "path", "from", "value"];
    let mut faults = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let members = operation.as_object().into_iter().flatten();
        for (member, _) in members.filter(|(member, _)| !known.contains(&member.as_str())) {
            if faults.len() == FAULTS_MAX {
                return faults;
            }
            faults.push(format!("json patch unknown field \"[{index}].{member}\""));
        }
    }
    faults
}

fn parse_apply(call: &Call) -> Result<Patching, Status> {
    let validation = options::field_validation(call);
    let parsed = body::parse_yaml(&call.body).map_err(|why| {
        status::bad_request(format!(
            "error decoding YAML: error converting YAML to JSON: {why}"
        ))
    })?;
    if !parsed.value.is_object() && !parsed.value.is_null() {
        let why = body::cannot_unmarshal(&parsed.value, "map[string]interface {}");
        return Err(status::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}"
        )));
    }
    if validation == FieldValidation::Strict && !parsed.duplicates.is_empty() {
        return Err(status::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
            parsed.duplicates.join("\n  ")
        )));
    }
    Ok(Patching {
        patch: Patch::Apply {
            config: parsed.value,
            force: call.query.flag("force"),
        },
        validation,
        faults: parsed.duplicates,
    })
}

/// The form of the patch, without parameters.
fn media(call: &Call) -> &str {
    let media = call.header(CONTENT_TYPE);
    media.split(';').next().unwrap_or_default().trim()
}

/// Whether the patch is a server-side apply.
pub(crate) fn is_apply(call: &Call) -> bool {
    media(call) == APPLY_PATCH
}

/// Refuses patches in a form that the resource does not take.
pub(crate) fn check_media(call: &Call, definition: &Definition) -> Result<(), Status> {
    let media = media(call);
    let known = match media {
        JSON_PATCH | MERGE_PATCH | APPLY_PATCH => true,
        STRATEGIC_PATCH => !definition.is_custom(),
        _ => false,
    };
    if known || call.info.verb != "patch" {
        return Ok(());
    }
    Err(unsupported(definition))
}

/// The configuration in the body of an apply, and whether it is forced.
pub(crate) fn parse_configuration(call: &Call) -> Result<(Value, bool), Status> {
    match parse_apply(call)?.patch {
        Patch::Apply { config, force } => Ok((config, force)),
        _ => Err(status::internal("an apply is an apply")),
    }
}

fn unsupported(definition: &Definition) -> Status {
    if definition.is_custom() {
        return status::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, APPLY_PATCH].join(", "));
    }
    status::unsupported_patch_type()
}
