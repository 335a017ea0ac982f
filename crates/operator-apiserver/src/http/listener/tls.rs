//! Certificates, created in memory: those of an authority, the server and the administrator.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

use super::ServerIdentity;
use crate::error::Error;
use crate::identity::authn::FrontProxy;
use crate::identity::keyring::Keyring;
use crate::identity::signing::CertificateSigner;

/// A certificate and its key, both as PEM.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) authority: String,
    pub(super) admin: Identity,
    pub(super) signer: CertificateSigner,
    server: Identity,
}

/// The names in every API server's certificate.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Certificates(error.to_string())
}

impl Certificates {
    /// Creates certificates for a server at an address and for additional names, signed by the keyring's authority.
    pub(super) fn make(address: IpAddr, host_names: &[String], keyring: &Keyring) -> Result<Self, Error> {
        let (pem, issuer) = authority(keyring)?;
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes());
        let certificate = certificate.map_err(|error| unusable("authority's certificate", error))?;
        let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
        names.push(Ipv4Addr::LOCALHOST.to_string());
        names.push(address.to_string());
        names.extend_from_slice(host_names);
        names.sort();
        names.dedup();
        let server = CertificateParams::new(names).map_err(failed)?;
        let subject = distinguished("kube-apiserver", None);
        let server = issue(&issuer, server, subject, ExtendedKeyUsagePurpose::ServerAuth)?;

        let admin = CertificateParams::new(Vec::new()).map_err(failed)?;
        let subject = distinguished("admin", Some(crate::identity::authn::MASTERS));
        let admin = issue(&issuer, admin, subject, ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok(Self {
            authority: pem,
            admin,
            server,
            signer: CertificateSigner::new(&certificate, issuer)?,
        })
    }

    /// Returns the TLS configuration, with optional client certificates and HTTP/2 before HTTP/1.1, and the authorities
    /// of the clients. A given certificate replaces the generated one.
    pub(super) fn server_config(
        &self,
        given: Option<&ServerIdentity>,
        front: Option<&FrontProxy>,
    ) -> Result<(ServerConfig, ClientTrust), Error> {
        let mut roots = RootCertStore::empty();
        add_authorities(&mut roots, self.authority.as_bytes())?;
        if let Some(authorities) = given.and_then(|given| given.client_authorities.as_deref()) {
            let added = add_authorities(&mut roots, authorities);
            added.map_err(|error| unusable("client authorities", error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = |roots: RootCertStore| {
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .allow_unauthenticated()
                .build()
                .map_err(failed)
        };
        let users = verifier(roots)?;
        let mut hints = users.root_hint_subjects().to_vec();
        let proxies = front.map(|front| {
            let mut roots = RootCertStore::empty();
            let added = add_authorities(&mut roots, &front.authorities);
            added.map_err(|error| unusable("authorities of front proxies", error))?;
            verifier(roots)
        });
        let proxies = proxies.transpose()?;
        if let Some(proxies) = &proxies {
            hints.extend(proxies.root_hint_subjects().iter().cloned());
        }
        let clients = ClientTrust {
            users,
            proxies,
            hints: hints.into(),
        };
        let (certificate, key) = match given {
            Some(given) => (given.certificate.as_slice(), given.key.as_slice()),
            None => (self.server.certificate.as_bytes(), self.server.key.as_bytes()),
        };
        let chain = certificates_of(certificate).map_err(|error| unusable("server certificate", error))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable("server key", error))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_client_cert_verifier(Arc::new(clients.clone()))
            .with_single_cert(chain, key)
            .map_err(failed)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok((config, clients))
    }
}

/// Verifies client certificates. The handshake accepts every certificate whose key the client has, so that a request
/// can still be authenticated by its token; [`trusts`](Self::trusts) is called after the handshake.
#[derive(Clone, Debug)]
pub(super) struct ClientTrust {
    users: Arc<dyn ClientCertVerifier>,
    proxies: Option<Arc<dyn ClientCertVerifier>>,
    /// The subjects of all authorities.
    hints: Arc<[rustls::DistinguishedName]>,
}

impl ClientTrust {
    /// Returns true if a certificate is signed by one of the authorities of users and is valid now.
    pub(super) fn trusts(&self, chain: &[CertificateDer<'_>]) -> bool {
        verifies(&self.users, chain)
    }

    /// Returns true if a certificate is signed by one of the authorities of front proxies and is valid now.
    pub(super) fn trusts_proxy(&self, chain: &[CertificateDer<'_>]) -> bool {
        let proxies = self.proxies.as_ref();
        proxies.is_some_and(|proxies| verifies(proxies, chain))
    }
}

fn verifies(verifier: &Arc<dyn ClientCertVerifier>, chain: &[CertificateDer<'_>]) -> bool {
    chain.split_first().is_some_and(|(certificate, intermediates)| {
        let verified = verifier.verify_client_cert(certificate, intermediates, UnixTime::now());
        verified.is_ok()
    })
}

impl ClientCertVerifier for ClientTrust {
    fn offer_client_auth(&self) -> bool {
        self.users.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[rustls::DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.users.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.users.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.users.supported_verify_schemes()
    }
}

/// Returns a new server certificate, followed by the certificate of the authority that was created for it.
pub(super) fn self_signed(names: &[String]) -> Result<ServerIdentity, Error> {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let made = Certificates::make(address, names, &Keyring::default())?;
    Ok(ServerIdentity {
        certificate: [made.server.certificate, made.authority].concat().into_bytes(),
        key: made.server.key.into_bytes(),
        client_authorities: None,
    })
}

/// Returns the certificate of the authority, and its signer.
fn authority(keyring: &Keyring) -> Result<(String, Issuer<'static, KeyPair>), Error> {
    let key = keyring.keep("ca.key", || {
        Ok(KeyPair::generate().map_err(failed)?.serialize_pem())
    })?;
    let key = KeyPair::from_pem(&key).map_err(|error| unusable("authority's key", error))?;
    let mut authority = CertificateParams::new(Vec::new()).map_err(failed)?;
    authority.distinguished_name = distinguished("kubernetes", None);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let pem = keyring.keep("ca.crt", || {
        Ok(authority.self_signed(&key).map_err(failed)?.pem())
    })?;
    Ok((pem, Issuer::new(authority, key)))
}

fn unusable(what: &str, error: impl std::fmt::Display) -> Error {
    Error::Certificates(format!("the {what} in PEM cannot be used: {error}"))
}

/// Parses the certificates of a PEM text; at least one is required.
fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(failed)?;
    if certificates.is_empty() {
        return Err(failed("it contains no certificate"));
    }
    Ok(certificates)
}

fn add_authorities(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), Error> {
    for authority in certificates_of(pem)? {
        roots.add(authority).map_err(failed)?;
    }
    Ok(())
}

fn distinguished(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}

fn issue(
    issuer: &Issuer<'_, KeyPair>,
    mut params: CertificateParams,
    subject: DistinguishedName,
    usage: ExtendedKeyUsagePurpose,
) -> Result<Identity, Error> {
    params.distinguished_name = subject;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.signed_by(&key, issuer).map_err(failed)?;
    Ok(Identity {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}
