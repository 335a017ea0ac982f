//! The webhook server of a manager: which address, which certificates, and from when it answers.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use super::ManagerError;
use super::servers::bind;
use crate::certificates::{Certificates, ManagedCertificates, Served};
use crate::election;
use crate::error::{Error, Result};
use crate::health::Checks;
use crate::metrics::Metrics;
use crate::object::Object;
use crate::webhook::{Webhook, WebhookServer};

/// Names the namespace of the operator where there is no service account, as while developing.
const NAMESPACE: &str = "POD_NAMESPACE";

/// Where the port comes from.
const FLAG: &str = "webhook-port";

/// How webhooks are served.
#[derive(Clone, Debug)]
pub(super) struct WebhookOptions {
    pub(super) bind_address: String,
    pub(super) certificates: Source,
    pub(super) http2: bool,
}

/// Where the certificates come from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The operator's own authority, for all Services of the operator's namespace; for `localhost`, and known to
    /// nobody, where there is no namespace.
    Own,
    /// As [`Source::Own`], in a namespace that is given.
    Managed(ManagedCertificates),
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
    Given(Certificates),
}

/// The server as it is set up before the manager runs. It listens from the first webhook on.
pub(super) struct Webhooks {
    pub(super) options: WebhookOptions,
    server: WebhookServer,
    listener: Option<TcpListener>,
}

// === impl WebhookOptions ===

impl Default for WebhookOptions {
    fn default() -> Self {
        Self {
            bind_address: format!(":{}", WebhookServer::PORT),
            certificates: Source::Own,
            http2: false,
        }
    }
}

// === impl Webhooks ===

impl Webhooks {
    pub(super) fn new(options: WebhookOptions) -> Self {
        Self {
            options,
            server: WebhookServer::new(),
            listener: None,
        }
    }

    /// Adds webhooks, and says where they will be served.
    pub(super) fn add<K: Object>(
        &mut self,
        webhook: Webhook<K>,
        checks: &Checks,
    ) -> Result<SocketAddr, ManagerError> {
        let address = &self.options.bind_address;
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => bind(FLAG, address)?,
        };
        let local = local(&listener, address)?;
        self.listener = Some(listener);
        self.server.add(webhook)?;
        // Until the server runs.
        checks.add_ready("webhook", || {
            Err(Error::msg("the webhook server has not started"))
        });
        Ok(local)
    }

    /// Whether there is anything to serve.
    pub(super) fn is_needed(&self) -> bool {
        self.listener.is_some()
    }

    /// Serves until `stop`.
    pub(super) async fn run(
        self,
        name: String,
        kube: kube::Client,
        metrics: Metrics,
        checks: Checks,
        stop: CancellationToken,
    ) -> Result<()> {
        let Some(listener) = self.listener else {
            return Ok(());
        };
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let server = self.server.metrics(metrics).http2(self.options.http2);
        let managed = match self.options.certificates {
            Source::Given(certificates) => Err(certificates),
            Source::Files { certificate, key } => Err(Certificates::from_files(&certificate, &key)?),
            Source::Managed(managed) => Ok(managed),
            Source::Own => own(&name)?,
        };
        let started = Arc::new(AtomicBool::new(false));
        let is_started = started.clone();
        checks.add_ready("webhook", move || match is_started.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(Error::msg("the webhook server has no certificate yet")),
        });
        let served = Served {
            paths: server.paths().map(str::to_owned).collect(),
            crds: server.converted().to_vec(),
        };
        tracing::info!(address = ?listener.local_addr().ok(), paths = ?served.paths, "Serving webhooks");
        match managed {
            Err(certificates) => {
                started.store(true, Ordering::Relaxed);
                server.serve(listener, certificates, stop).await?;
            }
            Ok(managed) => {
                let certificates = tokio::select! {
                    certificates = managed.obtain(&kube) => certificates?,
                    () = stop.cancelled() => return Ok(()),
                };
                started.store(true, Ordering::Relaxed);
                let keep = managed.keep(kube, certificates.clone(), served, stop.clone());
                let (served, ()) = tokio::join!(server.serve(listener, certificates, stop), keep);
                served?;
            }
        }
        Ok(())
    }
}

/// Managed certificates where the namespace is known; those of nobody where it is not.
fn own(name: &str) -> Result<Result<ManagedCertificates, Certificates>> {
    let given = std::env::var(NAMESPACE).ok().filter(|name| !name.is_empty());
    match given.or_else(|| election::namespace().ok()) {
        Some(namespace) => Ok(Ok(ManagedCertificates::new(
            &namespace,
            &format!("{name}-webhook-ca"),
        ))),
        None => {
            tracing::warn!(
                "Webhooks have a certificate for localhost that no API server trusts: outside of a cluster, set \
                 --webhook-cert-path, or {NAMESPACE} to the namespace of their Service"
            );
            let names = ["localhost", "127.0.0.1", "::1"];
            Ok(Err(Certificates::self_signed(names)?))
        }
    }
}

fn local(listener: &TcpListener, address: &str) -> Result<SocketAddr, ManagerError> {
    listener.local_addr().map_err(|source| ManagerError::Listen {
        flag: FLAG,
        address: address.to_owned(),
        source,
    })
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Webhooks")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
