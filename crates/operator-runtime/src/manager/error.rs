//! Why a manager cannot be built, or ended.

use std::time::Duration;

use operator_connection::ConnectionError;

use crate::cache::CacheError;
use crate::certificates::CertificateError;
use crate::election::ElectionError;
use crate::webhook::WebhookError;

/// Why a manager cannot be built, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The cluster cannot be reached with this configuration.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The address of a server is none, or is in use.
    #[error("cannot listen on {address:?} (--{flag}); \"0\" switches it off")]
    Listen {
        /// The flag that names the address.
        flag: &'static str,
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The certificate of the metrics server cannot be used.
    #[error("cannot serve metrics over HTTPS (--metrics-cert-path)")]
    Certificates(#[source] CertificateError),
    /// Webhooks cannot be served as they are.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    /// The cache cannot watch what it is told to.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The election cannot be held.
    #[error("cannot elect a leader (--leader-elect)")]
    Election(#[source] ElectionError),
    /// A manager runs once, and some things must be there before it does.
    #[error("manager already started")]
    AlreadyStarted,
    /// Checks are there before the manager runs.
    #[error("unable to add new checker because {0} endpoint has already been created")]
    LateCheck(&'static str),
    /// Clusters have names of their own.
    #[error("there is a cluster {0:?} already: give one of the two another name")]
    DuplicateCluster(String),
    /// Nothing is started any more.
    #[error("can't accept new runnable as stop procedure is already engaged")]
    Stopping,
    /// What is served beside the metrics must be there before the manager runs.
    #[error("unable to add new metrics handler because metrics endpoint has already been created")]
    MetricsStarted,
    /// The metrics server serves the path already.
    #[error("{0}")]
    MetricsHandler(String),
    /// A part of the operator panicked.
    #[error("{name} failed: {message}")]
    Panic {
        /// The name of the runnable, controller or server.
        name: String,
        /// The message of the panic.
        message: String,
    },
    /// Something did not end in time; it was aborted.
    #[error("failed waiting for all runnables to end within grace period of {0:?}")]
    GracePeriod(Duration),
}
