//! Other clusters than the one that the manager works on.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::client::Client;
use crate::error::Result;
use crate::event_recorder::{EventRecorder, Recorder};

/// Another cluster that an operator watches or writes to, made by [`Manager::add_cluster`]: a client with a cache of
/// its own, and an event recorder. The manager starts and stops it with its own cache.
/// [`Manager::add_cache_check`] adds the state of its cache to `/readyz`. Clones are handles to the same one.
///
/// ```no_run
/// use k8s_openapi::api::apps::v1::Deployment;
/// use operator_runtime::cache::CacheOptions;
/// use operator_runtime::controller::Watch;
/// use operator_runtime::manager::Cluster;
/// use operator_runtime::prelude::*;
///
/// /// Copies what is in the west.
/// struct Mirror {
///     west: Cluster,
/// }
///
/// impl Reconciler for Mirror {
///     async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
///         if let Some(deployment) = self.west.client().get::<Deployment>(&request).await? {
///             let mut copy = Deployment { spec: deployment.spec.clone(), ..Deployment::default() };
///             copy.metadata.name = deployment.metadata.name.clone();
///             copy.metadata.namespace = deployment.metadata.namespace.clone();
///             ctx.apply(copy).await?;
///         }
///         Ok(Action::done())
///     }
/// }
///
/// # async fn example(manager: &Manager, kubeconfig: kube::Client) -> Result<()> {
/// let west = manager.add_cluster("west", kubeconfig, CacheOptions::default())?;
/// Controller::managed_by(manager)
///     .named("mirror")
///     .for_with(Watch::<Deployment>::new().in_cluster(&west))
///     .complete(Mirror { west })?;
/// # Ok(())
/// # }
/// ```
///
/// [`Manager::add_cluster`]: super::Manager::add_cluster
/// [`Manager::add_cache_check`]: super::Manager::add_cache_check
#[derive(Clone)]
pub struct Cluster {
    pub(super) name: Arc<str>,
    pub(super) client: Client,
    pub(super) of_every_instance: kube::Client,
    pub(super) recorder: EventRecorder,
}

/// The running parts of another cluster.
pub(super) struct Running {
    pub(super) cache: Cache,
    pub(super) recorder: Recorder,
}

// === impl Running ===

impl Running {
    /// Watches until `stop`, and writes the events that are left.
    pub(super) async fn run(self, stop: CancellationToken) -> Result<()> {
        self.cache.start();
        let watch = async {
            stop.cancelled().await;
            self.cache.stop().await;
        };
        tokio::join!(self.recorder.run(stop.clone()), watch);
        Ok(())
    }
}

// === impl Cluster ===

impl Cluster {
    /// The name that the operator gave it.
    ///
    /// ```
    /// # use operator_runtime::manager::Cluster;
    /// # fn example(west: &Cluster) {
    /// tracing::info!(cluster = west.name(), "Mirroring");
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the client, which reads from the cluster's cache and writes to the cluster. With leader election it writes
    /// only while this instance is the leader, as [`Manager::client`](super::Manager::client) does.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use operator_runtime::ObjectKey;
    /// use operator_runtime::manager::Cluster;
    ///
    /// async fn flags(west: &Cluster) -> operator_runtime::Result<Option<String>> {
    ///     let config = west.client().get::<ConfigMap>(ObjectKey::namespaced("default", "flags")).await?;
    ///     Ok(config.and_then(|config| config.data.as_ref()?.get("flags").cloned()))
    /// }
    /// ```
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns a client that writes whether or not this instance is the leader, as
    /// [`Manager::client_for_every_instance`](super::Manager::client_for_every_instance) does.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use operator_runtime::manager::Cluster;
    /// async fn report(west: &Cluster, version: ConfigMap) -> operator_runtime::Result<()> {
    ///     west.client_for_every_instance().apply(version).await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn client_for_every_instance(&self) -> Client {
        self.client.over(self.of_every_instance.clone())
    }

    /// The cache of the cluster, to which indexes are added, and whose state can be asked for.
    ///
    /// ```
    /// # use operator_runtime::manager::Cluster;
    /// fn is_reachable(west: &Cluster) -> bool {
    ///     west.cache().unhealthy().is_empty()
    /// }
    /// ```
    pub fn cache(&self) -> &Cache {
        self.client.cache()
    }

    /// The event recorder: its events are in this cluster.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use operator_runtime::manager::Cluster;
    ///
    /// async fn tell(west: &Cluster, deployment: &Deployment) -> operator_runtime::Result<()> {
    ///     west.recorder().event(deployment).normal("Mirrored", "The Deployment was copied to the east").await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn recorder(&self) -> &EventRecorder {
        &self.recorder
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cluster = formatter.debug_struct("Cluster");
        cluster.field("name", &self.name).finish_non_exhaustive()
    }
}
