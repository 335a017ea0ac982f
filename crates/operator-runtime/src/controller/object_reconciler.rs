//! Reconcilers that are handed the object instead of its key.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{Action, Context, Reconciler, Request};
use crate::error::Result;
use crate::object::Object;

/// A reconciler of objects that exist: what a [`Reconciler`] is whose every reconcile begins with reading its object,
/// and ends there if it is gone. [`as_reconciler`] makes one of it.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use k8s_openapi::api::apps::v1::Deployment;
/// use operator_runtime::controller::{ObjectReconciler, as_reconciler};
/// use operator_runtime::prelude::*;
///
/// struct Watchdog;
///
/// impl ObjectReconciler<Deployment> for Watchdog {
///     async fn reconcile(&self, ctx: Context, deployment: Arc<Deployment>) -> Result<Action> {
///         tracing::info!(labels = ?deployment.metadata.labels, "seen");
///         Ok(Action::done())
///     }
/// }
///
/// # fn example(manager: &Manager) -> Result<()> {
/// Controller::managed_by(manager).for_::<Deployment>().complete(as_reconciler(Watchdog))?;
/// # Ok(())
/// # }
/// ```
pub trait ObjectReconciler<K: Object>: Send + Sync + 'static {
    /// Reconciles the object, as the cache has it. It is not called for objects that are gone; those that are being
    /// deleted are there as long as finalizers hold them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use operator_runtime::controller::ObjectReconciler;
    /// use operator_runtime::prelude::*;
    ///
    /// struct Labeller;
    ///
    /// impl ObjectReconciler<ConfigMap> for Labeller {
    ///     async fn reconcile(&self, _: Context, config: Arc<ConfigMap>) -> Result<Action> {
    ///         if config.metadata.deletion_timestamp.is_some() {
    ///             return Ok(Action::done());
    ///         }
    ///         tracing::info!(name = ?config.metadata.name, "to be labelled");
    ///         Ok(Action::done())
    ///     }
    /// }
    /// # let _ = Labeller;
    /// ```
    ///
    /// # Errors
    /// As [`Reconciler::reconcile`].
    fn reconcile(&self, ctx: Context, object: Arc<K>) -> impl Future<Output = Result<Action>> + Send;
}

/// A [`Reconciler`] that reads the object of each request for an [`ObjectReconciler`], and is done if it is gone.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use operator_runtime::controller::{ObjectReconciler, as_reconciler};
/// use operator_runtime::prelude::*;
///
/// # struct Labeller;
/// # impl ObjectReconciler<ConfigMap> for Labeller {
/// #     async fn reconcile(&self, _: Context, _: Arc<ConfigMap>) -> Result<Action> { Ok(Action::done()) }
/// # }
/// fn controller(manager: &Manager) -> Result<()> {
///     Controller::managed_by(manager).for_::<ConfigMap>().complete(as_reconciler(Labeller))?;
///     Ok(())
/// }
/// # let _ = controller;
/// ```
pub fn as_reconciler<K: Object>(reconciler: impl ObjectReconciler<K>) -> impl Reconciler {
    ByObject {
        reconciler,
        kind: PhantomData,
    }
}

struct ByObject<K, R> {
    reconciler: R,
    kind: PhantomData<fn() -> K>,
}

impl<K: Object, R: ObjectReconciler<K>> Reconciler for ByObject<K, R> {
    async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
        match ctx.get::<K>(&request).await? {
            Some(object) => self.reconciler.reconcile(ctx, object).await,
            None => Ok(Action::done()),
        }
    }
}
