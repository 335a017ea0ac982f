//! [`ManagerError`], the error of building or running a manager.

use std::time::Duration;

use operator_connection::ConnectionError;

use crate::cache::CacheError;
use crate::certificates::CertificateError;
use crate::election::ElectionError;
use crate::webhook::WebhookError;

/// An error of building or running a manager.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The cluster cannot be reached with this configuration.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The address of a server is invalid or in use.
    #[error("cannot listen on {address:?} (--{flag}); \"0\" disables it")]
    Listen {
        /// The flag that sets the address.
        flag: &'static str,
        /// The address.
        address: String,
        /// The error of binding it.
        #[source]
        source: std::io::Error,
    },
    /// The certificate of the metrics server is invalid.
    #[error("cannot serve metrics over HTTPS (--metrics-cert-path)")]
    Certificates(#[source] CertificateError),
    /// The webhooks are invalid.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    /// The options of the cache are invalid.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The options of the election are invalid.
    #[error("cannot elect a leader (--leader-elect)")]
    Election(#[source] ElectionError),
    /// The manager runs or has already run.
    #[error("manager already started")]
    AlreadyStarted,
    /// A check was added after the start.
    #[error("unable to add new checker because {0} endpoint has already been created")]
    LateCheck(&'static str),
    /// A cluster with this name exists.
    #[error("cluster {0:?} already exists: choose another name")]
    DuplicateCluster(String),
    /// The manager is stopping.
    #[error("can't accept new runnable as stop procedure is already engaged")]
    Stopping,
    /// A path of the metrics server was added after the start.
    #[error("unable to add new metrics handler because metrics endpoint has already been created")]
    MetricsStarted,
    /// The metrics server already serves the path.
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
    /// A part did not stop in time and was aborted.
    #[error("failed waiting for all runnables to end within grace period of {0:?}")]
    GracePeriod(Duration),
}
