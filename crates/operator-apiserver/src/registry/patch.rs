//! Patches objects: JSON, merge and strategic merge patches, and server-side apply.

use std::sync::Arc;

use apimachinery::go;
use apimachinery::object;
use serde_json::Value;
use structured_merge::strategic::{self, StrategicError};

use super::Registry;
use crate::codec::body::unreadable_type;
use crate::codec::protobuf::go_order;
use crate::patch::managed_fields;
use crate::patch::{APPLY_PATCH, JSON_PATCH, MERGE_PATCH, json, merge};
use crate::resource::{Definition, Source};
use crate::status::{self, Status};
use crate::write::object_body::{self, FaultOrder, StrictFaults};
use crate::write::{FieldValidation, Write};
use builtin_kinds::unstructured;

/// A parsed patch.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    Json(Vec<Value>),
    Merge(Value),
    Strategic(Value),
    Apply { config: Value, force: bool },
}

/// A patch, and the checks of its target.
#[derive(Clone, Debug)]
pub(crate) struct Patching {
    pub(crate) patch: Patch,
    pub(crate) validation: FieldValidation,
    /// Strict decoding errors of the patch: duplicate fields, and unknown fields of operations.
    pub(crate) faults: Vec<String>,
}

impl Registry {
    /// Applies a patch to the object of a write; server-side apply creates a missing object. Returns true if the object
    /// was created, and the object.
    pub(crate) async fn patch(
        &self,
        write: &mut Write,
        patching: &Patching,
    ) -> Result<(bool, Arc<Value>), Status> {
        let Patch::Apply { config, force } = &patching.patch else {
            let change = |live: &Value| {
                let object = patched(write, live, patching)?;
                check_identity(&object)?;
                Ok(object)
            };
            return Ok((false, self.update(write, &change).await?));
        };
        write.tracked = true;
        let write = &*write;
        let applied = |live: Option<&Value>| {
            let object = managed_fields::apply(&self.timestamp(), write, live, config, *force)?;
            if write.definition.is_custom() {
                report_faults(write, patching)?;
                return finish_applied(write, config, object);
            }
            // An object that cannot be converted is reported before the duplicate fields of the configuration.
            let finished = finish_applied(write, config, object);
            if finished.as_ref().is_err_and(is_unconverted) {
                return finished;
            }
            report_faults(write, patching)?;
            finished
        };
        if write.subresource.is_empty() && self.load(write).is_err() {
            let mut object = applied(None)?;
            let uid = object::uid(&object);
            if !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(status::conflict(&write.definition.subject, &write.name, &why));
            }
            check_identity(&object)?;
            object::set_meta(&mut object, "resourceVersion", None);
            return Ok((true, self.create(write, object).await?));
        }
        let change = |live: &Value| {
            let object = applied(Some(live))?;
            check_identity(&object)?;
            Ok(object)
        };
        Ok((false, self.update(write, &change).await?))
    }
}

/// Applies a JSON, merge or strategic merge patch to the live object.
fn patched(write: &Write, live: &Value, patching: &Patching) -> Result<Value, Status> {
    let object = unchecked(write, live, &patching.patch)?;
    // Errors are rare, so only they apply the patch again for the text.
    let shown = || match unchecked(write, live, &patching.patch) {
        Ok(patched) => shown(write, live, &patched, &patching.patch),
        Err(_) => String::new(),
    };
    if !write.definition.is_custom()
        && let Some(why) = unreadable_type(&object)
    {
        return Err(status::invalid_patch(&shown(), &why));
    }
    let kind = object::text(&object, &["kind"]);
    let is_own_kind = kind.is_empty() || kind == write.definition.subject.kind;
    if !write.definition.is_custom() && object::text(&object, &["apiVersion"]).is_empty() && is_own_kind {
        // Without a version, the real decoder returns an empty object.
        object_body::check_name(&Value::Null, &write.name)?;
    }
    let faults = StrictFaults {
        earlier: patching.faults.clone(),
        duplicates: Vec::new(),
        replaced: Vec::new(),
        order: match &patching.patch {
            _ if write.definition.is_custom() => FaultOrder::Path,
            Patch::Strategic(_) => FaultOrder::Text,
            _ => FaultOrder::Fields,
        },
    };
    let finished = finish(write, object, faults, patching.validation);
    finished.map_err(|status| match decoding_error(&status) {
        Some(why) => status::invalid_patch(&shown(), why),
        None => status,
    })
}

/// Applies a JSON, merge or strategic merge patch to the live object, without decoding the result.
fn unchecked(write: &Write, live: &Value, patch: &Patch) -> Result<Value, Status> {
    if let Patch::Strategic(patch) = patch {
        return strategic(write, live, patch);
    }
    let mut object = live.clone();
    match patch {
        Patch::Json(operations) => {
            json::apply(&mut object, operations).map_err(|_| status::unprocessable())?;
        }
        Patch::Merge(patch) => merge::apply(&mut object, patch),
        Patch::Strategic(_) | Patch::Apply { .. } => {}
    }
    Ok(object)
}

/// Returns the text of a patched object, or of a strategic merge patch, for an error message.
fn shown(write: &Write, live: &Value, patched: &Value, patch: &Patch) -> String {
    let kind = (write.definition.api_version(), &write.definition.subject.kind);
    let kind = (kind.0.as_str(), kind.1.as_str());
    match patch {
        _ if write.definition.is_custom() => patched.to_string(),
        Patch::Strategic(patch) => structured_merge::go::plain(patch),
        Patch::Json(operations) => {
            go_order::patched_text(patched, live, &go_order::touched_by(operations), kind)
        }
        Patch::Merge(patch) => go_order::patched_text(patched, live, patch, kind),
        Patch::Apply { .. } => patched.to_string(),
    }
}

/// Returns the message of the kind's decoder, if it rejected the object.
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
    unstructured::convert(kind, &mut patched, &go_order::position)
        .map_err(|why| status::invalid_patch(&structured_merge::go::plain(patch), &why))?;
    // The kind of the result is not that of the patch.
    for field in ["apiVersion", "kind"] {
        if let (Some(object), Some(value)) = (patched.as_object_mut(), live.get(field)) {
            object.insert(field.to_owned(), value.clone());
        }
    }
    Ok(patched)
}

/// The text between the kind and the reason in a decoding error.
const CANNOT: &str = " cannot be handled as a ";

/// Reports the duplicate fields of an applied configuration, after it has been merged.
fn report_faults(write: &Write, patching: &Patching) -> Result<(), Status> {
    let faults = &patching.faults;
    match patching.validation {
        FieldValidation::Strict if !faults.is_empty() => Err(status::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
            faults.join("\n  ")
        ))),
        FieldValidation::Warn => {
            for fault in faults {
                write.warnings.add(fault.as_str());
            }
            Ok(())
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
    }
}

/// Returns true for the error of an applied object that cannot be converted to its type.
fn is_unconverted(status: &Status) -> bool {
    status.code == 500 && status.message().starts_with("failed to convert new object")
}

/// Checks that the resourceVersion of a patched object is a number. Unlike in a PUT, the uid is not a precondition:
/// validation rejects a changed uid.
fn check_identity(object: &Value) -> Result<(), Status> {
    let version = object::resource_version(object);
    if !version.is_empty() {
        go::parse_uint(version).map_err(status::plain)?;
    }
    Ok(())
}

/// Checks the name of an applied object, and normalizes the object.
fn finish_applied(write: &Write, config: &Value, mut object: Value) -> Result<Value, Status> {
    let Source::Custom(version) = &write.definition.source else {
        let finished = finish(write, object, StrictFaults::default(), FieldValidation::Ignore);
        return finished.map_err(|status| match decoding_error(&status) {
            Some(why) => managed_fields::unconverted(write, config, why),
            None => status,
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

/// Checks the name of a patched object, and normalizes the object.
fn finish(
    write: &Write,
    mut object: Value,
    faults: StrictFaults<'_>,
    validation: FieldValidation,
) -> Result<Value, Status> {
    check_name(write, &object)?;
    object_body::complete(
        &write.definition,
        &mut object,
        faults,
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

/// Returns the error of a patch in a format that the resource does not support.
pub(crate) fn unsupported(definition: &Definition) -> Status {
    if definition.is_custom() {
        return status::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, APPLY_PATCH].join(", "));
    }
    status::unsupported_patch_type()
}
