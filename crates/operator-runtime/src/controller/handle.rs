//! A controller that was handed to its manager.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{ControllerError, Requests, Source, Watch};
use crate::cache::Cache;
use crate::error::Result;
use crate::handler::EventHandler;
use crate::object::View;

/// A controller that its manager has, made by [`Controller::build`](super::Controller::build): it can be told what else
/// to watch, while it runs too. Clones are handles to the same one.
///
/// ```no_run
/// use operator_runtime::controller::Watch;
/// use operator_runtime::{Kind, handler, prelude::*};
///
/// # fn example(manager: &Manager, mine: impl Reconciler) -> Result<()> {
/// let controller = Controller::managed_by(manager).for_::<k8s_openapi::api::apps::v1::Deployment>().build(mine)?;
/// // Later, when it turns out that there are gateways in this cluster:
/// let gateways = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
/// controller.watch(Watch::dynamic(&gateways), handler::for_object())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ControllerHandle {
    pub(super) name: Arc<str>,
    pub(super) cache: Cache,
    pub(super) late: mpsc::UnboundedSender<Source>,
}

// === impl ControllerHandle ===

impl ControllerHandle {
    /// The name of the controller.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// # let (mine, _seen) = recorder();
    /// let controller = Controller::managed_by(manager).for_::<Deployment>().named("auditor").build(mine)?;
    /// assert_eq!(controller.name(), "auditor");
    /// # Ok(()) }) }
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reconciles what `handler` makes of each event of a kind: at once if the controller runs, and from its start if it
    /// does not yet. A controller that runs does not wait for the first list. The permissions that the watch needs are
    /// not implied: they need an `#[rbac]` attribute.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, client| {
    /// use operator_runtime::controller::Watch;
    /// use operator_runtime::handler;
    ///
    /// # let (mine, mut seen) = recorder();
    /// let controller = Controller::managed_by(manager).for_::<Deployment>().build(mine)?;
    /// client.create(config_map("settings", "1")).await?;
    /// controller.watch(Watch::<ConfigMap>::new(), handler::for_object())?;
    /// while seen.recv().await != Some(Request::namespaced("default", "settings")) {}
    /// # Ok(()) }) }
    /// ```
    ///
    /// # Errors
    /// If the controller has ended.
    pub fn watch<K: View>(
        &self,
        watch: Watch<K>,
        handler: impl EventHandler<K>,
    ) -> Result<(), ControllerError> {
        let cache = watch.cache.clone().unwrap_or_else(|| self.cache.clone());
        self.add(Source::kind(&cache, watch, handler, Arc::new([])))
    }

    /// Reconciles the keys that a function adds, as [`Controller::watches_raw`](super::Controller::watches_raw) does.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// # let (mine, mut seen) = recorder();
    /// let controller = Controller::managed_by(manager).for_::<Deployment>().build(mine)?;
    /// controller.watch_raw(async |requests, _stop| {
    ///     requests.add(Request::cluster("report"));
    ///     Ok(())
    /// })?;
    /// assert_eq!(seen.recv().await, Some(Request::cluster("report")));
    /// # Ok(()) }) }
    /// ```
    ///
    /// # Errors
    /// If the controller has ended.
    pub fn watch_raw<F, R>(&self, run: F) -> Result<(), ControllerError>
    where
        F: FnOnce(Requests, CancellationToken) -> R + Send + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.add(Source::raw(run))
    }

    fn add(&self, source: Source) -> Result<(), ControllerError> {
        let added = self.late.send(source);
        added.map_err(|_| ControllerError::Ended(self.name.to_string()))
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut handle = formatter.debug_struct("ControllerHandle");
        handle.field("name", &self.name).finish_non_exhaustive()
    }
}
