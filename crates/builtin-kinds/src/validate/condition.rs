//! Validates conditions of the shared type `metav1.Condition`.

use std::collections::BTreeSet;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::Check;
use crate::tree::{at, list, text};

const REASON_LENGTH_MAX: usize = 1024;
const MESSAGE_LENGTH_MAX: usize = 32 * 1024;
const REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

/// Checks the field `conditions` of a status.
pub(super) fn conditions(check: &mut Check, status: &Value, path: &Path) {
    let path = path.child("conditions");
    let mut seen = BTreeSet::new();
    for (index, condition) in list(status, &["conditions"]).iter().enumerate() {
        let path = path.index(index);
        let kind = text(condition, &["type"]);
        if !seen.insert(kind) {
            check.duplicate(path.child("type"), &kind.into());
        }
        one(check, condition, &path);
    }
}

fn one(check: &mut Check, condition: &Value, path: &Path) {
    let kind = text(condition, &["type"]);
    check.faults(&path.child("type"), kind, names::qualified_name(kind));
    check.one_of(condition, path, "status", &["False", "True", "Unknown"]);
    let generation = at(condition, &["observedGeneration"]);
    if generation.as_i64().is_some_and(|number| number < 0) {
        let why = "must be greater than or equal to zero";
        check.invalid(path.child("observedGeneration"), generation, why);
    }
    if at(condition, &["lastTransitionTime"]).is_null() {
        check.required(path.child("lastTransitionTime"), "");
    }
    let reason = text(condition, &["reason"]);
    let of_reason = path.child("reason");
    if reason.is_empty() {
        check.required(of_reason, "");
    } else {
        if !is_reason(reason) {
            check.invalid(of_reason.clone(), &reason.into(), REASON);
        }
        if reason.len() > REASON_LENGTH_MAX {
            check.errors.push(Error::too_long(of_reason, REASON_LENGTH_MAX));
        }
    }
    if text(condition, &["message"]).len() > MESSAGE_LENGTH_MAX {
        let error = Error::too_long(path.child("message"), MESSAGE_LENGTH_MAX);
        check.errors.push(error);
    }
}

fn is_reason(reason: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_inner = |byte: u8| is_end(byte) || matches!(byte, b',' | b':');
    reason.starts_with(|first: char| first.is_ascii_alphabetic())
        && reason.bytes().all(is_inner)
        && reason.bytes().last().is_some_and(is_end)
}
