//! What the controllers of a CRD do: accept its names, establish it, serve it, and take it away again.
//!
//! The real server runs these as controllers and is late by seconds; here they run inside the commit that caused
//! them, so that a CRD is served before its creation is answered.

mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::jsonpath::JsonPath;
use serde_json::{Value, json};
use structured_merge::Schema;
use tokio_util::sync::CancellationToken;

use self::names::{Names, Taken};
use crate::builtin::Column;
use crate::gvr::Gvr;
use crate::identity::authn::User;
use crate::object;
use crate::patch::managed_fields::{self, FieldManagers};
use crate::registry::Registry;
use crate::resource::crd::TABLE;
use crate::resource::crd::conversion::Conversion;
use crate::resource::crd::scale::Scale;
use crate::resource::crd::version::{CustomVersion, PrinterColumn};
use crate::resource::{Backing, Definition, Subresource, builtin_catalog};
use crate::status::Subject;
use crate::store::Stored;
use crate::write::{Warnings, Write};

/// The finalizer that holds a CRD until its instances are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

const ALL_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// The result of the last round, by the name of the CRD. A round looks only at what has changed since, so that its cost
/// does not depend on the number of CRDs.
#[derive(Debug, Default)]
pub(crate) struct Established {
    served: BTreeMap<Arc<str>, Served>,
    /// The revision of the store that the last round saw.
    revision: u64,
    taken: Taken,
    /// The CRDs whose names others have, by group.
    waiting: BTreeMap<String, BTreeSet<Arc<str>>>,
    /// The groups in which names have become free.
    freed: BTreeSet<String>,
}

/// One CRD as it was last seen, and what is served of it.
#[derive(Debug)]
struct Served {
    crd: Arc<Stored>,
    names: Names,
    group: String,
    names_accepted: bool,
    definitions: Vec<Arc<Definition>>,
    /// Cancelled when another definition takes the place of these.
    retired: CancellationToken,
}

/// Brings conditions and the catalogue up to date with the stored CRDs.
pub(crate) fn establish(registry: &Registry) {
    let mut established = registry.establishing.lock();
    while established.round(registry) {}
}

/// Completes the deletion of a CRD after one of its instances was written: a terminating CRD without instances is
/// deleted too, and its names are free.
///
/// The round that saw the deletion of the CRD deleted the other instances. Only this one may have been created or
/// changed at the same time, so the work does not depend on their number.
pub(crate) fn finish_deletions(registry: &Registry, definition: &Definition, key: &str) {
    let table = &definition.table;
    let Some(stored) = registry.store.get(TABLE, table) else {
        return;
    };
    if !object::is_terminating(&stored.value) {
        return;
    }
    let mut established = registry.establishing.lock();
    if let Some(instance) = registry.store.get(table, key) {
        delete_instance(registry, definition, &instance);
    }
    if registry.store.count(table) == 0 {
        delete_instances(registry, &stored);
        while established.round(registry) {}
    }
}

// === impl Established ===

impl Established {
    /// Accepts names and serves what is accepted. Reports whether names were given up, which others may get.
    fn round(&mut self, registry: &Registry) -> bool {
        let changed = self.changed(registry);
        let current = |key: &Arc<str>| registry.store.get(TABLE, key);
        // Names that were given up are free before others ask for them.
        self.publish(registry, &changed);
        for key in &changed {
            if let Some(stored) = current(key) {
                accept_names(registry, &stored, &self.taken);
                self.publish(registry, std::slice::from_ref(key));
            }
        }
        for stored in changed.iter().filter_map(current) {
            set_established(registry, &stored);
        }
        self.publish(registry, &changed);
        for stored in changed.iter().filter_map(current) {
            if object::is_terminating(&stored.value) {
                delete_instances(registry, &stored);
            }
        }
        self.publish(registry, &changed);
        !self.freed.is_empty()
    }

    /// The names of the CRDs that were written since the last round, and of those that wait for names which others may
    /// have given up.
    fn changed(&mut self, registry: &Registry) -> Vec<Arc<str>> {
        let revision = registry.store.revision();
        let mut changed: BTreeSet<Arc<str>> = match registry.store.events(TABLE, self.revision, usize::MAX) {
            Ok(events) if self.revision > 0 => events.iter().map(|event| event.object.key.clone()).collect(),
            _ => {
                let stored = registry.store.list(TABLE, "").objects;
                let stored = stored.iter().map(|crd| crd.key.clone());
                stored.chain(self.served.keys().cloned()).collect()
            }
        };
        self.revision = revision;
        for group in std::mem::take(&mut self.freed) {
            changed.extend(self.waiting.get(&group).into_iter().flatten().cloned());
        }
        changed.into_iter().collect()
    }

    /// Serves what some stored CRDs define, and ends the watches of what is served no more.
    fn publish(&mut self, registry: &Registry, keys: &[Arc<str>]) {
        let mut changed = Vec::new();
        let mut retired = Vec::new();
        for key in keys {
            let stored = registry.store.get(TABLE, key);
            let revision = stored.as_ref().map(|stored| stored.revision);
            if self.served.get(key).map(|seen| seen.crd.revision) == revision {
                continue;
            }
            let seen = self.served.remove(key);
            if let Some(seen) = &seen {
                self.forget(key, seen);
            }
            let names = seen.as_ref().map(|seen| (seen.group.clone(), seen.names.clone()));
            let served = match (seen, stored) {
                (Some(seen), Some(crd)) if seen.says_the_same(&crd) => Some(seen.refreshed(&crd)),
                (seen, crd) => {
                    retired.extend(seen.map(|seen| seen.retired));
                    crd.map(|crd| Served::new(&crd, CancellationToken::new()))
                }
            };
            if let Some((group, names)) = names
                && served.as_ref().is_none_or(|served| names.lost_by(&served.names))
            {
                self.freed.insert(group);
            }
            let definitions = served.as_ref().map(|served| served.definitions.clone());
            changed.push((key.clone(), definitions.unwrap_or_default()));
            if let Some(served) = served {
                self.remember(key, &served);
                self.served.insert(key.clone(), served);
            }
        }
        if !changed.is_empty() {
            let mut catalog = (*registry.custom()).clone();
            for (table, definitions) in changed {
                let before = catalog.versions(&table);
                registry.aggregation.served(before, &definitions);
                catalog.set(&table, definitions);
            }
            registry.set_custom(catalog);
        }
        for token in retired {
            token.cancel();
        }
    }

    fn remember(&mut self, key: &Arc<str>, served: &Served) {
        self.taken.insert(&served.group, &served.names, key);
        if !served.names_accepted {
            let waiting = self.waiting.entry(served.group.clone()).or_default();
            waiting.insert(key.clone());
        }
    }

    fn forget(&mut self, key: &Arc<str>, served: &Served) {
        self.taken.remove(&served.group, &served.names, key);
        if let Some(waiting) = self.waiting.get_mut(&served.group) {
            waiting.remove(key);
            if waiting.is_empty() {
                self.waiting.remove(&served.group);
            }
        }
    }
}

// === impl Served ===

impl Served {
    fn new(crd: &Arc<Stored>, retired: CancellationToken) -> Self {
        let definitions = if is_true(&crd.value, "Established") {
            definitions(&crd.value, crd.revision, &retired)
        } else {
            Vec::new()
        };
        Self {
            crd: crd.clone(),
            names: accepted_names(&crd.value),
            group: object::text(&crd.value, &["spec", "group"]).to_owned(),
            names_accepted: is_true(&crd.value, "NamesAccepted"),
            definitions: definitions.into_iter().map(Arc::new).collect(),
            retired,
        }
    }

    /// Whether a later version of the CRD defines the same: the real server keeps its storage then.
    fn says_the_same(&self, crd: &Stored) -> bool {
        let (old, new) = (&*self.crd.value, &*crd.value);
        let accepted = |crd: &Value| crd.pointer("/status/acceptedNames").cloned();
        object::uid(old) == object::uid(new)
            && old.get("spec") == new.get("spec")
            && accepted(old) == accepted(new)
    }

    /// The same with the status of a later version.
    fn refreshed(self, crd: &Arc<Stored>) -> Self {
        let state = |crd: &Value| (object::is_terminating(crd), is_true(crd, "Established"));
        if state(&self.crd.value) != state(&crd.value) {
            return Self::new(crd, self.retired);
        }
        Self {
            crd: crd.clone(),
            names_accepted: is_true(&crd.value, "NamesAccepted"),
            ..self
        }
    }
}

fn save(registry: &Registry, stored: &Stored, value: Value) {
    let Some(definition) = builtin_catalog().find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    else {
        return;
    };
    if value == *stored.value {
        return;
    }
    let write = Write {
        definition: definition.clone(),
        namespace: String::new(),
        name: object::name(&value).to_owned(),
        subresource: "status".to_owned(),
        user: User::admin(),
        manager: "kube-apiserver".to_owned(),
        tracked: false,
        replaces: false,
        dry_run: false,
        options: Value::Null,
        warnings: Warnings::default(),
        in_collection: false,
        deadline: None,
    };
    let mut value = value;
    managed_fields::update(registry, &write, Some(&stored.value), &mut value);
    // A write that came between started its own round, which sees what this one did not.
    let result = registry
        .store
        .update(&definition.table, &definition.storage, stored, value);
    if let Err(error) = result {
        tracing::debug!(crd = %stored.key, ?error, "the status of a CRD was written by another");
    }
}

/// The names that a CRD has got.
fn accepted_names(crd: &Value) -> Names {
    Names::read(crd.pointer("/status/acceptedNames").unwrap_or(&Value::Null))
}

fn accept_names(registry: &Registry, stored: &Stored, taken: &Taken) {
    let crd = &stored.value;
    let requested = Names::read(crd.pointer("/spec/names").unwrap_or(&Value::Null));
    let group = object::text(crd, &["spec", "group"]);
    let (names, conflict) = names::accept(&requested, &accepted_names(crd), &|name| {
        taken.by_another(group, name, &stored.key)
    });
    let mut value = (**crd).clone();
    object::child_mut(&mut value, "status").insert("acceptedNames".to_owned(), names.write());
    let now = registry.timestamp();
    let (state, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found"),
        Some(conflict) => ("False", conflict.reason, conflict.message.as_str()),
    };
    set_condition(&mut value, "NamesAccepted", state, reason, message, &now);
    if conflict.is_none() && condition(&value, "Established").is_none() {
        set_condition(
            &mut value,
            "Established",
            "False",
            "Installing",
            "the initial names have been accepted",
            &now,
        );
    } else if condition(&value, "Established").is_none() {
        set_condition(
            &mut value,
            "Established",
            "False",
            "NotAccepted",
            "not all names are accepted",
            &now,
        );
    }
    save(registry, stored, value);
}

fn set_established(registry: &Registry, stored: &Stored) {
    let crd = &stored.value;
    if !is_true(crd, "NamesAccepted") || is_true(crd, "Established") {
        return;
    }
    let mut value = (**crd).clone();
    set_condition(
        &mut value,
        "Established",
        "True",
        "InitialNamesAccepted",
        "the initial names have been accepted",
        &registry.timestamp(),
    );
    save(registry, stored, value);
}

/// Deletes the instances of a terminating CRD, and the CRD when none is left.
fn delete_instances(registry: &Registry, stored: &Stored) {
    if object::finalizers(&stored.value).contains(&CLEANUP_FINALIZER) {
        clean_up(registry, stored);
    }
}

fn clean_up(registry: &Registry, stored: &Stored) {
    let Some(definition) = definitions(&stored.value, stored.revision, &CancellationToken::new())
        .into_iter()
        .next()
    else {
        return finish(registry, stored);
    };
    for instance in registry.store.list(&definition.table, "").objects {
        delete_instance(registry, &definition, &instance);
    }
    if registry.store.list(&definition.table, "").objects.is_empty() {
        finish(registry, stored);
    } else {
        say_in_progress(registry, stored);
    }
}

/// Instances with finalizers hold a CRD up.
fn say_in_progress(registry: &Registry, stored: &Stored) {
    let mut value = (*stored.value).clone();
    set_condition(
        &mut value,
        "Terminating",
        "True",
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
        &registry.timestamp(),
    );
    save(registry, stored, value);
}

fn delete_instance(registry: &Registry, definition: &Definition, instance: &Stored) {
    let (table, gvr) = (&definition.table, &definition.storage);
    let result = if object::finalizers(&instance.value).is_empty() {
        registry.store.delete(table, gvr, instance)
    } else if object::is_terminating(&instance.value) {
        return;
    } else {
        let mut value = (*instance.value).clone();
        object::set_meta(&mut value, "deletionTimestamp", Some(registry.timestamp().into()));
        object::set_meta(&mut value, "deletionGracePeriodSeconds", Some(0.into()));
        let generation = object::generation(&value) + 1;
        object::set_meta(&mut value, "generation", Some(generation.into()));
        registry.store.update(table, gvr, instance, value)
    };
    if let Err(error) = result {
        tracing::debug!(key = %instance.key, ?error, "an instance changed while its CRD was deleted");
    }
}

fn finish(registry: &Registry, stored: &Stored) {
    let Some(definition) = builtin_catalog().find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    else {
        return;
    };
    let Some(live) = registry.store.get(TABLE, &stored.key) else {
        return;
    };
    let mut value = (*live.value).clone();
    let kept: Vec<Value> = object::finalizers(&value)
        .into_iter()
        .filter(|finalizer| *finalizer != CLEANUP_FINALIZER)
        .map(Value::from)
        .collect();
    if kept.is_empty() {
        let _ = registry
            .store
            .delete(&definition.table, &definition.storage, &live);
        return;
    }
    object::set_meta(&mut value, "finalizers", Some(kept.into()));
    save(registry, &live, value);
}

/// The condition of a type.
fn condition<'a>(crd: &'a Value, kind: &str) -> Option<&'a Value> {
    crd.pointer("/status/conditions")?
        .as_array()?
        .iter()
        .find(|condition| object::text(condition, &["type"]) == kind)
}

fn is_true(crd: &Value, kind: &str) -> bool {
    condition(crd, kind).is_some_and(|found| object::text(found, &["status"]) == "True")
}

pub(crate) fn set_condition(
    crd: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let mut fresh = json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": now,
    });
    let conditions = object::child_mut(crd, "status")
        .entry("conditions".to_owned())
        .or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    match list
        .iter_mut()
        .find(|condition| object::text(condition, &["type"]) == kind)
    {
        Some(found) => {
            if object::text(found, &["status"]) == status {
                fresh["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            *found = fresh;
        }
        None => list.push(fresh),
    }
}

/// The resources that a CRD serves: one for every served version, in the order of discovery.
fn definitions(crd: &Value, since: u64, retired: &CancellationToken) -> Vec<Definition> {
    let spec = &crd["spec"];
    let names = Names::read(&crd["status"]["acceptedNames"]);
    let group = object::text(spec, &["group"]);
    let versions: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().collect();
    let Some(storage) = versions.iter().find(|version| version["storage"] == true) else {
        return Vec::new();
    };
    let Some(storage_schema) = compiled(storage) else {
        return Vec::new();
    };
    let storage = Arc::new(Gvr::new(group, object::text(storage, &["name"]), &names.plural));
    let mut served: Vec<&Value> = versions
        .iter()
        .copied()
        .filter(|version| version["served"] == true)
        .collect();
    served.sort_by_key(|version| crate::http::discovery::version_priority(object::text(version, &["name"])));
    let current = served.iter().filter(|version| version["deprecated"] != true);
    let family = Family {
        current: current
            .map(|version| object::text(version, &["name"]).to_owned())
            .collect(),
        namespaced: spec["scope"] == "Namespaced",
        merge_schemas: merge_schemas(group, &versions),
        storage_schema,
        since,
        uid: object::uid(crd).to_owned(),
        terminating: object::is_terminating(crd),
        retired: retired.clone(),
        conversion: Conversion::read(spec),
    };
    served
        .into_iter()
        .filter_map(|version| definition(version, &names, &storage, &family))
        .collect()
}

/// What the versions of a CRD have in common.
struct Family {
    /// The versions that are served and not deprecated, the best first.
    current: Vec<String>,
    namespaced: bool,
    merge_schemas: BTreeMap<String, Schema>,
    storage_schema: structural_schema::Schema,
    since: u64,
    uid: String,
    terminating: bool,
    retired: CancellationToken,
    conversion: Option<Arc<Conversion>>,
}

/// The schema of a version. `None` for one that cannot be read; the checks of a CRD let none through.
fn compiled(version: &Value) -> Option<structural_schema::Schema> {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&anything);
    structural_schema::Schema::compile(schema).ok()
}

/// The types of all versions, by apiVersion, for the tracking of field owners.
fn merge_schemas(group: &str, versions: &[&Value]) -> BTreeMap<String, Schema> {
    versions
        .iter()
        .map(|version| {
            let api_version = format!("{group}/{}", object::text(version, &["name"]));
            let schema = match version.pointer("/schema/openAPIV3Schema") {
                Some(schema) => Schema::structural(schema),
                None => Schema::deduced(),
            };
            (api_version, schema)
        })
        .collect()
}

fn definition(version: &Value, names: &Names, storage: &Arc<Gvr>, family: &Family) -> Option<Definition> {
    let custom = custom_version(version, names, storage, family)?;
    let subject = Subject {
        group: storage.group.clone(),
        resource: names.plural.clone(),
        kind: names.kind.clone(),
    };
    let version_name = object::text(version, &["name"]).to_owned();
    let mut subresources = Vec::new();
    let subresource = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.to_owned(),
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
    };
    if custom.has_status {
        subresources.push(subresource("status", &storage.group, &version_name, &names.kind));
    }
    if custom.scale.is_some() {
        subresources.push(subresource("scale", "autoscaling", "v1", "Scale"));
    }
    Some(Definition {
        table: subject.resource_name().into(),
        storage: storage.clone(),
        version: version_name,
        singular: names.singular_or_default(),
        list_kind: names.list_kind_or_default(),
        namespaced: family.namespaced,
        verbs: ALL_VERBS.map(str::to_owned).to_vec(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        field_managers: FieldManagers::new(subresources.iter().map(|sub| sub.name.as_str())),
        subresources,
        backing: Backing::Custom(Arc::new(custom)),
        subject,
    })
}

fn custom_version(version: &Value, names: &Names, storage: &Gvr, family: &Family) -> Option<CustomVersion> {
    let group = &storage.group;
    let name = object::text(version, &["name"]);
    let deprecated = version["deprecated"] == true;
    Some(CustomVersion {
        api_version: format!("{group}/{name}"),
        storage_api_version: format!("{group}/{}", storage.version),
        merge_schemas: family.merge_schemas.clone(),
        has_status: version
            .pointer("/subresources/status")
            .is_some_and(|status| !status.is_null()),
        scale: version.pointer("/subresources/scale").and_then(scale),
        columns: printer_columns(version),
        selectable_fields: version["selectableFields"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|field| object::text(field, &["jsonPath"]).to_owned())
            .collect(),
        schema: compiled(version)?,
        storage_schema: family.storage_schema.clone(),
        since: family.since,
        identity: format!("{} {}", family.uid, family.since),
        terminating: family.terminating,
        retired: family.retired.clone(),
        conversion: family.conversion.clone(),
        deprecation: deprecated.then(|| {
            version["deprecationWarning"]
                .as_str()
                .map(str::to_owned)
                .unwrap_or_else(|| deprecation_warning(group, name, &names.kind, &family.current))
        }),
    })
}

/// What the users of a deprecated version are told when its author says nothing: to use the best of those above it.
fn deprecation_warning(group: &str, version: &str, kind: &str, current: &[String]) -> String {
    let priority = crate::http::discovery::version_priority;
    let better = current.iter().find(|other| priority(other) < priority(version));
    let hint = better.map(|other| format!("; use {group}/{other} {kind}"));
    format!(
        "{group}/{version} {kind} is deprecated{}",
        hint.unwrap_or_default()
    )
}

fn scale(scale: &Value) -> Option<Scale> {
    Some(Scale {
        spec_replicas: scale["specReplicasPath"].as_str()?.to_owned(),
        status_replicas: scale["statusReplicasPath"].as_str()?.to_owned(),
        label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
    })
}

fn printer_columns(version: &Value) -> Vec<PrinterColumn> {
    let given: Vec<PrinterColumn> = version["additionalPrinterColumns"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| {
            let text = |field: &str| object::text(column, &[field]).to_owned();
            let mut description = text("description");
            if description.is_empty() {
                let path = text("jsonPath");
                description = format!("Custom resource definition column (in JSONPath format): {path}");
            }
            PrinterColumn {
                column: Column {
                    name: text("name"),
                    kind: text("type"),
                    format: text("format"),
                    description,
                    priority: column["priority"]
                        .as_i64()
                        .and_then(|priority| i32::try_from(priority).ok())
                        .unwrap_or_default(),
                },
                json_path: JsonPath::parse(&text("jsonPath")).ok(),
            }
        })
        .collect();
    if !given.is_empty() {
        return given;
    }
    vec![PrinterColumn {
        column: Column {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata".to_owned(),
            priority: 0,
        },
        json_path: JsonPath::parse(".metadata.creationTimestamp").ok(),
    }]
}
