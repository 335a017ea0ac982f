//! Validates volumes, claims, storage classes and attachments.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::field::{Error, Path};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::affinity;
use super::check::{Check, GoPrint, render_go};
use super::volume_source::{self, Owner};
use crate::tree::{at, entries, is_zero, list, text};

const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

pub(super) fn claim(check: &mut Check, object: &Value) {
    claim_spec(check, at(object, &["spec"]), &Path::new("spec"));
}

/// Validates the spec of a claim; also used for claim templates.
pub(super) fn claim_spec(check: &mut Check, spec: &Value, path: &Path) {
    claim_rules(check, spec, path, true);
}

/// Validates the spec of a claim. `checks_group` is false if the claim already has an API group, because older versions
/// accepted any group.
fn claim_rules(check: &mut Check, spec: &Value, path: &Path, checks_group: bool) {
    if list(spec, &["accessModes"]).is_empty() {
        check.required(path.child("accessModes"), "at least 1 access mode is required");
    }
    check.label_selector(at(spec, &["selector"]), &path.child("selector"));
    access_modes(check, spec, path);
    let storage = at(spec, &["resources", "requests", "storage"]);
    let resources = path.child("resources");
    if storage.is_null() {
        check.required(resources.key("storage"), "");
    } else {
        positive(check, storage, &resources.key("storage"));
    }
    check.optional_form(spec, path, "storageClassName", names::dns1123_subdomain);
    check.optional_one_of(spec, path, "volumeMode", &["Block", "Filesystem"]);
    let source = at(spec, &["dataSource"]);
    data_source(check, source, &path.child("dataSource"), checks_group);
    let (reference, of_reference) = (at(spec, &["dataSourceRef"]), path.child("dataSourceRef"));
    data_source(check, reference, &of_reference, checks_group);
    check.optional_form(reference, &of_reference, "namespace", names::dns1123_label);
    let source = |field: &str| {
        let group = at(spec, &[field, "apiGroup"]);
        (group, text(spec, &[field, "kind"]), text(spec, &[field, "name"]))
    };
    let both = ["dataSource", "dataSourceRef"]
        .iter()
        .all(|field| !at(spec, &[field]).is_null());
    let is_elsewhere = !text(spec, &["dataSourceRef", "namespace"]).is_empty();
    if both && is_elsewhere {
        let why = "may not be specified when dataSourceRef.namespace is specified";
        check.invalid_text(path.clone(), "{}".to_owned(), why);
    } else if both && source("dataSource") != source("dataSourceRef") {
        // The API server shows the path of the field, a struct without public fields.
        check.invalid_text(path.clone(), "{}".to_owned(), "must match dataSourceRef");
    }
    let class = "volumeAttributesClassName";
    check.optional_form(spec, path, class, names::dns1123_subdomain);
}

/// Checks the data source of a volume.
fn data_source(check: &mut Check, source: &Value, path: &Path, checks_group: bool) {
    if source.is_null() {
        return;
    }
    check.required_text(source, path, "name");
    check.required_text(source, path, "kind");
    let (group, kind) = (text(source, &["apiGroup"]), text(source, &["kind"]));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        check.invalid(
            path.clone(),
            &kind.into(),
            "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        );
    }
    if !group.is_empty() && checks_group {
        check.faults(&path.child("apiGroup"), group, names::dns1123_subdomain(group));
    }
}

fn access_modes(check: &mut Check, spec: &Value, path: &Path) {
    let modes = list(spec, &["accessModes"]);
    for mode in modes {
        if !mode.as_str().is_some_and(|mode| ACCESS_MODES.contains(&mode)) {
            let path = path.child("accessModes");
            check.errors.push(Error::not_supported(path, mode, ACCESS_MODES));
        }
    }
    let has_other = modes
        .iter()
        .filter_map(Value::as_str)
        .any(|mode| mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode));
    if has_other && modes.contains(&"ReadWriteOncePod".into()) {
        check.forbidden(
            path.child("accessModes"),
            "may not use ReadWriteOncePod with other access modes",
        );
    }
}

fn positive(check: &mut Check, quantity: &Value, path: &Path) {
    let parsed = Quantity::from_json(quantity);
    if parsed.is_ok_and(|quantity| quantity.is_negative() || quantity.is_zero()) {
        check.invalid(path.clone(), quantity, "must be greater than zero");
    }
}

const CLAIM_IMMUTABLE: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

pub(super) fn claim_update(check: &mut Check, object: &Value, old: &Value) {
    let path = Path::new("spec");
    let had_group = ["dataSource", "dataSourceRef"]
        .iter()
        .any(|field| !at(old, &["spec", field, "apiGroup"]).is_null());
    claim_rules(check, at(object, &["spec"]), &path, !had_group);
    let bound = text(old, &["status", "phase"]) == "Bound";
    let fixed = |object: &Value| {
        let mut spec = at(object, &["spec"]).clone();
        if let Some(fields) = spec.as_object_mut() {
            // The binder may set these fields, but only once.
            if is_zero(at(old, &["spec", "volumeName"])) {
                fields.remove("volumeName");
            }
            if at(old, &["spec", "storageClassName"]).is_null() {
                fields.remove("storageClassName");
            }
            if bound {
                fields.remove("volumeAttributesClassName");
                if let Some(resources) = fields.get_mut("resources").and_then(Value::as_object_mut) {
                    resources.remove("requests");
                }
            }
        }
        spec
    };
    if fixed(object) != fixed(old) {
        check.forbidden(path.clone(), CLAIM_IMMUTABLE);
    }
    let storage = ["spec", "resources", "requests", "storage"];
    let amount =
        |of: &Value, path: &[&str]| Quantity::from_json(at(of, path)).unwrap_or_else(|_| Quantity::from(0));
    let new = amount(object, &storage);
    if new < amount(old, &storage) && new <= amount(old, &["status", "capacity", "storage"]) {
        check.forbidden(
            path.child("resources").child("requests").child("storage"),
            "field can not be less than status.capacity",
        );
    }
    let (mode, before) = (
        at(object, &["spec", "volumeMode"]),
        at(old, &["spec", "volumeMode"]),
    );
    check.immutable(mode, before, Path::new("volumeMode"));
}

/// The sources of a persistent volume, in the API server's order.
const SOURCES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// A reference from a volume to its claim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Volume,
    /// The inline volume of a VolumeAttachment.
    Inline,
}

pub(super) fn persistent_volume(check: &mut Check, object: &Value) {
    volume_spec(check, at(object, &["spec"]), &Path::new("spec"), Use::Volume);
}

const NOT_INLINE: &str = "may not be specified in the context of inline volumes";

fn volume_spec(check: &mut Check, spec: &Value, path: &Path, used: Use) {
    let inline = used == Use::Inline;
    if inline {
        for field in ["claimRef", "capacity"] {
            if !is_zero(at(spec, &[field])) {
                check.forbidden(path.child(field), NOT_INLINE);
            }
        }
        if at(spec, &["csi"]).is_null() {
            let why = "has to be specified in the context of inline volumes";
            check.required(path.child("csi"), why);
        }
    }
    if list(spec, &["accessModes"]).is_empty() {
        check.required(path.child("accessModes"), "");
    }
    access_modes(check, spec, path);
    if !inline {
        volume_capacity(check, spec, path);
    }
    let policy = text(spec, &["persistentVolumeReclaimPolicy"]);
    if inline && !policy.is_empty() && policy != "Retain" {
        let why = "may only be Retain in the context of inline volumes";
        check.forbidden(path.child("persistentVolumeReclaimPolicy"), why);
    } else if !policy.is_empty() {
        let known = ["Delete", "Recycle", "Retain"];
        check.one_of(spec, path, "persistentVolumeReclaimPolicy", &known);
    }
    let affinity = at(spec, &["nodeAffinity", "required"]);
    let affinity_path = path.child("nodeAffinity").child("required");
    if inline && !at(spec, &["nodeAffinity"]).is_null() {
        check.forbidden(path.child("nodeAffinity"), NOT_INLINE);
    } else if affinity.is_object() {
        affinity::node_selector(check, affinity, &affinity_path);
    } else if at(spec, &["nodeAffinity"]).is_object() {
        check.required(affinity_path, "must specify required node constraints");
    }
    volume_source(check, spec, path);
    if policy == "Recycle" && text(spec, &["hostPath", "path"]) == "/" {
        check.forbidden(
            path.child("persistentVolumeReclaimPolicy"),
            "may not be 'recycle' for a hostPath mount of '/'",
        );
    }
    if inline && !text(spec, &["storageClassName"]).is_empty() {
        check.forbidden(path.child("storageClassName"), NOT_INLINE);
    } else {
        check.optional_form(spec, path, "storageClassName", names::dns1123_subdomain);
    }
    let mode = at(spec, &["volumeMode"]).as_str();
    if inline && mode.is_some_and(|mode| mode != "Filesystem") {
        check.forbidden(
            path.child("volumeMode"),
            "may not specify volumeMode other than Filesystem in the context of inline volumes",
        );
    } else {
        check.optional_one_of(spec, path, "volumeMode", &["Block", "Filesystem"]);
    }
    if !inline {
        attributes_class(check, spec, path);
    }
}

fn attributes_class(check: &mut Check, spec: &Value, path: &Path) {
    let Some(class) = at(spec, &["volumeAttributesClassName"]).as_str() else {
        return;
    };
    let of_class = path.child("volumeAttributesClassName");
    if class.is_empty() {
        check.required(of_class, "an empty string is disallowed");
    } else {
        check.faults(&of_class, class, names::dns1123_subdomain(class));
    }
    if at(spec, &["csi"]).is_null() {
        let why = "has to be specified when using volumeAttributesClassName";
        check.required(path.child("csi"), why);
    }
}

fn volume_capacity(check: &mut Check, spec: &Value, path: &Path) {
    let capacity = at(spec, &["capacity"]);
    let capacity_path = path.child("capacity");
    if is_zero(capacity) {
        check.required(capacity_path.clone(), "");
    }
    if at(capacity, &["storage"]).is_null() || entries(capacity, &[]).count() > 1 {
        let error = Error::not_supported(capacity_path.clone(), capacity, &["storage"]);
        check.errors.push(error);
    }
    for (name, quantity) in entries(capacity, &[]) {
        let whole = Quantity::from_json(quantity).ok().filter(Quantity::is_negative);
        if let Some(whole) = whole.map(|quantity| quantity.whole_units()) {
            let path = capacity_path.key(name);
            check.invalid_text(path, whole, "must be a valid resource quantity");
        }
        positive(check, quantity, &capacity_path.key(name));
    }
}

fn volume_source(check: &mut Check, spec: &Value, path: &Path) {
    let mut given = SOURCES.iter().filter(|name| !at(spec, &[name]).is_null());
    let Some(first) = given.next() else {
        check.required(path.clone(), "must specify a volume type");
        return;
    };
    let source = at(spec, &[first]);
    let shown = path.child(volume_source::shown(first));
    volume_source::rules(check, first, source, &shown, Owner::PersistentVolume);
    if *first == "local" && at(spec, &["nodeAffinity"]).is_null() {
        check.required(path.child("nodeAffinity"), "Local volume requires node affinity");
    }
    for other in given {
        let path = path.child(volume_source::additional(other));
        // The API server does not count this source, and only this one.
        if *other == "flexVolume" {
            volume_source::rules(check, other, at(spec, &[other]), &path, Owner::PersistentVolume);
        } else {
            check.forbidden(path, "may not specify more than 1 volume type");
        }
    }
}

pub(super) fn persistent_volume_update(check: &mut Check, object: &Value, old: &Value) {
    let sources = |object: &Value| -> Vec<Value> {
        let names = SOURCES.iter();
        names.map(|name| at(object, &["spec", name]).clone()).collect()
    };
    if sources(object) != sources(old) {
        check.forbidden(
            Path::new("spec").child("persistentvolumesource"),
            "spec.persistentvolumesource is immutable after creation",
        );
    }
    check.immutable(
        at(object, &["spec", "volumeMode"]),
        at(old, &["spec", "volumeMode"]),
        Path::new("volumeMode"),
    );
    let affinity = at(old, &["spec", "nodeAffinity"]);
    let new = at(object, &["spec", "nodeAffinity"]);
    if !affinity.is_null() && new != affinity {
        let shown = render_go(new, NODE_AFFINITY);
        let why = "field is immutable, except for updating from beta label to GA";
        check.invalid_text(Path::new("nodeAffinity"), shown, why);
    }
}

const REQUIREMENT: &[GoPrint] = &[
    GoPrint("Key", "key", &[]),
    GoPrint("Operator", "operator", &[]),
    GoPrint("Values", "values", &[]),
];
const NODE_AFFINITY: &[GoPrint] = &[GoPrint(
    "Required",
    "required",
    &[GoPrint(
        "NodeSelectorTerms",
        "nodeSelectorTerms",
        &[
            GoPrint("MatchExpressions", "matchExpressions", REQUIREMENT),
            GoPrint("MatchFields", "matchFields", REQUIREMENT),
        ],
    )],
)];

pub(super) fn storage_class(check: &mut Check, object: &Value) {
    let root = Path::default();
    let provisioner = text(object, &["provisioner"]);
    if provisioner.is_empty() {
        check.required(root.child("provisioner"), "");
    } else {
        let provisioner = provisioner.to_lowercase();
        let faults = names::qualified_name(&provisioner);
        check.faults(&root.child("provisioner"), &provisioner, faults);
    }
    for (name, _) in entries(object, &["parameters"]) {
        if name.is_empty() {
            check.invalid(root.child("parameters"), &"".into(), "field can not be empty.");
        }
    }
    if !text(object, &["reclaimPolicy"]).is_empty() {
        check.one_of(object, &root, "reclaimPolicy", &["Delete", "Retain"]);
    }
    if at(object, &["volumeBindingMode"]).is_null() {
        check.required(root.child("volumeBindingMode"), "");
    } else {
        check.one_of(
            object,
            &root,
            "volumeBindingMode",
            &["Immediate", "WaitForFirstConsumer"],
        );
    }
    topologies(check, object, &root.child("allowedTopologies"));
}

fn topologies(check: &mut Check, class: &Value, path: &Path) {
    let mut seen: BTreeMap<BTreeMap<&str, BTreeSet<&str>>, usize> = BTreeMap::new();
    let terms = list(class, &["allowedTopologies"]);
    // The API server also compares with the same number of empty terms, and reports each equal term.
    seen.insert(BTreeMap::new(), terms.len());
    for (index, term) in terms.iter().enumerate() {
        let path = path.index(index).child("matchLabelExpressions");
        let equal = seen.entry(topology_term(check, term, &path)).or_default();
        for _ in 0..*equal {
            if check.errors.is_full() {
                return;
            }
            check.duplicate(path.clone(), &"".into());
        }
        *equal += 1;
    }
}

/// Checks one term, with its keys and values.
fn topology_term<'a>(
    check: &mut Check,
    term: &'a Value,
    path: &Path,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut keys = BTreeMap::new();
    for (index, expression) in list(term, &["matchLabelExpressions"]).iter().enumerate() {
        let path = path.index(index);
        let given = list(expression, &["values"]);
        if given.is_empty() {
            check.required(path.child("values"), "");
        }
        let mut values = BTreeSet::new();
        for (index, value) in given.iter().enumerate() {
            if !values.insert(value.as_str().unwrap_or_default()) {
                check.duplicate(path.child("values").index(index), value);
            }
        }
        let key = text(expression, &["key"]);
        check.faults(&path.child("key"), key, names::qualified_name(key));
        if keys.contains_key(key) {
            check.duplicate(path.child("key"), &key.into());
        }
        keys.insert(key, values);
    }
    keys
}

pub(super) fn storage_class_update(check: &mut Check, object: &Value, old: &Value) {
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        check.immutable(at(object, &[field]), at(old, &[field]), Path::new(field));
    }
}

/// Checks that the volume and the node of an attachment are unchanged.
pub(super) fn volume_attachment_update(check: &mut Check, object: &Value, old: &Value) {
    let spec = at(object, &["spec"]);
    let attacher = text(spec, &["attacher"]);
    if !attacher.is_empty() && attacher != text(old, &["spec", "attacher"]) {
        volume_source::csi_driver(check, spec, &Path::new("spec"), "attacher");
    }
    volume_attachment_spec(check, object);
    volume_attachment_status(check, object);
    let name = at(spec, &["source", "persistentVolumeName"]);
    if name != at(old, &["spec", "source", "persistentVolumeName"]) {
        check.pointer_form(
            at(spec, &["source"]),
            &Path::new("spec").child("source"),
            "persistentVolumeName",
            names::dns1123_subdomain,
        );
    }
    if spec != at(old, &["spec"]) {
        let shown = render_go(spec, ATTACHMENT);
        check.invalid_text(Path::new("spec"), shown, "field is immutable");
    }
}

const ATTACHMENT: &[GoPrint] = &[
    GoPrint("Attacher", "attacher", &[]),
    GoPrint(
        "Source",
        "source",
        &[
            GoPrint("PersistentVolumeName", "persistentVolumeName", &[]),
            GoPrint("InlineVolumeSpec", "inlineVolumeSpec", &[]),
        ],
    ),
    GoPrint("NodeName", "nodeName", &[]),
];

pub(super) fn volume_attachment(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    if !text(spec, &["attacher"]).is_empty() {
        volume_source::csi_driver(check, spec, &path, "attacher");
    }
    volume_attachment_spec(check, object);
    check.pointer_form(
        at(spec, &["source"]),
        &path.child("source"),
        "persistentVolumeName",
        names::dns1123_subdomain,
    );
}

fn volume_attachment_spec(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    check.required_text(spec, &path, "attacher");
    let name = at(spec, &["source", "persistentVolumeName"]);
    let inline = at(spec, &["source", "inlineVolumeSpec"]);
    let source = path.child("source");
    match (name.as_str(), inline.is_null()) {
        (None, true) => check.required(source, ONE_SOURCE),
        (Some(_), false) => check.forbidden(source, ONE_SOURCE),
        (Some(""), true) => check.required(
            source.child("persistentVolumeName"),
            "must specify non empty persistentVolumeName",
        ),
        (None, false) => volume_spec(check, inline, &source.child("inlineVolumeSpec"), Use::Inline),
        _ => {}
    }
    let node = text(spec, &["nodeName"]);
    check.faults(&path.child("nodeName"), node, names::dns1123_subdomain(node));
}

fn volume_attachment_status(check: &mut Check, object: &Value) {
    for field in ["attachError", "detachError"] {
        let code = at(object, &["status", field, "errorCode"]);
        if code
            .as_i64()
            .is_some_and(|code| !(0..=i64::from(i32::MAX)).contains(&code))
        {
            let path = Path::new("status").child(field).child("errorCode");
            check.invalid(path, code, "must be between 0 and 2147483647, inclusive");
        }
    }
}

const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
