//! [`Finalizers`] cleans up before an object is deleted, for example resources outside the cluster.
//!
//! Owned objects in the cluster need no finalizer: the garbage collector deletes them.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use std::borrow::Cow;

use crate::client::resources::Resources;
use crate::client::{Client, ClientError, Written};
use crate::error::Result;
use crate::object::{Kind, Meta, Object, ObjectKey, View};

/// Maximum number of attempts if the resource version of a write is stale.
const ATTEMPTS: usize = 5;

/// The finalizers of one object, in the order in which they run.
///
/// ```no_run
/// # use operator_runtime::prelude::*;
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # async fn delete_backups(name: &str) -> Result<()> { Ok(()) }
/// # async fn example(database: std::sync::Arc<Deployment>, ctx: Context<Deployment>) -> Result<Action> {
/// let live = ctx
///     .finalizers(&*database)
///     .finalizer("example.com/backups", delete_backups(ctx.key().name()))
///     .run()
///     .await?;
/// let Some(database) = live else { return Ok(Action::done()) };
/// // The backups are deleted before the database.
/// # Ok(Action::done())
/// # }
/// ```
#[must_use = "call `run().await`"]
pub struct Finalizers<'a, K> {
    client: &'a Client,
    kind: Kind,
    object: &'a K,
    steps: Vec<Step<'a>>,
}

struct Step<'a> {
    name: String,
    work: BoxFuture<'a, Result<()>>,
}

impl Client {
    /// Returns the finalizers of `object`. [`Finalizers::run`] runs them.
    pub fn finalizers<'a, K: Object>(&'a self, object: &'a K) -> Finalizers<'a, K> {
        Finalizers::new(self, Kind::of::<K>(), object)
    }
}

// === impl Finalizers ===

impl<'a, K: View> Finalizers<'a, K> {
    pub(crate) fn new(client: &'a Client, kind: Kind, object: &'a K) -> Self {
        let steps = Vec::new();
        Self {
            client,
            kind,
            object,
            steps,
        }
    }

    /// Adds a finalizer, `example.com/name`, and its work: a future that is awaited only if the object is being deleted
    /// and still has the finalizer. The work must be idempotent, because it runs again after an error or a crash. It
    /// starts after the work of the previous finalizer has succeeded.
    pub fn finalizer(mut self, name: &str, work: impl Future<Output = Result<()>> + Send + 'a) -> Self {
        let name = name.to_owned();
        let work = Box::pin(work);
        self.steps.push(Step { name, work });
        self
    }

    /// Adds the finalizers to an object, or runs them if it is being deleted.
    ///
    /// If the object is not being deleted, the missing finalizers are added in one write, and the result is the object.
    /// If it is being deleted, the work of each finalizer is run in order, each finalizer is removed after its work,
    /// and the result is `None`: there is nothing left to reconcile. The result is also `None` if the object is gone.
    /// Other finalizers are kept. Conflicting writes are retried on the newer state.
    ///
    /// # Errors
    /// Returns the error of the first work that failed, or an error if the server rejects a write. The finalizer of the
    /// failed work and those after it stay.
    pub async fn run(self) -> Result<Option<Written<K>>> {
        if self.object.meta().deletion_timestamp.is_none() {
            return self.add().await;
        }
        for step in self.steps {
            if has(self.object, &step.name) {
                step.work.await?;
                let without = |finalizers: &mut Vec<String>| finalizers.retain(|name| *name != step.name);
                if change((self.client, &self.kind), self.object, without)
                    .await?
                    .is_none()
                {
                    break;
                }
            }
        }
        Ok(None)
    }

    async fn add(self) -> Result<Option<Written<K>>> {
        let names: Vec<_> = self.steps.iter().map(|step| step.name.clone()).collect();
        let with = |finalizers: &mut Vec<String>| {
            for name in &names {
                if !finalizers.contains(name) {
                    finalizers.push(name.clone());
                }
            }
        };
        Ok(change((self.client, &self.kind), self.object, with).await?)
    }
}

impl<K: fmt::Debug> fmt::Debug for Finalizers<'_, K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.steps.iter().map(|step| &step.name).collect();
        formatter
            .debug_struct("Finalizers")
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

/// Returns true if an object has a finalizer.
pub(crate) fn has(object: &impl Meta, name: &str) -> bool {
    let mut finalizers = object.metadata().finalizers.iter().flatten();
    finalizers.any(|finalizer| finalizer == name)
}

/// Changes the finalizers of the newest state of the object. Returns `None` if the object is gone.
async fn change<K: View>(
    (client, kind): (&Client, &Kind),
    object: &K,
    change: impl Fn(&mut Vec<String>),
) -> Result<Option<Written<K>>, ClientError> {
    let key = ObjectKey::of(object);
    let resources = Resources::<K>::new(client, Cow::Borrowed(kind));
    let is_same = |other: &Arc<K>| other.meta().uid == object.meta().uid;
    let known = client.cache().peek::<K>(kind, &key);
    let mut base = Some(known.filter(is_same).unwrap_or_else(|| Arc::new(object.clone())));
    let mut attempts = 1;
    while let Some(current) = base {
        let mut finalizers = current.meta().finalizers.clone().unwrap_or_default();
        change(&mut finalizers);
        // The patch contains the whole list, so it must not overwrite a concurrent change.
        let version = current.meta().resource_version.as_deref();
        match resources.patch_finalizers(&key, &finalizers, version).await {
            Ok(changed) => return Ok(Some(changed)),
            Err(error) if error.is_not_found() => break,
            Err(error) if error.is_conflict() && attempts < ATTEMPTS => {
                attempts += 1;
                base = resources.get_live(&key).await?.filter(is_same);
            }
            Err(error) => return Err(error),
        }
    }
    resources.take_gone(&key, object.meta())?;
    Ok(None)
}
