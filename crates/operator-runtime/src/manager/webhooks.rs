//! The webhook server of a manager: which address, which certificates, and from when it answers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::ManagerError;
use super::servers::bind;
use crate::certificates::{
    CertificateError, Certificates, ManagedCertificates, Served, TlsOptions, TlsVersion, shake_hands,
};
use crate::election;
use crate::error::{Error, Result, describe};
use crate::health::Checks;
use crate::metrics::Metrics;
use crate::webhook::{WebhookError, WebhookServer};

/// Names the namespace of the operator where there is no service account, as while developing.
const NAMESPACE: &str = "POD_NAMESPACE";

/// Where the port comes from.
const FLAG: &str = "webhook-port";

/// The check for readiness.
const CHECK: &str = "webhook";

/// How long the server may take to shake hands before it counts as not reachable.
const REACHABLE_WITHIN: Duration = Duration::from_secs(10);

/// How webhooks are served.
#[derive(Clone, Debug)]
pub(super) struct WebhookOptions {
    pub(super) bind_address: String,
    pub(super) certificates: Source,
    pub(super) http2: bool,
    pub(super) min_tls_version: TlsVersion,
    /// The file with the authority of clients, where they need a certificate.
    pub(super) client_authority: Option<PathBuf>,
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
            min_tls_version: TlsVersion::default(),
            client_authority: None,
        }
    }
}

impl WebhookOptions {
    fn is_off(&self) -> bool {
        matches!(self.bind_address.as_str(), "" | "0")
    }

    fn tls(&self) -> Result<TlsOptions, CertificateError> {
        let mut tls = TlsOptions::with_http2(self.http2);
        tls.min_version = self.min_tls_version;
        if let Some(path) = &self.client_authority {
            let pem = std::fs::read_to_string(path).map_err(|source| CertificateError::Read {
                path: path.clone(),
                source,
            })?;
            tls.require_clients_of(&pem)?;
        }
        Ok(tls)
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

    /// Adds webhooks, and says where they will be served, if they will.
    pub(super) fn add(
        &mut self,
        checks: &Checks,
        add: impl FnOnce(&mut WebhookServer) -> Result<(), WebhookError>,
    ) -> Result<Option<SocketAddr>, ManagerError> {
        if self.options.is_off() {
            add(&mut self.server)?;
            return Ok(None);
        }
        let address = &self.options.bind_address;
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => bind(FLAG, address)?,
        };
        let local = local(&listener, address)?;
        self.listener = Some(listener);
        add(&mut self.server)?;
        // Until the server runs.
        checks.add_ready(CHECK, || {
            Err(Error::msg("webhook server has not been started yet"))
        });
        Ok(Some(local))
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
        let address = reachable_at(listener.local_addr()?);
        let server = self.server.metrics(metrics).tls(self.options.tls()?);
        let managed = match self.options.certificates {
            Source::Given(certificates) => Err(certificates),
            Source::Files { certificate, key } => Err(Certificates::from_files(&certificate, &key)?),
            Source::Managed(managed) => Ok(managed),
            Source::Own => own(&name)?,
        };
        checks.add_ready(CHECK, || Err(Error::msg("webhook server has no certificate yet")));
        let served = Served {
            paths: server.paths().map(str::to_owned).collect(),
            crds: server.converted().to_vec(),
        };
        tracing::info!(address = ?listener.local_addr().ok(), paths = ?served.paths, "Serving webhooks");
        match managed {
            Err(certificates) => {
                checks.add_ready_async(CHECK, move || reachable(address));
                server.serve(listener, certificates, stop).await?;
            }
            Ok(managed) => {
                let certificates = tokio::select! {
                    certificates = managed.obtain(&kube) => certificates?,
                    () = stop.cancelled() => return Ok(()),
                };
                checks.add_ready_async(CHECK, move || reachable(address));
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

/// Whether the server shakes hands; it need not be trusted for that.
async fn reachable(address: SocketAddr) -> Result<()> {
    match tokio::time::timeout(REACHABLE_WITHIN, shake_hands(address)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::msg(format!(
            "webhook server is not reachable: {}",
            describe(&error)
        ))),
        Err(_) => Err(Error::msg(format!(
            "webhook server is not reachable: no answer within {REACHABLE_WITHIN:?}"
        ))),
    }
}

/// Who listens on every address is reached on the loopback one.
fn reachable_at(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
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
