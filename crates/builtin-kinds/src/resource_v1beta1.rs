//! `resource.k8s.io/v1beta1`, whose requests and devices have an older form: the fields of an exact request are in the
//! request itself, and those of a device in `basic`. All rules are written for `v1`.

use std::mem;

use serde_json::{Map, Value};

use crate::tree::{Object, existing_object_in, is_zero, objects_in};
use apimachinery::gvk::Gvk;

/// The kinds that differ from those of `v1`.
pub const KINDS: &[Gvk] = &[
    kind("v1beta1", "ResourceClaim"),
    kind("v1beta1", "ResourceClaimTemplate"),
    kind("v1beta1", "ResourceSlice"),
];
const IN_V1: &[Gvk] = &[
    kind("v1", "ResourceClaim"),
    kind("v1", "ResourceClaimTemplate"),
    kind("v1", "ResourceSlice"),
];

const OLDER: &str = "resource.k8s.io/v1beta1";

const fn kind(version: &'static str, kind: &'static str) -> Gvk {
    Gvk {
        group: "resource.k8s.io",
        version,
        kind,
    }
}

/// Fields of a request that are in `exactly` in `v1`. In `v1beta1`, they can be zero as if they were missing.
const SCALARS: [&str; 2] = ["allocationMode", "count"];
const OPTIONAL: [&str; 4] = ["adminAccess", "capacity", "selectors", "tolerations"];
const CLASS: &str = "deviceClassName";

/// Returns the same kind in `v1`, if it differs from that of `v1beta1`.
pub fn v1_kind(gvk: &Gvk) -> Option<&'static Gvk> {
    let index = KINDS.iter().position(|kind| kind == gvk)?;
    IN_V1.get(index)
}

/// Returns an object of one of [`KINDS`] in `v1`.
pub fn in_v1(object: &Value) -> Value {
    let mut object = object.clone();
    convert(&mut object, "resource.k8s.io/v1", request_to_v1, |spec| {
        for name in ["nodeName", "allNodes"] {
            if spec.get(name).is_some_and(is_zero) {
                spec.remove(name);
            }
        }
        for device in objects_in(spec, "devices") {
            let Some(Value::Object(basic)) = device.remove("basic") else {
                continue;
            };
            let is_empty_map = |value: &Value| value.as_object().is_some_and(Map::is_empty);
            device.extend(basic.into_iter().filter(|(_, value)| !is_empty_map(value)));
        }
    });
    object
}

/// Calls a function with the fields of a device of either version.
pub(crate) fn change_device(device: &mut Object, change: impl FnOnce(&mut Object)) {
    match existing_object_in(device, "basic") {
        Some(basic) => change(basic),
        None => change(device),
    }
}

/// Returns an object of `v1` in `v1beta1`.
pub fn from_v1(object: &Value) -> Value {
    let mut object = object.clone();
    convert(&mut object, OLDER, request_from_v1, |spec| {
        for device in objects_in(spec, "devices") {
            let name = device.remove("name");
            let basic = mem::take(device);
            device.extend(name.map(|name| ("name".to_owned(), name)));
            device.insert("basic".to_owned(), basic.into());
        }
    });
    object
}

/// Converts an object between the versions; returns `None` if its kind is the same in both.
pub fn convert_kind(object: &Value, version: &str) -> Option<Value> {
    let kind = object.get("kind").and_then(Value::as_str)?;
    let from_older = object.get("apiVersion").is_some_and(|own| own == OLDER);
    let is_older = version == OLDER;
    if from_older == is_older || !KINDS.iter().any(|known| known.kind == kind) {
        return None;
    }
    let mut converted = if is_older { from_v1(object) } else { in_v1(object) };
    if let Some(root) = converted.as_object_mut() {
        root.insert("apiVersion".to_owned(), version.into());
    }
    Some(converted)
}

type Change = fn(&mut Object);

fn convert(object: &mut Value, api_version: &str, request: Change, slice: Change) {
    let Some(root) = object.as_object_mut() else {
        return;
    };
    root.insert("apiVersion".to_owned(), api_version.into());
    let is_slice = root.get("kind").is_some_and(|kind| kind == "ResourceSlice");
    if api_version == OLDER {
        omit_access(root);
    }
    let Some(spec) = existing_object_in(root, "spec") else {
        return;
    };
    if is_slice {
        return slice(spec);
    }
    let claim = if spec.contains_key("spec") {
        existing_object_in(spec, "spec")
    } else {
        Some(spec)
    };
    if let Some(devices) = claim.and_then(|spec| existing_object_in(spec, "devices")) {
        objects_in(devices, "requests").for_each(request);
    }
}

/// Removes the missing access of results, which only `v1` writes as null.
fn omit_access(claim: &mut Object) {
    let status = existing_object_in(claim, "status");
    let allocation = status.and_then(|status| existing_object_in(status, "allocation"));
    if let Some(devices) = allocation.and_then(|allocation| existing_object_in(allocation, "devices")) {
        for result in objects_in(devices, "results") {
            if result.get("adminAccess").is_some_and(Value::is_null) {
                result.remove("adminAccess");
            }
        }
    }
}

fn request_to_v1(request: &mut Object) {
    let mut exactly = Map::new();
    for name in SCALARS {
        exactly.extend(request.remove_entry(name).filter(|(_, value)| !is_zero(value)));
    }
    for name in OPTIONAL {
        exactly.extend(request.remove_entry(name).filter(|(_, value)| !value.is_null()));
    }
    let class = request.remove_entry(CLASS).filter(|(_, value)| is_text(value));
    if !exactly.is_empty() || class.is_some() {
        // The name of the class is required in v1.
        let class = class.unwrap_or_else(|| (CLASS.to_owned(), "".into()));
        exactly.extend([class]);
        request.insert("exactly".to_owned(), exactly.into());
    }
}

fn request_from_v1(request: &mut Object) {
    if let Some(Value::Object(exactly)) = request.remove("exactly") {
        request.extend(exactly);
    }
    request.entry(CLASS).or_insert_with(|| "".into());
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn both(kind: &'static str, older: &Value, v1: &Value) {
        let with = |version: &str, spec: &Value| json!({"apiVersion": format!("resource.k8s.io/{version}"), "kind": kind, "spec": spec});
        let (older, v1) = (with("v1beta1", older), with("v1", v1));
        assert_eq!(in_v1(&older), v1);
        assert_eq!(from_v1(&v1), older);
    }

    #[test]
    fn requests_have_their_fields_in_exactly() {
        let older = json!({"devices": {"requests": [
            {"name": "a", "deviceClassName": "gpu", "count": 2, "adminAccess": false},
            {"name": "b", "deviceClassName": "", "firstAvailable": [{"name": "c", "deviceClassName": "nic"}]},
        ]}});
        let v1 = json!({"devices": {"requests": [
            {"name": "a", "exactly": {"deviceClassName": "gpu", "count": 2, "adminAccess": false}},
            {"name": "b", "firstAvailable": [{"name": "c", "deviceClassName": "nic"}]},
        ]}});
        both("ResourceClaim", &older, &v1);
        both(
            "ResourceClaimTemplate",
            &json!({"spec": older}),
            &json!({"spec": v1}),
        );
    }

    #[test]
    fn a_request_without_a_class_has_an_empty_one_in_v1() {
        let older = json!({"devices": {"requests": [{"name": "a", "deviceClassName": "", "selectors": []}]}});
        let v1 = json!({"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "", "selectors": []}}]}});
        both("ResourceClaim", &older, &v1);
    }

    #[test]
    fn devices_have_their_fields_in_basic() {
        let older = json!({"driver": "d", "devices": [{"name": "a", "basic": {"nodeName": "n"}}, {"name": "b", "basic": {}}]});
        let v1 = json!({"driver": "d", "devices": [{"name": "a", "nodeName": "n"}, {"name": "b"}]});
        both("ResourceSlice", &older, &v1);
    }

    #[test]
    fn other_kinds_are_the_same_in_both_versions() {
        assert_eq!(v1_kind(&super::kind("v1beta1", "DeviceClass")), None);
        assert_eq!(v1_kind(&super::kind("v1", "ResourceClaim")), None);
        assert_eq!(v1_kind(&KINDS[2]), Some(&IN_V1[2]));
    }
}
