//! [`Cluster`], an additional cluster of a manager.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::client::Client;
use crate::error::Result;
use crate::event_recorder::{EventRecorder, Recorder};

/// Another cluster that an operator watches or writes to, added by [`Manager::add_cluster`]: a client with its own
/// cache, and an event recorder. The manager starts and stops it together with its own cache.
/// [`Manager::add_cache_check`] adds the state of its cache to `/readyz`. Clones share the cluster.
///
/// [`Manager::add_cluster`]: crate::Manager::add_cluster
/// [`Manager::add_cache_check`]: crate::Manager::add_cache_check
#[derive(Clone)]
pub struct Cluster {
    pub(crate) name: Arc<str>,
    pub(crate) client: Client,
    pub(crate) of_every_instance: kube::Client,
    pub(crate) recorder: EventRecorder,
}

/// The background tasks of another cluster.
pub(crate) struct Running {
    pub(crate) cache: Cache,
    pub(crate) recorder: Recorder,
}

// === impl Running ===

impl Running {
    /// Runs the watches until `stop`, then writes the remaining events.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<()> {
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
    /// Returns the name that the operator chose for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the client, which reads from the cluster's cache and writes to the cluster. With leader election it writes
    /// only while this instance is the leader, as [`Manager::client`](crate::Manager::client) does.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns a client that writes on every instance, whether it is the leader or not, like
    /// [`Manager::client_for_every_instance`](crate::Manager::client_for_every_instance) does.
    pub fn client_for_every_instance(&self) -> Client {
        self.client.over(self.of_every_instance.clone())
    }

    /// Returns the event recorder, which writes to this cluster.
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
