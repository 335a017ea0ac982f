//! Validates fields of pods that only some operating systems support.

use apimachinery::field::Path;
use serde_json::Value;

use super::check::Check;
use crate::tree::{at, list, text};

const CONTAINER_FIELDS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Checks that a pod has no fields that its operating system does not support.
pub(super) fn fields(check: &mut Check, spec: &Value, path: &Path) {
    match text(spec, &["os", "name"]) {
        "linux" => linux(check, spec, path),
        "windows" => windows(check, spec, path),
        _ => {}
    }
}

fn containers<'a>(spec: &'a Value, path: &Path) -> impl Iterator<Item = (&'a Value, Path)> {
    let path = path.clone();
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(move |field| {
            let path = path.child(field);
            let items = list(spec, &[field]).iter().enumerate();
            items.map(move |(index, item)| (item, path.index(index)))
        })
}

fn linux(check: &mut Check, spec: &Value, path: &Path) {
    let field = "windowsOptions";
    let pod = [(spec, path.clone())].into_iter();
    for (owner, path) in pod.chain(containers(spec, path)) {
        if !at(owner, &["securityContext", field]).is_null() {
            let why = "windows options cannot be set for a linux pod";
            check.forbidden(path.child("securityContext").child(field), why);
        }
    }
}

fn windows(check: &mut Check, spec: &Value, path: &Path) {
    const WHY: &str = "cannot be set for a windows pod";
    let context = at(spec, &["securityContext"]);
    let context_path = path.child("securityContext");
    let of_context = |check: &mut Check, fields: &[&str]| {
        for field in fields {
            if !at(context, &[field]).is_null() {
                check.forbidden(context_path.child(field), WHY);
            }
        }
    };
    of_context(check, &["appArmorProfile"]);
    for field in ["hostUsers", "hostPID", "hostIPC"] {
        let value = at(spec, &[field]);
        if value == &Value::Bool(true) || field == "hostUsers" && !value.is_null() {
            check.forbidden(path.child(field), WHY);
        }
    }
    of_context(
        check,
        &[
            "seLinuxOptions",
            "seccompProfile",
            "fsGroup",
            "fsGroupChangePolicy",
        ],
    );
    if !list(context, &["sysctls"]).is_empty() {
        check.forbidden(context_path.child("sysctls"), WHY);
    }
    if at(spec, &["shareProcessNamespace"]) == &Value::Bool(true) {
        check.forbidden(path.child("shareProcessNamespace"), WHY);
    }
    of_context(
        check,
        &[
            "runAsUser",
            "runAsGroup",
            "supplementalGroups",
            "supplementalGroupsPolicy",
        ],
    );
    for (container, path) in containers(spec, path) {
        for field in CONTAINER_FIELDS {
            if !at(container, &["securityContext", field]).is_null() {
                check.forbidden(path.child("securityContext").child(field), WHY);
            }
        }
    }
}
