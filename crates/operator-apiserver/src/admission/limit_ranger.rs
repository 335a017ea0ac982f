//! LimitRanger: sets default requests and limits from the namespace, and rejects containers and volume claims outside
//! its bounds.

use std::collections::HashSet;
use std::sync::Arc;

use apimachinery::object;
use apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use super::Operation;
use super::attributes::Attributes;
use crate::admission::Admission;
use crate::status::Status;
use crate::store::{Listing, Stored};
use crate::write::Write;
use builtin_kinds::pod_resources::{self, Amounts, amounts};
use builtin_kinds::tree::{at, entries, list, text};

const TABLE: &str = "limitranges";
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The limited part of an object.
#[derive(Clone, Copy)]
enum Limited {
    Pod,
    Claim,
}

/// Returns the limited part of a write, if any. For a pod, only the subresource `resize` can change it.
fn limited(write: &Write, operation: Operation, old: Option<&Value>) -> Option<Limited> {
    if old.is_some_and(object::is_terminating) {
        return None;
    }
    let is_create = operation == Operation::Create;
    match write.subresource.as_str() {
        "" if write.definition.is("", "pods") && is_create => Some(Limited::Pod),
        "resize" if write.definition.is("", "pods") && !is_create => Some(Limited::Pod),
        "" if write.definition.is("", "persistentvolumeclaims") => Some(Limited::Claim),
        _ => None,
    }
}

fn ranges(admission: &Admission, write: &Write) -> Listing {
    admission
        .store
        .list(TABLE, &write.definition.key_prefix(&write.namespace))
}

// === defaults ===

/// Sets the defaults of the containers of a pod.
pub(super) fn default(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    pod: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if !matches!(limited(write, operation, old), Some(Limited::Pod)) {
        return Ok(());
    }
    let ranges = ranges(admission, write).objects;
    check_work(&ranges, pod).map_err(|why| write.forbidden(Some(pod), &why))?;
    for range in ranges {
        default_pod(&range.value, pod);
    }
    Ok(())
}

/// The maximum number of values that the containers of a pod are given and compared with.
const COMBINATIONS_MAX: usize = 100_000;

/// Checks how often values of limit ranges are used for the containers of a pod.
fn check_work(ranges: &[Arc<Stored>], pod: &Value) -> Result<(), String> {
    let spec = at(pod, &["spec"]);
    let containers = list(spec, &["containers"]).len() + list(spec, &["initContainers"]).len();
    let fields = ["default", "defaultRequest", "min", "max", "maxLimitRequestRatio"];
    let values: usize = ranges
        .iter()
        .flat_map(|range| list(&range.value, &["spec", "limits"]))
        .filter(|limit| text(limit, &["type"]) == "Container")
        .map(|limit| -> usize { fields.iter().map(|field| entries(limit, &[field]).count()).sum() })
        .sum();
    let combinations = values.saturating_mul(containers);
    if combinations <= COMBINATIONS_MAX {
        return Ok(());
    }
    Err(format!(
        "the limit ranges of the namespace have too many values for the containers of the pod: {combinations} combinations, of which at most {COMBINATIONS_MAX} are checked"
    ))
}

fn default_pod(range: &Value, pod: &mut Value) {
    let limits = list(range, &["spec", "limits"]).iter();
    let defaults: Vec<&Value> = limits
        .filter(|limit| text(limit, &["type"]) == "Container")
        .collect();
    let mut done = Vec::new();
    for (field, called) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = object::child_mut(pod, "spec")
            .get_mut(field)
            .and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            for (field, from, what) in [
                ("requests", "defaultRequest", "request"),
                ("limits", "default", "limit"),
            ] {
                let given = fill(container, field, &defaults, from);
                if !given.is_empty() {
                    let name = text(container, &["name"]);
                    done.push(format!("{} {what} for {called} {name}", given.join(", ")));
                }
            }
        }
    }
    if !done.is_empty() {
        let annotations = object::metadata_mut(pod)
            .entry("annotations".to_owned())
            .or_insert(Value::Null);
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[ANNOTATION] = format!("LimitRanger plugin set: {}", done.join("; ")).into();
    }
}

/// Sets the missing quantities of a container; returns their names.
fn fill(container: &mut Value, field: &str, defaults: &[&Value], from: &str) -> Vec<String> {
    let mut given = Vec::new();
    for (name, quantity) in defaults.iter().flat_map(|limit| entries(limit, &[from])) {
        if at(container, &["resources", field, name]).is_null() {
            let resources = object::child_mut(container, "resources");
            let quantities = resources.entry(field.to_owned()).or_insert(Value::Null);
            if !quantities.is_object() {
                *quantities = json!({});
            }
            quantities[name.as_str()] = quantity.clone();
            given.push(name.clone());
        }
    }
    given.sort();
    given
}

// === bounds ===

/// Rejects values outside the bounds of the namespace.
pub(super) fn check(attributes: &Attributes<'_>) -> Result<(), Status> {
    let (write, operation) = (attributes.write, attributes.operation);
    let Some((limited, object)) = limited(write, operation, attributes.old).zip(attributes.object) else {
        return Ok(());
    };
    let ranges = ranges(attributes.admission, write).objects;
    if matches!(limited, Limited::Pod) {
        check_work(&ranges, object).map_err(|why| attributes.forbidden(&why))?;
    }
    for range in ranges {
        let mut faults = Vec::new();
        for limit in list(&range.value, &["spec", "limits"]) {
            check_limit(limited, limit, object, &mut faults);
        }
        let mut seen = HashSet::new();
        let mut once = faults;
        once.retain(|fault| seen.insert(fault.clone()));
        match once.as_slice() {
            [] => {}
            [fault] => return Err(attributes.forbidden(fault)),
            faults => return Err(attributes.forbidden(&format!("[{}]", faults.join(", ")))),
        }
    }
    Ok(())
}

fn check_limit(limited: Limited, limit: &Value, object: &Value, faults: &mut Vec<String>) {
    let of = |container: &Value, field: &str| amounts(at(container, &["resources", field]));
    let spec = at(object, &["spec"]);
    match (limited, text(limit, &["type"])) {
        (Limited::Pod, "Container") => {
            for container in ["containers", "initContainers"]
                .iter()
                .flat_map(|field| list(spec, &[field]))
            {
                let needs = [of(container, "requests"), of(container, "limits")];
                check_bounds(limit, &NEEDS, &needs, faults);
            }
        }
        (Limited::Pod, "Pod") => {
            let needs = ["requests", "limits"]
                .map(|field| pod_resources::of_pod(spec, field, |container| of(container, field)));
            check_bounds(limit, &NEEDS, &needs, faults);
        }
        (Limited::Claim, "PersistentVolumeClaim") => {
            let needs = [of(spec, "requests"), Amounts::default()];
            check_bounds(limit, &CLAIM, &needs, faults);
        }
        _ => {}
    }
}

type Amount<'a> = Option<&'a Quantity>;

/// Checks a request and a limit of a resource: its name, the type of the entry, and the bound.
type Bound = fn(&str, &str, &Quantity, Amount<'_>, Amount<'_>) -> Option<String>;

const NEEDS: [(&str, Bound); 3] = [
    ("min", too_small),
    ("max", too_great),
    ("maxLimitRequestRatio", too_far_apart),
];

/// The bounds of claims, which have only requests.
const CLAIM: [(&str, Bound); 2] = [("min", too_small), ("max", too_great_a_claim)];

fn check_bounds(
    limit: &Value,
    checks: &[(&str, Bound)],
    [requests, limits]: &[Amounts; 2],
    faults: &mut Vec<String>,
) {
    let kind = text(limit, &["type"]);
    for (field, check) in checks {
        for (name, bound) in amounts(at(limit, &[field])) {
            faults.extend(check(&name, kind, &bound, requests.get(&name), limits.get(&name)));
        }
    }
}

fn too_small(
    name: &str,
    kind: &str,
    bound: &Quantity,
    request: Amount<'_>,
    limit: Amount<'_>,
) -> Option<String> {
    let says = format!("minimum {name} usage per {kind} is {bound}");
    match (request, limit) {
        (None, _) => Some(format!("{says}.  No request is specified")),
        (Some(request), _) if request < bound => Some(format!("{says}, but request is {request}")),
        (_, Some(limit)) if limit < bound => Some(format!("{says}, but limit is {limit}")),
        _ => None,
    }
}

fn too_great(
    name: &str,
    kind: &str,
    bound: &Quantity,
    request: Amount<'_>,
    limit: Amount<'_>,
) -> Option<String> {
    let says = format!("maximum {name} usage per {kind} is {bound}");
    match (request, limit) {
        (_, None) => Some(format!("{says}.  No limit is specified")),
        (_, Some(limit)) if limit > bound => Some(format!("{says}, but limit is {limit}")),
        (Some(request), _) if request > bound => Some(format!("{says}, but request is {request}")),
        _ => None,
    }
}

fn too_great_a_claim(
    name: &str,
    kind: &str,
    bound: &Quantity,
    request: Amount<'_>,
    _: Amount<'_>,
) -> Option<String> {
    let says = format!("maximum {name} usage per {kind} is {bound}");
    match request {
        None => Some(format!("{says}.  No request is specified")),
        Some(request) if request > bound => Some(format!("{says}, but request is {request}")),
        _ => None,
    }
}

fn too_far_apart(
    name: &str,
    kind: &str,
    bound: &Quantity,
    request: Amount<'_>,
    limit: Amount<'_>,
) -> Option<String> {
    let says = format!("{name} max limit to request ratio per {kind} is {bound}, but");
    let some = |amount: Amount<'_>| amount.filter(|amount| !amount.is_zero()).cloned();
    let (Some(request), limit) = (some(request), some(limit)) else {
        return Some(format!("{says} no request is specified or request is 0"));
    };
    let Some(limit) = limit else {
        return Some(format!("{says} no limit is specified or limit is 0"));
    };
    let scale = Quantity::common_scale(&[&request, &limit, bound]);
    let ratio = limit.scaled_value(scale) as f64 / request.scaled_value(scale) as f64;
    let (factor, most) = match Quantity::common_scale(&[bound]) {
        0 => (1.0, bound.scaled_value(0)),
        scale => (1000.0, bound.scaled_value(scale)),
    };
    (ratio * factor > most as f64).then(|| format!("{says} provided ratio is {ratio:.6}"))
}
