//! The trusted certificates of webhooks, and TLS client configurations.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Creates a TLS client configuration that trusts only the certificates of a bundle (PEM), or none without a bundle.
/// With an identity (a chain and its key, PEM), the client authenticates itself. An insecure client trusts every
/// certificate.
pub(crate) fn client_config(
    bundle: &[u8],
    identity: Option<(&[u8], &[u8])>,
    is_insecure: bool,
) -> Result<Arc<ClientConfig>, String> {
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(bundle)
        .filter_map(Result::ok)
        .collect();
    if certificates.is_empty() && !bundle.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        // A certificate that is not an authority can still be the server's own.
        let _ = roots.add(certificate.clone());
    }
    let inner = if roots.is_empty() {
        None
    } else {
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        Some(verifier.map_err(|error| error.to_string())?)
    };
    let schemes = provider.signature_verification_algorithms.supported_schemes();
    let verifier = Bundle {
        is_insecure,
        inner,
        certificates,
        provider: provider.clone(),
        schemes,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let config = match identity {
        None => config.with_no_client_auth(),
        Some((chain, key)) => {
            let chain: Result<Vec<CertificateDer<'static>>, _> =
                CertificateDer::pem_slice_iter(chain).collect();
            let chain = chain.map_err(|error| format!("client certificate: {error}"))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("client key: {error}"))?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| error.to_string())?
        }
    };
    Ok(Arc::new(config))
}

/// Trusts certificates that the authorities of a bundle signed, and the certificates of the bundle themselves: a
/// self-signed certificate may be its own authority, which Go allows and webpki does not.
#[derive(Debug)]
struct Bundle {
    is_insecure: bool,
    inner: Option<Arc<WebPkiServerVerifier>>,
    certificates: Vec<CertificateDer<'static>>,
    provider: Arc<rustls::crypto::CryptoProvider>,
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for Bundle {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.is_insecure {
            return Ok(ServerCertVerified::assertion());
        }
        let verified = match &self.inner {
            Some(inner) => inner.verify_server_cert(end_entity, intermediates, server_name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        let own = self.certificates.iter().any(|known| known == end_entity);
        match verified {
            Err(Error::InvalidCertificate(CertificateError::Other(_) | CertificateError::UnknownIssuer))
                if own =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
