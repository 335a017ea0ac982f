//! The context of a reconcile: the client, the event recorder, and the object that is reconciled.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kube::core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::BaseContext;
use crate::client::{Client, ClientError, List, Written};
use crate::error::Result;
use crate::event_recorder::{EventRecorder, EventWriter};
use crate::object::{Kind, Object, ObjectKey, View};
use crate::owner::Owner;

/// The context of a reconcile of an object of type `K`.
///
/// It dereferences to [`KeyContext`], and this to the [`Client`], so that all their methods can be called on it. Its own
/// methods refer to the object: they write its status, record events about it, and apply objects that it owns.
///
/// If the controller watches `K` in another cluster ([`Watch::in_cluster`](super::Watch::in_cluster)), the client is that
/// of the other cluster. Clones are cheap.
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
    pub(super) base: BaseContext,
    pub(super) controller: Arc<str>,
    pub(super) reconcile_id: Arc<str>,
}

// === impl Context ===

impl<K: View> Context<K> {
    pub(super) fn new(base: KeyContext, kind: Arc<Kind>, object: Arc<K>) -> Self {
        Self { base, kind, object }
    }

    /// Returns the object as it was when the reconcile began.
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

    /// Applies an object that the reconciled object owns, with a controller reference to it: the garbage collector deletes
    /// it together with its owner. Its namespace defaults to that of the owner. See [`Client::apply`].
    ///
    /// # Errors
    /// If the object cannot be owned by this one, or the server rejects it.
    pub async fn apply_owned<C: Object>(&self, desired: C) -> Result<Written<C>, ClientError> {
        self.base.client.apply_owned(self.owner(), desired).await
    }

    /// Lists objects of a kind from the cache; by default those in the namespace of the reconciled object, or of all
    /// namespaces if it has none. See [`Client::list`].
    pub fn list<C: Object>(&self) -> List<'_, C> {
        let list = self.base.client.list::<C>();
        match self.object.meta().namespace.as_deref() {
            Some(namespace) => list.namespace(namespace),
            None => list,
        }
    }

    /// Begins an event about the object, which `kubectl describe` shows.
    pub fn event(&self) -> EventWriter<'_> {
        self.base.recorder.about_object(&self.kind, self.object.meta())
    }
}

impl<K: Object> Context<K> {
    /// Cleans up external resources before the object is deleted.
    ///
    /// While the object is not being deleted, this adds the finalizer `name` if it is missing, and returns `true`. When the
    /// object is being deleted, it runs `clean_up`, removes the finalizer, and returns `false`: end the reconcile then. For
    /// several finalizers in order, see [`Client::finalizers`].
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
    /// The error of `clean_up`, which is retried as every error of a reconcile, or if a write fails.
    pub async fn finalize(
        &self,
        name: &str,
        clean_up: impl Future<Output = Result<()>> + Send,
    ) -> Result<bool> {
        let finalizers = self.base.client.finalizers(self.object.as_ref());
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
    /// If the server rejects the status.
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

    /// Returns the value of this type that [`BaseContext::with_value`] added, if there is one.
    pub fn value<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.base.value()
    }

    /// Returns the name of the controller, as in its logs and metrics.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// Returns the unique identifier of this reconcile, which the log has as `reconcileID`.
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
