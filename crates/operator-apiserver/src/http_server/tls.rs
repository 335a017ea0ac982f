//! Certificates, made in memory: an authority, the server's and the administrator's.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;

use super::ServerIdentity;
use crate::keyring::Keyring;
use crate::server::Error;

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
    server: Identity,
}

/// Names that every API server's certificate has.
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
    /// Certificates for a server at an address and under further names, of the authority that the keyring holds.
    pub(super) fn make(address: IpAddr, host_names: &[String], keyring: &Keyring) -> Result<Self, Error> {
        let (pem, issuer) = authority(keyring)?;
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
        let subject = distinguished("admin", Some(crate::authn::MASTERS));
        let admin = issue(&issuer, admin, subject, ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok(Self {
            authority: pem,
            admin,
            server,
        })
    }

    /// TLS with optional client certificates of the authority, and HTTP/2 before HTTP/1.1. A given certificate
    /// replaces the generated one.
    pub(super) fn server_config(&self, given: Option<&ServerIdentity>) -> Result<ServerConfig, Error> {
        let mut roots = RootCertStore::empty();
        add_authorities(&mut roots, self.authority.as_bytes())?;
        if let Some(authorities) = given.and_then(|given| given.client_authorities.as_deref()) {
            let added = add_authorities(&mut roots, authorities);
            added.map_err(|error| unusable("client authorities", error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(failed)?;
        let (certificate, key) = match given {
            Some(given) => (given.certificate.as_slice(), given.key.as_slice()),
            None => (self.server.certificate.as_bytes(), self.server.key.as_bytes()),
        };
        let chain = certificates_of(certificate).map_err(|error| unusable("server certificate", error))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable("server key", error))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(failed)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// The certificate of the authority, and what signs in its name.
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

/// The certificates of a PEM text; at least one.
fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(failed)?;
    if certificates.is_empty() {
        return Err(failed("there is no certificate in it"));
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
