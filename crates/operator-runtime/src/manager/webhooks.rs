//! [`Webhooks`], the webhook server of a manager: its address, its certificates and its readiness check.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::ManagerError;
use super::servers::bind;
use crate::certificates::{
    CertificateError, Certificates, ManagedCertificates, TlsOptions, TlsVersion, shake_hands,
};
use crate::election;
use crate::error::{Error, Result, describe};
use crate::health::Checks;
use crate::metrics::Metrics;
use crate::webhook::{WebhookError, WebhookServer};

/// The variable with the namespace of the operator, for development without a service account.
const NAMESPACE: &str = "POD_NAMESPACE";

/// The variable with the name of the webhooks' Service.
const SERVICE: &str = "WEBHOOK_SERVICE";

/// The flag of the port.
const FLAG: &str = "webhook-port";

/// The name of the readiness check.
const CHECK: &str = "webhook";

/// Timeout of the TLS handshake in the readiness check.
const REACHABLE_WITHIN: Duration = Duration::from_secs(10);

/// Options of the webhook server.
#[derive(Clone, Debug)]
pub(super) struct WebhookOptions {
    pub(super) bind_address: String,
    pub(super) certificates: WebhookCertificates,
    pub(super) http2: bool,
    pub(super) min_tls_version: TlsVersion,
    /// The file with the certificate authority of clients. `None` if clients need no certificate.
    pub(super) client_authority: Option<PathBuf>,
}

/// The certificates of webhooks.
#[derive(Clone, Debug)]
pub enum WebhookCertificates {
    /// The operator creates a certificate authority for all Services of its namespace, in the Secret `NAME-webhook-ca`,
    /// and configures the API server to trust it; see [`crate::webhook`]. Outside a cluster, the certificate is for
    /// `localhost` and is not trusted.
    Own,
    /// The operator creates a certificate authority in a given namespace and Secret.
    Managed(ManagedCertificates),
    /// PEM files, which are read again when they change.
    Files {
        /// The file of the certificate chain.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// Given certificates. The API server must trust them by other means, such as cert-manager or a test.
    Given(Certificates),
}

/// The webhook server of a manager. It listens once a webhook is added.
pub(super) struct Webhooks {
    options: WebhookOptions,
    server: WebhookServer,
    /// The address, and the listener until the server runs.
    bound: Option<(SocketAddr, Option<TcpListener>)>,
    shared: Shared,
}

/// The parts of a manager that the webhook server uses.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) kube: kube::Client,
    pub(super) metrics: Metrics,
    pub(super) checks: Checks,
}

/// The webhook server before its start.
pub(super) struct Serving {
    options: WebhookOptions,
    server: WebhookServer,
    listener: TcpListener,
    shared: Shared,
}

// === impl WebhookOptions ===

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

// === impl WebhookCertificates ===

impl From<Certificates> for WebhookCertificates {
    fn from(certificates: Certificates) -> Self {
        Self::Given(certificates)
    }
}

impl From<ManagedCertificates> for WebhookCertificates {
    fn from(certificates: ManagedCertificates) -> Self {
        Self::Managed(certificates)
    }
}

// === impl Webhooks ===

impl Webhooks {
    pub(super) fn new(options: WebhookOptions, shared: Shared) -> Self {
        Self {
            options,
            server: WebhookServer::new().metrics(shared.metrics.clone()),
            bound: None,
            shared,
        }
    }

    /// Returns the current or future address of the server.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.bound.as_ref().map(|(address, _)| *address)
    }

    /// Adds webhooks. A running server serves them immediately.
    pub(super) fn add(
        &mut self,
        add: impl FnOnce(&WebhookServer) -> Result<(), WebhookError>,
    ) -> Result<(), ManagerError> {
        if self.options.is_off() {
            tracing::info!("Webhooks are not served: the webhook server is disabled");
        } else {
            self.bind()?;
        }
        add(&self.server)?;
        self.server.count();
        Ok(())
    }

    fn bind(&mut self) -> Result<(), ManagerError> {
        if self.bound.is_none() {
            let address = &self.options.bind_address;
            let listener = bind(FLAG, address)?;
            self.bound = Some((local(&listener, address)?, Some(listener)));
            // Replaced when the server runs.
            self.shared.checks.add_ready(CHECK, || async {
                Err(Error::msg("webhook server has not been started yet"))
            });
        }
        Ok(())
    }

    /// Returns the server on the first call, and `None` afterwards.
    pub(super) fn start(&mut self) -> Option<Serving> {
        let (_, listener) = self.bound.as_mut()?;
        Some(Serving {
            options: self.options.clone(),
            server: self.server.share(),
            listener: listener.take()?,
            shared: self.shared.clone(),
        })
    }
}

// === impl Serving ===

impl Serving {
    /// Serves until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) -> Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let bound = listener.local_addr()?;
        let address = reachable_at(bound);
        let Shared {
            name, kube, checks, ..
        } = self.shared;
        let server = self.server.tls(self.options.tls()?);
        let managed = match self.options.certificates {
            WebhookCertificates::Given(certificates) => Err(certificates),
            WebhookCertificates::Files { certificate, key } => {
                Err(Certificates::from_files(&certificate, &key)?)
            }
            WebhookCertificates::Managed(managed) => Ok(managed.of_operator(&name)),
            WebhookCertificates::Own => own(&name)?,
        };
        checks.add_ready(CHECK, || async {
            Err(Error::msg("webhook server has no certificate yet"))
        });
        let paths: Vec<_> = server.paths().collect();
        tracing::info!(address = %bound, ?paths, "Serving webhooks");
        match managed {
            Err(certificates) => {
                checks.add_ready(CHECK, move || reachable(address));
                server.serve(listener, certificates, stop).await?;
            }
            Ok(managed) => {
                let certificates = tokio::select! {
                    biased;
                    certificates = managed.obtain(&kube) => certificates?,
                    () = stop.cancelled() => return Ok(()),
                };
                checks.add_ready(CHECK, move || reachable(address));
                let keep = managed.keep(kube, certificates.clone(), server.served(), stop.clone());
                let (served, ()) = tokio::join!(server.serve(listener, certificates, stop), keep);
                served?;
            }
        }
        Ok(())
    }
}

/// Returns managed certificates if the namespace is known, and untrusted ones otherwise.
fn own(name: &str) -> Result<Result<ManagedCertificates, Certificates>> {
    let given = std::env::var(NAMESPACE).ok().filter(|name| !name.is_empty());
    match given.or_else(|| election::namespace().ok()) {
        Some(namespace) => {
            let mut managed =
                ManagedCertificates::new(&namespace, &format!("{name}-webhook-ca")).of_operator(name);
            managed.service = std::env::var(SERVICE).ok().filter(|service| !service.is_empty());
            Ok(Ok(managed))
        }
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

/// Checks that the server completes a TLS handshake, with any certificate.
async fn reachable(address: SocketAddr) -> Result<()> {
    match tokio::time::timeout(REACHABLE_WITHIN, shake_hands(address)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::msg(format!(
            "webhook server is not reachable: {}",
            describe(&error)
        ))),
        Err(_) => Err(Error::msg(format!(
            "webhook server is not reachable: no response within {REACHABLE_WITHIN:?}"
        ))),
    }
}

/// Returns the loopback address for a server that listens on all addresses.
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
