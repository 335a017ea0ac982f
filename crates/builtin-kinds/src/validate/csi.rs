//! Validates CSIDrivers and CSINodes.

use std::collections::BTreeSet;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::{Check, GoPrint, render_go};
use super::volume_source;
use crate::tree::{at, by_name, list, text};

pub(super) fn csi_driver(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    for field in ["attachRequired", "podInfoOnMount", "storageCapacity"] {
        if at(spec, &[field]).is_null() {
            check.required(path.child(field), "");
        }
    }
    check.optional_one_of(
        spec,
        &path,
        "fsGroupPolicy",
        &["File", "None", "ReadWriteOnceWithFSType"],
    );
    token_requests(check, spec, &path);
    for mode in list(spec, &["volumeLifecycleModes"]) {
        if !["Ephemeral", "Persistent"].contains(&mode.as_str().unwrap_or_default()) {
            let path = path.child("volumeLifecycleModes");
            let error = Error::not_supported(path, mode, &["Persistent", "Ephemeral"]);
            check.errors.push(error);
        }
    }
    let period = at(spec, &["nodeAllocatableUpdatePeriodSeconds"]);
    if period.as_i64().is_some_and(|seconds| seconds < 10) {
        let why = "must be greater than or equal to 10 seconds";
        check.invalid(path.child("nodeAllocatableUpdatePeriodSeconds"), period, why);
    }
    let field = "serviceAccountTokenInSecrets";
    let value = at(spec, &[field]);
    if !value.is_null() && list(spec, &["tokenRequests"]).is_empty() {
        let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        check.invalid(path.child(field), value, why);
    }
}

/// The minimum and the maximum lifetime of a token, in seconds.
const TOKEN_SECONDS: (i64, i64) = (600, 1 << 32);

fn token_requests(check: &mut Check, spec: &Value, path: &Path) {
    let requests = list(spec, &["tokenRequests"]);
    let mut seen = BTreeSet::new();
    for (index, request) in requests.iter().enumerate() {
        let path = path.child("tokenRequests").index(index);
        let audience = text(request, &["audience"]);
        if !seen.insert(audience) {
            check.duplicate(path.child("audience"), &audience.into());
            continue;
        }
        let seconds = at(request, &["expirationSeconds"]);
        let (min, max) = TOKEN_SECONDS;
        let why = match seconds.as_i64() {
            Some(value) if value < min => "may not specify a duration less than 10 minutes",
            Some(value) if value > max => "may not specify a duration larger than 2^32 seconds",
            _ => continue,
        };
        check.invalid(path.child("expirationSeconds"), seconds, why);
    }
}

/// Checks that the attachment and lifecycle modes of a driver are unchanged.
pub(super) fn csi_driver_update(check: &mut Check, object: &Value, old: &Value) {
    csi_driver(check, object);
    let spec = Path::new("spec");
    for (field, shown) in [
        ("attachRequired", "attachedRequired"),
        ("volumeLifecycleModes", "volumeLifecycleModes"),
    ] {
        let path = spec.child(shown);
        check.immutable(at(object, &["spec", field]), at(old, &["spec", field]), path);
    }
}

/// The maximum length of a node ID of a CSI driver.
const NODE_ID_MAX: usize = 256;

pub(super) fn csi_node(check: &mut Check, object: &Value) {
    let path = Path::new("spec").child("drivers");
    let mut seen = BTreeSet::new();
    for (index, driver) in list(object, &["spec", "drivers"]).iter().enumerate() {
        let path = path.index(index);
        volume_source::csi_driver(check, driver, &path, "name");
        let id = text(driver, &["nodeID"]);
        if id.is_empty() {
            check.required(path.child("nodeID"), "");
        }
        if id.len() > NODE_ID_MAX {
            let why = format!("must be {NODE_ID_MAX} characters or less");
            check.invalid(path.child("nodeID"), &id.into(), why);
        }
        check.non_negative(at(driver, &["allocatable"]), &path.child("allocatable"), "count");
        if !seen.insert(text(driver, &["name"])) {
            check.duplicate(path.child("name"), at(driver, &["name"]));
        }
        topology_keys(check, driver, &path);
    }
}

fn topology_keys(check: &mut Check, driver: &Value, path: &Path) {
    let mut seen = BTreeSet::new();
    for key in list(driver, &["topologyKeys"]) {
        let key = key.as_str().unwrap_or_default();
        if key.is_empty() {
            check.required(path.clone(), "");
        }
        if !seen.insert(key) {
            check.duplicate(path.clone(), &key.into());
        }
        for fault in names::qualified_name(key) {
            check.invalid(path.clone(), &key.into(), fault);
        }
    }
}

const CSI_NODE_DRIVER: &[GoPrint] = &[
    GoPrint("Name", "name", &[]),
    GoPrint("NodeID", "nodeID", &[]),
    GoPrint("TopologyKeys", "topologyKeys", &[]),
    GoPrint("Allocatable", "allocatable", &[]),
];

/// Checks that the properties of a driver on a node are unchanged.
pub(super) fn csi_node_update(check: &mut Check, object: &Value, old: &Value) {
    csi_node(check, object);
    let known = by_name(list(old, &["spec", "drivers"]));
    for driver in list(object, &["spec", "drivers"]) {
        let before = known.get(text(driver, &["name"]));
        // The number of allocatable volumes of a driver may change.
        let fixed = |driver: &Value| {
            let mut driver = driver.clone();
            if let Some(fields) = driver.as_object_mut() {
                fields.remove("allocatable");
            }
            driver
        };
        if before.is_some_and(|before| fixed(before) != fixed(driver)) {
            let shown = render_go(&fixed(driver), CSI_NODE_DRIVER);
            check.invalid_text(Path::new("spec").child("drivers"), shown, "field is immutable");
        }
    }
}
