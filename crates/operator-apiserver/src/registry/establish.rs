//! The controllers of CRDs: accept names, establish, serve, and finalize.
//!
//! The API server runs them as controllers, with a delay of seconds. Here they run inside the commit, so that a CRD is
//! served before the response to its creation is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::object;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use structural_schema::crd::Approval;
use tokio_util::sync::CancellationToken;

use crate::identity::authn::User;
use crate::patch::managed_fields;
use crate::registry::Registry;
use crate::resource::crd::TABLE;
use crate::resource::crd::condition::{CLEANUP_FINALIZER, condition, is_true, set_condition};
use crate::resource::crd::definitions::definitions;
use crate::resource::crd::names::{self, Names, Taken};
use crate::resource::{Definition, builtin_catalog};
use crate::store::Stored;
use crate::write::{Warnings, Write};

/// The state of the last round, by the name of the CRD. A round processes only changes since then, so that its cost
/// does not depend on the number of CRDs.
#[derive(Debug, Default)]
pub(crate) struct Established {
    served: BTreeMap<Arc<str>, Served>,
    /// The revision of the store at the last round.
    revision: u64,
    taken: Taken,
    /// The CRDs whose names conflict with others, by group.
    waiting: BTreeMap<String, BTreeSet<Arc<str>>>,
    /// The groups in which names have become free.
    freed: BTreeSet<String>,
}

/// One CRD in its last processed state, and its served resources.
#[derive(Debug)]
struct Served {
    crd: Arc<Stored>,
    names: Names,
    group: String,
    names_accepted: bool,
    definitions: Vec<Arc<Definition>>,
    /// Cancelled when other definitions replace these ones.
    retired: CancellationToken,
}

/// Updates conditions and the catalog after a change of the stored CRDs.
pub(crate) fn establish(registry: &Registry) {
    let mut established = registry.establishing.lock();
    while established.round(registry) {}
}

/// Completes the deletion of a CRD after a write to one of its instances: a CRD that waits for its instances, and has none
/// left, loses the finalizer for them. Without other finalizers, it is deleted, and its names become free.
///
/// The round that processed the deletion of the CRD deleted the other instances. Only this one may have been created or
/// changed at the same time, so the work does not depend on their number.
pub(crate) fn finish_deletions(registry: &Registry, definition: &Definition, key: &str) {
    let table = &definition.table;
    let Some(stored) = registry.store.get(TABLE, table) else {
        return;
    };
    if !object::finalizers(&stored.value).contains(&CLEANUP_FINALIZER) {
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
    /// Accepts names and serves the resources. Returns true if names became free, which other CRDs may get.
    fn round(&mut self, registry: &Registry) -> bool {
        let changed = self.changed(registry);
        let current = |key: &Arc<str>| registry.store.get(TABLE, key);
        // Free names are published before other CRDs request them.
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

    /// Returns the names of the CRDs that were written since the last round, and of the CRDs that wait for names that
    /// may have become free.
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

    /// Serves the resources of some stored CRDs, and ends the watches of removed ones.
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
                (Some(seen), Some(crd)) if seen.is_unchanged(&crd) => Some(seen.refreshed(&crd)),
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
            let mut catalog = (*registry.resources.custom()).clone();
            for (table, definitions) in changed {
                let before = catalog.versions(&table);
                registry.aggregation.served(before, &definitions);
                catalog.set(&table, definitions);
            }
            registry.resources.set_custom(catalog);
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

    /// Returns true if a later version of the CRD defines the same resource: the API server then keeps its storage.
    fn is_unchanged(&self, crd: &Stored) -> bool {
        let (old, new) = (&*self.crd.value, &*crd.value);
        let accepted = |crd: &Value| crd.pointer("/status/acceptedNames").cloned();
        object::uid(old) == object::uid(new)
            && old.get("spec") == new.get("spec")
            && accepted(old) == accepted(new)
    }

    /// Returns the same resources with the status of a later version of the CRD.
    fn refreshed(self, crd: &Arc<Stored>) -> Self {
        let state = |crd: &Value| (is_true(crd, "Terminating"), is_true(crd, "Established"));
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
        conversions: Arc::default(),
        decisions: Arc::default(),
        requested_name: Default::default(),
        deadline: None,
    };
    let mut value = value;
    managed_fields::update(&registry.timestamp(), &write, Some(&stored.value), &mut value);
    // A concurrent write started its own round, which processes the rest.
    let result = registry
        .store
        .update(&definition.table, &definition.storage, stored, value);
    if let Err(error) = result {
        tracing::debug!(crd = %stored.key, ?error, "the status of a CRD was changed by another writer");
    }
}

/// The accepted names of a CRD.
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
    set_approval(&mut value, &now);
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

/// Sets the condition about the approval of an API of the Kubernetes project.
fn set_approval(crd: &mut Value, now: &str) {
    const KIND: &str = "KubernetesAPIApprovalPolicyConformant";
    let (status, reason, message) = match structural_schema::crd::approval(crd) {
        None => return,
        Some(Approval::Approved(message)) => ("True", "ApprovedAnnotation", message),
        Some(Approval::Bypassed(message)) => ("False", "UnapprovedAnnotation", message),
        Some(Approval::Missing(message)) => ("False", "MissingAnnotation", message),
        Some(Approval::Invalid(message)) => ("False", "InvalidAnnotation", message),
    };
    set_condition(crd, KIND, status, reason, &message, now);
}

fn set_established(registry: &Registry, stored: &Stored) {
    let crd = &stored.value;
    if !is_true(crd, "NamesAccepted") || is_true(crd, "Established") {
        return;
    }
    let (state, reason, message) = match has_usable_bundle(crd) {
        true => (
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
        false => (
            "False",
            "InvalidCABundle",
            "The conversion webhook CABundle is invalid",
        ),
    };
    let known = condition(crd, "Established");
    if known.is_some_and(|known| object::text(known, &["reason"]) == reason) {
        return;
    }
    let mut value = (**crd).clone();
    set_condition(
        &mut value,
        "Established",
        state,
        reason,
        message,
        &registry.timestamp(),
    );
    save(registry, stored, value);
}

/// Returns true if the authorities of the conversion webhook can be read, or there are none.
fn has_usable_bundle(crd: &Value) -> bool {
    let config = crd.pointer("/spec/conversion/webhook/clientConfig");
    let bundle = config.map(crate::webhook_client::bundle).unwrap_or_default();
    if bundle.is_empty() {
        return true;
    }
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bundle).collect();
    certificates.is_ok_and(|certificates| !certificates.is_empty())
}

/// Deletes the instances of a terminating CRD, and then the CRD if none is left.
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

/// Sets the condition of a CRD whose deletion waits for instances with finalizers.
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
    set_condition(
        &mut value,
        "Terminating",
        "False",
        "InstanceDeletionCompleted",
        "removed all instances",
        &registry.timestamp(),
    );
    save(registry, &live, value);
}
