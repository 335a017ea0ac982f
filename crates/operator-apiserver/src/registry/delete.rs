//! Deletes objects: grace periods, finalizers, propagation.

use std::borrow::Cow;
use std::sync::Arc;

use apimachinery::object;
use serde_json::Value;

use super::{Definition, Registry, Write};
use crate::admission;
use crate::clock;
use crate::resource::crd;
use crate::resource::crd::conversion;
use crate::status::{self, Status};
use crate::store::{Rejected, Stored};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const POD_GRACE_SECONDS: i64 = 30;

/// The options of a delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation_policy: Option<String>,
    /// The older form of the policy.
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// Converts a valid `metav1.DeleteOptions`.
    pub(crate) fn from_json(options: &Value) -> Self {
        let text = |path: &[&str]| {
            object::get(options, path)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        Self {
            grace_period_seconds: options.get("gracePeriodSeconds").and_then(Value::as_i64),
            propagation_policy: text(&["propagationPolicy"]),
            orphan_dependents: options.get("orphanDependents").and_then(Value::as_bool),
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
        }
    }

    /// Returns the propagation policy of the request.
    fn policy(&self, definition: &Definition) -> Option<&str> {
        let by_flag = self.orphan_dependents.map(|orphan| match orphan {
            true => "Orphan",
            false if definition.is("", "namespaces") => "Foreground",
            false => "Background",
        });
        self.propagation_policy.as_deref().or(by_flag)
    }

    /// Checks the preconditions.
    pub(crate) fn check(&self, write: &Write, live: &Value) -> Result<(), Status> {
        let version = object::resource_version(live);
        let checks = [
            ("UID", &self.uid, object::uid(live), "deleted and then recreated"),
            ("ResourceVersion", &self.resource_version, version, "modified"),
        ];
        for (what, wanted, found, cause) in checks {
            let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != found) else {
                continue;
            };
            if has_own_storage(&write.definition) {
                let why = format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
                );
                return Err(status::conflict(&write.definition.subject, &write.name, &why));
            }
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {cause}"
            );
            // These conflicts contain the kind; other conflicts contain the resource.
            let mut subject = write.definition.stored_subject().clone();
            subject.resource.clone_from(&subject.kind);
            return Err(status::conflict(&subject, &write.name, &why));
        }
        Ok(())
    }
}

/// Returns true for namespaces and CRDs, whose deletes are implemented separately.
fn has_own_storage(definition: &Definition) -> bool {
    definition.is("", "namespaces") || crd::is_definition_table(definition)
}

/// The result of a delete.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// The terminating object, or its last state.
    pub(crate) object: Arc<Value>,
    /// True if the object is removed; false if it is terminating.
    pub(crate) gone: bool,
}

impl Registry {
    pub(crate) async fn delete(&self, write: &Write, options: &DeleteOptions) -> Result<Deleted, Status> {
        let definition = &write.definition;
        let mut deleted = self.delete_stored(write, options).await?;
        conversion::prepare(&self.converter, definition, [&deleted.object]).await?;
        deleted.object = definition.serve(&deleted.object);
        Ok(deleted)
    }

    /// Deletes an object; returns it in its stored form.
    async fn delete_stored(&self, write: &Write, options: &DeleteOptions) -> Result<Deleted, Status> {
        loop {
            let live = self.load(write)?;
            options.check(write, &live.value)?;
            let definition = &write.definition;
            conversion::prepare(&self.converter, definition, [&live.value]).await?;
            admission::delete(&self.admission, write, &definition.serve(&live.value)).await?;
            let plan = plan(self, definition, &live.value, options);
            if write.dry_run {
                return Ok(deleted(plan, &live.value));
            }
            let result = match plan {
                Plan::Keep => {
                    return Ok(Deleted {
                        object: live.value.clone(),
                        gone: false,
                    });
                }
                Plan::Mark(object) => self
                    .store
                    .update(&definition.table, &definition.storage, &live, object)
                    .map(|stored| Deleted {
                        object: stored.value.clone(),
                        gone: false,
                    }),
                Plan::Remove => self.remove(definition, &live),
                Plan::MarkAndRemove(object) => self
                    .store
                    .update(&definition.table, &definition.storage, &live, object)
                    .and_then(|marked| self.remove(definition, &marked)),
            };
            match result {
                Ok(deleted) => {
                    self.committed(definition, &live.key, Some(&live.value));
                    return Ok(deleted);
                }
                Err(Rejected::Gone) => return Err(write.not_found()),
                Err(Rejected::NotPersisted(error)) => return Err(status::not_persisted(&error)),
                Err(Rejected::Moved | Rejected::Superseded | Rejected::Exists(_)) => {}
            }
        }
    }
}

impl Registry {
    fn remove(&self, definition: &Definition, live: &Stored) -> Result<Deleted, Rejected> {
        let last = self.store.delete(&definition.table, &definition.storage, live)?;
        Ok(Deleted {
            object: last.value.clone(),
            gone: true,
        })
    }
}

fn deleted(plan: Plan, live: &Arc<Value>) -> Deleted {
    match plan {
        Plan::Keep => Deleted {
            object: live.clone(),
            gone: false,
        },
        Plan::Mark(object) => Deleted {
            object: Arc::new(object),
            gone: false,
        },
        Plan::MarkAndRemove(object) => Deleted {
            object: Arc::new(object),
            gone: true,
        },
        Plan::Remove => Deleted {
            object: live.clone(),
            gone: true,
        },
    }
}

/// The effect of a delete on an object.
enum Plan {
    /// The object is already terminating, and does not change.
    Keep,
    /// The object gets or keeps its deletion timestamp.
    Mark(Value),
    Remove,
    /// The object gets its deletion timestamp and is then removed. Watchers get two events, as for a pod without a
    /// grace period.
    MarkAndRemove(Value),
}

fn plan(registry: &Registry, definition: &Definition, live: &Value, options: &DeleteOptions) -> Plan {
    let mut object = Cow::Borrowed(live);
    let again = object::is_terminating(live);
    let is_crd = crd::is_definition_table(definition);
    if is_crd && !again {
        // The first delete has no policy: the CRD waits for its instances.
        crd::prepare_for_delete(object.to_mut(), &registry.timestamp());
        mark(registry, definition, object.to_mut(), 0);
        return Plan::Mark(object.into_owned());
    }
    let is_pod = definition.is("", "pods");
    // While the grace period of a pod lasts, only a shorter one can change the deletion.
    let remaining = if is_pod { remaining_grace(live) } else { 0 };
    let is_shorter = options
        .grace_period_seconds
        .is_some_and(|grace| grace < remaining);
    if remaining == 0 || is_shorter {
        set_policy_finalizers(&mut object, definition, options);
    }
    let grace = if again && remaining == 0 {
        0
    } else {
        grace(definition, live, options)
    };
    let held = !object::finalizers(&object).is_empty() || has_spec_finalizers(&object);
    if !held && grace == 0 {
        if !is_pod || again && !shortens(live, grace) {
            return Plan::Remove;
        }
        mark(registry, definition, object.to_mut(), grace);
        return Plan::MarkAndRemove(object.into_owned());
    }
    if again && !shortens(live, grace) {
        if is_crd {
            object::set_meta(object.to_mut(), "deletionGracePeriodSeconds", Some(0.into()));
        }
        return match object {
            Cow::Owned(object) if object != *live => Plan::Mark(object),
            _ => Plan::Keep,
        };
    }
    mark(registry, definition, object.to_mut(), grace);
    Plan::Mark(object.into_owned())
}

/// Returns the grace period of a terminating object in seconds; 0 if it is not terminating, or has none.
fn remaining_grace(live: &Value) -> i64 {
    let grace = object::meta(live, "deletionGracePeriodSeconds").and_then(Value::as_i64);
    grace.unwrap_or(0)
}

/// Returns true if a second delete has a shorter grace period than the first.
fn shortens(live: &Value, grace: i64) -> bool {
    grace < remaining_grace(live)
}

fn mark(registry: &Registry, definition: &Definition, object: &mut Value, grace: i64) {
    let first = !object::is_terminating(object);
    let seconds = clock::unix_seconds(registry.clock.now()) + grace;
    let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    object::set_meta(object, "deletionTimestamp", Some(time.to_string().into()));
    let namespace = definition.is("", "namespaces");
    let definition_of_kind = crd::is_definition_table(definition);
    // The storage of these kinds does not support grace periods.
    if !has_own_storage(definition) {
        object::set_meta(object, "deletionGracePeriodSeconds", Some(grace.into()));
    }
    let generation = object::generation(object);
    if first && generation > 0 && !definition_of_kind {
        object::set_meta(object, "generation", Some((generation + 1).into()));
    }
    if namespace {
        object::child_mut(object, "status").insert("phase".to_owned(), "Terminating".into());
    }
}

/// Returns the grace period in seconds; only pods have one, other kinds are removed at once.
fn grace(definition: &Definition, live: &Value, options: &DeleteOptions) -> i64 {
    if !definition.is("", "pods") {
        return 0;
    }
    let phase = object::text(live, &["status", "phase"]);
    if object::text(live, &["spec", "nodeName"]).is_empty() || matches!(phase, "Succeeded" | "Failed") {
        return 0;
    }
    let own = object::get(live, &["spec", "terminationGracePeriodSeconds"])
        .and_then(Value::as_i64)
        .unwrap_or(POD_GRACE_SECONDS);
    let grace = options.grace_period_seconds.unwrap_or(own);
    if grace < 0 { 1 } else { grace }
}

/// Returns true if `spec.finalizers` of a namespace prevents its removal.
pub(super) fn has_spec_finalizers(object: &Value) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("Namespace")
        && object.get("apiVersion").and_then(Value::as_str) == Some("v1")
        && object::get(object, &["spec", "finalizers"])
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty())
}

/// Converts the propagation policy to finalizers: that of the request, or else that of the object, or else the default
/// of the kind.
fn set_policy_finalizers(object: &mut Cow<'_, Value>, definition: &Definition, options: &DeleteOptions) {
    let present: Vec<String> = object::finalizers(object)
        .into_iter()
        .map(str::to_owned)
        .collect();
    let has = |name: &str| present.iter().any(|finalizer| finalizer == name);
    // Events have no dependents.
    let no_dependents = definition.subject.resource == "events";
    let (orphan, foreground) = match options.policy(definition) {
        _ if no_dependents => (false, false),
        Some("Orphan") => (true, false),
        Some("Foreground") => (false, true),
        Some("Background") => (false, false),
        _ if has(ORPHAN) || has(FOREGROUND) => (has(ORPHAN), has(FOREGROUND)),
        _ => (definition.orphans_by_default(), false),
    };
    let mut wanted: Vec<String> = present
        .iter()
        .filter(|name| *name != ORPHAN && *name != FOREGROUND)
        .cloned()
        .collect();
    if orphan {
        wanted.push(ORPHAN.to_owned());
    }
    if foreground {
        wanted.push(FOREGROUND.to_owned());
    }
    let is_same = wanted.len() == present.len() && wanted.iter().all(|name| present.contains(name));
    if !is_same {
        let value = (!wanted.is_empty()).then(|| wanted.into());
        object::set_meta(object.to_mut(), "finalizers", value);
    }
}
