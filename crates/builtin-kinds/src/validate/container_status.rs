//! Validates the parts of a pod's status about its containers and their devices.

use std::collections::HashSet;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::Check;
use crate::tree::{at, by_name, list, text};

const HEALTH: &[&str] = &["Healthy", "Unhealthy", "Unknown"];

/// Checks the users and the allocated devices of all containers.
pub(super) fn containers(check: &mut Check, pod: &Value, path: &Path) {
    let status = at(pod, &["status"]);
    let fields = [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ];
    for field in fields {
        for (index, container) in list(status, &[field]).iter().enumerate() {
            let path = path.child(field).index(index).child("user").child("linux");
            user(check, at(container, &["user", "linux"]), &path);
        }
    }
    for (field, of_spec) in fields.into_iter().zip(["containers", "initContainers", ""]) {
        let known = by_name(list(pod, &["spec", of_spec]));
        for (index, container) in list(status, &[field]).iter().enumerate() {
            let path = path.child(field).index(index).child("allocatedResourcesStatus");
            let allocated = list(container, &["allocatedResourcesStatus"]);
            if !of_spec.is_empty() {
                let owner = known.get(text(container, &["name"])).copied();
                devices(check, allocated, owner, &path);
            } else if !allocated.is_empty() {
                check.forbidden(path, "must not be specified in container status");
            }
        }
    }
}

fn user(check: &mut Check, user: &Value, path: &Path) {
    let mut id = |id: &Value, path: Path| {
        if id
            .as_i64()
            .is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id))
        {
            check.invalid(path, id, "must be between 0 and 2147483647, inclusive");
        }
    };
    for field in ["uid", "gid"] {
        id(at(user, &[field]), path.child(field));
    }
    for (index, group) in list(user, &["supplementalGroups"]).iter().enumerate() {
        id(group, path.child("supplementalGroups").index(index));
    }
}

fn devices(check: &mut Check, allocated: &[Value], owner: Option<&Value>, path: &Path) {
    for (index, device) in allocated.iter().enumerate() {
        let (name, path) = (text(device, &["name"]), path.index(index));
        if owner.is_some_and(|owner| !requests(owner, name)) {
            let why = "must match one of the container's resource requests";
            check.invalid(path.child("name"), &name.into(), why);
        }
        let mut seen = HashSet::new();
        for (index, resource) in list(device, &["resources"]).iter().enumerate() {
            let path = path.child("resources").index(index);
            check.one_of(resource, &path, "health", HEALTH);
            if at(resource, &["message"]) == "" {
                check.required(path.child("message"), "must be non-empty if specified");
            }
            let id = text(resource, &["resourceID"]);
            if !seen.insert(id) {
                check.duplicate(path.child("resourceID"), &id.into());
            }
        }
    }
}

/// Returns true if a container requests a resource, or has a claim in the form `claim:NAME/REQUEST`.
fn requests(container: &Value, name: &str) -> bool {
    let resources = at(container, &["resources"]);
    let Some(claim) = name.strip_prefix("claim:") else {
        return !at(resources, &["requests", name]).is_null();
    };
    list(resources, &["claims"]).iter().any(|known| {
        let (of_claim, request) = (text(known, &["name"]), text(known, &["request"]));
        claim == of_claim || claim.split_once('/') == Some((of_claim, request))
    })
}

/// Checks the claim that was created for extended resources.
pub(super) fn extended_claim(check: &mut Check, pod: &Value, path: &Path) {
    let claim = at(pod, &["status", "extendedResourceClaimStatus"]);
    if claim.is_null() {
        return;
    }
    let mappings = list(claim, &["requestMappings"]);
    let of_mappings = path.child("requestMappings");
    if mappings.is_empty() {
        check.required(of_mappings.clone(), "at least one request mapping is required");
    }
    let mut seen = HashSet::new();
    for (index, mapping) in mappings.iter().enumerate() {
        let mapping_path = of_mappings.index(index);
        let [container, resource, request] =
            ["containerName", "resourceName", "requestName"].map(|field| text(mapping, &[field]));
        mapped(check, pod, [container, resource], &mapping_path);
        // The API server omits the mapping here.
        let faults = names::dns1123_label(request);
        check.faults(&path.child("requestName"), request, faults);
        if !seen.insert([container, resource, request]) {
            for field in ["containerName", "resourceName", "requestName"] {
                check.duplicate(mapping_path.child(field), at(mapping, &[field]));
            }
        }
    }
    check.required_form(claim, path, "resourceClaimName", names::dns1123_subdomain);
}

fn mapped(check: &mut Check, pod: &Value, [container, resource]: [&str; 2], path: &Path) {
    let all = ["initContainers", "containers"];
    let owner = all
        .iter()
        .flat_map(|field| list(pod, &["spec", field]))
        .find(|one| text(one, &["name"]) == container);
    match owner {
        None => check.invalid(
            path.child("containerName"),
            &container.into(),
            "must match the name of an entry in spec.initContainers.name or spec.containers.name",
        ),
        Some(owner) if at(owner, &["resources", "requests", resource]).is_null() => check.invalid(
            path.child("resourceName"),
            &resource.into(),
            "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests",
        ),
        Some(_) => {}
    }
}

/// Reports addresses whose family is unknown, as the API server does while it compares the families.
pub(super) fn unknown_family(check: &mut Check, all: &[&str], path: &Path) {
    let invalid = all.iter().position(|ip| names::sloppy_ip(ip).is_none());
    if all.len() > 1
        && let Some(index) = invalid
        && let Some(ip) = all.get(index)
    {
        let why = format!("failed to check for dual stack with error:invalid IP[{index}]: {ip}");
        let error = Error::new(apimachinery::field::ErrorType::Internal, path.clone(), why);
        check.errors.push(error);
    }
}
