//! [`Context`] and [`KeyContext`]: the client, the event recorder, and the object of a reconcile.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use kube::core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::owned;
use crate::client::{Client, ClientError, Desired, List, Written};
use crate::error::{Error, Result};
use crate::event_recorder::{EventRecorder, EventWriter};
use crate::finalizer::Finalizers;
use crate::object::{Kind, Object, ObjectKey, View};
use crate::owner::Owner;

/// The interval at which [`KeyContext::wait_for`] checks again without an event.
const POLL: Duration = Duration::from_secs(10);

/// The context of a reconcile of an object of type `K`.
///
/// It dereferences to [`KeyContext`], which dereferences to the [`Client`], so all their methods can be called on it.
/// Its own methods refer to the object: they write its status, record events about it, and apply objects that it owns.
///
/// If the controller watches `K` in another cluster ([`Watch::in_cluster`](super::Watch::in_cluster)), the client
/// belongs to that cluster. Clones are cheap.
pub struct Context<K> {
    base: KeyContext,
    kind: Arc<Kind>,
    object: Arc<K>,
}

/// The context of a reconcile by key. It dereferences to the [`Client`]. Clones are cheap.
#[derive(Clone)]
pub struct KeyContext {
    pub(super) client: Client,
    pub(super) recorder: EventRecorder,
    pub(super) controller: Arc<str>,
    pub(super) reconcile_id: Arc<str>,
}

// === impl Context ===

impl<K: View> Context<K> {
    pub(super) fn new(base: KeyContext, kind: Arc<Kind>, object: Arc<K>) -> Self {
        Self { base, kind, object }
    }

    /// Returns the object at the beginning of the reconcile.
    pub fn object(&self) -> &Arc<K> {
        &self.object
    }

    /// Returns the key of the object.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::of(self.object.as_ref())
    }

    /// Returns the object as an owner, for functions such as [`Client::apply_owned`].
    pub fn owner(&self) -> Owner {
        Owner::of(&self.kind, self.object.as_ref())
    }

    /// Applies an object with a controller reference to the reconciled object, so that the garbage collector deletes it
    /// with its owner. Its namespace defaults to that of the owner. See [`Client::apply`].
    ///
    /// # Errors
    /// Returns an error if the owner reference is invalid or the server rejects the object.
    pub async fn apply_owned<'a, C: View>(
        &self,
        desired: impl Into<Desired<'a, C>>,
    ) -> Result<Written<C>, ClientError> {
        self.base.client.apply_owned(self.owner(), desired).await
    }

    /// Creates an object with a controller reference to the reconciled object. Use it for objects that are written once
    /// and never corrected, such as a generated password. See [`Client::create`].
    ///
    /// # Errors
    /// Returns an error if the owner reference is invalid or the server rejects the object, for example because it
    /// exists ([`ClientError::is_already_exists`]).
    pub async fn create_owned<'a, C: View>(
        &self,
        object: impl Into<Desired<'a, C>>,
    ) -> Result<Written<C>, ClientError> {
        let mut desired = object.into();
        desired.owned_by(&self.owner())?;
        self.base.client.create(desired).await
    }

    /// Applies the objects of type `C` that the reconciled object should own, and deletes the others of this type that
    /// it controls. Use it for an optional object (`Option<Ingress>`), or for a list whose length depends on the spec.
    ///
    /// The first call adds an index of the kind by its controlling owner. Objects that the reconciled object does not
    /// control are kept. Deletions follow after all applies.
    ///
    /// # Errors
    /// As for [`Context::apply_owned`], and if a deletion fails.
    pub async fn apply_owned_set<C: Object>(
        &self,
        desired: impl IntoIterator<Item = C, IntoIter: Send> + Send,
    ) -> Result<Vec<Written<C>>, ClientError> {
        let mut applied = Vec::new();
        for object in desired {
            applied.push(self.apply_owned(object).await?);
        }
        let is_desired = |key: &ObjectKey| applied.iter().any(|object| ObjectKey::of(&**object) == *key);
        for object in self.list_owned::<C>().await? {
            let is_going = object.meta().deletion_timestamp.is_some();
            if !is_going && !is_desired(&ObjectKey::of(&*object)) {
                self.base.client.delete::<C>(&*object).await?;
            }
        }
        Ok(applied)
    }

    /// Lists the objects of type `C` that the reconciled object controls, from the cache.
    ///
    /// The first call adds an index of the kind by its controlling owner.
    ///
    /// # Errors
    /// Returns an error if the kind cannot be listed in time.
    pub async fn list_owned<C: Object>(&self) -> Result<Vec<Arc<C>>, ClientError> {
        owned::by(&self.base.client, self.object.meta()).await
    }

    /// Lists objects of a kind from the cache: by default those in the namespace of the reconciled object, or in all
    /// namespaces if it is cluster-scoped. See [`Client::list`].
    pub fn list<C: Object>(&self) -> List<'_, C> {
        let list = self.base.client.list::<C>();
        match self.object.meta().namespace.as_deref() {
            Some(namespace) => list.namespace(namespace),
            None => list,
        }
    }

    /// Starts an event about the object, which `kubectl describe` shows.
    pub fn event(&self) -> EventWriter<'_> {
        self.base.recorder.about_object(&self.kind, self.object.meta())
    }

    /// Cleans up external resources before the object is deleted.
    ///
    /// While the object is not being deleted, this adds the finalizer `name` if it is missing, and returns `true`. When
    /// the object is being deleted, it runs `clean_up`, removes the finalizer, and returns `false`: then return from
    /// the reconcile. For several finalizers in order, see [`Client::finalizers`].
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use k8s_openapi::api::core::v1::Service;
    /// # use operator_runtime::prelude::*;
    /// # async fn delete_record(name: &str) -> Result<()> { Ok(()) }
    /// # async fn create_record(name: &str) -> Result<()> { Ok(()) }
    /// async fn reconcile(service: Arc<Service>, ctx: Context<Service>) -> Result<Action> {
    ///     let key = ctx.key();
    ///     if !ctx.finalize("example.com/dns-record", delete_record(key.name())).await? {
    ///         return Ok(Action::done());
    ///     }
    ///     create_record(key.name()).await?;
    ///     Ok(Action::done())
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns the error of `clean_up`, which is retried like every error of a reconcile, or an error if a write fails.
    pub async fn finalize(
        &self,
        name: &str,
        clean_up: impl Future<Output = Result<()>> + Send,
    ) -> Result<bool> {
        let kind = Kind::clone(&self.kind);
        let finalizers = Finalizers::new(&self.base.client, kind, self.object.as_ref());
        let live = finalizers.finalizer(name, clean_up).run().await?;
        Ok(live.is_some())
    }
}

impl<K: Object + HasStatus> Context<K>
where
    K::Status: Clone + Default + Serialize + DeserializeOwned,
{
    /// Changes the status of the object; see [`Client::update_status`].
    ///
    /// # Errors
    /// Returns an error if the server rejects the status.
    pub async fn update_status(
        &self,
        change: impl Fn(&mut K::Status) + Send + Sync,
    ) -> Result<Written<K>, ClientError> {
        self.base.client.update_status(&self.object, change).await
    }
}

impl<K> Clone for Context<K> {
    fn clone(&self) -> Self {
        Self {
            base: self.base.clone(),
            kind: self.kind.clone(),
            object: self.object.clone(),
        }
    }
}

impl<K> Deref for Context<K> {
    type Target = KeyContext;

    fn deref(&self) -> &KeyContext {
        &self.base
    }
}

impl<K> fmt::Debug for Context<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.debug(&mut formatter.debug_struct("Context"))
    }
}

// === impl KeyContext ===

impl KeyContext {
    /// Returns the client, for functions that take a [`Client`].
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the event recorder, for events about any object.
    pub fn recorder(&self) -> &EventRecorder {
        &self.recorder
    }

    /// Returns the object from the cache if it exists and `is_ready` returns true. Otherwise it returns an error that
    /// means waiting. Return it with `?`: the request is then reconciled again after ten seconds or at the next event,
    /// without an error in the log or the metrics. See [`Error::wait`] for other times.
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::Secret;
    /// use operator_runtime::prelude::*;
    ///
    /// async fn password(ctx: &KeyContext, key: ObjectKey) -> Result<Vec<u8>> {
    ///     let has_password = |secret: &Secret| secret.data.as_ref().is_some_and(|data| data.contains_key("password"));
    ///     let secret = ctx.wait_for(key, has_password).await?;
    ///     Ok(secret.data.as_ref().and_then(|data| data.get("password")).map(|value| value.0.clone()).unwrap_or_default())
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the object is missing or not ready ([`Error::is_waiting`]), or cannot be read.
    pub async fn wait_for<C: Object>(
        &self,
        key: impl Into<ObjectKey>,
        is_ready: impl FnOnce(&C) -> bool + Send,
    ) -> Result<Arc<C>> {
        let key = key.into();
        let state = match self.client.get::<C>(&key).await? {
            Some(object) if is_ready(&object) => return Ok(object),
            Some(_) => "is not ready",
            None => "does not exist",
        };
        Err(Error::wait(format!("{} {key} {state}", Kind::of::<C>()), POLL))
    }

    /// Returns the name of the controller, as in its logs and metrics.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// Returns the unique identifier of this reconcile, which is the field `reconcileID` of the log.
    pub fn reconcile_id(&self) -> &str {
        &self.reconcile_id
    }

    fn debug(&self, context: &mut fmt::DebugStruct<'_, '_>) -> fmt::Result {
        context
            .field("controller", &self.controller)
            .field("reconcile_id", &self.reconcile_id)
            .finish_non_exhaustive()
    }
}

impl Deref for KeyContext {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl fmt::Debug for KeyContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.debug(&mut formatter.debug_struct("KeyContext"))
    }
}
