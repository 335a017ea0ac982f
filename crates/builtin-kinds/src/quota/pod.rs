//! The usage of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use apimachinery::object;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::scope::Selector;
use crate::pod_resources::{self, Amounts, add, amounts, raise};
use crate::tree::{at, is_zero, list, text};

const COVERED: [&str; 10] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "pods",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// The resources that every container must set if a quota counts them.
const REQUIRED: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub(super) fn covers(name: &str) -> bool {
    COVERED.contains(&name)
        || name.starts_with("hugepages-")
        || name
            .strip_prefix("requests.")
            .is_some_and(|requested| requested.starts_with("hugepages-") || is_extended(requested))
}

/// Returns true for an extended resource, whose requests equal its limits.
fn is_extended(name: &str) -> bool {
    name.starts_with(DEVICE_CLASS) || name.contains('/') && !name.contains("kubernetes.io/")
}

/// Returns true if the resources of a pod count: it has not finished, and its grace period has not expired.
pub(super) fn is_counted(pod: &Value, now: SystemTime) -> bool {
    if matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed") {
        return false;
    }
    let deleted = text(pod, &["metadata", "deletionTimestamp"]).parse::<jiff::Timestamp>();
    let grace = object::meta(pod, "deletionGracePeriodSeconds").and_then(Value::as_u64);
    match (deleted, grace) {
        (Ok(deleted), Some(grace)) => {
            SystemTime::from(deleted) + Duration::from_secs(grace.min(1 << 32)) >= now
        }
        _ => true,
    }
}

/// Returns true if a pod has a deadline; the scope of such pods is `Terminating`.
pub(super) fn has_deadline(pod: &Value) -> bool {
    at(pod, &["spec", "activeDeadlineSeconds"])
        .as_i64()
        .is_some_and(|seconds| seconds >= 0)
}

pub(super) fn usage(pod: &Value, now: SystemTime) -> Amounts {
    if !is_counted(pod, now) {
        return Amounts::new();
    }
    let requests = total(pod, "requests");
    let limits = total(pod, "limits");
    computed(&requests, &limits)
}

/// Returns the usage from requests and limits, of a container or of a pod.
fn computed(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), Quantity::from(1))]);
    let mut put = |name: String, amount: &Quantity| usage.insert(name, amount.clone());
    for (name, amount) in requests {
        match name.as_str() {
            "cpu" | "memory" | "ephemeral-storage" => {
                put(name.clone(), amount);
                put(format!("requests.{name}"), amount);
            }
            huge if huge.starts_with("hugepages-") => {
                put(name.clone(), amount);
                put(format!("requests.{name}"), amount);
            }
            extended if is_extended(extended) => {
                put(format!("requests.{name}"), amount);
            }
            _ => {}
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            put(format!("limits.{name}"), amount);
        }
    }
    usage
}

/// Returns the requests or limits of a pod, including its overhead.
fn total(pod: &Value, field: &str) -> Amounts {
    let spec = at(pod, &["spec"]);
    let mut total = pod_resources::of_pod(spec, field, |container| allotted(pod, container, field));
    let mut overhead = amounts(at(spec, &["overhead"]));
    if field == "limits" {
        overhead.retain(|name, _| total.get(name).is_some_and(|limit| !limit.is_zero()));
    }
    add(&mut total, &overhead);
    total
}

/// Returns the requests of a container, or its allocated resources if those are larger.
fn allotted(pod: &Value, container: &Value, field: &str) -> Amounts {
    let mut needed = amounts(at(container, &["resources", field]));
    let name = text(container, &["name"]);
    let statuses = ["containerStatuses", "initContainerStatuses"];
    let found = statuses
        .iter()
        .flat_map(|list_name| list(pod, &["status", list_name]))
        .find(|status| text(status, &["name"]) == name);
    if let Some(status) = found {
        raise(&mut needed, &amounts(at(status, &["resources", field])));
        if field == "requests" {
            raise(&mut needed, &amounts(at(status, &["allocatedResources"])));
        }
    }
    needed
}

pub(super) fn is_in_scope(pod: &Value, selector: &Selector) -> bool {
    let spec = at(pod, &["spec"]);
    match selector.scope.as_str() {
        "Terminating" => has_deadline(pod),
        "NotTerminating" => !has_deadline(pod),
        "BestEffort" => crate::prepare::qos_class(spec) == "BestEffort",
        "NotBestEffort" => crate::prepare::qos_class(spec) != "BestEffort",
        "PriorityClass" => {
            let class = text(spec, &["priorityClassName"]);
            let classes: &[&str] = if class.is_empty() { &[] } else { &[class] };
            selector.selects(classes)
        }
        "CrossNamespacePodAffinity" => has_cross_namespace_affinity(at(spec, &["affinity"])),
        _ => false,
    }
}

/// Returns true if a pod has affinity to, or anti-affinity from, pods in other namespaces.
fn has_cross_namespace_affinity(affinity: &Value) -> bool {
    let names_others =
        |term: &Value| !is_zero(at(term, &["namespaces"])) || !at(term, &["namespaceSelector"]).is_null();
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let required = list(
            affinity,
            &[kind, "requiredDuringSchedulingIgnoredDuringExecution"],
        );
        let preferred = list(
            affinity,
            &[kind, "preferredDuringSchedulingIgnoredDuringExecution"],
        );
        let preferred = preferred.iter().map(|term| at(term, &["podAffinityTerm"]));
        required.iter().chain(preferred).any(names_others)
    })
}

/// Checks that every container sets the resources that a quota counts, unless the pod sets them at pod level.
pub(super) fn check(names: &[&str], pod: &Value) -> Result<(), String> {
    let spec = at(pod, &["spec"]);
    if pod_resources::has_pod_level(spec) {
        return Ok(());
    }
    let required = || names.iter().filter(|name| REQUIRED.contains(name));
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in ["containers", "initContainers"]
        .iter()
        .flat_map(|field| list(spec, &[field]))
    {
        let resources = |field: &str| amounts(at(container, &["resources", field]));
        let said = computed(&resources("requests"), &resources("limits"));
        for name in required().filter(|name| !said.contains_key(**name)) {
            missing
                .entry(name)
                .or_default()
                .insert(text(container, &["name"]));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.into_iter().map(|(name, containers)| {
        let containers: Vec<&str> = containers.into_iter().collect();
        format!("{name} for: {}", containers.join(","))
    });
    let missing: Vec<String> = missing.collect();
    Err(format!("must specify {}", missing.join("; ")))
}
