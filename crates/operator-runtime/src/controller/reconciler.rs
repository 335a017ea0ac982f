//! [`Reconciler`] reconciles objects, [`KeyReconciler`] reconciles keys.

use std::future::Future;
use std::sync::Arc;

use super::{Action, Context, KeyContext, Request};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::object::{Kind, View};

/// Brings the cluster, or a resource outside the cluster, to the state that an object describes.
///
/// Every function `async fn(Arc<K>, Context<K>) -> Result<Action>` is a reconciler, with any error type that converts
/// into [`Error`]. Implement the trait for a struct that holds state, such as a connection to a database.
///
/// A reconciler gets the object but no event: it compares the current state with the desired one and acts on the
/// difference. It may be called when nothing has changed. It is not called for deleted objects. An object that is being
/// deleted exists until its finalizers are removed. [`KeyReconciler`] is also called for deleted objects.
///
/// An error is logged, and the object is reconciled again with exponential backoff. A panic counts as an error.
///
/// ```no_run
/// use std::sync::Arc;
/// use k8s_openapi::api::apps::v1::Deployment;
/// use operator_runtime::prelude::*;
///
/// async fn reconcile(deployment: Arc<Deployment>, ctx: Context<Deployment>) -> Result<Action> {
///     if deployment.spec.replicas == Some(0) {
///         ctx.event().warning("ScaledToZero", "the Deployment has no replicas");
///     }
///     Ok(Action::done())
/// }
///
/// let controller = Controller::new(reconcile);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reconciler of `{K}`",
    note = "a reconciler is an `async fn(Arc<K>, Context<K>) -> Result<Action>`, or a type that implements `Reconciler<K>`"
)]
pub trait Reconciler<K>: Send + Sync + 'static {
    /// Reconciles the object in the cache.
    ///
    /// It is never called concurrently for the same object. It is called for up to
    /// [`max_concurrent_reconciles`](super::ControllerOptions::max_concurrent_reconciles) objects concurrently.
    ///
    /// # Errors
    /// Returns any error; [`Error`] defines the retry.
    fn reconcile(&self, object: Arc<K>, ctx: Context<K>) -> impl Future<Output = Result<Action>> + Send;
}

impl<K, F, R, E> Reconciler<K> for F
where
    K: Send + Sync + 'static,
    F: Fn(Arc<K>, Context<K>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send,
    E: Into<Error>,
{
    async fn reconcile(&self, object: Arc<K>, ctx: Context<K>) -> Result<Action> {
        self(object, ctx).await.map_err(Into::into)
    }
}

/// Reconciles by key: for controllers that handle deleted objects, or that have no primary kind.
///
/// Every function `async fn(Request, KeyContext) -> Result<Action>` is a key reconciler. Everything else is as for
/// [`Reconciler`], which is built on it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reconciler of keys",
    note = "it is an `async fn(Request, KeyContext) -> Result<Action>`, or a type that implements `KeyReconciler`"
)]
pub trait KeyReconciler: Send + Sync + 'static {
    /// Reconciles a key. An object with that key may not exist.
    ///
    /// # Errors
    /// As for [`Reconciler::reconcile`].
    fn reconcile(&self, request: Request, ctx: KeyContext) -> impl Future<Output = Result<Action>> + Send;
}

impl<F, R, E> KeyReconciler for F
where
    F: Fn(Request, KeyContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send,
    E: Into<Error>,
{
    async fn reconcile(&self, request: Request, ctx: KeyContext) -> Result<Action> {
        self(request, ctx).await.map_err(Into::into)
    }
}

/// Reads the object of each request for a [`Reconciler`]. Deleted objects are skipped.
pub(super) struct ByObject<R> {
    pub(super) reconciler: R,
    pub(super) kind: Arc<Kind>,
    /// The client of the objects' cluster, if it is not the manager's own.
    pub(super) client: Option<Client>,
}

impl<R> ByObject<R> {
    pub(super) async fn reconcile<K: View>(&self, request: Request, mut ctx: KeyContext) -> Result<Action>
    where
        R: Reconciler<K>,
    {
        if let Some(client) = &self.client {
            ctx.client = client.clone();
        }
        let found = ctx.client.get::<K>((&*self.kind, request)).await?;
        let Some(object) = found else {
            return Ok(Action::done());
        };
        let ctx = Context::new(ctx, self.kind.clone(), object.clone());
        self.reconciler.reconcile(object, ctx).await
    }
}
