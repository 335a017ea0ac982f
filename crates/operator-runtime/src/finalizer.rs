//! Finalizers: work that must be done before an object may go, such as deleting what lives outside of the cluster.
//!
//! What an object owns inside the cluster needs no finalizer: the garbage collector removes it.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use std::borrow::Cow;

use crate::client::resources::Resources;
use crate::client::{Client, ClientError, Written};
use crate::error::Result;
use crate::object::{Kind, Meta, Object, ObjectKey, View};

/// A write with a stale resource version is tried this often.
const ATTEMPTS: usize = 5;

/// The finalizers of one object, in the order in which their work is done.
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
/// // The database is to stay, and cannot go without its backups being deleted.
/// # Ok(Action::done())
/// # }
/// ```
#[must_use = "nothing happens before `run().await`"]
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
    /// Work that must be done before `object` may go; nothing happens before [`Finalizers::run`].
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
    /// and still has the finalizer. The work must be able to run again, after an error or a crash. Finalizers are
    /// worked on in the order in which they are added, and the work of one begins when that of the one before has
    /// succeeded.
    pub fn finalizer(mut self, name: &str, work: impl Future<Output = Result<()>> + Send + 'a) -> Self {
        let name = name.to_owned();
        let work = Box::pin(work);
        self.steps.push(Step { name, work });
        self
    }

    /// Keeps an object alive, or lets it go.
    ///
    /// If the object is not being deleted, it gets the finalizers that it lacks, all in one write, and is returned as
    /// it is then. If it is being deleted, the work of each finalizer that it still has is done in order, each
    /// finalizer is removed when its work is done, and the answer is `None`: there is nothing left to reconcile. The answer
    /// is `None` also if the object is gone already.
    /// Finalizers of others are left alone. Nothing is written where nothing has to change, and a write that meets a
    /// newer state is tried again.
    ///
    /// # Errors
    /// The error of the first work that failed: its finalizer stays, and those after it; or if the server refuses.
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

/// Changes the list of finalizers, from the newest state of the object; `None` if the object is gone.
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
        // The whole list is sent, so it must still be the one that was changed.
        let version = current.meta().resource_version.as_deref();
        match resources.patch_finalizers(&key, &finalizers, version).await {
            Ok(changed) => return Ok(Some(changed)),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) if error.is_conflict() && attempts < ATTEMPTS => {
                attempts += 1;
                base = resources.get_live(&key).await?.filter(is_same);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
