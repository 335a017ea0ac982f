//! Validates annotations of pods: mirror pods, tolerations, deletion costs, seccomp and AppArmor profiles.

use apimachinery::field::Path;
use apimachinery::go::json_kind;
use apimachinery::json;
use serde_json::{Value, json};

use super::check::{Check, descending_path};
use super::pod::tolerations;
use crate::app_armor;
use crate::tree::{at, entries, list, text};

const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Checks the annotations of a pod or of a pod template.
pub(super) fn annotations(check: &mut Check, annotations: &Value, spec: &Value, path: &Path) {
    let value = |key: &str| at(annotations, &[key]).as_str();
    if let Some(mirrored) = value(MIRROR)
        && text(spec, &["nodeName"]).is_empty()
    {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        check.invalid(path.key(MIRROR), &mirrored.into(), why);
    }
    if let Some(encoded) = value(TOLERATIONS).filter(|encoded| !encoded.is_empty()) {
        match toleration_list(encoded) {
            Ok(list) => tolerations(check, &json!({"tolerations": list}), &path.child(TOLERATIONS)),
            Err(why) => check.invalid(path.clone(), &TOLERATIONS.into(), why),
        }
    }
    if let Some(cost) = value(DELETION_COST)
        && !is_deletion_cost(cost)
    {
        check.invalid(path.key(DELETION_COST), &cost.into(), "must be a 32bit integer");
    }
    if let Some(profile) = value(SECCOMP_POD) {
        seccomp(check, profile, &path.child(SECCOMP_POD));
    }
    for (key, profile) in entries(annotations, &[]) {
        if key.starts_with(SECCOMP_CONTAINER) {
            seccomp(check, profile.as_str().unwrap_or_default(), &path.child(key));
        }
    }
    for (key, profile) in entries(annotations, &[]) {
        let Some(name) = key.strip_prefix(app_armor::ANNOTATION) else {
            continue;
        };
        let profile = profile.as_str().unwrap_or_default();
        if !containers(spec).any(|(_, container)| text(container, &["name"]) == name) {
            check.invalid(path.key(key), &name.into(), "container not found");
        }
        let is_known =
            matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/");
        if !is_known {
            let shown = apimachinery::go::quote(profile);
            let why = format!("invalid AppArmor profile name: {shown}");
            check.invalid(path.key(key), &profile.into(), why);
        }
    }
}

/// Checks that the AppArmor annotations agree with the fields of a new pod.
pub(super) fn app_armor_fields(check: &mut Check, annotations: &Value, spec: &Value, path: &Path) {
    if text(spec, &["os", "name"]) == "windows" {
        return;
    }
    for (field, container) in containers(spec) {
        let key = format!("{}{}", app_armor::ANNOTATION, text(container, &["name"]));
        let Some(annotation) = at(annotations, &[&key]).as_str() else {
            continue;
        };
        let own = at(container, &["securityContext", "appArmorProfile"]);
        let profile = match own.is_null() {
            true => at(spec, &["securityContext", "appArmorProfile"]),
            false => own,
        };
        let (list, index) = field;
        let path = path
            .child(list)
            .index(index)
            .child("securityContext")
            .child("appArmorProfile");
        let of_type = match text(profile, &["type"]) {
            "Unconfined" => annotation == "unconfined",
            "RuntimeDefault" => annotation == "runtime/default",
            "Localhost" => annotation.starts_with("localhost/"),
            _ => continue,
        };
        let local = annotation.strip_prefix("localhost/");
        if !of_type {
            let why = "apparmor type in annotation and field must match";
            check.forbidden(path.child("type"), why);
        } else if local.is_some_and(|local| text(profile, &["localhostProfile"]) != local) {
            let why = "apparmor profile in annotation and field must match";
            check.forbidden(path.child("localhostProfile"), why);
        }
    }
}

/// Checks the annotations of a changed pod: those for mirror pods and for AppArmor are immutable.
pub(super) fn changes(check: &mut Check, annotations: &Value, old: &Value, path: &Path) {
    let subject = |key: &str| {
        if key == MIRROR {
            Some("mirror pod annotation")
        } else {
            key.starts_with(app_armor::ANNOTATION)
                .then_some("AppArmor annotations")
        }
    };
    for (key, before) in entries(old, &[]) {
        if let Some(subject) = subject(key)
            && at(annotations, &[key]) != before
        {
            check.forbidden(path.key(key), format!("may not remove or update {subject}"));
        }
    }
    for (key, _) in entries(annotations, &[]) {
        if let Some(subject) = subject(key)
            && at(old, &[key]).is_null()
        {
            check.forbidden(path.key(key), format!("may not add {subject}"));
        }
    }
}

/// Returns all containers with their list and their index.
fn containers(spec: &Value) -> impl Iterator<Item = ((&'static str, usize), &Value)> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|field| {
            let containers = list(spec, &[field]).iter().enumerate();
            containers.map(move |(index, container)| ((field, index), container))
        })
}

fn toleration_list(encoded: &str) -> Result<Value, String> {
    let parsed = json::parse(encoded.as_bytes())?.value;
    let refused = |value: &Value, wanted: &str| {
        format!(
            "json: cannot unmarshal {} into Go value of type {wanted}",
            json_kind(value)
        )
    };
    match &parsed {
        Value::Null => {}
        Value::Array(items) => {
            if let Some(item) = items.iter().find(|item| !item.is_object() && !item.is_null()) {
                return Err(refused(item, "core.Toleration"));
            }
        }
        other => return Err(refused(other, "[]core.Toleration")),
    }
    Ok(parsed)
}

/// Returns true for a 32-bit number without a leading plus or leading zeros.
fn is_deletion_cost(cost: &str) -> bool {
    let digits = cost.strip_prefix('-').unwrap_or(cost);
    cost.parse::<i32>().is_ok() && !cost.starts_with('+') && (!digits.starts_with('0') || cost == "0")
}

fn seccomp(check: &mut Check, profile: &str, path: &Path) {
    match profile.strip_prefix("localhost/") {
        Some(local) => descending_path(check, local, path),
        None if ["runtime/default", "docker/default", "unconfined"].contains(&profile) => {}
        None => check.invalid(path.clone(), &profile.into(), "must be a valid seccomp profile"),
    }
}
