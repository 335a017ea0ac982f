//! `crd`: validates the CRDs like the API server.

use serde_json::{Map, Value, json};
use structural_schema::crd;

use super::bundle::is_old;
use crate::bundle::{Bundle, list, text};
use crate::finding::{Finding, Findings, Level};

pub(super) fn validate(bundle: &Bundle) -> Vec<Finding> {
    let mut findings = Findings::new("crd");
    add(bundle, &mut findings, |field| {
        !is_schema(field) && !field.contains("status")
    });
    findings.list
}

/// Returns true for a field of a schema. The Go program ignores the errors of schemas.
pub(super) fn is_schema(field: &str) -> bool {
    field.contains("openAPIV3Schema")
}

/// Adds the errors of the fields that `is_wanted` accepts.
pub(super) fn add(bundle: &Bundle, findings: &mut Findings, is_wanted: fn(&str) -> bool) {
    for (index, definition) in &bundle.crds {
        let Some(manifest) = bundle.manifests.get(*index) else {
            continue;
        };
        let mut definition = if is_old(definition) {
            converted(definition)
        } else {
            definition.clone()
        };
        // The Go structs are validated, and they always have names.
        if let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) {
            spec.entry("names").or_insert_with(|| json!({}));
        }
        crd::default(&mut definition);
        for error in crd::validate_create(&definition) {
            let field = error.field.as_str();
            if !is_wanted(field) {
                continue;
            }
            let pointer = pointer(field);
            let value = error.value.as_deref().map_or(String::new(), unquoted);
            let kind = error.kind.reason();
            let at = (manifest, pointer.as_str());
            let finding = findings.add(Level::Error, kind, Some(value), error.to_string(), at);
            field.clone_into(&mut finding.field);
        }
    }
}

/// Formats a value as Go prints it: strings without quotes, an empty list as `[]`.
fn unquoted(rendered: &str) -> String {
    match apimachinery::json::parse(rendered.as_bytes()) {
        Ok(parsed) => match parsed.value {
            Value::String(text) => text,
            Value::Null => "[]".to_owned(),
            _ => rendered.to_owned(),
        },
        Err(_) => rendered.to_owned(),
    }
}

/// Converts a field path to a JSON pointer.
fn pointer(field: &str) -> String {
    let mut pointer = String::new();
    for part in field.split(['.', '[']) {
        pointer.push('/');
        pointer.push_str(&part.trim_end_matches(']').replace('~', "~0").replace('/', "~1"));
    }
    pointer
}

/// Converts a CRD of v1beta1 to v1 like the API server. Unknown fields are preserved unless the CRD disables that.
pub(crate) fn converted(old: &Value) -> Value {
    let mut new = old.clone();
    if let Some(new) = new.as_object_mut() {
        new.insert("apiVersion".to_owned(), "apiextensions.k8s.io/v1".into());
    }
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else {
        return new;
    };
    let name = spec.remove("version").unwrap_or_default();
    let schema = spec.remove("validation");
    let subresources = spec.remove("subresources");
    let columns = spec.remove("additionalPrinterColumns");
    let mut versions = list(old, "/spec/versions").to_vec();
    if versions.is_empty() && !text(&name, "").is_empty() {
        versions.push(json!({"name": name, "served": true, "storage": true}));
    }
    for version in versions.iter_mut().filter_map(Value::as_object_mut) {
        let common = [
            ("schema", &schema),
            ("subresources", &subresources),
            ("additionalPrinterColumns", &columns),
        ];
        for (field, value) in common {
            if let (Some(value), false) = (value, version.contains_key(field)) {
                version.insert(field.to_owned(), value.clone());
            }
        }
        rename_paths(version);
    }
    if versions.is_empty() {
        spec.remove("versions");
    } else {
        spec.insert("versions".to_owned(), versions.into());
    }
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
        let client = conversion.remove("webhookClientConfig");
        let reviews = conversion.remove("conversionReviewVersions");
        if client.is_some() || reviews.is_some() {
            let webhook = json!({"clientConfig": client, "conversionReviewVersions": reviews});
            conversion.insert("webhook".to_owned(), webhook);
        }
    }
    spec.entry("preserveUnknownFields").or_insert(Value::Bool(true));
    new
}

fn rename_paths(version: &mut Map<String, Value>) {
    let columns = version
        .get_mut("additionalPrinterColumns")
        .and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(path) = column.remove("JSONPath") {
            column.insert("jsonPath".to_owned(), path);
        }
    }
}
