//! The checks of an object that a client sends: its type, its fields, its defaults.

use std::collections::HashSet;

use apimachinery::field::{Error, Path};
use serde_json::Value;

use super::FieldValidation;
use crate::json;
use crate::object::{self, go_quote};
use crate::patch::managed_fields;
use crate::resource::{Backing, Definition};
use crate::status::{self, Status};
use crate::write::Warnings;

/// The name in the body is the one in the path.
pub(crate) fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    let given = object::name(object);
    if given.is_empty() {
        return Err(status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != name {
        return Err(status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

/// Checks the type of an object, brings it into normal form, and reports what its type does not know.
pub(crate) fn complete(
    definition: &Definition,
    value: &mut Value,
    duplicates: Vec<String>,
    validation: FieldValidation,
    warnings: &Warnings,
) -> Result<(), Status> {
    complete_in_order(definition, value, duplicates, validation, warnings, None)
}

/// As [`complete`]; with a JSON body, faults are reported in the order of its fields.
pub(crate) fn complete_in_order(
    definition: &Definition,
    value: &mut Value,
    duplicates: Vec<String>,
    validation: FieldValidation,
    warnings: &Warnings,
    body: Option<&[u8]>,
) -> Result<(), Status> {
    let mistyped = mistyped(definition, value);
    let foreign = foreign_fields(definition, value);
    check_type(definition, value)?;
    // An empty list clears them but in custom resources, whose metadata leaves empty lists out when it is read.
    let empty = managed_fields::is_cleared(value);
    let cleared = empty && !definition.is_custom();
    let unknown = match foreign {
        Some(fields) => fields,
        None => definition.decode(value)?,
    };
    if empty && !cleared {
        object::set_meta(value, "managedFields", None);
    }
    if cleared {
        object::set_meta(value, "managedFields", Some(Value::Array(Vec::new())));
    }
    if validation != FieldValidation::Ignore {
        let body = body.filter(|_| !definition.is_custom());
        report(
            definition,
            &faults(duplicates, &unknown, body),
            validation,
            warnings,
        )?;
    }
    if let Some(refusal) = mistyped {
        return Err(refusal);
    }
    definition.default(value);
    Ok(())
}

/// The strict decoding errors of a body, as many as the real server reports.
fn faults(duplicates: Vec<String>, unknown: &[String], body: Option<&[u8]>) -> Vec<String> {
    let unknown_field = |path: &String| format!("unknown field {}", go_quote(path));
    let mut faults = duplicates;
    let Some(body) = body else {
        faults.extend(unknown.iter().take(json::FAULTS_MAX).map(unknown_field));
        return faults;
    };
    // The typed decoder skips an unknown field before it looks for duplicates.
    let unknown_paths: HashSet<&str> = unknown.iter().map(String::as_str).collect();
    faults.retain(|fault| !is_unknown(&unknown_paths, fault));
    faults.extend(unknown.iter().map(unknown_field));
    if faults.len() > 1 {
        let paths: Vec<&str> = faults
            .iter()
            .map(|fault| fault.split('"').nth(1).unwrap_or_default())
            .collect();
        let mut ordered: Vec<_> = json::positions(body, &paths).into_iter().zip(faults).collect();
        ordered.sort_by_key(|(position, _)| *position);
        faults = ordered.into_iter().map(|(_, fault)| fault).collect();
    }
    faults.truncate(json::FAULTS_MAX);
    faults
}

/// Returns true if the path in a fault is that of an unknown field or is below one.
fn is_unknown(unknown: &HashSet<&str>, fault: &str) -> bool {
    let path = fault.split('"').nth(1).unwrap_or_default();
    let ends = path.match_indices(['.', '[']).map(|(end, _)| end);
    ends.chain([path.len()])
        .any(|end| path.get(..end).is_some_and(|parent| unknown.contains(parent)))
}

fn report(
    definition: &Definition,
    faults: &[String],
    validation: FieldValidation,
    warnings: &Warnings,
) -> Result<(), Status> {
    if faults.is_empty() {
        return Ok(());
    }
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => {
            for fault in faults {
                warnings.add(fault.as_str());
            }
        }
        FieldValidation::Strict => {
            let kind = &definition.subject.kind;
            return Err(status::bad_request(format!(
                "{kind} in version {} cannot be handled as a {kind}: strict decoding error: {}",
                go_quote(&definition.version),
                faults.join(", ")
            )));
        }
    }
    Ok(())
}

/// Refuses a type that no built-in API has.
fn unregistered(definition: &Definition, api_version: &str, kind: &str) -> Option<Status> {
    let subject = &definition.subject;
    let (group, version) = match api_version.split_once('/') {
        Some(parts) => parts,
        None if api_version.is_empty() => (subject.group.as_str(), definition.version.as_str()),
        None => ("", api_version),
    };
    let kind = if kind.is_empty() { &subject.kind } else { kind };
    let known = |kind: &str| {
        let types = structured_merge::builtin::types();
        types.for_kind(group, version, kind).is_some()
    };
    let list_of_known = kind.strip_suffix("List").is_some_and(known);
    // Groups that are no longer served still have their types.
    if known(kind) || list_of_known || kind == "List" || group == "extensions" {
        return None;
    }
    Some(status::bad_request(format!(
        "{kind} in version {quoted} cannot be handled as a {}: no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        subject.kind,
        go_quote(kind),
        go_quote(if group.is_empty() { version } else { api_version }),
        quoted = go_quote(version),
    )))
}

/// The refusal of a custom resource that says it is of another type. It is found after the fields are checked.
pub(crate) fn mistyped(definition: &Definition, value: &Value) -> Option<Status> {
    if !definition.is_custom() {
        return None;
    }
    let expected = [
        ("kind", definition.subject.kind.clone()),
        ("apiVersion", definition.api_version()),
    ];
    let errors: Vec<Error> = expected
        .iter()
        .map(|(field, expected)| (field, object::text(value, &[field]), expected))
        .filter(|(_, given, expected)| !given.is_empty() && given != expected)
        .map(|(field, given, expected)| {
            Error::invalid(Path::new(field), given.into(), format!("must be {expected}"))
        })
        .collect();
    let mut subject = definition.subject.clone();
    let kind = object::text(value, &["kind"]);
    if !kind.is_empty() {
        subject.kind = kind.to_owned();
    }
    (!errors.is_empty()).then(|| status::invalid(&subject, object::name(value), &errors))
}

/// The fields of a custom resource whose version does not exist: no schema knows them.
fn foreign_fields(definition: &Definition, value: &Value) -> Option<Vec<String>> {
    let Backing::Custom(version) = &definition.backing else {
        return None;
    };
    let given = object::text(value, &["apiVersion"]);
    if given.is_empty() || version.merge_schemas.contains_key(given) {
        return None;
    }
    let known = ["apiVersion", "kind", "metadata"];
    let fields = value.as_object().into_iter().flatten().map(|(field, _)| field);
    Some(
        fields
            .filter(|field| !known.contains(&field.as_str()))
            .cloned()
            .collect(),
    )
}

/// The apiVersion of a body must be that of the path.
pub(crate) fn check_version(definition: &Definition, value: &Value) -> Result<(), Status> {
    let expected = definition.api_version();
    let given = object::text(value, &["apiVersion"]);
    if given.is_empty() || given == expected {
        return Ok(());
    }
    Err(wrong_version(definition, given))
}

pub(crate) fn wrong_version(definition: &Definition, given: &str) -> Status {
    let expected = definition.api_version();
    status::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

/// The type of a body must be that of the path, see [`mistyped`] for custom resources; what is missing is filled in.
fn check_type(definition: &Definition, value: &mut Value) -> Result<(), Status> {
    let expected = definition.api_version();
    let given = object::text(value, &["apiVersion"]);
    let kind = object::text(value, &["kind"]);
    if !definition.is_custom()
        && let Some(refusal) = unregistered(definition, given, kind)
    {
        return Err(refusal);
    }
    if !definition.is_custom() {
        check_version(definition, value)?;
    }
    if !definition.is_custom() && !kind.is_empty() && *kind != definition.subject.kind {
        let wanted = &definition.subject.kind;
        let group = if definition.subject.group.is_empty() {
            "core"
        } else {
            definition.subject.group.split('.').next().unwrap_or_default()
        };
        return Err(status::bad_request(format!(
            "{kind} in version {} cannot be handled as a {wanted}: converting ({}.{kind}) to ({group}.{wanted}): unknown conversion",
            go_quote(&definition.version),
            definition.version,
        )));
    }
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".to_owned(), expected.into());
        map.insert("kind".to_owned(), definition.subject.kind.clone().into());
    }
    Ok(())
}
