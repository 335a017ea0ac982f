//! Validates access reviews.

use apimachinery::field::{Path, render};
use apimachinery::names;
use serde_json::{Map, Value};

use super::check::{Check, GoPrint, OBJECT_META, TEXT, render_go};
use crate::tree::{at, is_zero, list, text};

const ATTRIBUTES: &[GoPrint] = &[GoPrint("Path", "path", TEXT), GoPrint("Verb", "verb", TEXT)];

/// Validates a SelfSubjectAccessReview.
pub(super) fn own_access(check: &mut Check, object: &Value) {
    spec(check, object, false);
    metadata(check, object, &["managedFields"], "must be empty");
}

/// Validates a SubjectAccessReview.
pub(super) fn access(check: &mut Check, object: &Value) {
    spec(check, object, true);
    metadata(check, object, &["managedFields"], "must be empty");
}

/// Validates a LocalSubjectAccessReview.
pub(super) fn local_access(check: &mut Check, object: &Value) {
    spec(check, object, true);
    metadata(
        check,
        object,
        &["managedFields", "namespace"],
        "must be empty except for namespace",
    );
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let namespace = text(spec, &["resourceAttributes", "namespace"]);
    let is_given = at(spec, &["resourceAttributes"]).is_object();
    if is_given && namespace != text(object, &["metadata", "namespace"]) {
        check.invalid(
            path.child("resourceAttributes").child("namespace"),
            &namespace.into(),
            "must match metadata.namespace",
        );
    }
    let other = at(spec, &["nonResourceAttributes"]);
    if !other.is_null() {
        check.invalid_text(
            path.child("nonResourceAttributes"),
            render_go(other, ATTRIBUTES),
            "disallowed on this kind of request",
        );
    }
}

fn spec(check: &mut Check, object: &Value, names_a_user: bool) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let (resource, other) = (
        at(spec, &["resourceAttributes"]),
        at(spec, &["nonResourceAttributes"]),
    );
    match (resource.is_null(), other.is_null()) {
        (false, false) => check.invalid_text(
            path.child("nonResourceAttributes"),
            render_go(other, ATTRIBUTES),
            "cannot be specified in combination with resourceAttributes",
        ),
        (true, true) => check.invalid(
            path.child("resourceAttributes"),
            resource,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => {}
    }
    if names_a_user && text(spec, &["user"]).is_empty() && list(spec, &["groups"]).is_empty() {
        check.invalid(
            path.child("user"),
            &"".into(),
            "at least one of user or group must be specified",
        );
    }
    let path = path.child("resourceAttributes");
    for field in ["fieldSelector", "labelSelector"] {
        let is_of_labels = field == "labelSelector";
        selector(check, at(resource, &[field]), &path.child(field), is_of_labels);
    }
}

/// Validates a selector, which is a string or a list of requirements. Unknown operators are accepted.
fn selector(check: &mut Check, selector: &Value, path: &Path, is_of_labels: bool) {
    if selector.is_null() {
        return;
    }
    let (raw, requirements) = (
        text(selector, &["rawSelector"]),
        list(selector, &["requirements"]),
    );
    if !raw.is_empty() && !requirements.is_empty() {
        check.invalid(
            path.child("rawSelector"),
            &raw.into(),
            "may not specified at the same time as requirements",
        );
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {path} is specified, requirements or rawSelector is required");
        check.required(path.child("requirements"), &why);
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let path = path.child("requirements").index(index);
        let key = text(requirement, &["key"]);
        if !is_of_labels && key.is_empty() {
            check.required(path.child("key"), "must be specified");
        }
        let has_values = !list(requirement, &["values"]).is_empty();
        match text(requirement, &["operator"]) {
            "In" | "NotIn" if !has_values => check.required(
                path.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ),
            "Exists" | "DoesNotExist" if has_values => check.forbidden(
                path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            _ => {}
        }
        if is_of_labels {
            check.faults(&path.child("key"), key, names::qualified_name(key));
            for (index, value) in list(requirement, &["values"]).iter().enumerate() {
                let (value, path) = (text(value, &[]), path.child("values").index(index));
                check.faults(&path, value, names::label_value(value));
            }
        }
    }
}

/// Checks that a review has no metadata except the fields in `left`, because it is not stored.
fn metadata(check: &mut Check, object: &Value, left: &[&str], why: &str) {
    let metadata = at(object, &["metadata"]);
    let fields = metadata.as_object().into_iter().flatten();
    let mut others = fields.filter(|(name, value)| !left.contains(&name.as_str()) && !is_zero(value));
    if others.next().is_some() {
        check.invalid_text(Path::new("metadata"), render_metadata(metadata), why);
    }
}

const MANAGED_FIELDS: &[&str] = &[
    "manager",
    "operation",
    "apiVersion",
    "time",
    "fieldsType",
    "fieldsV1",
    "subresource",
];

fn render_metadata(metadata: &Value) -> String {
    let Some(fields) = metadata.as_object() else {
        return render(metadata);
    };
    render_ordered(fields, OBJECT_META, |name, value| match value {
        Value::Array(entries) if name == "managedFields" => {
            let entries = entries.iter().filter_map(Value::as_object);
            let entries: Vec<String> = entries
                .map(|entry| render_ordered(entry, MANAGED_FIELDS, |_, value| render(value)))
                .collect();
            format!("[{}]", entries.join(","))
        }
        value => render(value),
    })
}

fn render_ordered(
    fields: &Map<String, Value>,
    order: &[&str],
    print: impl Fn(&str, &Value) -> String,
) -> String {
    let given = order
        .iter()
        .filter_map(|name| Some((*name, fields.get(*name).filter(|value| !is_zero(value))?)));
    let fields: Vec<String> = given
        .map(|(name, value)| format!("\"{name}\":{}", print(name, value)))
        .collect();
    format!("{{{}}}", fields.join(","))
}
