//! PATCH of an object or of its subresource.

use std::sync::Arc;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::options::{self, FieldValidation};
use super::{object_body, render, warned, write};
use crate::call::{Answer, Call};
use crate::negotiate::{Form, body};
use crate::object;
use crate::patch::{json, merge};
use crate::registry::{Definition, Registry, Warnings, Write};
use crate::status::{self, Status};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// A parsed patch.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    Json(Vec<Value>),
    Merge(Value),
    Strategic(Value),
    Apply { config: Value, force: bool },
}

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let write = write(call, definition)?;
    let patch = parse(call, definition, &write)?;
    let validation = options::field_validation(call)?;
    let (code, patched) = apply(registry, &write, &patch, validation).await?;
    let answer = render::object(registry, call, definition, form, code, &patched)?;
    Ok(warned(answer, &write))
}

/// Applies a patch to the object that a write names; server-side apply creates what is missing.
pub(crate) async fn apply(
    registry: &Registry,
    write: &Write,
    patch: &Patch,
    validation: FieldValidation,
) -> Result<(StatusCode, Arc<Value>), Status> {
    let change = |live: &Value| patched(write, live, patch, validation);
    if let Patch::Apply { config, .. } = patch
        && registry.load(write).is_err()
        && write.subresource.is_empty()
    {
        let mut object = config.clone();
        object::set_meta(&mut object, "name", Some(write.name.clone().into()));
        object::set_meta(&mut object, "resourceVersion", None);
        let warnings = &write.warnings;
        object_body::complete(&write.definition, &mut object, Vec::new(), validation, warnings)?;
        let created = registry.create(write, object).await?;
        return Ok((StatusCode::CREATED, created));
    }
    let updated = registry.update(write, &change).await?;
    Ok((StatusCode::OK, updated))
}

fn patched(write: &Write, live: &Value, patch: &Patch, validation: FieldValidation) -> Result<Value, Status> {
    let mut object = live.clone();
    match patch {
        Patch::Json(operations) => json::apply(&mut object, operations)
            .map_err(|_| status::unprocessable(&write.definition.subject, &write.name))?,
        // Until the schema-driven strategies are wired in, lists are replaced whole.
        Patch::Merge(patch) | Patch::Strategic(patch) => merge::apply(&mut object, patch),
        Patch::Apply { config, .. } => merge::apply(&mut object, config),
    }
    let name = object::name(&object).to_owned();
    if name != write.name {
        return Err(status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            write.name
        )));
    }
    let warnings: &Warnings = &write.warnings;
    object_body::complete(&write.definition, &mut object, Vec::new(), validation, warnings)?;
    Ok(object)
}

fn parse(call: &Call, definition: &Definition, write: &Write) -> Result<Patch, Status> {
    let media = call.header(CONTENT_TYPE);
    let media = media.split(';').next().unwrap_or_default().trim();
    match media {
        JSON_PATCH => match body::parse_json(&call.body) {
            Ok(Value::Array(operations)) if operations.len() > json::OPERATIONS_MAX => {
                Err(status::too_large(format!(
                    "The allowed maximum operations in a JSON patch is {}, got {}",
                    json::OPERATIONS_MAX,
                    operations.len()
                )))
            }
            Ok(Value::Array(operations)) => Ok(Patch::Json(operations)),
            Ok(_) => Err(status::bad_request("error decoding patch: no list of operations")),
            Err(why) => Err(status::bad_request(format!("error decoding patch: {why}"))),
        },
        MERGE_PATCH => Ok(Patch::Merge(parse_object(call)?)),
        STRATEGIC_PATCH if !definition.is_custom() => Ok(Patch::Strategic(parse_object(call)?)),
        APPLY_PATCH => parse_apply(call, write),
        _ => Err(unsupported(definition)),
    }
}

fn parse_object(call: &Call) -> Result<Value, Status> {
    body::parse_json(&call.body).map_err(|why| status::bad_request(format!("error decoding patch: {why}")))
}

fn parse_apply(call: &Call, write: &Write) -> Result<Patch, Status> {
    let config = body::parse_yaml(&call.body)
        .map_err(|why| status::bad_request(format!("error decoding YAML: {why}")))?;
    let _ = write;
    Ok(Patch::Apply {
        config,
        force: call.query.flag("force"),
    })
}

fn unsupported(definition: &Definition) -> Status {
    if definition.is_custom() {
        return status::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, APPLY_PATCH].join(", "));
    }
    status::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH].join(", "))
}
