//! Validates the volumes of a pod.

use std::collections::{HashMap, HashSet};

use apimachinery::field::Path;
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::check::{Check, descending_path};
use super::volume_source::{self, Owner};
use super::{container, storage, template_metadata};
use crate::tree::{at, list, text};

/// All volume sources, in the API server's order.
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
    "configMap",
    "azureFile",
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

/// Checks the volumes of a pod; returns the mountable ones, with true for each claim.
pub(super) fn volumes(check: &mut Check, spec: &Value, path: &Path) -> HashMap<String, bool> {
    let mut known = HashMap::new();
    for (index, volume) in list(spec, &["volumes"]).iter().enumerate() {
        let path = path.index(index);
        let before = check.errors.len();
        source(check, volume, &path);
        check.required_form(volume, &path, "name", names::dns1123_label);
        let name = text(volume, &["name"]);
        if known.contains_key(name) {
            check.duplicate(path.child("name"), &name.into());
        }
        if check.errors.len() == before {
            let is_claim = ["persistentVolumeClaim", "ephemeral"]
                .iter()
                .any(|source| !at(volume, &[source]).is_null());
            known.insert(name.to_owned(), is_claim);
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
        check.forbidden(path.child(volume_source::additional(other)), TOO_MANY);
    }
}

/// Validates the sources that only pods support; other sources are validated by [`volume_source`].
fn rules(check: &mut Check, name: &str, source: &Value, path: &Path) {
    match name {
        "persistentVolumeClaim" => check.required_text(source, path, "claimName"),
        "image" => {
            // Controllers may complete pod templates.
            if path.to_string().starts_with("spec.volumes") {
                check.required_text(source, path, "reference");
            }
            let policies = ["Always", "IfNotPresent", "Never"];
            check.optional_one_of(source, path, "pullPolicy", &policies);
        }
        "emptyDir" => {
            let limit = Quantity::from_json(at(source, &["sizeLimit"]));
            if limit.is_ok_and(|limit| limit.is_negative()) {
                let why = "SizeLimit field must be a valid resource quantity";
                check.forbidden(path.child("sizeLimit"), why);
            }
        }
        "gitRepo" => {
            check.required_text(source, path, "repository");
            descending_path(check, text(source, &["directory"]), &path.child("directory"));
        }
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
                let metadata = at(template, &["metadata"]);
                template_metadata::validate(check, metadata, &path.child("metadata"));
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

/// Checks the keys that are projected to files.
fn files(check: &mut Check, source: &Value, path: &Path) {
    mode(check, source, path, "defaultMode");
    for (index, item) in list(source, &["items"]).iter().enumerate() {
        let path = path.child("items").index(index);
        check.required_text(item, &path, "key");
        file_path(check, item, &path);
        mode(check, item, &path, "mode");
    }
}

pub(super) fn file_path(check: &mut Check, item: &Value, path: &Path) {
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
    downward_items(check, source, path);
}

/// Checks the files of a downward API volume. The API server reports the volume, and not the item, in the errors.
fn downward_items(check: &mut Check, source: &Value, path: &Path) {
    for item in list(source, &["items"]) {
        file_path(check, item, path);
        let (field, resource) = (at(item, &["fieldRef"]), at(item, &["resourceFieldRef"]));
        if field.is_object() {
            container::field_reference(check, field, &path.child("fieldRef"), container::VOLUME_FIELDS);
            if resource.is_object() {
                check.invalid(
                    path.clone(),
                    &"resource".into(),
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                );
            }
        } else if resource.is_object() {
            let path = path.child("resourceFieldRef");
            if text(resource, &["containerName"]).is_empty() {
                check.required(path.child("containerName"), "");
            } else {
                container::resource_reference(check, resource, &path);
            }
        } else {
            check.required(path.clone(), "one of fieldRef and resourceFieldRef is required");
        }
        mode(check, item, path, "mode");
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

const ONE_PROJECTION: &str = "may not specify more than 1 volume type per source";

fn projected(check: &mut Check, source: &Value, path: &Path) {
    mode(check, source, path, "defaultMode");
    let mut paths = HashSet::new();
    for (index, projection) in list(source, &["sources"]).iter().enumerate() {
        let item = path.child("sources").index(index);
        let given = PROJECTIONS
            .iter()
            .filter(|name| !at(projection, &[name]).is_null());
        let mut number = 0;
        for name in given {
            if number > 0 && *name != "serviceAccountToken" {
                check.forbidden(item.clone(), ONE_PROJECTION);
                continue;
            }
            number += 1;
            let value = at(projection, &[name]);
            match *name {
                "secret" | "configMap" => {
                    check.required_text(value, &item.child(name), "name");
                    files(check, value, &item.child(name));
                }
                "downwardAPI" => downward_items(check, value, &item.child(name)),
                "serviceAccountToken" => token(check, value, &item.child(name), path),
                _ => {}
            }
            let own = std::slice::from_ref(value);
            let files = if *name == "serviceAccountToken" {
                own
            } else {
                list(value, &["items"])
            };
            for file in files.iter().map(|file| text(file, &["path"])) {
                if !file.is_empty() && !paths.insert(file) {
                    let shown = match *name {
                        "secret" | "configMap" => text(value, &["name"]),
                        _ => file,
                    };
                    check.invalid(path.clone(), &shown.into(), "conflicting duplicate paths");
                }
            }
        }
        // A token after another source is validated first.
        if number > 1 {
            check.forbidden(item, ONE_PROJECTION);
        }
    }
}

/// Checks that a pod without a service account uses no tokens.
pub(super) fn no_tokens(check: &mut Check, spec: &Value, path: &Path) {
    for (index, volume) in list(spec, &["volumes"]).iter().enumerate() {
        let path = path.index(index).child("projected").child("sources");
        for (index, source) in list(volume, &["projected", "sources"]).iter().enumerate() {
            if !at(source, &["serviceAccountToken"]).is_null() {
                check.forbidden(
                    path.index(index).child("serviceAccountToken"),
                    "must not be specified when serviceAccountName is not set",
                );
            }
        }
    }
}

fn token(check: &mut Check, source: &Value, path: &Path, volume: &Path) {
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
    // The API server reports the volume here.
    file_path(check, source, volume);
}
