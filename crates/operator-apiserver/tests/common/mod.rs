//! Helpers for tests of the listener.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsConnector;

/// Returns the administrator's connector for one protocol. It trusts the authority of a kubeconfig, and has the
/// kubeconfig's client certificate.
pub(crate) fn connector(kubeconfig: &str, protocol: &[u8]) -> TlsConnector {
    let field = |name: &str| {
        let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(name));
        BASE64_STANDARD
            .decode(line.unwrap().trim_start_matches(':').trim())
            .unwrap()
    };
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(&field("certificate-authority-data")).unwrap();
    roots.add(authority).unwrap();
    let certificate = CertificateDer::from_pem_slice(&field("client-certificate-data")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&field("client-key-data")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsConnector::from(Arc::new(config))
}
