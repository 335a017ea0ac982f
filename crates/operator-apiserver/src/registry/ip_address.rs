//! The IPAddress objects of Services, and the ranges of addresses.

use std::net::IpAddr;

use apimachinery::object;
use builtin_kinds::tree::{at, list, text};
use serde_json::{Value, json};

use super::Registry;
use super::service_network::{Family, Range};
use crate::resource::builtin_catalog;

const GROUP: &str = "networking.k8s.io";
const ADDRESSES: &str = "ipaddresses.networking.k8s.io";
const RANGES: &str = "servicecidrs.networking.k8s.io";
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
const MANAGER: &str = "ipallocator.k8s.io";

/// Returns the ranges of a family from which new addresses are allocated: first those of the cluster, then those of
/// additional ServiceCIDRs.
pub(super) fn ranges(registry: &Registry, family: Family) -> Vec<Range> {
    let own = registry.service_network.ranges();
    let mut ranges: Vec<Range> = own.filter(|range| range.family() == family).collect();
    for stored in registry.store.list(RANGES, "").objects {
        if !is_ready(&stored.value) {
            continue;
        }
        for range in list(&stored.value, &["spec", "cidrs"]) {
            if let Some(Ok(range)) = range.as_str().map(str::parse::<Range>)
                && range.family() == family
                && !ranges.contains(&range)
            {
                ranges.push(range);
            }
        }
    }
    ranges
}

/// Returns true if a range may be used. Without a condition it is ready, because no controller has processed it.
fn is_ready(range: &Value) -> bool {
    let conditions = list(range, &["status", "conditions"]);
    let ready = conditions
        .iter()
        .find(|condition| text(condition, &["type"]) == "Ready");
    at(range, &["metadata", "deletionTimestamp"]).is_null()
        && ready.is_none_or(|ready| text(ready, &["status"]) == "True")
}

/// Returns true if another object has an address.
pub(super) fn is_taken(registry: &Registry, address: &str, service: (&str, &str)) -> bool {
    let stored = registry.store.get(ADDRESSES, address);
    stored.is_some_and(|stored| !is_of(&stored.value, service))
}

fn is_of(address: &Value, (namespace, name): (&str, &str)) -> bool {
    let parent = at(address, &["spec", "parentRef"]);
    text(parent, &["resource"]) == "services"
        && text(parent, &["group"]).is_empty()
        && text(parent, &["namespace"]) == namespace
        && text(parent, &["name"]) == name
}

/// Returns the addresses of a Service.
pub(super) fn of(service: &Value) -> Vec<&str> {
    let all = list(service, &["spec", "clusterIPs"]).iter();
    let all = all.filter_map(Value::as_str);
    all.filter(|address| address.parse::<IpAddr>().is_ok()).collect()
}

/// Creates the objects of a Service's current addresses, and deletes those of its previous addresses.
pub(super) fn update(registry: &Registry, service: (&str, &str), before: &[&str]) {
    let Some(definition) = builtin_catalog().find(GROUP, "v1", "ipaddresses") else {
        return;
    };
    let (namespace, name) = service;
    let live = registry.store.get("services", &format!("{namespace}/{name}"));
    let current = live.as_ref().map(|live| of(&live.value)).unwrap_or_default();
    for address in &current {
        if registry.store.get(ADDRESSES, address).is_some() {
            continue;
        }
        let object = object_of(registry, address, service);
        let created = registry
            .store
            .create(&definition.table, &definition.storage, address, object);
        if let Err(error) = created {
            tracing::error!(address, ?error, "cannot store an IPAddress");
        }
    }
    for address in before.iter().filter(|address| !current.contains(address)) {
        if let Some(stored) = registry.store.get(ADDRESSES, address)
            && is_of(&stored.value, service)
        {
            // If the object was changed in the meantime, the owner of that change deletes it.
            let _ = registry
                .store
                .delete(&definition.table, &definition.storage, &stored);
        }
    }
}

fn object_of(registry: &Registry, address: &str, (namespace, name): (&str, &str)) -> Value {
    let family = address.parse().map_or(Family::V4, Family::of).name();
    let mut object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": address, "labels": {FAMILY: family, MANAGED_BY: MANAGER}},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}},
    });
    object::set_meta(&mut object, "uid", Some(registry.random.uuid().into()));
    object::set_meta(
        &mut object,
        "creationTimestamp",
        Some(registry.timestamp().into()),
    );
    object
}

/// Creates the missing objects of all Services: a data directory of an earlier version does not have them.
pub(crate) fn complete(registry: &Registry) {
    for stored in registry.store.list("services", "").objects {
        let service = (object::namespace(&stored.value), object::name(&stored.value));
        update(registry, service, &[]);
    }
}
