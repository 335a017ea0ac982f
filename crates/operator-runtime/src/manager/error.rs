//! Why a manager cannot be built, or ended.

use std::path::PathBuf;
use std::time::Duration;

use crate::cache::CacheError;
use crate::certificates::CertificateError;
use crate::election::ElectionError;
use crate::metrics_server::DuplicatePath;
use crate::webhook::WebhookError;

/// Why a manager cannot be built, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// There is no cluster to talk to.
    #[error(
        "cannot connect to a cluster: set --kubeconfig or KUBECONFIG, or run in a pod with a service account"
    )]
    Connect(#[source] kube::Error),
    /// The kubeconfig that was named cannot be used.
    #[error("cannot use the kubeconfig {path} (--kubeconfig)")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// The token of the service account, or the one that the kubeconfig names, cannot be read.
    #[error("cannot read the token file {path}")]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The proxy cannot be used.
    #[error("cannot use the proxy {address:?} ({setting}): it must be an http, https, socks5 or socks5h URL")]
    Proxy {
        /// The setting that names it.
        setting: &'static str,
        /// Its address, without the credentials.
        address: String,
    },
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
    /// The metrics server has two handlers of one path.
    #[error(transparent)]
    Metrics(#[from] DuplicatePath),
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
