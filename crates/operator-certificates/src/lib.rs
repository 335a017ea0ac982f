//! Certificates of the servers of an operator: from files that are watched for changes, from PEM, or issued by the
//! process. The main type is [`Certificates`].
//!
//! ```
//! use operator_certificates::Certificates;
//!
//! let certificates = Certificates::self_signed(["webhook-service.system.svc"])?;
//! let ca_bundle = certificates.authority();
//! assert!(ca_bundle.is_some_and(|pem| pem.starts_with("-----BEGIN CERTIFICATE-----")));
//! # Ok::<_, operator_certificates::CertificateError>(())
//! ```

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

mod authority;
mod ca_bundle;
mod injector;
mod managed;
mod tls;

pub use self::authority::Authority;
pub use self::managed::{ManagedCertificates, Served};
pub use self::tls::{TlsOptions, TlsVersion, shake_hands};

/// The interval at which files are checked. Kubernetes takes up to a minute to update a mounted Secret.
const POLL: Duration = Duration::from_secs(10);
/// Age at which issued certificates are renewed, long before they expire after a year.
const RENEW_AFTER: Duration = Duration::from_secs(180 * 24 * 60 * 60);

/// The certificate of a server, which may change while the server runs. Clones share it.
///
/// ```
/// use operator_certificates::Certificates;
///
/// // For a webhook server in a test, and the authority for its clients.
/// let certificates = Certificates::self_signed(["localhost", "127.0.0.1"])?;
/// let trusted = certificates.authority().unwrap_or_default();
/// # let _ = trusted;
/// # Ok::<(), operator_certificates::CertificateError>(())
/// ```
#[derive(Clone)]
pub struct Certificates {
    inner: Arc<Inner>,
    on_reading: OnReading,
    poll: Duration,
}

type OnReading = Arc<dyn Fn(bool) + Send + Sync>;
type OnChange = Arc<dyn Fn(&[CertificateDer<'static>]) + Send + Sync>;

struct Inner {
    source: Source,
    current: RwLock<Arc<CertifiedKey>>,
    /// The origin of the current certificate, for detecting changes.
    origin: Mutex<Origin>,
    /// The listeners of changes.
    listeners: Mutex<Vec<OnChange>>,
}

enum Source {
    Files {
        certificate: PathBuf,
        key: PathBuf,
    },
    Pem,
    Issued {
        authority: RwLock<Arc<Authority>>,
        names: Vec<String>,
    },
}

#[derive(PartialEq)]
enum Origin {
    Contents(Vec<u8>, Vec<u8>),
    Made(std::time::Instant),
}

/// An error of loading or issuing a certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read the certificate or key {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of reading it.
        #[source]
        source: std::io::Error,
    },
    /// The input contains no certificate or no key.
    #[error("no PEM block of the expected type in {0}")]
    NoPem(&'static str, #[source] rustls::pki_types::pem::Error),
    /// Certificate and key do not match, or have an unknown type.
    #[error("invalid certificate or key")]
    Unusable(#[source] rustls::Error),
    /// The Secret of an authority cannot be read or created.
    #[error("cannot read or create the Secret {name:?} of the certificate authority")]
    Secret {
        /// Its name.
        name: String,
        /// The error of the request.
        #[source]
        source: Box<kube::Error>,
    },
    /// The Secret of an authority does not contain an authority.
    #[error(
        "the Secret {0:?} must have a certificate authority in ca.crt and ca.key: delete it to create a new one"
    )]
    Contents(String),
    /// A certificate could not be issued.
    #[error("cannot issue a certificate")]
    Make(#[source] rcgen::Error),
}

// === impl Certificates ===

impl Certificates {
    /// Reads `tls.crt` and `tls.key` in a directory, such as that of a mounted Secret of type `kubernetes.io/tls`.
    ///
    /// # Errors
    /// Returns an error if they cannot be read or do not match.
    pub fn from_dir(dir: &Path) -> Result<Self, CertificateError> {
        Self::from_files(&dir.join("tls.crt"), &dir.join("tls.key"))
    }

    /// Reads a certificate chain and its key from PEM files.
    ///
    /// # Errors
    /// Returns an error if they cannot be read or do not match.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let contents = (read(certificate)?, read(key)?);
        let source = Source::Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        };
        Self::from_contents(source, contents)
    }

    /// Uses a certificate chain and its key in PEM, which do not change.
    ///
    /// # Errors
    /// Returns an error if they are not PEM or do not match.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, CertificateError> {
        Self::from_contents(Source::Pem, (certificate.into(), key.into()))
    }

    /// Creates a certificate authority, and issues a certificate for these host names and IP addresses. The certificate
    /// is valid for a year, and renewed after half of it. The authority is not stored: it ends with the process.
    ///
    /// # Errors
    /// Returns an error if a name is invalid.
    pub fn self_signed<N: Into<String>>(
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, CertificateError> {
        Self::issued_by(Authority::generate()?, names)
    }

    /// Issues a certificate by a given authority, which instances may share. See [`Certificates::self_signed`] for the
    /// rest.
    ///
    /// # Errors
    /// Returns an error if a name is invalid.
    pub fn issued_by<N: Into<String>>(
        authority: Authority,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, CertificateError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let current = issue(&authority, &names)?;
        let authority = RwLock::new(Arc::new(authority));
        let origin = Origin::Made(std::time::Instant::now());
        Ok(Self::new(Source::Issued { authority, names }, current, origin))
    }

    /// Calls `listener` with true after each successful read of the files, including the first, and with false after
    /// each failure.
    #[must_use]
    pub fn on_reading(mut self, listener: impl Fn(bool) + Send + Sync + 'static) -> Self {
        if matches!(self.inner.source, Source::Files { .. }) {
            listener(true);
        }
        self.on_reading = Arc::new(listener);
        self
    }

    /// Returns the certificate of the authority as PEM, for a `caBundle`. `None` if the process did not issue the
    /// certificate.
    pub fn authority(&self) -> Option<String> {
        match &self.inner.source {
            Source::Issued { authority, .. } => Some(authority.read().certificate().to_owned()),
            Source::Files { .. } | Source::Pem => None,
        }
    }

    /// Returns the certificates that clients should trust. Empty if the process did not issue the certificate.
    fn bundle(&self) -> String {
        match &self.inner.source {
            Source::Issued { authority, .. } => authority.read().bundle(),
            Source::Files { .. } | Source::Pem => String::new(),
        }
    }

    /// Reads changed files, or renews the certificate if necessary, for new connections. Returns true if the
    /// certificate changed. Servers of the manager call it through [`Certificates::watch`].
    ///
    /// # Errors
    /// Returns an error if the files cannot be read or do not match. The previous certificate stays in use.
    pub fn reload(&self) -> Result<bool, CertificateError> {
        let (origin, current) = match &self.inner.source {
            Source::Pem => return Ok(false),
            Source::Files { certificate, key } => {
                let contents = (read(certificate)?, read(key)?);
                if self.is_from(&contents) {
                    return Ok(false);
                }
                let current = certified(&contents)?;
                (Origin::Contents(contents.0, contents.1), current)
            }
            Source::Issued { authority, names } if self.is_old() => (
                Origin::Made(std::time::Instant::now()),
                issue(&authority.read(), names)?,
            ),
            Source::Issued { .. } => return Ok(false),
        };
        self.inner.replace(current, origin);
        Ok(true)
    }

    /// Issues a new certificate by another authority, if the current one was issued.
    fn reissue(&self, by: Authority) -> Result<(), CertificateError> {
        let Source::Issued { authority, names } = &self.inner.source else {
            return Ok(());
        };
        let origin = Origin::Made(std::time::Instant::now());
        self.inner.replace(issue(&by, names)?, origin);
        *authority.write() = Arc::new(by);
        Ok(())
    }

    /// Calls `listener` with the certificate and its chain, now and at each change.
    pub fn on_change(&self, listener: impl Fn(&[CertificateDer<'static>]) + Send + Sync + 'static) {
        let mut listeners = self.inner.listeners.lock();
        let current = self.inner.current.read().clone();
        listener(&current.cert);
        listeners.push(Arc::new(listener));
    }

    /// Sets the interval at which files are checked. Default: ten seconds.
    #[must_use]
    pub fn check_every(mut self, interval: Duration) -> Self {
        self.poll = interval;
        self
    }

    /// Reloads the certificates every ten seconds, or at the interval of [`Certificates::check_every`], until `stop`.
    /// Failures are logged and retried. The manager does this for its certificates.
    pub async fn watch(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.poll) => {}
            }
            let reloaded = self.reload();
            (self.on_reading)(reloaded.is_ok());
            match reloaded {
                Ok(true) => tracing::info!("Updated current TLS certificate"),
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(error = %describe(&error), "TLS certificate not updated");
                }
            }
        }
    }

    /// Returns a server configuration with this certificate.
    pub fn server_config(&self, tls: &TlsOptions) -> Result<Arc<ServerConfig>, CertificateError> {
        tls.server_config(self.inner.clone())
    }

    fn from_contents(source: Source, contents: (Vec<u8>, Vec<u8>)) -> Result<Self, CertificateError> {
        let current = certified(&contents)?;
        let origin = Origin::Contents(contents.0, contents.1);
        Ok(Self::new(source, current, origin))
    }

    fn new(source: Source, current: CertifiedKey, origin: Origin) -> Self {
        let inner = Inner {
            source,
            current: RwLock::new(Arc::new(current)),
            origin: Mutex::new(origin),
            listeners: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
            on_reading: Arc::new(|_| {}),
            poll: POLL,
        }
    }

    fn is_from(&self, (certificate, key): &(Vec<u8>, Vec<u8>)) -> bool {
        matches!(&*self.inner.origin.lock(), Origin::Contents(c, k) if c == certificate && k == key)
    }

    fn is_old(&self) -> bool {
        matches!(&*self.inner.origin.lock(), Origin::Made(at) if at.elapsed() > RENEW_AFTER)
    }
}

impl fmt::Debug for Certificates {
    /// Omits the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.inner.source {
            Source::Files { certificate, .. } => certificate.display().to_string(),
            Source::Pem => "PEM".to_owned(),
            Source::Issued { names, .. } => format!("issued for {}", names.join(", ")),
        };
        formatter.debug_tuple("Certificates").field(&source).finish()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Inner").finish_non_exhaustive()
    }
}

// === impl Inner ===

impl Inner {
    /// Replaces the certificate and notifies the listeners.
    fn replace(&self, current: CertifiedKey, origin: Origin) {
        let current = Arc::new(current);
        // The lock is held so that a new listener gets each change exactly once.
        let listeners = self.listeners.lock();
        *self.current.write() = current.clone();
        *self.origin.lock() = origin;
        for listener in listeners.iter() {
            listener(&current.cert);
        }
    }
}

impl ResolvesServerCert for Inner {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().clone())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let path = path.to_owned();
    std::fs::read(&path).map_err(|source| CertificateError::Read { path, source })
}

/// The provider is passed explicitly, so that no process-wide default is installed.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certified((certificate, key): &(Vec<u8>, Vec<u8>)) -> Result<CertifiedKey, CertificateError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|error| CertificateError::NoPem("the certificate", error))?;
    if chain.is_empty() {
        return Err(CertificateError::NoPem(
            "the certificate",
            rustls::pki_types::pem::Error::NoItemsFound,
        ));
    }
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| CertificateError::NoPem("the key", error))?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(CertificateError::Unusable)
}

fn issue(authority: &Authority, names: &[String]) -> Result<CertifiedKey, CertificateError> {
    let (certificate, key) = authority.issue(names).map_err(CertificateError::Make)?;
    CertifiedKey::from_der(vec![certificate], key, &provider()).map_err(CertificateError::Unusable)
}

/// Returns an error with its causes, each once.
fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut text = String::new();
    for part in causes.map(ToString::to_string) {
        if text.is_empty() {
            text = part;
        } else if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Returns a certificate for `localhost`, its key and its authority as PEM.
    fn pem() -> (String, String, String) {
        let authority = Authority::generate().unwrap();
        let (certificate, key) = authority.issue(&["localhost".to_owned()]).unwrap();
        (
            armoured("CERTIFICATE", &certificate),
            armoured("PRIVATE KEY", key.secret_der()),
            authority.certificate().to_owned(),
        )
    }

    fn armoured(label: &str, der: &[u8]) -> String {
        let base64 = serde_json::json!(k8s_openapi::ByteString(der.to_vec()));
        format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            base64.as_str().unwrap()
        )
    }

    struct Dir(tempfile::TempDir);

    impl Dir {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn write(&self, certificate: &str, key: &str) {
            std::fs::write(self.0.path().join("tls.crt"), certificate).unwrap();
            std::fs::write(self.0.path().join("tls.key"), key).unwrap();
        }
    }

    fn served(certificates: &Certificates) -> Vec<CertificateDer<'static>> {
        certificates.inner.current.read().cert.clone()
    }

    #[test]
    fn changed_files_are_served_unless_they_are_invalid() {
        let dir = Dir::new();
        let ((certificate, key, _), (other, other_key, _)) = (pem(), pem());
        dir.write(&certificate, &key);
        let certificates = Certificates::from_dir(dir.0.path()).unwrap();
        let first = served(&certificates);
        assert!(!certificates.reload().unwrap(), "nothing changed");

        dir.write(&other, &key);
        assert!(matches!(
            certificates.reload(),
            Err(CertificateError::Unusable(_))
        ));
        assert_eq!(
            served(&certificates),
            first,
            "a certificate without its key is not served"
        );

        dir.write(&other, &other_key);
        assert!(certificates.reload().unwrap());
        assert_ne!(served(&certificates), first);
    }

    #[tokio::test]
    async fn changes_are_reported_and_readings_are_counted() {
        let dir = Dir::new();
        let ((certificate, key, _), (other, other_key, _)) = (pem(), pem());
        dir.write(&certificate, &key);
        let (reads, errors) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (read, failed) = (reads.clone(), errors.clone());
        let certificates = Certificates::from_dir(dir.0.path())
            .unwrap()
            .check_every(Duration::from_millis(1))
            .on_reading(move |is_ok| {
                read.fetch_add(1, Ordering::SeqCst);
                failed.fetch_add(usize::from(!is_ok), Ordering::SeqCst);
            });
        let (told, mut changes) = tokio::sync::mpsc::unbounded_channel();
        certificates.on_change(move |chain| told.send(chain.to_vec()).unwrap());
        let first = changes.recv().await.unwrap();
        assert_eq!(first, served(&certificates));
        let stop = CancellationToken::new();
        let watching = tokio::spawn({
            let (certificates, stop) = (certificates.clone(), stop.clone());
            async move { certificates.watch(stop).await }
        });
        assert_ne!(reads.load(Ordering::SeqCst), 0, "the first reading counts");
        assert_eq!(errors.load(Ordering::SeqCst), 0);

        std::fs::write(dir.0.path().join("tls.key"), "no key").unwrap();
        while errors.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(served(&certificates), first, "the old one stays in use");
        dir.write(&other, &other_key);
        let second = changes.recv().await.unwrap();
        assert_ne!(second, first);
        assert_eq!(second, served(&certificates));
        stop.cancel();
        watching.await.unwrap();
        assert!(changes.try_recv().is_err(), "each change is reported once");
    }

    #[test]
    fn missing_input_is_named() {
        let dir = Dir::new();
        let error = Certificates::from_dir(dir.0.path()).unwrap_err();
        assert!(error.to_string().ends_with("tls.crt"), "{error}");
        assert!(matches!(
            Certificates::from_pem("", &pem().1),
            Err(CertificateError::NoPem("the certificate", _))
        ));
        assert!(matches!(
            Certificates::from_pem(&pem().0, "x"),
            Err(CertificateError::NoPem("the key", _))
        ));
    }

    #[test]
    fn debug_output_omits_the_key() {
        let (certificate, key, _) = pem();
        let text = format!("{:?}", Certificates::from_pem(&certificate, &key).unwrap());
        assert_eq!(text, r#"Certificates("PEM")"#);
    }
}
