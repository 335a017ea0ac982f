//! Validates the requests, limits and claims of containers and of pods.

use std::collections::{BTreeSet, HashSet};

use apimachinery::field::{Path, render};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use super::check::Check;
use crate::pod_resources::{self, amounts, is_pod_level};
use crate::tree::{at, entries, list, text};

type NameRule = fn(&mut Check, &str, &Path);

/// Checks the requests and limits of a container; `claims` are those of its pod.
pub(super) fn resources(check: &mut Check, resources: &Value, path: &Path, claims: &BTreeSet<&str>) {
    requirements(check, resources, path, resource_name);
    resource_claims(check, resources, &path.child("claims"), claims);
}

/// Checks the overhead of a pod.
pub(super) fn overhead(check: &mut Check, overhead: &Value, path: &Path) {
    requirements(check, &json!({ "limits": overhead }), path, resource_name);
}

/// Checks the pod-level requests and limits.
pub(super) fn pod_level(check: &mut Check, spec: &Value, path: &Path, claims: &BTreeSet<&str>) {
    let resources = at(spec, &["resources"]);
    if resources.is_null() {
        return;
    }
    let path = path.child("resources");
    if text(spec, &["os", "name"]) == "windows" {
        return check.forbidden(path, "may not be set for a windows pod");
    }
    if !at(resources, &["claims"]).is_null() {
        let why = "claims may not be set for Resources at pod-level";
        check.forbidden(path.child("claims"), why);
    }
    requirements(check, resources, &path, pod_resource_name);
    resource_claims(check, resources, &path.child("claims"), claims);
    aggregates(check, spec, resources, &path);
}

/// Checks that the pod-level resources are sufficient for the containers.
fn aggregates(check: &mut Check, spec: &Value, resources: &Value, path: &Path) {
    for field in ["requests", "limits"] {
        let own = amounts(at(resources, &[field]));
        let total = pod_resources::of_containers(
            list(spec, &["containers"]),
            list(spec, &["initContainers"]),
            |container| amounts(at(container, &["resources", field])),
        );
        let is_huge = |name: &str| name.starts_with("hugepages-");
        for (name, needed) in &total {
            // The sum of the container limits may exceed the pod-level limit.
            let counts = if field == "requests" {
                is_pod_level(name)
            } else {
                is_huge(name)
            };
            if let Some(amount) = own.get(name)
                && counts
                && needed > amount
            {
                check.invalid(
                    path.child(field).key(name),
                    &amount.to_string().into(),
                    format!("must be greater than or equal to aggregate container {field} of {needed}"),
                );
            }
        }
    }
    let own = amounts(at(resources, &["limits"]));
    for (index, container) in list(spec, &["containers"]).iter().enumerate() {
        for (name, limit) in amounts(at(container, &["resources", "limits"])) {
            if let Some(most) = own.get(&name)
                && limit > *most
            {
                check.invalid(
                    path.child("containers").index(index).key(&name).child("limits"),
                    &limit.to_string().into(),
                    format!("must be less than or equal to pod limits of {most}"),
                );
            }
        }
    }
}

fn requirements(check: &mut Check, resources: &Value, path: &Path, name_rule: NameRule) {
    let limits = at(resources, &["limits"]);
    let (limit_path, request_path) = (path.child("limits"), path.child("requests"));
    for (name, quantity) in entries(limits, &[]) {
        let path = limit_path.key(name);
        name_rule(check, name, &path);
        resource_amount(check, name, quantity, &path);
        whole_pages(check, name, quantity, &path);
    }
    for (name, quantity) in entries(resources, &["requests"]) {
        let path = request_path.key(name);
        name_rule(check, name, &path);
        resource_amount(check, name, quantity, &path);
        let overcommit = is_native(name) && !name.starts_with("hugepages-");
        let request = Quantity::from_json(quantity);
        let limit = Quantity::from_json(at(limits, &[name]));
        match (request, limit) {
            (Ok(request), Ok(limit)) if !overcommit && request != limit => check.invalid(
                request_path.clone(),
                quantity,
                format!("must be equal to {name} limit of {limit}"),
            ),
            (Ok(request), Ok(limit)) if request > limit => check.invalid(
                request_path.clone(),
                quantity,
                format!("must be less than or equal to {name} limit of {limit}"),
            ),
            (Ok(_), Err(_)) if !overcommit => check.required(
                limit_path.clone(),
                "Limit must be set for non overcommitable resources",
            ),
            _ => {}
        }
        whole_pages(check, name, quantity, &path);
    }
    let mut named = entries(resources, &["limits"]).chain(entries(resources, &["requests"]));
    let has = |test: fn(&str) -> bool| named.clone().any(|(name, _)| test(name));
    let has_huge = has(|name| name.starts_with("hugepages-"));
    let has_base = named.any(|(name, _)| matches!(name.as_str(), "cpu" | "memory"));
    if has_huge && !has_base {
        check.forbidden(path.clone(), "HugePages require cpu or memory");
    }
}

/// Checks that the size of huge pages is in bytes and a multiple of the page size.
fn whole_pages(check: &mut Check, name: &str, quantity: &Value, path: &Path) {
    let Some(size) = name.strip_prefix("hugepages-") else {
        return;
    };
    // An amount that is not whole is never a multiple: the API server counts it in thousandths.
    let bytes = |quantity: Quantity| match quantity.is_whole() {
        true => quantity.as_integer(),
        false => Some(1),
    };
    let size = Quantity::parse(size)
        .ok()
        .filter(Quantity::is_whole)
        .and_then(bytes);
    let amount = Quantity::from_json(quantity).ok();
    let is_whole = match (amount.clone().and_then(bytes), size) {
        (Some(amount), Some(size)) => size > 0 && amount % size == 0,
        // The API server treats an amount that is too large as zero.
        (None, Some(size)) => amount.is_some() && size > 0,
        _ => false,
    };
    if let Some(amount) = amount.filter(|_| !is_whole) {
        let why = format!("{amount} is not positive integer multiple of {name}");
        check.invalid(path.clone(), &amount.to_string().into(), why);
    }
}

/// Checks the claims that a container uses from its pod.
fn resource_claims(check: &mut Check, resources: &Value, path: &Path, known: &BTreeSet<&str>) {
    let mut seen = HashSet::new();
    let mut used = HashSet::new();
    for (index, claim) in list(resources, &["claims"]).iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (text(claim, &["name"]), text(claim, &["request"]));
        if name.is_empty() {
            check.required(path, "");
            continue;
        }
        if request.is_empty() {
            if used.contains(name) {
                check.duplicate(path.clone(), &name.into());
            }
        } else {
            let both = format!("{name}/{request}");
            if seen.contains(name) {
                check.duplicate(path.clone(), &name.into());
            } else if seen.contains(&both) {
                check.duplicate(path.clone(), &both.into());
            } else {
                check.faults(&path.child("request"), request, claim_name_faults(request));
            }
        }
        used.insert(name);
        seen.insert(if request.is_empty() {
            name.to_owned()
        } else {
            format!("{name}/{request}")
        });
        if !known.contains(name) && !check.errors.is_full() {
            let names: Vec<&str> = known.iter().copied().collect();
            let list = if names.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", names.join(", "))
            };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{list}");
            check.not_found(path, &name.into(), detail);
        }
    }
}

/// Returns the errors of a claim name. For a name without a dot, the error is shorter than for other labels.
fn claim_name_faults(name: &str) -> Vec<String> {
    let faults = names::dns1123_label(name);
    let only_dots = name.contains('.') && names::dns1123_label(&name.replace('.', "")).is_empty();
    if only_dots {
        vec!["must not contain dots".to_owned()]
    } else {
        faults
    }
}

/// Checks the claims that the containers of a pod can use.
pub(super) fn pod_claims(check: &mut Check, spec: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for (index, claim) in list(spec, &["resourceClaims"]).iter().enumerate() {
        let path = path.index(index);
        let name = text(claim, &["name"]);
        if name.is_empty() {
            check.required(path.child("name"), "");
        } else if seen.insert(name) {
            check.faults(&path.child("name"), name, names::dns1123_label(name));
        } else {
            check.duplicate(path.child("name"), &name.into());
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let given = sources
            .iter()
            .filter(|field| !at(claim, &[field]).is_null())
            .count();
        let why = match given {
            0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => None,
            _ => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
        };
        if let Some(why) = why {
            let shown = format!(
                "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
                render(&name.into()),
                render(at(claim, &["resourceClaimName"])),
                render(at(claim, &["resourceClaimTemplateName"])),
            );
            check.invalid_text(path.clone(), shown, why);
        }
        for field in sources {
            check.pointer_form(claim, &path, field, names::dns1123_subdomain);
        }
    }
}

/// Returns true if a resource is native: its name has no domain, or the domain of Kubernetes.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Checks the amount of a resource: it is not negative, and integral if required.
pub(super) fn resource_amount(check: &mut Check, name: &str, quantity: &Value, path: &Path) {
    check.non_negative_quantity(quantity, path);
    let whole = Quantity::from_json(quantity).is_ok_and(|quantity| quantity.is_whole());
    let in_pieces = !is_native(name) && is_extended(name)
        || matches!(name, "pods" | "services" | "secrets" | "configmaps");
    if in_pieces && !whole {
        check.invalid(path.clone(), quantity, "must be an integer");
    }
}

/// Checks the name of a container resource.
pub(super) fn resource_name(check: &mut Check, name: &str, path: &Path) {
    any_resource_name(check, name, path);
    if !name.contains('/') {
        let of_container = matches!(name, "cpu" | "memory" | "ephemeral-storage");
        if !of_container && !name.starts_with("hugepages-") {
            let why = "must be a standard resource for containers";
            check.invalid(path.clone(), &name.into(), why);
        }
    } else if !is_native(name) && !is_extended(name) {
        check.invalid(
            path.clone(),
            &name.into(),
            "doesn't follow extended resource name standard",
        );
    }
}

/// Returns true for the name of a resource outside Kubernetes that quotas can also name.
pub(super) fn is_extended(name: &str) -> bool {
    !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Checks the name of a pod-level resource.
fn pod_resource_name(check: &mut Check, name: &str, path: &Path) {
    let before = check.errors.len();
    any_resource_name(check, name, path);
    if check.errors.len() == before && !is_pod_level(name) {
        check.unsupported_text(
            path.clone(),
            render(&name.into()),
            &["cpu", "hugepages-", "memory"],
        );
    }
}

/// Checks the name of any resource; returns true if it is well-formed.
pub(super) fn any_resource_name(check: &mut Check, name: &str, path: &Path) -> bool {
    let faults = names::qualified_name(name);
    if !faults.is_empty() {
        check.faults(path, name, faults);
        return false;
    }
    if !name.contains('/') && !is_standard(name) {
        check.invalid(
            path.clone(),
            &name.into(),
            "must be a standard resource type or fully qualified",
        );
    }
    true
}

/// Returns true for standard names without a domain, some of which do not apply to containers.
pub(super) fn is_standard(name: &str) -> bool {
    const STANDARD: &[&str] = &[
        "configmaps",
        "cpu",
        "ephemeral-storage",
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "memory",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
        "requests.storage",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "storage",
    ];
    STANDARD.contains(&name) || name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}
