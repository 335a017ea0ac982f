//! The volumes of a pod.

use std::collections::HashSet;

use apimachinery::field::Path;
use apimachinery::names;
use serde_json::Value;

use super::check::{Check, descending_path};
use super::volume_source::{self, Owner};
use super::{container, storage};
use crate::tree::{at, list, text};

/// Every volume source, in the order in which the real server looks at them.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "azureFile",
    "configMap",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

const TOO_MANY: &str = "may not specify more than 1 volume type";

/// Checks the volumes of a pod; the names of those that can be mounted.
pub(super) fn volumes(check: &mut Check, spec: &Value, path: &Path) -> HashSet<String> {
    let mut known = HashSet::new();
    for (index, volume) in list(spec, &["volumes"]).iter().enumerate() {
        let path = path.index(index);
        let before = check.errors.len();
        source(check, volume, &path);
        check.required_form(volume, &path, "name", names::dns1123_label);
        let name = text(volume, &["name"]);
        if known.contains(name) {
            check.duplicate(path.child("name"), &name.into());
        }
        if check.errors.len() == before {
            known.insert(name.to_owned());
        }
    }
    known
}

fn source(check: &mut Check, volume: &Value, path: &Path) {
    let mut given = SOURCES.iter().filter(|name| !at(volume, &[name]).is_null());
    let Some(first) = given.next() else {
        check.required(path.clone(), "must specify a volume type");
        return;
    };
    rules(
        check,
        first,
        at(volume, &[first]),
        &path.child(volume_source::shown(first)),
    );
    for other in given {
        check.forbidden(path.child(other), TOO_MANY);
    }
}

/// The rules of the sources that only pods have; the others are those of [`volume_source`].
fn rules(check: &mut Check, name: &str, source: &Value, path: &Path) {
    match name {
        "persistentVolumeClaim" => check.required_text(source, path, "claimName"),
        "image" => check.required_text(source, path, "reference"),
        "secret" | "configMap" => {
            let name = if name == "secret" { "secretName" } else { "name" };
            check.required_text(source, path, name);
            files(check, source, path);
        }
        "downwardAPI" => downward(check, source, path),
        "projected" => projected(check, source, path),
        "ephemeral" => {
            let template = at(source, &["volumeClaimTemplate"]);
            let path = path.child("volumeClaimTemplate");
            if template.is_null() {
                check.required(path, "");
            } else {
                storage::claim_spec(check, at(template, &["spec"]), &path.child("spec"));
            }
        }
        name => volume_source::rules(check, name, source, path, Owner::Pod),
    }
}

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

fn mode(check: &mut Check, source: &Value, path: &Path, field: &str) {
    let value = at(source, &[field]);
    if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        check.invalid(path.child(field), value, MODE);
    }
}

/// Keys that become files.
fn files(check: &mut Check, source: &Value, path: &Path) {
    mode(check, source, path, "defaultMode");
    for (index, item) in list(source, &["items"]).iter().enumerate() {
        let path = path.child("items").index(index);
        check.required_text(item, &path, "key");
        file_path(check, item, &path);
        mode(check, item, &path, "mode");
    }
}

fn file_path(check: &mut Check, item: &Value, path: &Path) {
    check.required_text(item, path, "path");
    let value = text(item, &["path"]);
    let path = path.child("path");
    descending_path(check, value, &path);
    if value.starts_with("..") && !value.split('/').any(|part| part == "..") {
        check.invalid(path, &value.into(), "must not start with '..'");
    }
}

fn downward(check: &mut Check, source: &Value, path: &Path) {
    mode(check, source, path, "defaultMode");
    for (index, item) in list(source, &["items"]).iter().enumerate() {
        let path = path.child("items").index(index);
        file_path(check, item, &path);
        mode(check, item, &path, "mode");
        let (field, resource) = (at(item, &["fieldRef"]), at(item, &["resourceFieldRef"]));
        match (field.is_object(), resource.is_object()) {
            (true, false) => {
                container::field_reference(check, field, &path.child("fieldRef"), container::VOLUME_FIELDS);
            }
            (false, true) => {
                let path = path.child("resourceFieldRef");
                if text(resource, &["containerName"]).is_empty() {
                    check.required(path.child("containerName"), "");
                } else {
                    container::resource_reference(check, resource, &path);
                }
            }
            (true, true) => check.invalid(
                path,
                &"resource".into(),
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            ),
            (false, false) => check.required(path, "one of fieldRef and resourceFieldRef is required"),
        }
    }
}

const PROJECTIONS: &[&str] = &[
    "secret",
    "downwardAPI",
    "configMap",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
];

fn projected(check: &mut Check, source: &Value, path: &Path) {
    mode(check, source, path, "defaultMode");
    for (index, projection) in list(source, &["sources"]).iter().enumerate() {
        let path = path.child("sources").index(index);
        let mut given = PROJECTIONS
            .iter()
            .filter(|name| !at(projection, &[name]).is_null());
        let Some(name) = given.next() else {
            check.required(path, "must specify a projection type");
            continue;
        };
        for other in given {
            check.forbidden(path.child(other), TOO_MANY);
        }
        let value = at(projection, &[name]);
        let path = path.child(name);
        match *name {
            "secret" | "configMap" => {
                check.required_text(value, &path, "name");
                files(check, value, &path);
            }
            "downwardAPI" => downward(check, value, &path),
            "serviceAccountToken" => token(check, value, &path),
            _ => {}
        }
    }
}

fn token(check: &mut Check, source: &Value, path: &Path) {
    let seconds = at(source, &["expirationSeconds"]);
    match seconds.as_i64() {
        Some(value) if value < 600 => check.invalid(
            path.child("expirationSeconds"),
            seconds,
            "may not specify a duration less than 10 minutes",
        ),
        Some(value) if value > 1 << 32 => check.invalid(
            path.child("expirationSeconds"),
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        ),
        _ => {}
    }
    file_path(check, source, path);
}
