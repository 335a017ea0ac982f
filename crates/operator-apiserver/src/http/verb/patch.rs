//! PATCH of an object or of its subresource.

use std::sync::Arc;

use apimachinery::json::FAULTS_MAX;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};

use super::{options, render, write};
use crate::codec::{Form, body};
use crate::http::call::{Answer, Call};
use crate::patch::{APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, json};
use crate::registry::Registry;
use crate::registry::patch::{Patch, Patching, unsupported};
use crate::resource::Definition;
use crate::status::{self, Status};
use crate::write::FieldValidation;

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
        // A missing object is reported before an invalid patch.
        registry.load(&write)?;
    }
    let patching = parse(call)?;
    let (created, patched) = registry.patch(&mut write, &patching).await?;
    let code = if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    render::object(registry, call, definition, form, code, &patched)
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
    let validation = options::field_validation(call);
    // Without field validation, the patch is decoded only by the library that applies it.
    let is_checked = validation != FieldValidation::Ignore;
    let undecodable = |why: String| match media {
        JSON_PATCH if !is_checked => status::bad_request(why),
        _ => undecodable(why),
    };
    let parsed = apimachinery::json::parse(&call.body).map_err(undecodable)?;
    let mut faults = parsed.duplicates;
    let patch = match (media, parsed.value) {
        (JSON_PATCH, Value::Array(operations)) => {
            check_operations(&operations, is_checked).map_err(undecodable)?;
            check_count(&operations)?;
            let duplicates = faults.iter().map(|fault| format!("json patch {fault}"));
            faults = unknown_members(&operations)
                .into_iter()
                .chain(duplicates)
                .collect();
            Patch::Json(operations)
        }
        (JSON_PATCH, other) => {
            let list = match is_checked {
                true => "[]handlers.jsonPatchOp",
                false => "jsonpatch.Patch",
            };
            return Err(undecodable(body::cannot_unmarshal(&other, list)));
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

/// Checks the types of operations, as Go decodes them: null is an empty operation.
fn check_operations(operations: &[Value], is_checked: bool) -> Result<(), String> {
    let name = match is_checked {
        true => "handlers.jsonPatchOp",
        false => "jsonpatch.Operation",
    };
    for operation in operations {
        if !(operation.is_object() || operation.is_null()) {
            return Err(body::cannot_unmarshal(operation, name));
        }
        if !is_checked {
            continue;
        }
        for field in ["op", "path", "from"] {
            let value = operation.get(field).unwrap_or(&Value::Null);
            if !(value.is_string() || value.is_null()) {
                let found = apimachinery::go::json_kind(value);
                return Err(format!(
                    "json: cannot unmarshal {found} into Go struct field jsonPatchOp.{field} of type string"
                ));
            }
        }
    }
    Ok(())
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
    Ok(Patching {
        patch: Patch::Apply {
            config: parsed.value,
            force: call.query.flag("force"),
        },
        validation,
        faults: parsed.duplicates,
    })
}

/// Returns the media type of the patch, without parameters.
fn media(call: &Call) -> &str {
    let media = call.header(CONTENT_TYPE);
    media.split(';').next().unwrap_or_default().trim()
}

/// Returns true if the patch is a server-side apply.
pub(crate) fn is_apply(call: &Call) -> bool {
    media(call) == APPLY_PATCH
}

/// Rejects patches in a format that the resource does not support.
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

/// Returns the configuration in the body of an apply, and true if it is forced.
pub(crate) fn parse_configuration(call: &Call) -> Result<(Value, bool), Status> {
    match parse_apply(call)?.patch {
        Patch::Apply { config, force } => Ok((config, force)),
        _ => Err(status::internal("expected an apply patch")),
    }
}
