//! Questions about access.

use serde_json::Value;
use structural_schema::field::Path;

use super::check::{Check, GoPrint, render_go};
use crate::builtin::tree::{at, list, text};

const ATTRIBUTES: &[GoPrint] = &[GoPrint("Path", "path", &[]), GoPrint("Verb", "verb", &[])];

/// May I?
pub(super) fn own_access(check: &mut Check, object: &Value) {
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
}

/// May somebody?
pub(super) fn access(check: &mut Check, object: &Value) {
    own_access(check, object);
    let spec = at(object, &["spec"]);
    if text(spec, &["user"]).is_empty() && list(spec, &["groups"]).is_empty() {
        check.invalid(
            Path::new("spec").child("user"),
            &"".into(),
            "at least one of user or group must be specified",
        );
    }
}

/// May somebody in this namespace?
pub(super) fn local_access(check: &mut Check, object: &Value) {
    access(check, object);
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
