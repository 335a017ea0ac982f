//! Validates the volume mounts and block devices of containers.

use std::collections::{HashMap, HashSet};

use apimachinery::field::Path;
use serde_json::Value;

use super::check::{Check, descending_path};
use crate::tree::{at, list, text};

/// The mountable volumes of a pod, with true for each claim.
type Volumes = HashMap<String, bool>;

fn values<'a>(container: &'a Value, of: &str, field: &str) -> HashSet<&'a str> {
    let items = list(container, &[of]).iter();
    items.map(|item| text(item, &[field])).collect()
}

/// Checks the mounts of a container; `path` is the container's.
pub(super) fn mounts(check: &mut Check, container: &Value, path: &Path, volumes: &Volumes) {
    let path = path.child("volumeMounts");
    let devices = values(container, "volumeDevices", "name");
    let device_paths = values(container, "volumeDevices", "devicePath");
    let mut seen = HashSet::new();
    for (index, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
        let item = path.index(index);
        let name = text(mount, &["name"]);
        if name.is_empty() {
            check.required(item.child("name"), "");
        }
        if !volumes.contains_key(name) {
            check.not_found(item.child("name"), &name.into(), "");
        }
        let mount_path = text(mount, &["mountPath"]);
        if mount_path.is_empty() {
            check.required(item.child("mountPath"), "");
        }
        if !seen.insert(mount_path) {
            check.invalid(item.child("mountPath"), &mount_path.into(), "must be unique");
        }
        if devices.contains(name) {
            let why = "must not already exist in volumeDevices";
            check.invalid(item.child("name"), &name.into(), why);
        }
        if device_paths.contains(mount_path) {
            let why = "must not already exist as a path in volumeDevices";
            check.invalid(item.child("mountPath"), &mount_path.into(), why);
        }
        // The API server reports the list, not the item, in the errors of these fields.
        let (sub_path, expression) = (text(mount, &["subPath"]), text(mount, &["subPathExpr"]));
        descending_path(check, sub_path, &path.child("subPath"));
        if !sub_path.is_empty() && !expression.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            check.invalid(item.child("subPathExpr"), &expression.into(), why);
        }
        descending_path(check, expression, &path.child("subPathExpr"));
        propagation(check, container, mount, &path);
        recursive_read_only(check, mount, &path);
    }
}

fn propagation(check: &mut Check, container: &Value, mount: &Value, path: &Path) {
    let modes = ["Bidirectional", "HostToContainer", "None"];
    check.optional_one_of(mount, path, "mountPropagation", &modes);
    let privileged = at(container, &["securityContext", "privileged"]) == &Value::Bool(true);
    if text(mount, &["mountPropagation"]) == "Bidirectional" && !privileged {
        let why = "Bidirectional mount propagation is available only to privileged containers";
        check.forbidden(path.child("mountPropagation"), why);
    }
}

fn recursive_read_only(check: &mut Check, mount: &Value, path: &Path) {
    let field = "recursiveReadOnly";
    check.optional_one_of(mount, path, field, &["Disabled", "Enabled", "IfPossible"]);
    if !matches!(text(mount, &[field]), "Enabled" | "IfPossible") {
        return;
    }
    if at(mount, &["readOnly"]) != &Value::Bool(true) {
        check.forbidden(path.child(field), "may only be specified when readOnly is true");
    }
    if !matches!(at(mount, &["mountPropagation"]).as_str(), None | Some("None")) {
        let why = "may only be specified when mountPropagation is None or not specified";
        check.forbidden(path.child(field), why);
    }
}

/// Checks the devices of a container.
pub(super) fn devices(check: &mut Check, container: &Value, path: &Path, volumes: &Volumes) {
    let mounts = values(container, "volumeMounts", "name");
    let mount_paths = values(container, "volumeMounts", "mountPath");
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for (index, device) in list(container, &["volumeDevices"]).iter().enumerate() {
        let path = path.index(index);
        let (of_name, of_path) = (path.child("name"), path.child("devicePath"));
        let (name, device_path) = (text(device, &["name"]), text(device, &["devicePath"]));
        if name.is_empty() {
            check.required(of_name.clone(), "");
        }
        if !name.is_empty() && !names.insert(name) {
            check.invalid(of_name.clone(), &name.into(), "must be unique");
        }
        match volumes.get(name) {
            None => check.not_found(of_name.clone(), &name.into(), ""),
            Some(true) => {}
            Some(false) => check.invalid(
                of_name.clone(),
                &name.into(),
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            ),
        }
        if device_path.is_empty() {
            check.required(of_path.clone(), "");
        }
        if paths.contains(device_path) {
            check.invalid(of_path.clone(), &device_path.into(), "must be unique");
        }
        if device_path.split('/').any(|part| part == "..") {
            let why = "can not contain backsteps ('..')";
            check.invalid(of_path.clone(), &device_path.into(), why);
        } else {
            paths.insert(device_path);
        }
        if mounts.contains(name) {
            let why = "must not already exist in volumeMounts";
            check.invalid(of_name, &name.into(), why);
        }
        if mount_paths.contains(device_path) {
            let why = "must not already exist as a path in volumeMounts";
            check.invalid(of_path, &device_path.into(), why);
        }
    }
}
