//! Validates claims of devices, claim templates, device classes and resource slices.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::Check;
use super::device_print::{self, CLAIM_SPEC};
use super::{affinity, device_expression, template_metadata};
use crate::tree::{at, entries, is_equivalent, list, text};

const REQUESTS_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
const CONFIGURATIONS_MAX: usize = 32;
const SELECTORS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const PARAMETERS_BYTES_MAX: usize = 10 * 1024;

type Rule = fn(&mut Check, &Value, &Path);

/// Returns true if a list is not too long. Otherwise it reports one error instead of the errors of the items.
pub(super) fn has_room<T>(check: &mut Check, items: &[T], max: usize, path: &Path) -> bool {
    let fits = items.len() <= max;
    if !fits {
        check.errors.push(Error::too_many(path.clone(), items.len(), max));
    }
    fits
}

/// Reports items with duplicate keys.
pub(super) fn unique<'a, K: Ord>(
    check: &mut Check,
    items: &'a [Value],
    path: &Path,
    key: impl Fn(&'a Value) -> (K, Value),
) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let (key, shown) = key(item);
        if !seen.insert(key) {
            check.duplicate(path.index(index), &shown);
        }
    }
}

pub(super) fn named<'a>(field: &'static str) -> impl Fn(&'a Value) -> (&'a str, Value) {
    move |item| (text(item, &[field]), text(item, &[field]).into())
}

pub(super) fn itself(item: &Value) -> (&str, Value) {
    (item.as_str().unwrap_or_default(), item.clone())
}

/// The names of a claim's requests, with the names of their subrequests.
type Names<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn request_names(devices: &Value) -> Names<'_> {
    let alternatives = |request| {
        let listed = list(request, &["firstAvailable"]);
        listed.iter().map(|request| text(request, &["name"])).collect()
    };
    list(devices, &["requests"])
        .iter()
        .map(|request| (text(request, &["name"]), alternatives(request)))
        .collect()
}

pub(super) fn claim(check: &mut Check, claim: &Value) {
    claim_spec(check, at(claim, &["spec"]), &Path::new("spec"));
}

/// Validates a changed claim. Its spec is immutable; a changed spec has no other errors.
pub(super) fn claim_update(check: &mut Check, claim: &Value, old: &Value) {
    let spec = at(claim, &["spec"]);
    if spec != at(old, &["spec"]) {
        let shown = device_print::print(spec, CLAIM_SPEC);
        check.invalid_text(Path::new("spec"), shown, "field is immutable");
    }
}

pub(super) fn template(check: &mut Check, template: &Value) {
    let path = Path::new("spec");
    let metadata = at(template, &["spec", "metadata"]);
    template_metadata::validate(check, metadata, &path.child("metadata"));
    claim_spec(check, at(template, &["spec", "spec"]), &path.child("spec"));
}

pub(super) fn template_update(check: &mut Check, changed: &Value, old: &Value) {
    let spec = at(changed, &["spec"]);
    if !is_equivalent(spec, at(old, &["spec"])) {
        let shown = device_print::template_spec(spec);
        check.invalid_text(Path::new("spec"), shown, "field is immutable");
    }
}

fn claim_spec(check: &mut Check, spec: &Value, path: &Path) {
    let devices = at(spec, &["devices"]);
    let path = path.child("devices");
    let names = request_names(devices);
    let requests = list(devices, &["requests"]);
    let of_requests = path.child("requests");
    if has_room(check, requests, REQUESTS_MAX, &of_requests) {
        for (index, request) in requests.iter().enumerate() {
            device_request(check, request, &of_requests.index(index));
        }
        unique(check, requests, &of_requests, named("name"));
    }
    let constraints = list(devices, &["constraints"]);
    let of_constraints = path.child("constraints");
    if has_room(check, constraints, CONSTRAINTS_MAX, &of_constraints) {
        for (index, item) in constraints.iter().enumerate() {
            constraint(check, item, &of_constraints.index(index), &names);
        }
    }
    let configurations = list(devices, &["config"]);
    let of_configurations = path.child("config");
    if has_room(check, configurations, CONFIGURATIONS_MAX, &of_configurations) {
        for (index, item) in configurations.iter().enumerate() {
            let path = of_configurations.index(index);
            references(check, item, &path, &names);
            configuration(check, item, &path);
        }
    }
}

fn device_request(check: &mut Check, request: &Value, path: &Path) {
    request_name(check, request, path);
    let alternatives = list(request, &["firstAvailable"]);
    let exactly = at(request, &["exactly"]);
    match (exactly.is_object(), alternatives.is_empty()) {
        (false, true) => check.required(
            path.clone(),
            "exactly one of `exactly` or `firstAvailable` is required",
        ),
        (true, false) => check.invalid(
            path.clone(),
            &Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (true, true) => request_details(check, exactly, &path.child("exactly")),
        (false, false) => {
            let path = path.child("firstAvailable");
            if has_room(check, alternatives, ALTERNATIVES_MAX, &path) {
                for (index, request) in alternatives.iter().enumerate() {
                    let path = path.index(index);
                    request_name(check, request, &path);
                    request_details(check, request, &path);
                }
                unique(check, alternatives, &path, named("name"));
            }
        }
    }
}

fn request_name(check: &mut Check, request: &Value, path: &Path) {
    let name = text(request, &["name"]);
    check.faults(&path.child("name"), name, names::dns1123_label(name));
}

fn request_details(check: &mut Check, request: &Value, path: &Path) {
    check.required_form(request, path, "deviceClassName", names::dns1123_subdomain);
    selectors(check, request, path);
    let count = at(request, &["count"]).as_i64().unwrap_or_default();
    let mode = text(request, &["allocationMode"]);
    match mode {
        "All" if count != 0 => check.invalid(
            path.child("count"),
            &count.into(),
            "must not be specified when allocationMode is 'All'",
        ),
        "ExactCount" if count <= 0 => {
            check.invalid(path.child("count"), &count.into(), "must be greater than zero");
        }
        "All" | "ExactCount" => {}
        _ => check.one_of(request, path, "allocationMode", &["All", "ExactCount"]),
    }
    let of_tolerations = path.child("tolerations");
    for (index, item) in list(request, &["tolerations"]).iter().enumerate() {
        toleration(check, item, &of_tolerations.index(index));
    }
}

fn selectors(check: &mut Check, parent: &Value, path: &Path) {
    let selectors = list(parent, &["selectors"]);
    let path = path.child("selectors");
    if !has_room(check, selectors, SELECTORS_MAX, &path) {
        return;
    }
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index).child("cel");
        let cel = at(selector, &["cel"]);
        if cel.is_null() {
            check.required(path, "");
            continue;
        }
        device_expression::expression(check, text(cel, &["expression"]), &path.child("expression"));
    }
}

fn toleration(check: &mut Check, toleration: &Value, path: &Path) {
    check.optional_form(toleration, path, "key", names::qualified_name);
    let value = text(toleration, &["value"]);
    match text(toleration, &["operator"]) {
        "Exists" if !value.is_empty() => {
            let why = "must be empty for operator `Exists`";
            check.invalid(path.child("value"), &value.into(), why);
        }
        "Exists" => {}
        "Equal" => check.faults(&path.child("value"), value, names::label_value(value)),
        "" => check.required(path.child("operator"), ""),
        _ => check.one_of(toleration, path, "operator", &["Equal", "Exists"]),
    }
    if !text(toleration, &["effect"]).is_empty() {
        check.one_of(toleration, path, "effect", EFFECTS);
    }
}

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

const NO_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// Checks the requests that a constraint or a configuration references.
fn references(check: &mut Check, parent: &Value, path: &Path, names: &Names<'_>) {
    let requests = list(parent, &["requests"]);
    let path = path.child("requests");
    if !has_room(check, requests, REQUESTS_MAX, &path) {
        return;
    }
    for (index, name) in requests.iter().enumerate() {
        reference(check, name, &path.index(index), names);
    }
    unique(check, requests, &path, itself);
}

fn reference(check: &mut Check, name: &Value, path: &Path, names: &Names<'_>) {
    let shown = name.as_str().unwrap_or_default();
    let segments: Vec<&str> = shown.split('/').collect();
    if segments.len() > 2 {
        return check.invalid(path.clone(), &shown.into(), NO_REQUEST);
    }
    for segment in &segments {
        check.faults(path, segment, names::dns1123_label(segment));
    }
    let is_known = match segments[..] {
        [request] => names.contains_key(request),
        [request, alternative] => names
            .get(request)
            .is_some_and(|known| known.contains(alternative)),
        _ => false,
    };
    if !is_known {
        check.invalid(path.clone(), &shown.into(), NO_REQUEST);
    }
}

fn constraint(check: &mut Check, constraint: &Value, path: &Path, names: &Names<'_>) {
    references(check, constraint, path, names);
    let given = ["matchAttribute", "distinctAttribute"]
        .into_iter()
        .find_map(|field| Some((field, at(constraint, &[field]).as_str()?)));
    let Some((field, name)) = given else {
        return check.required(
            path.clone(),
            r#"exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set"#,
        );
    };
    let path = path.child(field);
    qualified_name(check, name, &path);
    if !name.contains('/') {
        check.invalid(
            path,
            &name.into(),
            "a fully qualified name must be a domain and a name separated by a slash",
        );
    }
}

/// Checks the name of an attribute or of a capacity, with an optional domain.
pub(super) fn qualified_name(check: &mut Check, name: &str, path: &Path) {
    let Some((domain, name)) = name.split_once('/') else {
        return identifier(check, name, path);
    };
    // The API server does not check names with several slashes.
    if name.contains('/') {
        return;
    }
    if domain.is_empty() {
        check.invalid(path.clone(), &"".into(), "the domain must not be empty");
    } else {
        driver_text(check, domain, path);
    }
    if name.is_empty() {
        check.invalid(path.clone(), &"".into(), "the name must not be empty");
    } else {
        identifier(check, name, path);
    }
}

fn identifier(check: &mut Check, id: &str, path: &Path) {
    const ID_LENGTH_MAX: usize = 32;
    if id.len() > ID_LENGTH_MAX {
        check.errors.push(Error::too_long(path.clone(), ID_LENGTH_MAX));
    }
    let mut characters = id.chars();
    let starts = characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let is_inner = |character: char| character.is_ascii_alphanumeric() || character == '_';
    if !starts || !characters.all(is_inner) {
        check.invalid(path.clone(), &id.into(), C_IDENTIFIER);
    }
}

const C_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

/// Checks the name of a driver; errors are reported at `path`.
fn driver_text(check: &mut Check, name: &str, path: &Path) {
    const DRIVER_LENGTH_MAX: usize = 63;
    if name.len() > DRIVER_LENGTH_MAX {
        check
            .errors
            .push(Error::too_long(path.clone(), DRIVER_LENGTH_MAX));
    }
    check.faults(path, name, names::dns1123_subdomain(&name.to_lowercase()));
}

/// Checks the field `driver`.
pub(super) fn driver(check: &mut Check, parent: &Value, path: &Path) {
    let (name, path) = (text(parent, &["driver"]), path.child("driver"));
    if name.is_empty() {
        check.required(path, "");
    } else {
        driver_text(check, name, &path);
    }
}

pub(super) fn pool_name(check: &mut Check, parent: &Value, path: &Path, field: &str) {
    const POOL_NAME_LENGTH_MAX: usize = 253;
    let (name, path) = (text(parent, &[field]), path.child(field));
    if name.is_empty() {
        return check.required(path, "");
    }
    if name.len() > POOL_NAME_LENGTH_MAX {
        check
            .errors
            .push(Error::too_long(path.clone(), POOL_NAME_LENGTH_MAX));
    }
    for part in name.split('/') {
        check.faults(&path, part, names::dns1123_subdomain(part));
    }
}

pub(super) fn device_name(check: &mut Check, parent: &Value, path: &Path, field: &str) {
    let name = text(parent, &[field]);
    check.faults(&path.child(field), name, names::dns1123_label(name));
}

fn configuration(check: &mut Check, parent: &Value, path: &Path) {
    let (opaque, path) = (at(parent, &["opaque"]), path.child("opaque"));
    if opaque.is_null() {
        return check.required(path, "");
    }
    driver(check, opaque, &path);
    raw_object(check, at(opaque, &["parameters"]), &path.child("parameters"));
}

/// Checks that the opaque parameters of a driver are a JSON object.
fn raw_object(check: &mut Check, value: &Value, path: &Path) {
    if value.is_null() {
        check.required(path.clone(), "");
    } else if value.to_string().len() > PARAMETERS_BYTES_MAX {
        check
            .errors
            .push(Error::too_long(path.clone(), PARAMETERS_BYTES_MAX));
    } else if !value.is_object() {
        check.invalid(
            path.clone(),
            &"<value omitted>".into(),
            "must be a valid JSON object",
        );
    }
}

pub(super) fn class(check: &mut Check, class: &Value) {
    let (spec, path) = (at(class, &["spec"]), Path::new("spec"));
    selectors(check, spec, &path);
    class_configurations(check, spec, &path);
    let extended = at(spec, &["extendedResourceName"]);
    if extended.as_str().is_some_and(|name| !is_extended_resource(name)) {
        let why = "must be a valid extended resource name";
        check.invalid(path.child("extendedResourceName"), extended, why);
    }
}

fn class_configurations(check: &mut Check, spec: &Value, path: &Path) {
    let configurations = list(spec, &["config"]);
    let path = path.child("config");
    if has_room(check, configurations, CONFIGURATIONS_MAX, &path) {
        for (index, item) in configurations.iter().enumerate() {
            configuration(check, item, &path.index(index));
        }
    }
}

/// Returns true for an extended resource with a valid quota name.
fn is_extended_resource(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    let is_quota = name.starts_with("requests.");
    !is_native && !is_quota && names::qualified_name(&format!("requests.{name}")).is_empty()
}

pub(super) fn claim_status(check: &mut Check, claim: &Value, old: &Value) {
    let (status, path) = (at(claim, &["status"]), Path::new("status"));
    let before = at(old, &["status"]);
    let names = request_names(at(claim, &["spec", "devices"]));
    let reserved = list(status, &["reservedFor"]);
    let of_reserved = path.child("reservedFor");
    if has_room(check, reserved, 256, &of_reserved) {
        for (index, item) in reserved.iter().enumerate() {
            for field in ["resource", "name", "uid"] {
                check.required_text(item, &of_reserved.index(index), field);
            }
        }
        unique(check, reserved, &of_reserved, named("uid"));
    }
    let allocation = at(status, &["allocation"]);
    super::device_slice::statuses(check, status, &path);
    if !reserved.is_empty() && allocation.is_null() {
        check.forbidden(of_reserved, "may not be specified when `allocated` is not set");
    } else if !at(claim, &["metadata", "deletionTimestamp"]).is_null() {
        let known = list(before, &["reservedFor"]);
        if reserved.iter().any(|item| !known.contains(item)) {
            let why =
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            check.forbidden(of_reserved, why);
        }
    }
    let earlier = at(before, &["allocation"]);
    let path = path.child("allocation");
    if allocation.is_null() {
        return;
    }
    if earlier.is_null() {
        return allocation_result(check, allocation, &path, &names);
    }
    if earlier != allocation {
        let shown = device_print::print(allocation, device_print::ALLOCATION);
        check.invalid_text(path, shown, "field is immutable");
    }
}

fn allocation_result(check: &mut Check, allocation: &Value, path: &Path, names: &Names<'_>) {
    let devices = at(allocation, &["devices"]);
    let of_devices = path.child("devices");
    let results = list(devices, &["results"]);
    let of_results = of_devices.child("results");
    if has_room(check, results, 32, &of_results) {
        for (index, result) in results.iter().enumerate() {
            let path = of_results.index(index);
            let request = text(result, &["request"]);
            reference(check, &request.into(), &path.child("request"), names);
            driver(check, result, &path);
            pool_name(check, result, &path, "pool");
            device_name(check, result, &path, "device");
            super::device_slice::binding_conditions(check, result, &path);
            if let Some(share) = at(result, &["shareID"]).as_str() {
                super::device_slice::share_id(check, share, &path.child("shareID"));
            }
            for (index, item) in list(result, &["tolerations"]).iter().enumerate() {
                toleration(check, item, &path.child("tolerations").index(index));
            }
        }
    }
    let configurations = list(devices, &["config"]);
    let of_configurations = of_devices.child("config");
    if has_room(check, configurations, 64, &of_configurations) {
        for (index, item) in configurations.iter().enumerate() {
            let path = of_configurations.index(index);
            match text(item, &["source"]) {
                "" => check.required(path.child("source"), ""),
                _ => check.one_of(item, &path, "source", &["FromClaim", "FromClass"]),
            }
            references(check, item, &path, names);
            configuration(check, item, &path);
        }
    }
    let selector = at(allocation, &["nodeSelector"]);
    if selector.is_object() {
        affinity::node_selector(check, selector, &path.child("nodeSelector"));
    }
}

/// Checks the keys and the values of a map.
pub(super) fn each(
    check: &mut Check,
    map: &Value,
    path: &Path,
    key_rule: fn(&mut Check, &str, &Path),
    rule: Rule,
) {
    for (key, value) in entries(map, &[]) {
        key_rule(check, key, path);
        rule(check, value, &path.key(key));
    }
}
