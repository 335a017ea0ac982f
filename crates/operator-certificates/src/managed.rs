//! [`ManagedCertificates`], certificates that the operator issues for its webhooks.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::injector::Injector;
use super::{Authority, CertificateError, Certificates};
use crate::describe;

/// The name of the Service in scaffolds, before kustomize adds the prefix of the operator.
const SERVICE: &str = "webhook-service";

/// The default interval of reading the Secret.
const CHECK_EVERY: Duration = Duration::from_secs(10 * 60);
/// The minimum and the maximum delay between attempts to read the Secret at the start.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// Certificates of webhooks without cert-manager: the operator is its own certificate authority.
///
/// * The first instance creates the authority in a Secret, which all instances read. It is replaced after five of its
///   ten years. The old one stays trusted, so that no request fails.
/// * Each instance has a certificate for all Services of its namespace, which is renewed every half year.
/// * The operator writes the certificate of the authority into the `caBundle` of webhook configurations and CRD
///   conversions that name a Service of its namespace and a path that it serves. It restores the bundle after changes
///   by others. Objects with an annotation of cert-manager's injector are not changed.
///
/// The operator needs permission to get, create and update the Secret, and to list, watch and patch webhook
/// configurations and the CRDs that it converts. `Operator::managed_certificates` adds these permissions to the
/// manifests.
///
/// A manager in a cluster uses it by default, with a Secret that is named after the operator, such as
/// `memcached-operator-webhook-ca`.
///
/// ```
/// use operator_certificates::ManagedCertificates;
///
/// // Outside a cluster, where the namespace is unknown, or for another name of the Secret:
/// let certificates = ManagedCertificates::new("memcached-operator-system", "memcached-webhook-ca");
/// # let _ = certificates;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedCertificates {
    namespace: String,
    secret: String,
    /// The Service through which the API server calls the webhooks. The `caBundle` is written only if the Service, its
    /// namespace and the path belong to this operator. Default: `webhook-service`, also with the prefix of scaffolds,
    /// which is the operator's name and `-`. The manager also reads `WEBHOOK_SERVICE`.
    pub service: Option<String>,
    /// The interval at which the Secret is read, because the authority may have changed. Default: ten minutes.
    pub check_every: Duration,
    /// The prefix of names in scaffolds.
    operator: String,
}

/// The paths and conversions of a webhook server.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// The paths of its webhooks.
    pub paths: Vec<String>,
    /// The names of the CRDs that are converted.
    pub crds: Vec<String>,
}

// === impl ManagedCertificates ===

impl ManagedCertificates {
    /// Creates certificates for the Services of a namespace (`*.NAMESPACE.svc`), with the authority in this Secret of
    /// the namespace.
    pub fn new(namespace: &str, secret: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            service: None,
            operator: String::new(),
            check_every: CHECK_EVERY,
        }
    }

    /// Sets the name of the operator.
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

    /// Returns the certificates as soon as the authority is known. Failed requests are retried.
    ///
    /// # Errors
    /// Returns an error if the Secret does not contain an authority.
    pub async fn obtain(&self, client: &kube::Client) -> Result<Certificates, CertificateError> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.authority(client).await {
                Ok(authority) => return Certificates::issued_by(authority, self.names()),
                Err(error @ CertificateError::Secret { .. }) => {
                    tracing::error!(error = %describe(&error), "Webhooks are waiting for their certificates");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LAST_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps the `caBundle` and the certificates up to date until `stop`.
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

    /// Writes the bundle into the objects that name a served path. Restarts when paths are added.
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

    /// Renews the authority. A new authority is first written to the `caBundle`, and used one interval later, when the
    /// API server trusts it.
    async fn renew(&self, client: &kube::Client, certificates: &Certificates, told: &watch::Sender<String>) {
        loop {
            tokio::time::sleep(self.check_every).await;
            let authority = match self.authority(client).await {
                Ok(authority) => authority,
                Err(error) => {
                    tracing::error!(error = %describe(&error), "Failed to read the certificate authority of the webhooks");
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
                Ok(()) => tracing::info!("Updated the certificate of the webhooks to the new authority"),
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
