//! Checks an object from a client: its type, its fields and its defaults.

use std::collections::HashSet;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::go::quote;
use apimachinery::json;
use apimachinery::object;
use serde_json::Value;

use super::FieldValidation;
use crate::resource::{Definition, Source};
use crate::status::{self, Status};
use crate::write::Warnings;

/// Checks that the name in the body is the name in the path.
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

/// The strict decoding errors of a body except its unknown fields, and the order of all errors.
#[derive(Debug, Default)]
pub(crate) struct StrictFaults<'a> {
    /// The errors found before the body was decoded. They come first.
    pub(crate) earlier: Vec<String>,
    /// Duplicate fields: `duplicate field "spec.replicas"`.
    pub(crate) duplicates: Vec<String>,
    /// The values that a duplicate of their field replaced, with their paths.
    pub(crate) replaced: Vec<(String, Value)>,
    pub(crate) order: FaultOrder<'a>,
}

/// The order of strict decoding errors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum FaultOrder<'a> {
    /// The order of the custom resource's schema.
    #[default]
    Path,
    /// The order of the fields in a JSON document.
    Document(&'a [u8]),
    /// The order of a document with sorted fields.
    Fields,
    /// The alphabetical order of the errors.
    Text,
}

/// Checks the type of an object, normalizes it, and reports unknown fields.
pub(crate) fn complete(
    definition: &Definition,
    value: &mut Value,
    mut faults: StrictFaults<'_>,
    validation: FieldValidation,
    warnings: &Warnings,
) -> Result<(), Status> {
    if let Some(of_type) = definition.builtin_type() {
        // An embedded object is kept as it is, and not decoded.
        let is_decoded = |fault: &String| !of_type.is_inside_raw(path_of(fault));
        faults.duplicates.retain(is_decoded);
    }
    let mistyped = mistyped(definition, value);
    let foreign = foreign_fields(definition, value);
    check_type(definition, value)?;
    // An empty list clears the managed fields. For custom resources, decoding removes the empty list.
    let empty = clears_managers(value);
    let cleared = empty && !definition.is_custom();
    let sorted = match faults.order {
        FaultOrder::Fields if validation != FieldValidation::Ignore => Some(value.to_string()),
        _ => None,
    };
    let unknown = match foreign {
        Some(fields) => fields,
        None => definition.decode_body(value, std::mem::take(&mut faults.replaced))?,
    };
    if empty && !cleared {
        object::set_meta(value, "managedFields", None);
    }
    if cleared {
        object::set_meta(value, "managedFields", Some(Value::Array(Vec::new())));
    }
    if validation != FieldValidation::Ignore {
        let found = faults.combine(&unknown, sorted.as_deref());
        let named = (definition.subject.kind.as_str(), definition.version.as_str());
        report(named, &found, validation, warnings)?;
    }
    if let Some(refusal) = mistyped {
        return Err(refusal);
    }
    definition.default(value);
    Ok(())
}

/// Returns the error of an unknown field.
pub(crate) fn unknown_field(path: &str) -> String {
    format!("unknown field {}", quote(path))
}

impl StrictFaults<'_> {
    /// Returns all strict decoding errors, as many as the real server reports.
    pub(crate) fn combine(self, unknown: &[String], sorted: Option<&str>) -> Vec<String> {
        // The typed decoder skips an unknown field before it looks for duplicates.
        let unknown_paths: HashSet<&str> = unknown.iter().map(String::as_str).collect();
        let mut found = self.duplicates;
        found.retain(|fault| !is_unknown(&unknown_paths, fault));
        found.extend(unknown.iter().map(|path| unknown_field(path)));
        let document = match self.order {
            FaultOrder::Document(body) => Some(body),
            _ => sorted.map(str::as_bytes),
        };
        match (self.order, document) {
            (FaultOrder::Text, _) => found.sort(),
            (_, Some(document)) if found.len() > 1 => found = in_order(found, document),
            _ => {}
        }
        let mut faults = self.earlier;
        faults.append(&mut found);
        faults.truncate(json::FAULTS_MAX);
        faults
    }
}

/// Sorts strict decoding errors by the positions of their fields in a JSON document.
fn in_order(faults: Vec<String>, document: &[u8]) -> Vec<String> {
    let wanted: Vec<json::Wanted<'_>> = faults
        .iter()
        .map(|fault| json::Wanted {
            path: path_of(fault),
            repeated: fault.starts_with("duplicate "),
        })
        .collect();
    let positions = json::positions(document, &wanted);
    let mut ordered: Vec<_> = positions.into_iter().zip(faults).collect();
    ordered.sort_by_key(|(position, _)| *position);
    ordered.into_iter().map(|(_, fault)| fault).collect()
}

/// Returns the path in a strict decoding error.
fn path_of(fault: &str) -> &str {
    fault.split('"').nth(1).unwrap_or_default()
}

/// Returns true if the path in an error is an unknown field, or is below one.
fn is_unknown(unknown: &HashSet<&str>, fault: &str) -> bool {
    let path = path_of(fault);
    let ends = path.match_indices(['.', '[']).map(|(end, _)| end);
    ends.chain([path.len()])
        .any(|end| path.get(..end).is_some_and(|parent| unknown.contains(parent)))
}

pub(crate) fn report(
    (kind, version): (&str, &str),
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
            return Err(status::bad_request(format!(
                "{} strict decoding error: {}",
                cannot_handle(kind, version),
                strict_text(faults)
            )));
        }
    }
    Ok(())
}

/// Joins strict decoding errors. Errors of the YAML parser are one error with several lines.
fn strict_text(faults: &[String]) -> String {
    let is_yaml = |fault: &&String| fault.starts_with("line ");
    let lines: Vec<&str> = faults.iter().filter(is_yaml).map(String::as_str).collect();
    let others = faults.iter().filter(|fault| !is_yaml(fault)).map(String::as_str);
    if lines.is_empty() {
        return others.collect::<Vec<_>>().join(", ");
    }
    let lines = format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "));
    [lines.as_str()]
        .into_iter()
        .chain(others)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns an error if no built-in API has the type.
pub(crate) fn unregistered(wanted: &WantedType<'_>, api_version: &str, kind: &str) -> Option<Status> {
    let (group, version) = match api_version.split_once('/') {
        Some(parts) => parts,
        None if api_version.is_empty() => (wanted.group, wanted.version),
        None => ("", api_version),
    };
    let kind = if kind.is_empty() { wanted.kind } else { kind };
    let known = |kind: &str| {
        let types = structured_merge::builtin::types();
        types.for_kind(group, version, kind).is_some()
    };
    let list_of_known = kind.strip_suffix("List").is_some_and(known);
    // Groups that are no longer served still have their types.
    let is_older = group == "policy" && version == "v1beta1" && kind == "Eviction";
    if known(kind) || list_of_known || kind == "List" || group == "extensions" || is_older {
        return None;
    }
    Some(status::bad_request(format!(
        "{kind} in version {quoted} cannot be handled as a {}: no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        wanted.kind,
        quote(kind),
        quote(if group.is_empty() { version } else { api_version }),
        quoted = quote(version),
    )))
}

/// A group, version and kind.
pub(crate) struct WantedType<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

impl<'a> WantedType<'a> {
    fn of(definition: &'a Definition) -> Self {
        Self {
            group: &definition.subject.group,
            version: &definition.version,
            kind: &definition.subject.kind,
        }
    }

    /// Rejects an object of another kind.
    pub(crate) fn check_kind(&self, kind: &str, version: &str) -> Result<(), Status> {
        if kind.is_empty() || kind == self.kind {
            return Ok(());
        }
        let group = match self.group {
            "" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        Err(status::bad_request(format!(
            "{kind} in version {} cannot be handled as a {wanted}: converting ({version}.{kind}) to ({group}.{wanted}): unknown conversion",
            quote(version),
            wanted = self.kind,
        )))
    }
}

/// Returns the start of an error about decoding a body.
pub(crate) fn cannot_handle(kind: &str, version: &str) -> String {
    format!(
        "{kind} in version {} cannot be handled as a {kind}:",
        quote(version)
    )
}

/// Returns the error of a custom resource with a wrong type. It is reported after the fields are checked.
pub(crate) fn mistyped(definition: &Definition, value: &Value) -> Option<Status> {
    if !definition.is_custom() {
        return None;
    }
    let expected = [
        ("kind", definition.subject.kind.clone()),
        ("apiVersion", definition.api_version()),
    ];
    let errors: ErrorList = expected
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

/// Reports all fields of a custom resource whose version does not exist, because no schema declares them.
fn foreign_fields(definition: &Definition, value: &Value) -> Option<Vec<String>> {
    let Source::Custom(version) = &definition.source else {
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

/// Checks that the apiVersion of a body is that of the path.
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

/// Checks that the type of a body is that of the path, and sets missing fields. For custom resources, see [`mistyped`].
fn check_type(definition: &Definition, value: &mut Value) -> Result<(), Status> {
    let expected = definition.api_version();
    let given = object::text(value, &["apiVersion"]);
    let kind = object::text(value, &["kind"]);
    if !definition.is_custom()
        && let Some(refusal) = unregistered(&WantedType::of(definition), given, kind)
    {
        return Err(refusal);
    }
    if !definition.is_custom() {
        check_version(definition, value)?;
    }
    if !definition.is_custom() {
        WantedType::of(definition).check_kind(kind, &definition.version)?;
    }
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".to_owned(), expected.into());
        map.insert("kind".to_owned(), definition.subject.kind.clone().into());
    }
    Ok(())
}

/// Returns true if a written object requests the removal of its managed fields.
fn clears_managers(object: &Value) -> bool {
    object::meta(object, "managedFields")
        .and_then(Value::as_array)
        .is_some_and(Vec::is_empty)
}
