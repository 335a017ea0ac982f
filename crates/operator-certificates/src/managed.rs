//! Certificates that the operator makes for its webhooks by itself.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::injector::Injector;
use super::{Authority, CertificateError, Certificates};
use crate::describe;

/// The Service of the scaffolds, before kustomize adds the prefix of the operator.
const SERVICE: &str = "webhook-service";

/// How often the Secret is read again, unless said otherwise.
const CHECK_EVERY: Duration = Duration::from_secs(10 * 60);
/// The waits between attempts to read the Secret the first time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// Certificates of webhooks without cert-manager: the operator is its own authority.
///
/// * The authority is created by the first instance and kept in a Secret, which all instances read. It is replaced
///   after five of its ten years; the old one is trusted on, so that no request fails meanwhile.
/// * Each instance has a certificate for all Services of its namespace, which is made anew every half year.
/// * The operator writes the certificate of the authority into the `caBundle` of the webhook configurations and CRD
///   conversions that name a Service of its namespace and a path that it serves, and again whenever somebody changes
///   them. Objects with an annotation of cert-manager's injector are left to it.
///
/// It needs permission to get, create and update the Secret, and to list, watch and patch webhook configurations and
/// the CRDs that it converts; `Operator::managed_certificates`
/// adds that to the manifests.
///
/// This is what a manager does in a cluster unless it is given certificates; the Secret is named after the operator,
/// as `memcached-operator-webhook-ca`.
///
/// ```
/// use operator_certificates::ManagedCertificates;
///
/// // Outside of a cluster, where the namespace is not known, or for another name of the Secret:
/// let certificates = ManagedCertificates::new("memcached-operator-system", "memcached-webhook-ca");
/// # let _ = certificates;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedCertificates {
    namespace: String,
    secret: String,
    /// The name of the Service through which the API server calls the webhooks. The `caBundle` is written only where the
    /// Service, its namespace and the path are this operator's. Default: `webhook-service`, and the same with the operator's
    /// name and `-` before it, as the scaffolds call it; the manager also reads `WEBHOOK_SERVICE`.
    pub service: Option<String>,
    /// The interval in which the Secret is read, to learn of a new authority. Default: ten minutes.
    pub check_every: Duration,
    /// The prefix that the scaffolds give to names.
    operator: String,
}

/// The paths and conversions that a webhook server serves.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// The paths of its webhooks.
    pub paths: Vec<String>,
    /// The names of the CRDs that are converted.
    pub crds: Vec<String>,
}

// === impl ManagedCertificates ===

impl ManagedCertificates {
    /// Certificates for the Services of a namespace (`*.NAMESPACE.svc`), whose authority is kept in a Secret of this
    /// name there.
    pub fn new(namespace: &str, secret: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            service: None,
            operator: String::new(),
            check_every: CHECK_EVERY,
        }
    }

    /// Says which operator the certificates are for.
    pub fn of_operator(mut self, name: &str) -> Self {
        name.clone_into(&mut self.operator);
        self
    }

    fn services(&self) -> Vec<String> {
        match &self.service {
            Some(service) => vec![service.clone()],
            None => vec![SERVICE.to_owned(), format!("{}-{SERVICE}", self.operator)],
        }
    }

    /// The certificates to serve with, once the authority is known, which is tried until it is.
    ///
    /// # Errors
    /// If the Secret holds something else.
    pub async fn obtain(&self, client: &kube::Client) -> Result<Certificates, CertificateError> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.authority(client).await {
                Ok(authority) => return Certificates::issued_by(authority, self.names()),
                Err(error @ CertificateError::Secret { .. }) => {
                    tracing::error!(error = %describe(&error), "Webhooks wait for their certificates");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LAST_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps the API server's trust and the certificates up to date, until `stop`.
    pub async fn keep(
        self,
        client: kube::Client,
        certificates: Certificates,
        served: watch::Receiver<Served>,
        stop: CancellationToken,
    ) {
        let (told, bundle) = watch::channel(certificates.bundle());
        tokio::select! {
            () = self.inject(&client, served, bundle) => {}
            () = self.renew(&client, &certificates, &told) => {}
            () = stop.cancelled() => {}
        }
    }

    /// Writes the bundle into what names a served path; begins anew when there are more of them.
    async fn inject(
        &self,
        client: &kube::Client,
        mut served: watch::Receiver<Served>,
        bundle: watch::Receiver<String>,
    ) {
        loop {
            let Served { paths, crds } = served.borrow_and_update().clone();
            let injector = Injector {
                client: client.clone(),
                namespace: self.namespace.clone(),
                services: self.services(),
                paths,
                crds,
            };
            tokio::select! {
                () = injector.run(bundle.clone()) => {}
                Ok(()) = served.changed() => {}
            }
        }
    }

    /// A new authority is told first, and served with one look later, when the API server trusts it.
    async fn renew(&self, client: &kube::Client, certificates: &Certificates, told: &watch::Sender<String>) {
        loop {
            tokio::time::sleep(self.check_every).await;
            let authority = match self.authority(client).await {
                Ok(authority) => authority,
                Err(error) => {
                    tracing::error!(error = %describe(&error), "The authority of the webhooks cannot be read");
                    continue;
                }
            };
            let is_news = told.send_if_modified(|bundle| {
                let new = authority.bundle();
                let is_news = *bundle != new;
                *bundle = new;
                is_news
            });
            let is_served = certificates.authority().as_deref() == Some(authority.certificate());
            if is_news || is_served {
                continue;
            }
            match certificates.reissue(authority) {
                Ok(()) => tracing::info!("Webhooks have a certificate of the new authority"),
                Err(error) => tracing::error!(error = %describe(&error), "TLS certificate not updated"),
            }
        }
    }

    async fn authority(&self, client: &kube::Client) -> Result<Authority, CertificateError> {
        Authority::from_secret(client.clone(), &self.namespace, &self.secret).await
    }

    fn names(&self) -> [String; 2] {
        let namespace = &self.namespace;
        [
            format!("*.{namespace}.svc"),
            format!("*.{namespace}.svc.cluster.local"),
        ]
    }
}
