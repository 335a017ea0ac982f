//! [`TlsOptions`], the TLS versions, protocols and client certificates of a server.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, ResolvesServerCert, WebPkiClientVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    SupportedProtocolVersion, version,
};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{CertificateError, provider};

static TLS13: [&SupportedProtocolVersion; 1] = [&version::TLS13];

/// The minimum TLS version of a server. Versions below 1.2 and weak cipher suites are not available. Default: 1.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The TLS options of a server.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Offers HTTP/2.
    pub http2: bool,
    /// The minimum version.
    pub min_version: TlsVersion,
    /// The certificate authorities of clients. `None` means no client certificates.
    clients: Option<Arc<RootCertStore>>,
}

// === impl TlsVersion ===

impl TlsVersion {
    fn and_newer(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            Self::Tls12 => rustls::ALL_VERSIONS,
            Self::Tls13 => &TLS13,
        }
    }
}

// === impl TlsOptions ===

impl TlsOptions {
    /// Returns the defaults, with or without HTTP/2.
    pub fn with_http2(http2: bool) -> Self {
        Self {
            http2,
            ..Self::default()
        }
    }

    /// Requires client certificates that are signed by an authority in this PEM.
    pub fn require_clients_of(&mut self, pem: &str) -> Result<(), CertificateError> {
        let what = "the client authority";
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| CertificateError::NoPem(what, error))?;
            roots.add(certificate).map_err(CertificateError::Unusable)?;
        }
        if roots.is_empty() {
            let error = rustls::pki_types::pem::Error::NoItemsFound;
            return Err(CertificateError::NoPem(what, error));
        }
        self.clients = Some(Arc::new(roots));
        Ok(())
    }

    pub(super) fn server_config(
        &self,
        certificates: Arc<dyn ResolvesServerCert>,
    ) -> Result<Arc<ServerConfig>, CertificateError> {
        let verifier: Arc<dyn ClientCertVerifier> = match &self.clients {
            Some(roots) => WebPkiClientVerifier::builder_with_provider(roots.clone(), provider())
                .build()
                .map_err(|error| CertificateError::Unusable(rustls::Error::General(error.to_string())))?,
            None => Arc::new(NoClientAuth),
        };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(self.min_version.and_newer())
            .map_err(CertificateError::Unusable)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(certificates);
        config.alpn_protocols = match self.http2 {
            true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            false => vec![b"http/1.1".to_vec()],
        };
        Ok(Arc::new(config))
    }
}

/// Completes a TLS handshake with a server, accepting any certificate.
pub async fn shake_hands(address: SocketAddr) -> std::io::Result<()> {
    let anybody = Arc::new(Anybody(provider()));
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(anybody)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::IpAddress(address.ip().into());
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    // The handshake has succeeded, so errors of the shutdown do not matter.
    let _ = stream.shutdown().await;
    Ok(())
}

/// Accepts every certificate whose owner has the key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
