//! The status writer: says what of a status should change, and sends only what does.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kube::api::Patch;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::request::Target;
use super::{Client, ClientError, Written, merge};
use crate::cache::informer::CachedState;
use crate::cache::noop;
use crate::cache::skips::Interest;
use crate::condition::Condition;
use crate::object::{Kind, Object, ObjectKey, View};

/// A write with a stale resource version is tried this often.
const ATTEMPTS: usize = 5;

/// Changes the status of an object: what is not named stays as it is.
#[must_use = "nothing is written before `patch().await`"]
pub struct StatusWriter<'a, K> {
    client: &'a Client,
    kind: Kind,
    object: &'a K,
    conditions: Vec<Condition>,
    removed: Vec<String>,
    fields: Vec<(String, serde_json::Result<Value>)>,
}

// === impl StatusWriter ===

impl<'a, K: View> StatusWriter<'a, K> {
    pub(super) fn new(client: &'a Client, kind: Kind, object: &'a K) -> Self {
        Self {
            client,
            kind,
            object,
            conditions: Vec::new(),
            removed: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// Sets the condition of its type in `status.conditions`.
    ///
    /// `lastTransitionTime` moves only if the status of the condition changes; `observedGeneration` becomes the
    /// generation of the object that the writer was made with, unless the condition names one.
    pub fn condition(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Removes the condition of a type; where there is none, that is nothing to write.
    pub fn remove_condition(mut self, type_: &str) -> Self {
        self.removed.push(type_.to_owned());
        self
    }

    /// Sets a field of the status, by its name in JSON, as a whole; `None` removes it.
    pub fn set(mut self, field: &str, value: impl Serialize) -> Self {
        self.fields.push((field.to_owned(), serde_json::to_value(value)));
        self
    }

    /// Writes the named parts of the status; those that are so already, as far as the cache knows, are omitted, and if all
    /// are, nothing is sent.
    ///
    /// If somebody changed the object meanwhile, the writer reads it again and merges anew, so that no condition of
    /// another controller is lost. If the object was deleted meanwhile, or another one has taken its name, nothing is
    /// written and the result is [`Written::Gone`].
    ///
    /// # Errors
    /// If a value is no JSON, or the server refuses the status.
    pub async fn patch(self) -> Result<Written<K>, ClientError> {
        let key = ObjectKey::of(self.object);
        let target = self.client.target("write the status of", &self.kind, key)?;
        target.check()?;
        let changes = self.changes(&target)?;
        let (base, left) = match self.skip(&target, &changes)? {
            Skipped::All(object) => return Ok(Written::Unchanged(object)),
            Skipped::Some { object, left } => (object, Some(left)),
            Skipped::None => {
                let base = self.client.newest_known(&target, self.object);
                (base.unwrap_or_else(|| Arc::new(self.object.clone())), None)
            }
        };
        let patch = |base: &K, is_first: bool| {
            // After a conflict, the parts that were omitted may be different.
            let changes = left.as_ref().filter(|_| is_first).unwrap_or(&changes);
            let mut value = serde_json::to_value(base).map_err(|source| target.unserializable(source))?;
            noop::remove_nulls(&mut value);
            let status = changes.patch(&value["status"], crate::clock::now());
            Ok((status.into(), changes.interest()))
        };
        self.client.write_status(&target, self.object, base, patch).await
    }

    /// Finds the parts of the status that need not be sent.
    fn skip(&self, target: &Target, changes: &Changes) -> Result<Skipped<K>, ClientError> {
        let now = crate::clock::now();
        let skipped = self.client.skip_part(target, |known: &CachedState<K>| {
            if !is_same_object(self.object, &known.object) {
                return Ok(None);
            }
            let left = changes.without_known(&known.value["status"], now);
            let skipped = changes.minus(&left);
            Ok((!skipped.is_empty()).then(|| (skipped.interest(), left)))
        })?;
        Ok(match skipped {
            None => Skipped::None,
            Some((known, left)) if left.is_empty() => {
                self.client.count_skip(target);
                Skipped::All(known.object)
            }
            Some((known, left)) => Skipped::Some {
                object: known.object,
                left,
            },
        })
    }

    fn changes(&self, target: &Target) -> Result<Changes, ClientError> {
        let generation = self.object.meta().generation;
        let conditions = self.conditions.iter().map(|condition| Condition {
            observed_generation: condition.observed_generation.or(generation),
            ..condition.clone()
        });
        let fields = self.fields.iter().map(|(name, value)| match value {
            Ok(value) => Ok((name.clone(), value.clone())),
            Err(error) => Err(target.unserializable(serde::ser::Error::custom(error))),
        });
        Ok(Changes {
            conditions: conditions.collect(),
            removed: self.removed.clone(),
            fields: fields.collect::<Result<_, _>>()?,
        })
    }
}

impl Client {
    /// Changes the status of an object through the status subresource.
    ///
    /// `change` gets the newest known status, or the default one if the object has none, and sets what it means to set. The
    /// fields that it changed are sent, and nothing is sent if it changed none. It may be called several times: if another
    /// client changed the object meanwhile, the object is read again.
    ///
    /// In a field `conditions`, the `observedGeneration` of a condition that was set becomes the generation of `object`,
    /// unless the condition has one. If the object was deleted meanwhile, or replaced by another one of the same name,
    /// nothing is written and the result is [`Written::Gone`].
    ///
    /// # Errors
    /// If the status cannot be serialized, or the server rejects it.
    pub async fn update_status<K: Object + HasStatus>(
        &self,
        object: &Arc<K>,
        change: impl Fn(&mut K::Status) + Send + Sync,
    ) -> Result<Written<K>, ClientError>
    where
        K::Status: Clone + Default + Serialize,
    {
        let target = self.target(
            "write the status of",
            &Kind::of::<K>(),
            ObjectKey::of(object.as_ref()),
        )?;
        target.check()?;
        let generation = object.meta().generation;
        let value = |status: &K::Status| {
            let mut value = serde_json::to_value(status).map_err(|source| target.unserializable(source))?;
            noop::remove_nulls(&mut value);
            Ok::<_, ClientError>(value)
        };
        let difference = |current: &K| {
            let old = current.status().map_or_else(|| Ok(json!({})), value)?;
            let mut status = current.status().cloned().unwrap_or_default();
            change(&mut status);
            let mut new = value(&status)?;
            if let Some(conditions) = new.get_mut("conditions") {
                observe(conditions, &old["conditions"], generation);
            }
            Ok::<_, ClientError>(merge::difference(&old, &new))
        };
        let interest = || Interest::Members(json!({"status": null}));
        let is_noop = |known: &CachedState<K>| {
            Ok(is_same_object(object.as_ref(), &known.object) && difference(&known.object)?.is_none())
        };
        if let Some(known) = self.skip_if(&target, interest, is_noop)? {
            return Ok(Written::Unchanged(known.object));
        }
        let base = self.newest_known(&target, object.as_ref());
        let base = base.unwrap_or_else(|| object.clone());
        let patch = |base: &K, _| {
            let status = difference(base)?.unwrap_or_else(|| json!({}));
            Ok((status, interest()))
        };
        self.write_status(&target, object.as_ref(), base, patch).await
    }

    /// The state of `object` in the cache, unless that is another object of the same name.
    fn newest_known<K: View>(&self, target: &Target, object: &K) -> Option<Arc<K>> {
        let known = self.cache().peek::<K>(&target.kind, &target.key);
        known.filter(|known| is_same_object(object, known))
    }

    /// Writes the status of `object`, beginning with the state `base`; after a conflict, the object is read again.
    ///
    /// `patch` returns the merge patch of the status for a state, and the parts that it depends on. Its second argument is
    /// true at the first attempt.
    async fn write_status<K: View>(
        &self,
        target: &Target,
        object: &K,
        mut base: Arc<K>,
        patch: impl Fn(&K, bool) -> Result<(Value, Interest), ClientError> + Send + Sync,
    ) -> Result<Written<K>, ClientError> {
        for attempt in 1.. {
            let (status, interest) = patch(&base, attempt == 1)?;
            let sent = self.send_status(target, status, object, base.as_ref(), &interest);
            match sent.await {
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {
                    self.metrics.conflict_retried(&target.kind.to_string());
                    match self.resources::<K>(&target.kind).live().get(&target.key).await? {
                        Some(newest) if is_same_object(object, &newest) => base = newest,
                        _ => break,
                    }
                }
                Err(error) if error.is_not_found() || is_another_object(&error) => break,
                outcome => return outcome.map(Written::Sent),
            }
        }
        Ok(Written::Gone(base))
    }

    /// Sends a merge patch of the status of `object`, for the state `base`.
    async fn send_status<K: View>(
        &self,
        target: &Target,
        status: Value,
        object: &K,
        base: &K,
        interest: &Interest,
    ) -> Result<Arc<K>, ClientError> {
        // The status of another object of this name is not overwritten. Servers ignore the UID in the status of a custom
        // resource, so the revision must be the current one. Conditions need that too: they are sent as a whole list.
        let mut patch = json!({"status": status});
        if let Some(uid) = &object.meta().uid {
            patch["metadata"]["uid"] = uid.as_str().into();
        }
        if let Some(version) = &base.meta().resource_version {
            patch["metadata"]["resourceVersion"] = version.as_str().into();
        }
        let (name, parameters) = (target.key.name(), self.options.patch());
        let request = target
            .request()
            .patch_subresource("status", name, &parameters, &Patch::Merge(patch));
        self.sent(target, interest);
        self.write(target, request).await
    }
}

/// Returns true unless `other` has another UID.
fn is_same_object<K: View>(object: &K, other: &K) -> bool {
    let uid = object.meta().uid.as_ref();
    uid.is_none() || other.meta().uid.as_ref() == uid
}

/// Fills in the observed generation of the conditions that differ from the old ones of their type.
fn observe(conditions: &mut Value, old: &Value, generation: Option<i64>) {
    let Some(generation) = generation else { return };
    for condition in conditions.as_array_mut().into_iter().flatten() {
        let mut others = old.as_array().into_iter().flatten();
        let is_untouched = others.any(|other| other == condition);
        if !is_untouched
            && condition["observedGeneration"].is_null()
            && let Some(fields) = condition.as_object_mut()
        {
            fields.insert("observedGeneration".to_owned(), generation.into());
        }
    }
}

impl<K: fmt::Debug> fmt::Debug for StatusWriter<'_, K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut writer = formatter.debug_struct("StatusWriter");
        writer
            .field("conditions", &self.conditions)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

/// The parts of a status that need not be sent, and the state of the object that shows it.
enum Skipped<K> {
    None,
    Some { object: Arc<K>, left: Changes },
    All(Arc<K>),
}

/// Returns true if the server refused the patch because its UID is not the one of the object.
fn is_another_object(error: &ClientError) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    let mut causes = details.into_iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.field == "metadata.uid")
}

/// The parts of a status that a writer sets.
#[derive(Clone, Debug, Default)]
struct Changes {
    conditions: Vec<Condition>,
    removed: Vec<String>,
    fields: Vec<(String, Value)>,
}

// === impl Changes ===

impl Changes {
    fn is_empty(&self) -> bool {
        self.fields.is_empty() && !self.has_conditions()
    }

    fn has_conditions(&self) -> bool {
        !self.conditions.is_empty() || !self.removed.is_empty()
    }

    /// The changes that the status does not show already. Conditions are sent together, or not at all.
    fn without_known(&self, status: &Value, now: Timestamp) -> Self {
        let differs = |name: &str, value: &Value| !noop::is_same(&status[name], value);
        let fields = self.fields.iter().filter(|(name, value)| differs(name, value));
        let mut left = Self {
            fields: fields.cloned().collect(),
            ..Self::default()
        };
        if self.has_conditions() && differs("conditions", &self.merged(&status["conditions"], now)) {
            left.conditions.clone_from(&self.conditions);
            left.removed.clone_from(&self.removed);
        }
        left
    }

    /// The changes that are not among `others`, which are some of these.
    fn minus(&self, others: &Self) -> Self {
        let is_other = |name: &str| others.fields.iter().any(|(other, _)| other == name);
        let fields = self.fields.iter().filter(|(name, _)| !is_other(name));
        let mut rest = Self {
            fields: fields.cloned().collect(),
            ..Self::default()
        };
        if !others.has_conditions() {
            rest.conditions.clone_from(&self.conditions);
            rest.removed.clone_from(&self.removed);
        }
        rest
    }

    fn interest(&self) -> Interest {
        let set = self.conditions.iter().map(|condition| condition.type_.clone());
        Interest::Status {
            fields: self.fields.iter().map(|(name, _)| name.clone()).collect(),
            conditions: set.chain(self.removed.iter().cloned()).collect(),
        }
    }

    /// The members of a merge patch of the status.
    fn patch(&self, status: &Value, now: Timestamp) -> Map<String, Value> {
        let fields = self.fields.iter().map(|(name, value)| {
            let mut value = value.clone();
            noop::remove_nulls(&mut value);
            (name.clone(), value)
        });
        let mut patch: Map<_, _> = fields.collect();
        if self.has_conditions() {
            patch.insert("conditions".to_owned(), self.merged(&status["conditions"], now));
        }
        patch
    }

    /// The list with the changed conditions; those of others stay as they are, whatever they look like.
    fn merged(&self, conditions: &Value, now: Timestamp) -> Value {
        let mut items = conditions.as_array().cloned().unwrap_or_default();
        items.retain(|item| !self.removed.iter().any(|type_| item["type"] == *type_));
        for condition in &self.conditions {
            let place = items.iter_mut().find(|item| item["type"] == condition.type_);
            let old = place
                .as_ref()
                .and_then(|item| serde_json::from_value((**item).clone()).ok());
            let new = json!(condition.clone().after(old.as_ref(), now));
            match place {
                Some(item) => *item = new,
                None => items.push(new),
            }
        }
        if items.is_empty() && conditions.is_null() {
            Value::Null
        } else {
            Value::Array(items)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Value {
        json!({
            "nodes": ["a"],
            "phase": "Running",
            "conditions": [
                {
                    "type": "Available", "status": "True", "reason": "Ready", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
                },
                {
                    "type": "Foreign", "status": "Unknown", "reason": "Somebody", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                },
            ],
        })
    }

    fn difference(changes: &Changes) -> Value {
        let now: Timestamp = "2026-02-02T00:00:00Z".parse().unwrap();
        let left = changes.without_known(&status(), now);
        Value::Object(left.patch(&status(), now))
    }

    fn available(holds: bool, generation: i64) -> Condition {
        Condition::available(holds, "Ready", "").observed_generation(generation)
    }

    #[test]
    fn status_that_is_so_already_makes_no_patch() {
        let changes = Changes {
            conditions: vec![available(true, 1)],
            removed: vec!["Missing".to_owned()],
            fields: vec![
                ("nodes".to_owned(), json!(["a"])),
                ("absent".to_owned(), Value::Null),
            ],
        };
        assert_eq!(difference(&changes), json!({}));
    }

    #[test]
    fn only_changed_fields_are_sent() {
        let fields = vec![
            ("nodes".to_owned(), json!(["a", "b"])),
            ("phase".to_owned(), json!("Running")),
        ];
        let changes = Changes {
            fields,
            ..Changes::default()
        };
        assert_eq!(difference(&changes), json!({"nodes": ["a", "b"]}));
    }

    #[test]
    fn conditions_of_others_are_kept() {
        let changes = Changes {
            conditions: vec![available(false, 2)],
            ..Changes::default()
        };
        let patch = difference(&changes);
        assert_eq!(
            patch["conditions"][0]["lastTransitionTime"],
            "2026-02-02T00:00:00Z"
        );
        assert_eq!(patch["conditions"][1], status()["conditions"][1]);
    }

    #[test]
    fn new_generation_alone_keeps_the_transition_time() {
        let changes = Changes {
            conditions: vec![available(true, 2)],
            ..Changes::default()
        };
        let patch = difference(&changes);
        assert_eq!(patch["conditions"][0]["observedGeneration"], 2);
        assert_eq!(
            patch["conditions"][0]["lastTransitionTime"],
            "2026-01-01T00:00:00Z"
        );
    }

    #[test]
    fn removed_condition_is_left_out() {
        let changes = Changes {
            removed: vec!["Foreign".to_owned()],
            ..Changes::default()
        };
        assert_eq!(difference(&changes)["conditions"].as_array().unwrap().len(), 1);
    }
}
