//! [`Client::update_status`], which changes the status of an object.

use std::sync::Arc;

use kube::api::Patch;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde_json::{Value, json};

use super::request::Target;
use super::{Client, ClientError, Written, merge};
use crate::cache::informer::CachedState;
use crate::cache::noop;
use crate::cache::skips::Interest;
use crate::object::{Kind, Object, ObjectKey, View};

/// Maximum number of attempts if the resource version of a write is stale.
const ATTEMPTS: usize = 5;

impl Client {
    /// Changes the status of an object through the status subresource.
    ///
    /// `change` gets the newest known status, or the default if the object has none. The changed fields are sent, and
    /// nothing is sent if there are none. After a conflict the object is read again, so `change` may be called several
    /// times.
    ///
    /// In a field `conditions`, the `observedGeneration` of a changed condition becomes the generation of `object`,
    /// unless the condition already has one. If the object was deleted, or replaced by another one with the same name,
    /// nothing is written and the result is [`Written::Gone`].
    ///
    /// # Errors
    /// Returns an error if the status cannot be serialized, or the server rejects it.
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
        let patch = |base: &K| {
            let status = difference(base)?.unwrap_or_else(|| json!({}));
            Ok((status, interest()))
        };
        self.write_status(&target, object.as_ref(), base, patch).await
    }

    /// Returns the state of `object` in the cache, unless it is another object with the same name.
    fn newest_known<K: View>(&self, target: &Target, object: &K) -> Option<Arc<K>> {
        let known = self.cache().peek::<K>(&target.kind, &target.key);
        known.filter(|known| is_same_object(object, known))
    }

    /// Writes the status of `object`, starting from the state `base`. After a conflict the object is read again.
    ///
    /// `patch` returns the merge patch of the status for a state, and the parts that it depends on.
    async fn write_status<K: View>(
        &self,
        target: &Target,
        object: &K,
        mut base: Arc<K>,
        patch: impl Fn(&K) -> Result<(Value, Interest), ClientError> + Send + Sync,
    ) -> Result<Written<K>, ClientError> {
        for attempt in 1.. {
            let (status, interest) = patch(&base)?;
            let sent = self.send_status(target, status, object, base.as_ref(), &interest);
            match sent.await {
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {
                    self.metrics.conflict_retried(&target.kind.to_string());
                    match self.get_live::<K>(target).await? {
                        Some(newest) if is_same_object(object, &newest) => base = newest,
                        _ => break,
                    }
                }
                Err(error) if error.is_not_found() || is_another_object(&error) => break,
                outcome => return outcome.map(Written::Sent),
            }
        }
        self.take_gone(target, object.meta());
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
        // The status of another object with this name must not be overwritten. Servers ignore the UID in the status of
        // a custom resource, so the revision must be the current one. Conditions need that too, because they are sent
        // as one complete list.
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

/// Sets the observed generation of the changed conditions.
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

/// Returns true if the server rejected the patch because the object has another UID.
fn is_another_object(error: &ClientError) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    let mut causes = details.into_iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.field == "metadata.uid")
}
