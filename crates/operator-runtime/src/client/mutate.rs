//! Create or change: one function makes the wanted object of whatever is there.

use std::fmt;
use std::sync::Arc;

use kube::api::Patch;
use serde_json::{Value, json};

use super::request::Target;
use super::resources::Resources;
use super::resources::whole_object;
use super::{ClientError, merge};
use crate::cache::informer::CachedState;
use crate::cache::skips::Interest;
use crate::error::Result;
use crate::object::{ObjectKey, View};

/// A write with a stale state is tried this often.
const ATTEMPTS: usize = 5;

/// What `create_or_update` or `create_or_patch` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationResult {
    /// Nothing: the object was so already.
    Unchanged,
    /// It created the object.
    Created,
    /// It changed the object.
    Updated,
    /// It changed the object and its status.
    UpdatedStatus,
    /// It changed the status alone.
    UpdatedStatusOnly,
}

impl fmt::Display for OperationResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unchanged => "unchanged",
            Self::Created => "created",
            Self::Updated => "updated",
            Self::UpdatedStatus => "updatedStatus",
            Self::UpdatedStatusOnly => "updatedStatusOnly",
        })
    }
}

/// How an object that exists is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Update,
    Patch,
}

// === impl Resources ===

impl<K: View> Resources<'_, K> {
    pub(super) async fn create_or_update(
        &self,
        object: K,
        mutate: impl FnMut(&mut K) -> Result<()> + Send,
    ) -> Result<(Arc<K>, OperationResult)> {
        self.create_or(Change::Update, object, mutate).await
    }

    pub(super) async fn create_or_patch(
        &self,
        object: K,
        mutate: impl FnMut(&mut K) -> Result<()> + Send,
    ) -> Result<(Arc<K>, OperationResult)> {
        self.create_or(Change::Patch, object, mutate).await
    }

    async fn create_or(
        &self,
        change: Change,
        mut object: K,
        mut mutate: impl FnMut(&mut K) -> Result<()> + Send,
    ) -> Result<(Arc<K>, OperationResult)> {
        let target = self.placed("create or change", &mut object)?;
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
            let outcome = match (&existing, change) {
                (None, _) => self
                    .create(wanted)
                    .await
                    .map(|new| (new.into_object(), OperationResult::Created)),
                (Some(old), Change::Update) => self.update_if_changed(&target, old, wanted).await,
                (Some(old), Change::Patch) => self.patch_if_changed(&target, old, &wanted).await,
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

    async fn update_if_changed(
        &self,
        target: &Target,
        old: &Arc<K>,
        new: K,
    ) -> Result<(Arc<K>, OperationResult), ClientError> {
        if whole_object(target, old.as_ref())? == whole_object(target, &new)? {
            self.note_unchanged(target, old)?;
            return Ok((old.clone(), OperationResult::Unchanged));
        }
        Ok((self.update(new).await?.into_object(), OperationResult::Updated))
    }

    async fn patch_if_changed(
        &self,
        target: &Target,
        old: &Arc<K>,
        new: &K,
    ) -> Result<(Arc<K>, OperationResult), ClientError> {
        let split = |object: &K| {
            let mut value = whole_object(target, object)?;
            let status = value.as_object_mut().and_then(|object| object.remove("status"));
            Ok::<_, ClientError>((value, status.unwrap_or_else(|| json!({}))))
        };
        let ((old_object, old_status), (new_object, new_status)) = (split(old)?, split(new)?);
        let object = merge::difference(&old_object, &new_object);
        let status = merge::difference(&old_status, &new_status);
        let result = match (&object, &status) {
            (None, None) => OperationResult::Unchanged,
            (Some(_), None) => OperationResult::Updated,
            (Some(_), Some(_)) => OperationResult::UpdatedStatus,
            (None, Some(_)) => OperationResult::UpdatedStatusOnly,
        };
        let mut written = old.clone();
        if let Some(patch) = object {
            written = self.send_patch(target, None, &patch).await?;
        }
        if let Some(status) = status {
            written = self
                .send_patch(target, Some("status"), &json!({"status": status}))
                .await?;
        }
        if result == OperationResult::Unchanged {
            self.note_unchanged(target, old)?;
        }
        Ok((written, result))
    }

    /// Records that nothing is written because `mutate` changed nothing in this state.
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

/// Returns true if the write failed because the object was not as it was thought to be.
fn is_stale(error: &ClientError, existed: bool) -> bool {
    error.is_conflict() || (existed && error.is_not_found()) || (!existed && error.is_already_exists())
}
