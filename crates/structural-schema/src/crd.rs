//! CustomResourceDefinitions: their defaults, and all checks of
//! `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation` in the same order and with the same texts.
//!
//! Objects are `apiextensions.k8s.io/v1` JSON. The server itself checks the object metadata and that the uid is
//! unchanged.

mod column;
mod conversion;
mod default_value;
pub mod diff;
mod internal;
mod keyword;
pub mod lint;
mod structural;

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use serde_json::{Map, Value, json};

use crate::node::{self, Node};

const MAX_DEPRECATION_WARNING: usize = 256;

/// Sets the server's defaults: singular and list names, the conversion strategy, stored versions.
pub fn default(crd: &mut Value) {
    default_spec(crd);
    default_stored_versions(crd);
}

fn default_stored_versions(crd: &mut Value) {
    let stored = crd.pointer("/status/storedVersions").and_then(Value::as_array);
    if stored.is_some_and(|stored| !stored.is_empty()) {
        return;
    }
    let Some(storage) = storage_version(crd).cloned() else {
        return;
    };
    if let Some(crd) = crd.as_object_mut() {
        let status = crd.entry("status").or_insert(Value::Null);
        if status.is_null() {
            *status = json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null});
        }
        if let Some(status) = status.as_object_mut() {
            status.insert("storedVersions".to_owned(), json!([storage]));
        }
    }
}

/// Returns the name of the storage version.
fn storage_version(crd: &Value) -> Option<&Value> {
    versions(crd)
        .iter()
        .find(|version| flag(version, "storage"))
        .and_then(|version| version.get("name"))
}

fn default_spec(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() && text(names, "singular").is_empty() {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if !kind.is_empty() && text(names, "listKind").is_empty() {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let service = spec
        .get_mut("conversion")
        .and_then(|conversion| conversion.pointer_mut("/webhook/clientConfig/service"))
        .and_then(Value::as_object_mut);
    if let Some(service) = service
        && service.get("port").is_none_or(Value::is_null)
    {
        service.insert("port".to_owned(), 443.into());
    }
}

/// Sets the status of a new CRD and overwrites that of the client: no accepted names, and the storage version as
/// stored.
pub fn prepare_for_create(crd: &mut Value) {
    let stored = storage_version(crd).map_or(Value::Null, |name| json!([name]));
    if let Some(crd) = crd.as_object_mut() {
        let status = json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": stored});
        crd.insert("status".to_owned(), status);
    }
}

/// Adds the storage version to the stored versions, as an update of the CRD does.
pub fn prepare_for_update(crd: &mut Value) {
    let Some(storage) = storage_version(crd).cloned() else {
        return;
    };
    let Some(status) = crd.get_mut("status").and_then(Value::as_object_mut) else {
        return;
    };
    match status.get_mut("storedVersions") {
        Some(Value::Array(stored)) if stored.contains(&storage) => {}
        Some(Value::Array(stored)) => stored.push(storage),
        _ => {
            status.insert("storedVersions".to_owned(), json!([storage]));
        }
    }
}

/// Returns the errors of a new CRD with its defaults and status ([`prepare_for_create`]).
pub fn validate_create(crd: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_name(crd, &mut errors);
    errors.extend(validate_new(crd));
    errors
}

/// Returns the errors of a new CRD, except those of its metadata.
pub fn validate_new(crd: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_spec(crd, false, &mut errors);
    validate_status(crd, &mut errors);
    validate_api_approval(crd, None, &mut errors);
    validate_preserve_unknown_fields(crd, None, &mut errors);
    errors
}

/// Returns the errors of a changed CRD.
pub fn validate_update(crd: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let established = old
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|condition| {
            condition.get("type") == Some(&"Established".into())
                && condition.get("status") == Some(&"True".into())
        });
    let bundle = text_at(old, "/spec/conversion/webhook/clientConfig/caBundle");
    let check_bundle = established && !conversion::is_bad_bundle(bundle);
    validate_spec(crd, check_bundle, &mut errors);
    let immutable: &[&[&str]] = if established {
        &[&["scope"], &["names", "kind"], &["group"], &["names", "plural"]]
    } else {
        &[&["group"], &["names", "plural"]]
    };
    for fields in immutable {
        let pointer = format!("/spec/{}", fields.join("/"));
        let (new, old) = (crd.pointer(&pointer), old.pointer(&pointer));
        if new != old {
            let value = new.cloned().unwrap_or_else(|| "".into());
            let path = fields
                .iter()
                .fold(Path::new("spec"), |path, field| path.child(field));
            errors.push(Error::invalid(path, value, "field is immutable"));
        }
    }
    validate_status(crd, &mut errors);
    validate_api_approval(crd, Some(old), &mut errors);
    validate_preserve_unknown_fields(crd, Some(old), &mut errors);
    errors
}

/// Returns the errors of a status update of a CRD: its accepted names. Stored versions are not checked.
pub fn validate_status_update(crd: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let names = crd.pointer("/status/acceptedNames").and_then(Value::as_object);
    if let Some(names) = names {
        validate_names(names, &Path::new("status").child("acceptedNames"), &mut errors);
    }
    errors
}

/// Returns the warnings for the client that writes a CRD: new formats that are not validated.
pub fn warnings(crd: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(|old| warnings(old, None)).unwrap_or_default();
    let mut warnings = unchecked_formats(crd);
    warnings.retain(|warning| !known.contains(warning));
    warnings
}

fn unchecked_formats(crd: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for version in versions(crd) {
        let schema = version.pointer("/schema/openAPIV3Schema").map(node::parse);
        let Some(Ok(schema)) = schema else { continue };
        schema.walk(&mut |node| {
            if !node.format.is_empty() && !crate::format::is_recognized(&node.kind, &node.format) {
                let warning = format!("unrecognized format {}", apimachinery::go::quote(&node.format));
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        });
    }
    warnings
}

fn versions(crd: &Value) -> &[Value] {
    crd.pointer("/spec/versions")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn flag(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn text<'v>(map: &'v Map<String, Value>, name: &str) -> &'v str {
    map.get(name).and_then(Value::as_str).unwrap_or("")
}

fn text_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn validate_name(crd: &Value, errors: &mut ErrorList) {
    let name = text_at(crd, "/metadata/name");
    let path = Path::new("metadata").child("name");
    if name.is_empty() {
        if text_at(crd, "/metadata/generateName").is_empty() {
            errors.push(Error::required(path, "name or generateName is required"));
        }
        return;
    }
    errors.extend(
        name_problems(crd, name, false)
            .into_iter()
            .map(|problem| Error::invalid(path.clone(), name.into(), problem)),
    );
}

/// Returns the errors of the name of a CRD, which consists of the plural and the group. If `is_prefix` is true, the
/// name is the prefix of a generated name, and may end with a dash.
pub fn name_problems(crd: &Value, name: &str, is_prefix: bool) -> Vec<String> {
    let stem = name
        .strip_suffix('-')
        .filter(|stem| is_prefix && !stem.is_empty());
    let mut problems = names::dns1123_subdomain(stem.unwrap_or(name));
    let plural = text_at(crd, "/spec/names/plural");
    if name != format!("{plural}.{}", text_at(crd, "/spec/group")) {
        problems.push("must be spec.names.plural+\".\"+spec.group".to_owned());
    }
    problems
}

fn validate_spec(crd: &Value, check_bundle: bool, errors: &mut ErrorList) {
    let path = Path::new("spec");
    let empty = Map::new();
    let spec = crd.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    validate_group(spec, &path, errors);
    let scope = text(spec, "scope");
    enumeration(&path.child("scope"), scope, &["Cluster", "Namespaced"], errors);
    for (index, version) in versions(crd).iter().enumerate() {
        if version
            .pointer("/schema/openAPIV3Schema")
            .is_none_or(Value::is_null)
        {
            let path = path
                .child("versions")
                .index(index)
                .child("schema")
                .child("openAPIV3Schema");
            errors.push(Error::required(path, ""));
        }
    }
    let preserves_all = spec.get("preserveUnknownFields") == Some(&Value::Bool(true));
    if preserves_all && versions(crd).iter().any(has_defaults) {
        errors.push(Error::invalid(
            path.child("preserveUnknownFields"),
            true.into(),
            "must be false in order to use defaults in the schema",
        ));
    }
    let hoisted = internal::Hoisted::of(versions(crd));
    validate_versions(crd, &hoisted, &path, errors);
    let names = spec.get("names").and_then(Value::as_object).unwrap_or(&empty);
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(names, name).is_empty() {
            errors.push(Error::required(path.child("names").child(name), ""));
        }
    }
    validate_names(names, &path.child("names"), errors);
    validate_hoisted(versions(crd), &hoisted, &path, errors);
    let path = path.child("conversion");
    let strategy = crd.pointer("/spec/conversion/strategy").and_then(Value::as_str);
    if let Some(strategy) = strategy.filter(|strategy| preserves_all && *strategy != "None") {
        errors.push(Error::invalid(
            path.child("strategy"),
            strategy.into(),
            "must be None if spec.preserveUnknownFields is true",
        ));
    }
    conversion::validate(spec.get("conversion"), check_bundle, &path, errors);
}

fn validate_group(spec: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let group = text(spec, "group");
    let path = path.child("group");
    let problems = names::dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(Error::required(path, ""));
    } else if !problems.is_empty() {
        errors.push(Error::invalid(path, group.into(), problems.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(
            path,
            group.into(),
            "should be a domain with at least one dot",
        ));
    }
}

fn enumeration(path: &Path, value: &str, supported: &[&str], errors: &mut ErrorList) {
    if value.is_empty() {
        errors.push(Error::required(path.clone(), ""));
    } else if !supported.contains(&value) {
        errors.push(Error::not_supported(path.clone(), &value.into(), supported));
    }
}

fn validate_versions(crd: &Value, hoisted: &internal::Hoisted, path: &Path, errors: &mut ErrorList) {
    let list = versions(crd);
    let mut names_seen = BTreeMap::new();
    for (index, version) in list.iter().enumerate() {
        let path = path.child("versions").index(index);
        let name = text_at(version, "/name");
        *names_seen.entry(name).or_insert(0_usize) += 1;
        let problems = names::dns1035_label(name);
        if !problems.is_empty() {
            errors.push(Error::invalid(
                path.child("name"),
                name.into(),
                problems.join(","),
            ));
        }
        validate_deprecation(version, &path, errors);
        if !hoisted.schema {
            validate_schema(version, has_status(version), &path.child("schema"), errors);
        }
        if !hoisted.subresources {
            column::validate_subresources(version.get("subresources"), &path.child("subresources"), errors);
        }
        if !hoisted.columns {
            column::validate_columns(version, &path, errors);
        }
        if !hoisted.selectable_fields {
            let schema = schema_of(version).filter(|_| !hoisted.schema);
            let missing = "may only be set when `version.schema.openAPIV3Schema` is not included";
            column::validate_selectable_fields(version, schema, missing, &path, errors);
        }
    }
    let shown = || internal::versions(crd.pointer("/spec/versions"), hoisted);
    let mut report = |detail: &str| {
        let mut error = Error::invalid(path.child("versions"), Value::Null, detail);
        error.value = Some(shown());
        errors.push(error);
    };
    if names_seen.values().any(|count| *count > 1) {
        report("must contain unique version names");
    }
    if list.iter().filter(|version| flag(version, "storage")).count() != 1 {
        report("must have exactly one version marked as storage version");
    }
    let first = list.first().map_or("", |version| text_at(version, "/name"));
    let problems = names::dns1035_label(first);
    if !first.is_empty() && !problems.is_empty() {
        errors.push(Error::invalid(
            path.child("version"),
            first.into(),
            problems.join(","),
        ));
    }
}

/// Validates fields that are equal in all versions. The server's internal form has them at the top, and reports them
/// there.
fn validate_hoisted(list: &[Value], hoisted: &internal::Hoisted, path: &Path, errors: &mut ErrorList) {
    let Some(version) = list.first() else { return };
    if hoisted.schema {
        let has_status = list.iter().any(has_status);
        validate_schema(version, has_status, &path.child("validation"), errors);
    }
    if hoisted.subresources {
        column::validate_subresources(version.get("subresources"), &path.child("subresources"), errors);
    }
    if hoisted.columns {
        column::validate_columns(version, path, errors);
    }
    if hoisted.selectable_fields {
        // An empty schema counts as a schema here.
        let schema = schema_of(version).or_else(|| version.get("schema").filter(|schema| schema.is_object()));
        let schema = schema.filter(|_| hoisted.schema);
        let missing = "may only be set when validations.schema is included";
        column::validate_selectable_fields(version, schema, missing, path, errors);
    }
}

/// Returns the schema of a version.
fn schema_of(version: &Value) -> Option<&Value> {
    version
        .pointer("/schema/openAPIV3Schema")
        .filter(|schema| !schema.is_null())
}

/// Returns true if a version's schema has a default anywhere.
fn has_defaults(version: &Value) -> bool {
    let Some(Ok(schema)) = schema_of(version).map(node::parse) else {
        return false;
    };
    let mut found = false;
    schema.walk(&mut |node| found |= node.default.is_some());
    found
}

fn has_status(version: &Value) -> bool {
    version
        .pointer("/subresources/status")
        .is_some_and(Value::is_object)
}

fn validate_deprecation(version: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut problems = Vec::new();
    if !flag(version, "deprecated") {
        problems.push("can only be set for deprecated versions".to_owned());
    } else if warning.is_empty() {
        problems.push("must not be an empty string".to_owned());
    } else if warning.len() > MAX_DEPRECATION_WARNING {
        problems.push(format!("must be <= {MAX_DEPRECATION_WARNING} characters long"));
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        problems.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
    for problem in problems {
        errors.push(Error::invalid(
            path.child("deprecationWarning"),
            warning.into(),
            problem,
        ));
    }
}

fn validate_names(names: &Map<String, Value>, path: &Path, errors: &mut ErrorList) {
    let mut check = |path: Path, value: &str, mixed_case: bool| {
        let lower = if mixed_case {
            value.to_lowercase()
        } else {
            value.to_owned()
        };
        let problems = names::dns1035_label(&lower);
        if problems.is_empty() {
            return;
        }
        let prefix = if mixed_case {
            "may have mixed case, but should otherwise match: "
        } else {
            ""
        };
        errors.push(Error::invalid(
            path,
            value.into(),
            format!("{prefix}{}", problems.join(",")),
        ));
    };
    for (name, mixed_case) in [
        ("plural", false),
        ("singular", false),
        ("kind", true),
        ("listKind", true),
    ] {
        if !text(names, name).is_empty() {
            check(path.child(name), text(names, name), mixed_case);
        }
    }
    let list = |name: &str| names.get(name).and_then(Value::as_array).into_iter().flatten();
    for (index, name) in list("shortNames").enumerate() {
        check(
            path.child("shortNames").index(index),
            name.as_str().unwrap_or(""),
            false,
        );
    }
    let kind = text(names, "kind");
    let same = !kind.is_empty() && kind == text(names, "listKind");
    let mut categories = Vec::new();
    for (index, name) in list("categories").enumerate() {
        categories.push((path.child("categories").index(index), name.as_str().unwrap_or("")));
    }
    if same {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(path.child("listKind"), kind.into(), detail));
    }
    for (path, name) in categories {
        let problems = names::dns1035_label(name);
        if !problems.is_empty() {
            errors.push(Error::invalid(path, name.into(), problems.join(",")));
        }
    }
}

fn validate_schema(version: &Value, has_status: bool, path: &Path, errors: &mut ErrorList) {
    let Some(source) = schema_of(version).filter(|_| !errors.is_full()) else {
        return;
    };
    let before = errors.len();
    let path = path.child("openAPIV3Schema");
    let root = match node::parse(source) {
        Ok(root) => root,
        Err(problems) => {
            let below = |error: Error| Error {
                field: path.child(error.field.as_str()),
                ..error
            };
            return errors.extend(problems.into_iter().map(below));
        }
    };
    if has_status {
        validate_root_with_status(source, &root, &path, errors);
    }
    if root.nullable {
        errors.push(Error::forbidden(
            path.child("nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let obstacle = root.structural_obstacle();
    let mut has_rules = obstacle.is_none();
    if has_rules {
        let mut problems = structural::validate(&root, &path);
        if problems.is_empty() {
            problems = default_value::validate(&root, &path);
        }
        has_rules = problems.is_empty();
        errors.extend(problems);
    }
    keyword::validate(&root, &path, has_rules, errors);
    if let Some(obstacle) = obstacle.filter(|_| errors.len() == before) {
        errors.push(Error::invalid(path, "".into(), obstacle));
    }
}

/// Checks that the root schema has no keywords that would be lost: with a status subresource, `status` is validated
/// separately.
fn validate_root_with_status(source: &Value, root: &Node, path: &Path, errors: &mut ErrorList) {
    const ALLOWED: &[&str] = &[
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    if !root.kind.is_empty() && root.kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(Error::invalid(
            path.child("type"),
            root.kind.as_str().into(),
            detail,
        ));
        return;
    }
    let forbidden = source.as_object().into_iter().flatten().any(|(name, value)| {
        let is_zero = match value {
            Value::Null | Value::Bool(false) => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        !is_zero && !ALLOWED.contains(&name.as_str())
    });
    if forbidden {
        let names = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";
        let detail = format!(
            "only {names} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        let mut error = Error::invalid(path.clone(), Value::Null, detail);
        error.value = Some(internal::schema(source));
        errors.push(error);
    }
}

fn validate_status(crd: &Value, errors: &mut ErrorList) {
    let empty = Map::new();
    let path = Path::new("status");
    let names = crd
        .pointer("/status/acceptedNames")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    validate_names(names, &path.child("acceptedNames"), errors);
    let path = path.child("storedVersions");
    let stored = crd
        .pointer("/status/storedVersions")
        .cloned()
        .unwrap_or(Value::Null);
    let list: Vec<&str> = stored
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if list.is_empty() {
        errors.push(Error::invalid(
            path,
            stored,
            "must have at least one stored version",
        ));
        return;
    }
    let names: BTreeSet<&str> = versions(crd)
        .iter()
        .map(|version| text_at(version, "/name"))
        .collect();
    // A stored version belongs to the first version with its name.
    let mut unclaimed: BTreeSet<&str> = list.iter().copied().collect();
    for version in versions(crd) {
        let name = text_at(version, "/name");
        if !unclaimed.remove(name) && flag(version, "storage") {
            let detail = format!("must have the storage version {name}");
            errors.push(Error::invalid(path.clone(), stored.clone(), detail));
        }
    }
    for (index, name) in list.iter().enumerate() {
        if !names.contains(name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(Error::invalid(path.index(index), (*name).into(), detail));
        }
    }
}

const APPROVAL: &str = "api-approved.kubernetes.io";

/// The approval of an API of a group of the Kubernetes project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// The annotation names the approval.
    Approved(String),
    /// The annotation gives a reason for a missing approval.
    Bypassed(String),
    /// The annotation is missing.
    Missing(String),
    /// The annotation is neither of these.
    Invalid(String),
}

/// Returns the approval of a definition whose group needs one, with the text that explains it.
pub fn approval(crd: &Value) -> Option<Approval> {
    let group = text_at(crd, "/spec/group");
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')));
    if !is_protected {
        return None;
    }
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let value = approval_annotation(crd).unwrap_or_default();
    Some(if value.is_empty() {
        Approval::Missing(format!(
            "protected groups must have approval annotation \"{APPROVAL}\", {see}"
        ))
    } else if value.starts_with("unapproved") {
        Approval::Bypassed(format!("not approved: {}", apimachinery::go::quote(value)))
    } else if apimachinery::go::url::parse_reference(value)
        .is_ok_and(|url| !url.host.is_empty() && !url.scheme.is_empty())
    {
        Approval::Approved(format!("approved in {value}"))
    } else {
        Approval::Invalid(format!(
            "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \"unapproved\", {see}"
        ))
    })
}

fn approval_annotation(crd: &Value) -> Option<&str> {
    crd.get("metadata")?.get("annotations")?.get(APPROVAL)?.as_str()
}

/// Groups of the Kubernetes project need an annotation with the approval of the API.
fn validate_api_approval(crd: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let annotation = approval_annotation(crd);
    if old.is_some_and(|old| approval_annotation(old) == annotation) {
        return;
    }
    let path = Path::new("metadata").child("annotations").key(APPROVAL);
    match approval(crd) {
        Some(Approval::Missing(why)) => errors.push(Error::required(path, why)),
        Some(Approval::Invalid(why)) => {
            errors.push(Error::invalid(path, annotation.unwrap_or_default().into(), why));
        }
        _ => {}
    }
}

fn validate_preserve_unknown_fields(crd: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let is_set = |crd: &Value| crd.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true));
    if is_set(crd) && !old.is_some_and(is_set) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(Error::invalid(
            Path::new("spec").child("preserveUnknownFields"),
            true.into(),
            detail,
        ));
    }
}
