//! Validates resource slices (the devices of a driver on nodes) and the device statuses of claims.

use std::collections::BTreeSet;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use super::affinity;
use super::check::Check;
use super::device::{device_name, driver, each, has_room, itself, named, pool_name, qualified_name, unique};
use super::device_capacity::request_policy;
use crate::tree::{at, list, text};

const DEVICES_MAX: usize = 128;
const DEVICES_WITH_FEATURES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const TAINTS_MAX: usize = 16;
const VALUE_LENGTH_MAX: usize = 64;

const ONE_OF: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

pub(super) fn slice(check: &mut Check, slice: &Value) {
    spec(check, at(slice, &["spec"]), None);
}

pub(super) fn slice_update(check: &mut Check, slice: &Value, old: &Value) {
    spec(check, at(slice, &["spec"]), Some(at(old, &["spec"])));
}

fn spec(check: &mut Check, spec: &Value, old: Option<&Value>) {
    let path = Path::new("spec");
    driver(check, spec, &path);
    pool(check, at(spec, &["pool"]), &path.child("pool"));
    if let Some(old) = old {
        for field in [&["pool", "name"][..], &["driver"], &["nodeName"]] {
            if at(spec, field) != at(old, field) {
                let path = field.iter().fold(path.clone(), |path, name| path.child(name));
                check.invalid(path, at(spec, field), "field is immutable");
            }
        }
    }
    nodes(check, spec, &path);
    let devices = list(spec, &["devices"]);
    let has_features = devices.iter().any(|device| {
        !list(device, &["taints"]).is_empty() || !list(device, &["consumesCounters"]).is_empty()
    });
    if !at(spec, &["sharedCounters"]).is_null() && !at(spec, &["devices"]).is_null() {
        let why = "only one of `sharedCounters` or `devices` is allowed";
        check.invalid(path.clone(), &"".into(), why);
    }
    let max = if has_features {
        DEVICES_WITH_FEATURES_MAX
    } else {
        DEVICES_MAX
    };
    let of_devices = path.child("devices");
    if has_room(check, devices, max, &of_devices) {
        let per_device = at(spec, &["perDeviceNodeSelection"]) == true;
        for (index, item) in devices.iter().enumerate() {
            let before = old.and_then(|old| {
                let name = text(item, &["name"]);
                list(old, &["devices"])
                    .iter()
                    .find(|device| text(device, &["name"]) == name)
            });
            device(check, item, before, &of_devices.index(index), per_device);
        }
        unique(check, devices, &of_devices, named("name"));
    }
    let sets = list(spec, &["sharedCounters"]);
    let of_sets = path.child("sharedCounters");
    if has_room(check, sets, COUNTER_SETS_MAX, &of_sets) {
        for (index, set) in sets.iter().enumerate() {
            let path = of_sets.index(index);
            check.required_form(set, &path, "name", names::dns1123_label);
            counters(check, set, &path);
        }
        unique(check, sets, &of_sets, named("name"));
    }
}

fn pool(check: &mut Check, pool: &Value, path: &Path) {
    pool_name(check, pool, path, "name");
    let count = at(pool, &["resourceSliceCount"]).as_i64().unwrap_or_default();
    if count <= 0 {
        let why = "must be greater than zero";
        check.invalid(path.child("resourceSliceCount"), &count.into(), why);
    }
    let generation = at(pool, &["generation"]).as_i64().unwrap_or_default();
    if generation < 0 {
        let why = "must be greater than or equal to zero";
        check.invalid(path.child("generation"), &generation.into(), why);
    }
}

/// Checks that a slice is for exactly one of: a node, a node selector, all nodes, or per-device selection.
fn nodes(check: &mut Check, spec: &Value, path: &Path) {
    let mut given = Vec::new();
    if let Some(name) = at(spec, &["nodeName"]).as_str() {
        if name.is_empty() {
            let why = "must be either unset or set to a non-empty string";
            check.invalid(path.child("nodeName"), &name.into(), why);
        } else {
            given.push("`nodeName`");
            check.faults(&path.child("nodeName"), name, names::dns1123_subdomain(name));
        }
    }
    let selector = at(spec, &["nodeSelector"]);
    if selector.is_object() {
        given.push("`nodeSelector`");
        let path = path.child("nodeSelector");
        affinity::node_selector(check, selector, &path);
        let terms = at(selector, &["nodeSelectorTerms"]);
        if terms.as_array().is_none_or(|terms| terms.len() != 1) {
            let why = "must have exactly one node selector term";
            check.invalid(path.child("nodeSelectorTerms"), terms, why);
        }
    }
    for (field, shown) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
    ] {
        match at(spec, &[field]).as_bool() {
            Some(true) => given.push(shown),
            Some(false) => check.invalid(
                path.child(field),
                &false.into(),
                "must be either unset or set to true",
            ),
            None => {}
        }
    }
    match given[..] {
        [] => check.required(path.clone(), ONE_OF),
        [_] => {}
        _ => check.invalid(
            path.clone(),
            &format!("{{{}}}", given.join(", ")).into(),
            format!("{ONE_OF}, but multiple fields are set"),
        ),
    }
}

fn device(check: &mut Check, device: &Value, old: Option<&Value>, path: &Path, per_device: bool) {
    device_name(check, device, path, "name");
    let attributes = at(device, &["attributes"]);
    each(
        check,
        attributes,
        &path.child("attributes"),
        qualified_name,
        attribute,
    );
    let is_new = |field: &str| old.is_none_or(|old| at(old, &[field]) != at(device, &[field]));
    if is_new("capacity") {
        let of_capacity = path.child("capacity");
        let shared = at(device, &["allowMultipleAllocations"]) == true;
        each(
            check,
            at(device, &["capacity"]),
            &of_capacity,
            qualified_name,
            |_, _, _| {},
        );
        for (key, capacity) in crate::tree::entries(device, &["capacity"]) {
            let path = of_capacity.key(key);
            if shared {
                request_policy(check, capacity, &path);
            } else if at(capacity, &["requestPolicy"]).is_object() {
                let why = "allowMultipleAllocations must be true";
                check.forbidden(path.child("requestPolicy"), why);
            }
        }
    }
    let taints = list(device, &["taints"]);
    let of_taints = path.child("taints");
    if is_new("taints") && has_room(check, taints, TAINTS_MAX, &of_taints) {
        for (index, item) in taints.iter().enumerate() {
            taint(check, item, &of_taints.index(index));
        }
    }
    let consumed = list(device, &["consumesCounters"]);
    let of_consumed = path.child("consumesCounters");
    for (index, item) in consumed.iter().enumerate() {
        let path = of_consumed.index(index);
        check.required_form(item, &path, "counterSet", names::dns1123_label);
        counters(check, item, &path);
    }
    unique(check, consumed, &of_consumed, named("counterSet"));
    device_nodes(check, device, path, per_device);
    binding_conditions(check, device, path);
}

fn counters(check: &mut Check, parent: &Value, path: &Path) {
    let (counters, path) = (at(parent, &["counters"]), path.child("counters"));
    if counters.as_object().is_none_or(serde_json::Map::is_empty) {
        return check.required(path, "");
    }
    let name = |check: &mut Check, name: &str, path: &Path| {
        check.faults(path, name, names::dns1123_label(name));
    };
    each(check, counters, &path, name, |_, _, _| {});
}

fn device_nodes(check: &mut Check, device: &Value, path: &Path, per_device: bool) {
    let fields = ["nodeName", "nodeSelector", "allNodes"];
    if !per_device {
        if fields.iter().any(|field| !at(device, &[field]).is_null()) {
            check.invalid(path.clone(), &Value::Null, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec");
        }
        return;
    }
    let mut given = Vec::new();
    if let Some(name) = at(device, &["nodeName"]).as_str() {
        if name.is_empty() {
            check.invalid(path.child("nodeName"), &name.into(), "must not be empty");
        } else {
            given.push("`nodeName`");
            check.faults(&path.child("nodeName"), name, names::dns1123_subdomain(name));
        }
    }
    let selector = at(device, &["nodeSelector"]);
    if selector.is_object() {
        given.push("`nodeSelector`");
        affinity::node_selector(check, selector, &path.child("nodeSelector"));
    }
    match at(device, &["allNodes"]).as_bool() {
        Some(true) => given.push("`allNodes`"),
        Some(false) => {
            let why = "must be either unset or set to true";
            check.invalid(path.child("allNodes"), &false.into(), why);
        }
        None => {}
    }
    let why = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match given[..] {
        [] => check.required(path.clone(), why),
        [_] => {}
        _ => check.invalid(path.clone(), &format!("{{{}}}", given.join(", ")).into(), why),
    }
}

fn attribute(check: &mut Check, attribute: &Value, path: &Path) {
    let fields = ["bool", "int", "string", "version"];
    let given = fields.iter().filter(|field| !at(attribute, &[field]).is_null());
    if let Some(value) = at(attribute, &["string"]).as_str()
        && value.len() > VALUE_LENGTH_MAX
    {
        check
            .errors
            .push(Error::too_long(path.child("string"), VALUE_LENGTH_MAX));
    }
    if let Some(value) = at(attribute, &["version"]).as_str() {
        if !is_semantic_version(value) {
            let why = "must be a string compatible with semver.org spec 2.0.0";
            check.invalid(path.child("version"), &value.into(), why);
        }
        if value.len() > VALUE_LENGTH_MAX {
            check
                .errors
                .push(Error::too_long(path.child("version"), VALUE_LENGTH_MAX));
        }
    }
    match given.count() {
        0 => check.invalid(path.clone(), &"".into(), "exactly one value must be specified"),
        1 => {}
        _ => {
            let why = "exactly one value must be specified";
            check.invalid_text(path.clone(), print_attribute(attribute), why);
        }
    }
}

/// Formats an attribute as Go's struct. Lists of values require a feature gate.
fn print_attribute(attribute: &Value) -> String {
    let fields = [
        ("IntValue", "int"),
        ("BoolValue", "bool"),
        ("StringValue", "string"),
        ("VersionValue", "version"),
    ];
    let values = fields.map(|(name, field)| format!("\"{name}\":{},", at(attribute, &[field])));
    format!(
        "{{{}\"IntValues\":null,\"BoolValues\":null,\"StringValues\":null,\"VersionValues\":null}}",
        values.concat()
    )
}

/// Returns true for a version of the form `1.2.3-pre.1+build.5`.
fn is_semantic_version(version: &str) -> bool {
    let (version, build) = match version.split_once('+') {
        Some((version, build)) => (version, Some(build)),
        None => (version, None),
    };
    let (numbers, before) = match version.split_once('-') {
        Some((numbers, before)) => (numbers, Some(before)),
        None => (version, None),
    };
    let is_word = |word: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !word.is_empty() && word.bytes().all(is_part)
    };
    let is_digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let is_number =
        |word: &str| !word.is_empty() && is_digits(word) && (word == "0" || !word.starts_with('0'));
    let numbers: Vec<&str> = numbers.split('.').collect();
    numbers.len() == 3
        && numbers.into_iter().all(is_number)
        && before.is_none_or(|before| {
            before
                .split('.')
                .all(|word| is_word(word) && (!is_digits(word) || is_number(word)))
        })
        && build.is_none_or(|build| build.split('.').all(is_word))
}

fn taint(check: &mut Check, taint: &Value, path: &Path) {
    let key = text(taint, &["key"]);
    check.faults(&path.child("key"), key, names::qualified_name(key));
    check.optional_form(taint, path, "value", names::label_value);
    match text(taint, &["effect"]) {
        "" => check.required(path.child("effect"), ""),
        _ => check.one_of(taint, path, "effect", &["NoExecute", "NoSchedule", "None"]),
    }
}

/// Validates the conditions that a pod waits for before it is bound, and the conditions that end the wait.
pub(super) fn binding_conditions(check: &mut Check, parent: &Value, path: &Path) {
    const CONDITIONS_MAX: usize = 4;
    let fields = ["bindingConditions", "bindingFailureConditions"];
    for field in fields {
        let (items, path) = (list(parent, &[field]), path.child(field));
        if has_room(check, items, CONDITIONS_MAX, &path) {
            for (index, item) in items.iter().enumerate() {
                let name = item.as_str().unwrap_or_default();
                check.faults(&path.index(index), name, names::qualified_name(name));
            }
        }
    }
    let [waiting, failing] = fields.map(|field| list(parent, &[field]));
    for (field, items) in [(fields[0], waiting), (fields[1], failing)] {
        let path = path.child(field);
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if !seen.insert(item.as_str()) {
                check.duplicate(path.index(index), item);
            }
            if field == fields[1] && waiting.contains(item) {
                let why = "bindingFailureConditions must not overlap with bindingConditions";
                check.invalid(path.index(index), item, why);
            }
        }
    }
    for (missing, other, field, of) in [
        (waiting, failing, fields[0], fields[1]),
        (failing, waiting, fields[1], fields[0]),
    ] {
        if missing.is_empty() && !other.is_empty() {
            let why = format!("{field} are required to use {of}");
            check.invalid(path.child(field), at(parent, &[field]), why);
        }
    }
}

/// Checks the statuses of the devices of a claim.
pub(super) fn statuses(check: &mut Check, status: &Value, path: &Path) {
    let key = |device: &Value| {
        ["driver", "pool", "device", "shareID"].map(|field| text(device, &[field]).to_owned())
    };
    let allocated: BTreeSet<_> = list(status, &["allocation", "devices", "results"])
        .iter()
        .map(key)
        .collect();
    let shown = |key: &[String; 4]| {
        let fields = ["Driver", "Pool", "Device", "ShareID"];
        let parts = fields.iter().zip(key);
        let parts = parts.map(|(field, text)| format!("\"{field}\":{}", Value::from(text.as_str())));
        format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
    };
    let devices = list(status, &["devices"]);
    let path = path.child("devices");
    for (index, device) in devices.iter().enumerate() {
        let path = path.index(index);
        driver(check, device, &path);
        pool_name(check, device, &path, "pool");
        device_name(check, device, &path, "device");
        if let Some(share) = at(device, &["shareID"]).as_str() {
            share_id(check, share, &path.child("shareID"));
        }
        let key = key(device);
        if !allocated.contains(&key) {
            let why = "must be an allocated device in the claim";
            check.invalid_text(path.clone(), shown(&key), why);
        }
        super::condition::conditions(check, device, &path);
        let data = at(device, &["data"]);
        if !data.is_null() && !data.is_object() {
            let why = "must be a valid JSON object";
            check.invalid(path.child("data"), &"<value omitted>".into(), why);
        }
        let ips = list(device, &["networkData", "ips"]);
        let path = path.child("networkData").child("ips");
        for (index, ip) in ips.iter().enumerate() {
            let ip = text(ip, &[]);
            if !is_interface_address(ip) {
                let why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
                check.invalid(path.index(index), &ip.into(), why);
            }
        }
        unique(check, ips, &path, itself);
    }
    let mut seen = BTreeSet::new();
    for (index, device) in devices.iter().enumerate() {
        let key = key(device);
        if !seen.insert(key.clone()) {
            let mut error = Error::duplicate(path.index(index), &Value::Null);
            error.value = Some(shown(&key));
            check.errors.push(error);
        }
    }
}

fn is_interface_address(address: &str) -> bool {
    let Some((ip, bits)) = address.split_once('/') else {
        return false;
    };
    let max = if ip.contains(':') { 128 } else { 32 };
    names::ip_address(ip).is_empty() && bits.parse::<u8>().is_ok_and(|bits| bits <= max)
}

pub(super) fn share_id(check: &mut Check, id: &str, path: &Path) {
    let is_canonical = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
    let why = match id.len() {
        32 | 38 | 45 => "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters".to_owned(),
        36 if id.bytes().all(is_canonical) && id.matches('-').count() == 4 => return,
        36 => "error validating uid: invalid UUID format".to_owned(),
        length => format!("error validating uid: invalid UUID length: {length}"),
    };
    check.invalid(path.clone(), &id.into(), why);
}
