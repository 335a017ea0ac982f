//! The status writer: says what of a status should change, and sends only what does.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kube::api::Patch;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Client, ClientError, Target, noop};
use crate::condition::Condition;
use crate::object::{Kind, ObjectKey, View};

/// A write with a stale resource version is tried this often.
const ATTEMPTS: usize = 5;

/// Changes the status of an object: what is not named stays as it is.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
/// # fn main() -> Result<()> { cluster(async |_, ctx| {
/// # let web = ctx.create(deployment("web")).await?;
/// let ready = Condition::available(true, "AllReplicasReady", "3 of 3 replicas are ready");
/// ctx.status(&*web).condition(ready).set("observedGeneration", 1).patch().await?;
/// # Ok(()) }) }
/// ```
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
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |_, ctx| {
    /// # let web = ctx.create(deployment("web")).await?;
    /// let verified = Condition::new("example.com/Verified", true, "SignatureFound", "");
    /// let scanned = Condition::new("example.com/Scanned", false, "Waiting", "The scanner is busy");
    /// // Both in one request.
    /// ctx.status(&*web).condition(verified).condition(scanned).patch().await?;
    /// # Ok(()) }) }
    /// ```
    pub fn condition(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Removes the condition of a type; where there is none, that is nothing to write.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |_, ctx| {
    /// # let web = ctx.create(deployment("web")).await?;
    /// let scanned = Condition::new("example.com/Scanned", true, "Clean", "");
    /// let web = ctx.status(&*web).condition(scanned).patch().await?;
    /// // The scanner was turned off.
    /// let web = ctx.status(&*web).remove_condition("example.com/Scanned").patch().await?;
    /// let mut left = web.status.iter().flat_map(|status| status.conditions.iter().flatten());
    /// assert!(left.all(|condition| condition.type_.as_deref() != Some("example.com/Scanned")));
    /// # Ok(()) }) }
    /// ```
    pub fn remove_condition(mut self, type_: &str) -> Self {
        self.removed.push(type_.to_owned());
        self
    }

    /// Sets a field of the status, by its name in JSON, as a whole; `None` removes it.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |_, ctx| {
    /// # let web = ctx.create(deployment("web")).await?;
    /// let web = ctx.status(&*web).set("observedGeneration", 1).set("collisionCount", None::<i32>).patch().await?;
    /// assert_eq!(web.status.as_ref().and_then(|status| status.observed_generation), Some(1));
    /// # Ok(()) }) }
    /// ```
    pub fn set(mut self, field: &str, value: impl Serialize) -> Self {
        self.fields.push((field.to_owned(), serde_json::to_value(value)));
        self
    }

    /// Writes what differs from the status as the operator knows it, and returns the object as it is then; if nothing
    /// differs, nothing is sent.
    ///
    /// If somebody changed the object meanwhile, the writer reads it again and merges anew, so that no condition of
    /// another controller is lost.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |_, ctx| {
    /// # let web = ctx.create(deployment("web")).await?;
    /// let once = ctx.status(&*web).set("collisionCount", 1).patch().await?;
    /// let twice = ctx.status(&*once).set("collisionCount", 1).patch().await?;
    /// assert_eq!(once.status, twice.status, "the second one is not sent");
    /// # Ok(()) }) }
    /// ```
    ///
    /// # Errors
    /// If a value is no JSON, or the server refuses the status.
    pub async fn patch(self) -> Result<Arc<K>, ClientError> {
        let key = ObjectKey::of(self.object);
        let target = self.client.target("write the status of", &self.kind, key)?;
        target.check()?;
        let changes = self.changes(&target)?;
        let known = self.client.cache().known::<K>(&target.kind, &target.key);
        let mut base = known
            .map(|(known, _)| known)
            .filter(|known| known.meta().uid == self.object.meta().uid);
        for _ in 1..ATTEMPTS {
            match self.send(&target, &changes, base.as_deref()).await {
                Err(error) if error.is_conflict() => {
                    self.client.metrics.conflict_retried(&target.kind.to_string());
                    base = self.client.live().get_of(&target.kind, &target.key).await?;
                }
                Ok(None) => return Ok(base.unwrap_or_else(|| Arc::new(self.object.clone()))),
                Ok(Some(written)) => return Ok(written),
                Err(error) => return Err(error),
            }
        }
        let written = self.send(&target, &changes, base.as_deref()).await?;
        Ok(written.or(base).unwrap_or_else(|| Arc::new(self.object.clone())))
    }

    async fn send(
        &self,
        target: &Target,
        changes: &Changes,
        base: Option<&K>,
    ) -> Result<Option<Arc<K>>, ClientError> {
        let base = base.unwrap_or(self.object);
        let mut value = serde_json::to_value(base).map_err(|source| target.unserializable(source))?;
        noop::remove_nulls(&mut value);
        let status = changes.difference(&value["status"], crate::clock::now());
        if status.is_empty() {
            self.client.skip(target);
            return Ok(None);
        }
        let mut patch = json!({});
        // Conditions are sent as a whole list, so the list that they were merged with must still be the current one.
        if status.contains_key("conditions") {
            patch["metadata"] = json!({"resourceVersion": base.meta().resource_version});
        }
        patch["status"] = Value::Object(status);
        let (name, parameters) = (target.key.name(), self.client.options.patch());
        let request = target
            .request()
            .patch_subresource("status", name, &parameters, &Patch::Merge(patch));
        self.client.write(target, request).await.map(Some)
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

impl<K: fmt::Debug> fmt::Debug for StatusWriter<'_, K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut writer = formatter.debug_struct("StatusWriter");
        writer
            .field("conditions", &self.conditions)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

/// What a writer asks for.
#[derive(Debug, Default)]
struct Changes {
    conditions: Vec<Condition>,
    removed: Vec<String>,
    fields: Vec<(String, Value)>,
}

// === impl Changes ===

impl Changes {
    /// The members of a merge patch that turns `status` into what is asked for; empty if it is that already.
    fn difference(&self, status: &Value, now: Timestamp) -> Map<String, Value> {
        let mut patch = Map::new();
        let mut put = |name: &str, value: Value| {
            if status.get(name).unwrap_or(&Value::Null) != &value {
                patch.insert(name.to_owned(), value);
            }
        };
        for (name, value) in &self.fields {
            let mut value = value.clone();
            noop::remove_nulls(&mut value);
            put(name, value);
        }
        if !self.conditions.is_empty() || !self.removed.is_empty() {
            put("conditions", self.merged(&status["conditions"], now));
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
        Value::Object(changes.difference(&status(), now))
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
