//! [`Client::create_or_patch`](crate::Client::create_or_patch): creates an object or patches the existing one.

use std::sync::Arc;

use kube::api::Patch;
use serde_json::{Value, json};

use super::request::Target;
use super::resources::Resources;
use super::resources::whole_object;
use super::{ClientError, Written, merge};
use crate::cache::informer::CachedState;
use crate::cache::skips::Interest;
use crate::error::Result;
use crate::object::{ObjectKey, View};

/// Maximum number of attempts if the state that a write was based on is stale.
const ATTEMPTS: usize = 5;

// === impl Resources ===

impl<K: View> Resources<'_, K> {
    pub(super) async fn create_or_patch(
        &self,
        mut object: K,
        mut mutate: impl FnMut(&mut K) -> Result<()> + Send,
    ) -> Result<Written<K>> {
        let target = self.placed("create or patch", &mut object)?;
        target.check()?;
        let mut existing = self.get(target.key.clone()).await?;
        let mut attempts = 1;
        loop {
            let mut wanted = existing.as_deref().unwrap_or(&object).clone();
            mutate(&mut wanted)?;
            if ObjectKey::of(&wanted) != target.key {
                let what = target.to_string();
                return Err(ClientError::Renamed { what }.into());
            }
            let outcome = match &existing {
                None => self.create(wanted).await,
                Some(old) => self.patch_if_changed(&target, old, &wanted).await,
            };
            match outcome {
                Err(error) if attempts < ATTEMPTS && is_stale(&error, existing.is_some()) => {
                    attempts += 1;
                    self.client.metrics.conflict_retried(&target.kind.to_string());
                    existing = self.client.get_live(&target).await?;
                }
                outcome => return Ok(outcome?),
            }
        }
    }

    async fn patch_if_changed(
        &self,
        target: &Target,
        old: &Arc<K>,
        new: &K,
    ) -> Result<Written<K>, ClientError> {
        let split = |object: &K| {
            let mut value = whole_object(target, object)?;
            let status = value.as_object_mut().and_then(|object| object.remove("status"));
            Ok::<_, ClientError>((value, status.unwrap_or_else(|| json!({}))))
        };
        let ((old_object, old_status), (new_object, new_status)) = (split(old)?, split(new)?);
        let object = merge::difference(&old_object, &new_object);
        let status = merge::difference(&old_status, &new_status);
        if object.is_none() && status.is_none() {
            self.note_unchanged(target, old)?;
            return Ok(Written::Unchanged(old.clone()));
        }
        let mut written = old.clone();
        if let Some(patch) = object {
            written = self.send_patch(target, None, &patch).await?;
        }
        if let Some(status) = status {
            written = self
                .send_patch(target, Some("status"), &json!({"status": status}))
                .await?;
        }
        Ok(Written::Sent(written))
    }

    /// Records a skipped write, because `mutate` changed nothing in this state.
    fn note_unchanged(&self, target: &Target, old: &Arc<K>) -> Result<(), ClientError> {
        let is_same =
            |known: &CachedState<K>| Ok(known.object.meta().resource_version == old.meta().resource_version);
        let skipped = self.client.skip_if(target, || Interest::Everything, is_same)?;
        drop(skipped);
        Ok(())
    }

    async fn send_patch(
        &self,
        target: &Target,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<Arc<K>, ClientError> {
        let (name, parameters, patch) = (
            target.key.name(),
            self.client.options.patch(),
            Patch::Merge(patch),
        );
        let request = match subresource {
            Some(subresource) => target
                .request()
                .patch_subresource(subresource, name, &parameters, &patch),
            None => target.request().patch(name, &parameters, &patch),
        };
        self.client.write(target, request).await
    }
}

/// Returns true if the write failed because the known state of the object was stale.
fn is_stale(error: &ClientError, existed: bool) -> bool {
    error.is_conflict() || (existed && error.is_not_found()) || (!existed && error.is_already_exists())
}
