//! Validates the volume sources that both pods and persistent volumes support.

use std::sync::LazyLock;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use regex::Regex;
use serde_json::Value;

use super::check::{Check, no_backsteps};
use crate::tree::{at, entries, list, text};

/// The owner of the source. The texts differ between pods and persistent volumes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Pod,
    PersistentVolume,
}

/// Returns the name of a source in errors.
pub(super) fn shown(name: &str) -> &str {
    match name {
        "gcePersistentDisk" => "persistentDisk",
        name => name,
    }
}

/// Returns the name of a source in the error for more than one source.
pub(super) fn additional(name: &str) -> &str {
    match name {
        "cephfs" => "cephFS",
        "downwardAPI" => "downwarAPI",
        name => name,
    }
}

/// Validates a volume source by its name.
pub(super) fn rules(check: &mut Check, name: &str, source: &Value, path: &Path, owner: Owner) {
    let mut required = |fields: &[&str]| {
        for field in fields {
            check.required_text(source, path, field);
        }
    };
    match name {
        "gcePersistentDisk" => disk(check, source, path, "pdName"),
        "awsElasticBlockStore" => disk(check, source, path, "volumeID"),
        "glusterfs" => {
            required(&["endpoints", "path"]);
            endpoints_namespace(check, source, path);
        }
        "portworxVolume" => required(&["volumeID"]),
        "azureFile" => {
            required(&["secretName", "shareName"]);
            if at(source, &["secretNamespace"]) == "" {
                check.required(path.child("secretNamespace"), "");
            }
        }
        "vsphereVolume" => required(&["volumePath"]),
        "photonPersistentDisk" => required(&["pdID"]),
        "scaleIO" => required(&["gateway", "system", "volumeName"]),
        "azureDisk" => azure_disk(check, source, path),
        "cephfs" => monitors(check, source, path),
        "cinder" => {
            required(&["volumeID"]);
            secret(check, source, path, "secretRef");
            secret_namespace(check, source, path, owner);
        }
        "csi" => csi(check, source, path, owner),
        "fc" => fibre_channel(check, source, path),
        "flexVolume" => flex(check, source, path),
        "flocker" => flocker(check, source, path),
        "hostPath" => host_path(check, source, path),
        "iscsi" => iscsi(check, source, path, owner),
        "local" => {
            required(&["path"]);
            no_backsteps(check, text(source, &["path"]), &path.child("path"));
        }
        "nfs" => nfs(check, source, path),
        "quobyte" => quobyte(check, source, path),
        "rbd" => {
            monitors(check, source, path);
            check.required_text(source, path, "image");
        }
        "storageos" => storage_os(check, source, path, owner),
        _ => {}
    }
}

fn range(check: &mut Check, source: &Value, path: &Path, field: &str, said: (i64, i64)) {
    let value = at(source, &[field]);
    if value.as_i64().is_some_and(|number| !(0..=255).contains(&number)) {
        let (from, to) = said;
        check.invalid(
            path.child(field),
            value,
            format!("must be between {from} and {to}, inclusive"),
        );
    }
}

fn disk(check: &mut Check, source: &Value, path: &Path, id: &str) {
    check.required_text(source, path, id);
    range(check, source, path, "partition", (1, 255));
}

fn monitors(check: &mut Check, source: &Value, path: &Path) {
    if list(source, &["monitors"]).is_empty() {
        check.required(path.child("monitors"), "");
    }
}

/// Checks that the secret of a source has a name.
fn endpoints_namespace(check: &mut Check, source: &Value, path: &Path) {
    let namespace = at(source, &["endpointsNamespace"]);
    if namespace == "" {
        let why = "if the endpointnamespace is set, it must be a valid namespace name";
        check.invalid(path.child("endpointsNamespace"), namespace, why);
    } else {
        check.pointer_form(source, path, "endpointsNamespace", names::dns1123_label);
    }
}

fn secret(check: &mut Check, source: &Value, path: &Path, field: &str) {
    let reference = at(source, &[field]);
    if !reference.is_null() {
        check.required_text(reference, &path.child(field), "name");
    }
}

const AZURE_CACHING: &[&str] = &["None", "ReadOnly", "ReadWrite"];
const AZURE_KINDS: &[&str] = &["Dedicated", "Managed", "Shared"];
const AZURE_MANAGED_URI: &str =
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
const AZURE_BLOB_URI: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";

fn azure_disk(check: &mut Check, source: &Value, path: &Path) {
    check.required_text(source, path, "diskName");
    check.required_text(source, path, "diskURI");
    check.optional_one_of(source, path, "cachingMode", AZURE_CACHING);
    check.optional_one_of(source, path, "kind", AZURE_KINDS);
    if !at(source, &["kind"]).is_string() {
        return;
    }
    let (begin, form) = match text(source, &["kind"]) {
        "Managed" => ("/subscriptions/", AZURE_MANAGED_URI),
        _ => ("https://", AZURE_BLOB_URI),
    };
    let uri = text(source, &["diskURI"]);
    if !uri.starts_with(begin) {
        let error = Error::not_supported(path.child("diskURI"), &uri.into(), &[form]);
        check.errors.push(error);
    }
}

/// The maximum length of the name of a CSI driver.
const DRIVER_MAX: usize = 63;

/// Checks the name of a CSI driver in a field.
pub(super) fn csi_driver(check: &mut Check, parent: &Value, path: &Path, field: &str) {
    let driver = text(parent, &[field]);
    let path = path.child(field);
    if driver.is_empty() {
        return check.required(path, "");
    }
    if driver.len() > DRIVER_MAX {
        check.errors.push(Error::too_long(path.clone(), DRIVER_MAX));
    }
    check.faults(&path, driver, names::dns1123_subdomain(&driver.to_lowercase()));
}

fn csi(check: &mut Check, source: &Value, path: &Path, owner: Owner) {
    csi_driver(check, source, path, "driver");
    if owner == Owner::Pod {
        secret(check, source, path, "nodePublishSecretRef");
        let name = text(source, &["nodePublishSecretRef", "name"]);
        if !name.is_empty() {
            check.faults(&path.child("name"), name, names::dns1123_subdomain(name));
        }
        return;
    }
    check.required_text(source, path, "volumeHandle");
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let reference = at(source, &[field]);
        if reference.is_null() {
            continue;
        }
        for (part, form) in [
            ("name", names::dns1123_subdomain as fn(&str) -> Vec<String>),
            ("namespace", names::dns1123_label),
        ] {
            check.required_form(reference, &path.child(field), part, form);
        }
    }
}

fn fibre_channel(check: &mut Check, source: &Value, path: &Path) {
    let names = at(source, &["targetWWNs"]);
    let (has_names, has_ids) = (
        !list(source, &["targetWWNs"]).is_empty(),
        !list(source, &["wwids"]).is_empty(),
    );
    match (has_names, has_ids) {
        (false, false) => check.required(
            path.child("targetWWNs"),
            "must specify either targetWWNs or wwids, but not both",
        ),
        (true, true) => check.invalid(
            path.child("targetWWNs"),
            names,
            "targetWWNs and wwids can not be specified simultaneously",
        ),
        _ => {}
    }
    if has_names && at(source, &["lun"]).is_null() {
        check.required(path.child("lun"), "lun is required if targetWWNs is specified");
    } else if has_names {
        range(check, source, path, "lun", (0, 255));
    }
}

fn flex(check: &mut Check, source: &Value, path: &Path) {
    check.required_text(source, path, "driver");
    for (key, _) in entries(source, &["options"]) {
        let namespace = key.split('/').next().unwrap_or(key).to_lowercase();
        let normalized = format!(".{namespace}");
        if [".kubernetes.io", ".k8s.io"]
            .iter()
            .any(|reserved| normalized.ends_with(reserved))
        {
            check.invalid(
                path.child("options").key(key),
                &key.as_str().into(),
                "kubernetes.io and k8s.io namespaces are reserved",
            );
        }
    }
}

fn flocker(check: &mut Check, source: &Value, path: &Path) {
    let name = text(source, &["datasetName"]);
    match (name.is_empty(), text(source, &["datasetUUID"]).is_empty()) {
        (true, true) => check.required(path.clone(), "one of datasetName and datasetUUID is required"),
        (false, false) => check.invalid(
            path.clone(),
            &"resource".into(),
            "datasetName and datasetUUID can not be specified simultaneously",
        ),
        _ => {}
    }
    if name.contains('/') {
        check.invalid(path.child("datasetName"), &name.into(), "must not contain '/'");
    }
}

fn host_path(check: &mut Check, source: &Value, path: &Path) {
    if text(source, &["path"]).is_empty() {
        return check.required(path.child("path"), "");
    }
    no_backsteps(check, text(source, &["path"]), &path.child("path"));
    check.optional_one_of(
        source,
        path,
        "type",
        &[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ],
    );
}

static QUALIFIED: LazyLock<[Option<Regex>; 3]> = LazyLock::new(|| {
    [
        r"iqn\.\d{4}-\d{2}\.([[:alnum:].-]+)(:[^,;*&$|\s]+)$",
        r"^eui.[[:alnum:]]{16}$",
        r"^naa.[[:alnum:]]{32}$",
    ]
    .map(|pattern| Regex::new(pattern).ok())
});

/// Returns the error of an iSCSI name.
fn iscsi_fault(name: &str, owner: Owner) -> Option<&'static str> {
    let form = ["iqn", "eui", "naa"]
        .iter()
        .position(|prefix| name.starts_with(prefix));
    let Some(form) = form else {
        return Some(match owner {
            Owner::Pod => "must be valid format starting with iqn, eui, or naa",
            Owner::PersistentVolume => "must be valid format",
        });
    };
    let pattern = QUALIFIED.get(form).and_then(Option::as_ref);
    let fits = pattern.is_some_and(|pattern| pattern.is_match(name));
    (!fits).then_some("must be valid format")
}

fn iscsi(check: &mut Check, source: &Value, path: &Path, owner: Owner) {
    check.required_text(source, path, "targetPortal");
    let name = text(source, &["iqn"]);
    if name.is_empty() {
        check.required(path.child("iqn"), "");
    } else if let Some(fault) = iscsi_fault(name, owner) {
        check.invalid(path.child("iqn"), &name.into(), fault);
    }
    range(check, source, path, "lun", (0, 255));
    let authenticates = ["chapAuthDiscovery", "chapAuthSession"]
        .iter()
        .any(|field| at(source, &[field]) == &Value::Bool(true));
    if authenticates && at(source, &["secretRef"]).is_null() {
        check.required(path.child("secretRef"), "");
    }
    if owner == Owner::PersistentVolume {
        secret(check, source, path, "secretRef");
    }
    let initiator = at(source, &["initiatorName"]);
    if let Some(fault) = initiator.as_str().and_then(|name| iscsi_fault(name, owner)) {
        check.invalid(path.child("initiatorname"), initiator, fault);
    }
}

fn nfs(check: &mut Check, source: &Value, path: &Path) {
    check.required_text(source, path, "server");
    check.required_text(source, path, "path");
    let value = text(source, &["path"]);
    if !value.starts_with('/') {
        check.invalid(path.child("path"), &value.into(), "must be an absolute path");
    }
}

const REGISTRY: &str = "must be a host:port pair or multiple pairs separated by commas";
const TENANT_MAX: usize = 64;

fn quobyte(check: &mut Check, source: &Value, path: &Path) {
    let registry = text(source, &["registry"]);
    if registry.is_empty() {
        check.required(path.child("registry"), REGISTRY);
    } else if text(source, &["tenant"]).len() > TENANT_MAX {
        check.required(
            path.child("tenant"),
            "must be a UUID and may not exceed a length of 64 characters",
        );
    } else {
        let is_pair = |pair: &&str| pair.matches(':').count() == 1 || pair.contains("]:");
        for _ in registry.split(',').filter(|pair| !is_pair(pair)) {
            check.invalid(path.child("registry"), &registry.into(), REGISTRY);
        }
    }
    check.required_text(source, path, "volume");
}

fn storage_os(check: &mut Check, source: &Value, path: &Path, owner: Owner) {
    check.required_form(source, path, "volumeName", names::dns1123_label);
    check.optional_form(source, path, "volumeNamespace", names::dns1123_label);
    secret(check, source, path, "secretRef");
    secret_namespace(check, source, path, owner);
}

/// Checks the namespace of the secret reference of a persistent volume, which is cluster-scoped.
fn secret_namespace(check: &mut Check, source: &Value, path: &Path, owner: Owner) {
    let reference = at(source, &["secretRef"]);
    if owner == Owner::PersistentVolume && !reference.is_null() {
        check.required_text(reference, &path.child("secretRef"), "namespace");
    }
}
