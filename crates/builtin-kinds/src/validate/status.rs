//! Validates statuses and their changes.

use std::collections::HashSet;

use apimachinery::field::{Error, Path, render};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::check::Check;
use super::container_resources::is_native;
use super::container_status;
use crate::tree::{at, by_name, entries, is_zero, list, text};

/// The conditions of the system. The names of other conditions have a required format.
const SYSTEM_CONDITIONS: &[&str] = &["PodScheduled", "Ready", "Initialized"];

pub(super) fn pod(check: &mut Check, object: &Value, old: &Value) {
    let (status, before, path) = (at(object, &["status"]), at(old, &["status"]), Path::new("status"));
    let conditions = path.child("conditions");
    for (index, condition) in list(status, &["conditions"]).iter().enumerate() {
        let path = conditions.index(index);
        observed(check, condition, &path);
        let kind = text(condition, &["type"]);
        if !SYSTEM_CONDITIONS.contains(&kind) {
            check.faults(&path.child("Type"), kind, names::qualified_name(kind));
        }
    }
    check.optional_form(status, &path, "nominatedNodeName", names::dns1123_subdomain);
    let nominated = text(status, &["nominatedNodeName"]);
    let is_bound = !text(old, &["spec", "nodeName"]).is_empty();
    if is_bound && !nominated.is_empty() && nominated != text(before, &["nominatedNodeName"]) {
        check.forbidden(
            path.child("nominatedNodeName"),
            "may not be set on pods that are already bound to a node",
        );
    }
    observed(check, status, &path);
    let (class, old_class) = (text(status, &["qosClass"]), text(before, &["qosClass"]));
    check.immutable(&class.into(), &old_class.into(), path.child("qosClass"));
    let policy = text(old, &["spec", "restartPolicy"]);
    for field in ["containerStatuses", "initContainerStatuses"] {
        still_terminated(check, (status, before, field), policy, &path.child(field));
    }
    still_terminated(
        check,
        (status, before, "ephemeralContainerStatuses"),
        "Never",
        &path.child("ephemeralContainerStatuses"),
    );
    claim_statuses(check, object, &path.child("resourceClaimStatuses"));
    container_status::extended_claim(check, object, &path.child("extendedResourceClaimStatus"));
    addresses(check, status, &path);
    container_status::containers(check, object, &path);
}

/// Checks that the claims in the status of a pod are in its spec.
fn claim_statuses(check: &mut Check, pod: &Value, path: &Path) {
    let claims = by_name(list(pod, &["spec", "resourceClaims"]));
    let mut seen = HashSet::new();
    for (index, status) in list(pod, &["status", "resourceClaimStatuses"]).iter().enumerate() {
        let (name, path) = (text(status, &["name"]), path.index(index));
        if !claims.contains_key(name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            check.invalid(path.child("name"), &name.into(), why);
        }
        if !seen.insert(name) {
            check.duplicate(path.child("name"), &name.into());
        }
        check.pointer_form(status, &path, "resourceClaimName", names::dns1123_subdomain);
    }
}

fn observed(check: &mut Check, of: &Value, path: &Path) {
    let generation = at(of, &["observedGeneration"]);
    if generation.as_i64().is_some_and(|generation| generation < 0) {
        let detail = "must be a non-negative integer";
        check.invalid(path.child("observedGeneration"), generation, detail);
    }
}

/// Checks that a container that has terminated and is not restarted does not start again.
fn still_terminated(
    check: &mut Check,
    (status, before, field): (&Value, &Value, &str),
    policy: &str,
    path: &Path,
) {
    if policy == "Always" {
        return;
    }
    for (index, old) in list(before, &[field]).iter().enumerate() {
        let ended = at(old, &["state", "terminated"]);
        let failed = at(ended, &["exitCode"]).as_i64().unwrap_or(0) != 0;
        if ended.is_null() || failed && policy == "OnFailure" {
            continue;
        }
        let begins = |new: &&Value| {
            text(new, &["name"]) == text(old, &["name"]) && at(new, &["state", "terminated"]).is_null()
        };
        for _ in list(status, &[field]).iter().filter(begins) {
            check.forbidden(
                path.index(index).child("state"),
                "may not be transitioned to non-terminated state",
            );
        }
    }
}

fn addresses(check: &mut Check, status: &Value, path: &Path) {
    let host = list(status, &["hostIPs"]).first();
    for field in ["podIPs", "hostIPs"] {
        if let Some(first) = host.filter(|_| field == "hostIPs")
            && text(first, &["ip"]) != text(status, &["hostIP"])
        {
            let path = path.child(field).index(0).child("ip");
            check.invalid(path, at(first, &["ip"]), "must be equal to `hostIP`");
        }
        let all: Vec<&str> = list(status, &[field])
            .iter()
            .map(|item| text(item, &["ip"]))
            .collect();
        for (index, ip) in all.iter().enumerate() {
            check.faults(&path.child(field).index(index), ip, names::ip_address(ip));
        }
        container_status::unknown_family(check, &all, &path.child(field));
        let is_family = |is_kind: fn(&str) -> bool| all.iter().filter(|ip| is_kind(ip)).count() == 1;
        let is_dual = all.len() == 2 && is_family(names::is_ipv4) && is_family(names::is_ipv6);
        if all.len() > 1 && !is_dual {
            let shown: Vec<String> = all
                .iter()
                .map(|ip| format!("{{\"IP\":{}}}", render(&(*ip).into())))
                .collect();
            let why = "may specify no more than one IP for each IP family";
            check.invalid_text(path.child(field), format!("[{}]", shown.join(",")), why);
        }
    }
}

/// Checks that the phase of a namespace is consistent with its deletion.
pub(super) fn namespace(check: &mut Check, object: &Value) {
    let phase = text(object, &["status", "phase"]);
    let (wanted, state) = match at(object, &["metadata", "deletionTimestamp"]).is_null() {
        true => ("Active", "is empty"),
        false => ("Terminating", "is not empty"),
    };
    if phase != wanted {
        check.invalid(
            Path::new("status").child("Phase"),
            &phase.into(),
            format!("may only be '{wanted}' if `deletionTimestamp` {state}"),
        );
    }
}

/// Checks the finalizers of a new namespace; their errors do not have the index.
pub(super) fn new_namespace(check: &mut Check, object: &Value) {
    let path = Path::new("spec").child("finalizers");
    finalizers(check, object, |_| path.clone());
}

/// Checks the changed finalizers of a namespace.
pub(super) fn namespace_finalizers(check: &mut Check, object: &Value) {
    let path = Path::new("spec").child("finalizers");
    finalizers(check, object, |index| path.index(index));
}

fn finalizers(check: &mut Check, object: &Value, path: impl Fn(usize) -> Path) {
    for (index, name) in list(object, &["spec", "finalizers"]).iter().enumerate() {
        let (name, path) = (name.as_str().unwrap_or_default(), path(index));
        check.faults(&path, name, names::qualified_name(name));
        if !name.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            check.invalid(path, &name.into(), detail);
        }
    }
}

/// Checks the load balancer status of services and ingresses.
pub(super) fn load_balancer(check: &mut Check, object: &Value) {
    let path = Path::new("status").child("loadBalancer");
    let ingresses = list(object, &["status", "loadBalancer", "ingress"]);
    let is_service = at(object, &["kind"]) == "Service";
    if is_service && text(object, &["spec", "type"]) != "LoadBalancer" && !ingresses.is_empty() {
        check.forbidden(
            path.child("ingress"),
            "may only be used when `spec.type` is 'LoadBalancer'",
        );
        return;
    }
    for (index, ingress) in ingresses.iter().enumerate() {
        let path = path.child("ingress").index(index);
        check.optional_form(ingress, &path, "ip", names::ip_address);
        ip_mode(check, ingress, is_service, &path);
        let host = text(ingress, &["hostname"]);
        if !host.is_empty() {
            let path = path.child("hostname");
            check.faults(&path, host, names::dns1123_subdomain(host));
            if names::ip_address(host).is_empty() {
                check.invalid(path, &host.into(), "must be a DNS name, not an IP address");
            }
        }
    }
}

fn ip_mode(check: &mut Check, ingress: &Value, is_service: bool, path: &Path) {
    let (has_ip, mode) = (!text(ingress, &["ip"]).is_empty(), at(ingress, &["ipMode"]));
    if has_ip && mode.is_null() && is_service {
        check.required(path.child("ipMode"), "must be specified when `ip` is set");
    } else if !has_ip && !mode.is_null() {
        check.forbidden(path.child("ipMode"), "may not be specified when `ip` is not set");
    } else {
        check.optional_one_of(ingress, path, "ipMode", &["Proxy", "VIP"]);
    }
}

/// Checks that counts are not negative, and that the collision count does not decrease.
pub(super) fn counts(check: &mut Check, object: &Value, old: &Value, fields: &[&str]) {
    let path = Path::new("status");
    for field in fields {
        check.non_negative(at(object, &["status"]), &path, field);
    }
    collisions(check, object, old);
}

/// Checks that the collision count is not removed.
pub(super) fn collisions(check: &mut Check, object: &Value, old: &Value) {
    let count = |object: &Value| at(object, &["status", "collisionCount"]).as_i64();
    let (new, old) = (count(object), count(old));
    if old.is_some_and(|old| new.is_none_or(|new| new < old)) {
        check.invalid(
            Path::new("status").child("collisionCount"),
            &new.unwrap_or(0).into(),
            "cannot be decremented",
        );
    }
}

/// Checks the capacity of a bound claim.
pub(super) fn claim(check: &mut Check, object: &Value) {
    let status = at(object, &["status"]);
    if is_zero(status) {
        return;
    }
    let path = Path::new("status");
    for (name, quantity) in entries(status, &["capacity"]) {
        basic_amount(check, quantity, &path.child("capacity").key(name));
    }
    let statuses = path.child("allocatedResourceStatuses");
    for (name, state) in entries(status, &["allocatedResourceStatuses"]) {
        claim_resource(check, name, &statuses);
        if !RESIZES.contains(&state.as_str().unwrap_or_default()) {
            let error = Error::not_supported(statuses.clone(), &name.as_str().into(), RESIZES);
            check.errors.push(error);
        }
    }
    let allocated = path.child("allocatedResources");
    for (name, quantity) in entries(status, &["allocatedResources"]) {
        let before = check.errors.len();
        claim_resource(check, name, &allocated);
        if check.errors.len() > before {
            continue;
        }
        basic_amount(check, quantity, &allocated.key(name));
    }
}

/// The resize statuses.
const RESIZES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Checks the name of a claim's resource: the storage, or a name with a domain.
fn claim_resource(check: &mut Check, name: &str, path: &Path) {
    let faults = names::qualified_name(name);
    if !faults.is_empty() {
        check.faults(path, name, faults);
    } else if is_native(name) && name != "storage" {
        let error = Error::not_supported(path.clone(), &name.into(), &["storage"]);
        check.errors.push(error);
    }
}

fn basic_amount(check: &mut Check, quantity: &Value, path: &Path) {
    let quantity = Quantity::from_json(quantity).ok().filter(Quantity::is_negative);
    if let Some(quantity) = quantity {
        let why = "must be a valid resource quantity";
        check.invalid_text(path.clone(), quantity.whole_units(), why);
    }
}
