//! The usage of claims for volumes and for devices.

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::scope::Selector;
use crate::pod_resources::Amounts;
use crate::tree::{at, list, text};

const BY_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
const BY_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The annotation with the class of a claim, which preceded the field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// The maximum number of devices for a claim to all devices of a class.
const DEVICES_MAX: usize = 32;

// === volumes ===

pub(super) fn covers(name: &str) -> bool {
    let resource = name
        .split_once(BY_STORAGE_CLASS)
        .map_or(name, |(_, resource)| resource);
    matches!(resource, "persistentvolumeclaims" | "requests.storage")
}

pub(super) fn usage(claim: &Value) -> Amounts {
    let mut usage = Amounts::from([("persistentvolumeclaims".to_owned(), Quantity::from(1))]);
    if let Some(storage) = storage(claim) {
        usage.insert("requests.storage".to_owned(), storage);
    }
    let class = match at(claim, &["metadata", "annotations", CLASS_ANNOTATION]).as_str() {
        Some(class) => class,
        None => text(claim, &["spec", "storageClassName"]),
    };
    if !class.is_empty() {
        let by_class = |(name, amount): (&String, &Quantity)| {
            (format!("{class}{BY_STORAGE_CLASS}{name}"), amount.clone())
        };
        usage.extend(usage.iter().map(by_class).collect::<Vec<_>>());
    }
    usage
}

/// Returns the request of a claim, or its capacity if that is larger, in whole bytes.
fn storage(claim: &Value) -> Option<Quantity> {
    let amount = |path: &[&str]| Quantity::from_json(at(claim, path)).ok();
    let requested = amount(&["spec", "resources", "requests", "storage"])?;
    let allocated = amount(&["status", "allocatedResources", "storage"]);
    let greater = allocated.filter(|allocated| *allocated > requested);
    Some(greater.unwrap_or(requested).rounded_up())
}

pub(super) fn is_in_scope(claim: &Value, selector: &Selector) -> bool {
    selector.scope == "VolumeAttributesClass" && selector.selects(&classes(claim))
}

/// Returns the VolumeAttributesClasses of a claim: requested, current and target.
pub(super) fn classes(claim: &Value) -> Vec<&str> {
    let paths: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    let names = paths.iter().map(|path| text(claim, path));
    names.filter(|name| !name.is_empty()).collect()
}

// === devices ===

pub(super) fn is_of_device_class(name: &str) -> bool {
    name.ends_with(BY_DEVICE_CLASS)
}

/// Returns the maximum number of devices of each class that a claim may get.
pub(super) fn devices(claim: &Value) -> Amounts {
    let mut total: BTreeMap<String, usize> = BTreeMap::new();
    for request in list(claim, &["spec", "devices", "requests"]) {
        let alternatives = list(request, &["firstAvailable"]);
        let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
        let exact = at(request, &["exactly"]);
        let exact = if exact.is_null() { request } else { exact };
        let all = if alternatives.is_empty() {
            std::slice::from_ref(exact)
        } else {
            alternatives
        };
        for request in all {
            let class = format!("{}{BY_DEVICE_CLASS}", text(request, &["deviceClassName"]));
            let most = wanted.entry(class).or_default();
            *most = (*most).max(count(request));
        }
        for (class, count) in wanted {
            *total.entry(class).or_default() += count;
        }
    }
    total
        .into_iter()
        .map(|(class, count)| (class, Quantity::from(count)))
        .collect()
}

fn count(request: &Value) -> usize {
    match text(request, &["allocationMode"]) {
        "All" => DEVICES_MAX,
        "ExactCount" => at(request, &["count"])
            .as_u64()
            .map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX)),
        _ => 0,
    }
}
