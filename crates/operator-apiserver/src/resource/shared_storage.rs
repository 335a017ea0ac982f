//! Built-in resources that are served from the same table by two groups or versions.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Definition, Source};
use crate::store::TableId;
use apimachinery::gvk::Gvr;
use builtin_kinds::{horizontal_pod_autoscaler, resource_v1beta1};

/// The fields of a core Event that have other names in `events.k8s.io/v1`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Returns the table of a built-in resource, and the group, version and plural of its storage.
pub(super) fn of(group: &str, version: &str, resource: &str) -> (TableId, Arc<Gvr>) {
    match (group, resource) {
        ("events.k8s.io", "events") => ("events".into(), Arc::new(Gvr::new("", "v1", "events"))),
        ("autoscaling", "horizontalpodautoscalers") => (
            "horizontalpodautoscalers.autoscaling".into(),
            Arc::new(Gvr::new("autoscaling", "v2", resource)),
        ),
        ("", _) => (resource.into(), Arc::new(Gvr::new(group, version, resource))),
        _ => (
            format!("{resource}.{group}").into(),
            Arc::new(Gvr::new(group, version, resource)),
        ),
    }
}

/// Returns a stored object as a definition serves it.
pub(super) fn serve(definition: &Definition, stored: &Arc<Value>) -> Arc<Value> {
    let api_version = definition.api_version();
    if stored.get("apiVersion").and_then(Value::as_str) == Some(&api_version) {
        return stored.clone();
    }
    if definition.subject.group == "autoscaling" {
        let converted = horizontal_pod_autoscaler::convert(stored, &api_version);
        return converted.map_or_else(|| stored.clone(), Arc::new);
    }
    if is_older_device_kind(definition) {
        return Arc::new(resource_v1beta1::from_v1(stored));
    }
    let mut object = (**stored).clone();
    if definition.subject.group == "events.k8s.io" {
        rename(&mut object, |core, events| (core, events));
        drop_empty_reporter(&mut object);
    }
    relabel(&mut object, &api_version);
    Arc::new(object)
}

/// Returns the stored form of an object of a definition.
pub(super) fn to_storage(definition: &Definition, mut object: Value) -> Value {
    let storage = &definition.storage;
    let api_version = super::api_version(&storage.group, &storage.version);
    if api_version == definition.api_version() {
        return object;
    }
    if definition.subject.group == "autoscaling" {
        return horizontal_pod_autoscaler::convert(&object, &api_version).unwrap_or(object);
    }
    if is_older_device_kind(definition) {
        return resource_v1beta1::in_v1(&object);
    }
    if definition.subject.group == "events.k8s.io" {
        rename(&mut object, |core, events| (events, core));
        fill_reporter(&mut object);
    }
    relabel(&mut object, &api_version);
    object
}

/// Returns true for a kind of `resource.k8s.io/v1beta1` that differs from that of `v1`.
fn is_older_device_kind(definition: &Definition) -> bool {
    matches!(definition.source, Source::Builtin { gvk, .. } if resource_v1beta1::v1_kind(gvk).is_some())
}

fn relabel(object: &mut Value, api_version: &str) {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".to_owned(), api_version.into());
    }
}

/// Removes an empty reporter from an event of `events.k8s.io`, which omits it.
fn drop_empty_reporter(event: &mut Value) {
    if let Some(map) = event.as_object_mut() {
        map.retain(|field, value| !(field.starts_with("reporting") && value == ""));
    }
}

/// Adds an empty reporter to a core Event, which never omits it.
fn fill_reporter(event: &mut Value) {
    if let Some(map) = event.as_object_mut() {
        for field in ["reportingComponent", "reportingInstance"] {
            map.entry(field).or_insert_with(|| "".into());
        }
    }
}

type Direction = fn(&'static str, &'static str) -> (&'static str, &'static str);

fn rename(event: &mut Value, direction: Direction) {
    let Some(map) = event.as_object_mut() else {
        return;
    };
    let renamed: Map<String, Value> = std::mem::take(map)
        .into_iter()
        .map(|(field, value)| {
            let pairs = EVENT_FIELDS.iter().map(|(core, events)| direction(core, events));
            let name = pairs.into_iter().find(|(from, _)| *from == field);
            (name.map_or(field, |(_, to)| to.to_owned()), value)
        })
        .collect();
    *map = renamed;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn both_groups_of_events_show_the_same_event() {
        let core = json!({"involvedObject": {"name": "a"}, "message": "m", "reason": "R"});
        let mut event = core.clone();
        super::rename(&mut event, |core, events| (core, events));
        assert_eq!(
            event,
            json!({"regarding": {"name": "a"}, "note": "m", "reason": "R"})
        );
        super::rename(&mut event, |core, events| (events, core));
        assert_eq!(event, core);
    }
}
