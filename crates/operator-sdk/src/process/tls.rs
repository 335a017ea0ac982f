//! A certificate for one run of an operator on this machine, with a certificate authority that a cluster trusts.

use std::fs;
use std::io;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::failure::Hinted;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("cannot create a certificate for {host:?}: {source}")]
    Make { host: String, source: rcgen::Error },
    #[error("cannot write a certificate: {0}")]
    Write(#[from] io::Error),
}

impl Hinted for TlsError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Make { .. } => {
                "set the name of this machine as seen from the cluster with `--webhook-host`".to_owned()
            }
            Self::Write(_) => "check the space and the permissions of the temporary directory".to_owned(),
        })
    }
}

/// Writes `tls.crt` and `tls.key` for a server name into a directory, and returns the certificate of their authority.
pub(crate) fn issue(directory: &Path, host: &str) -> Result<String, TlsError> {
    let (authority, certificate, key) = make(host).map_err(|source| TlsError::Make {
        host: host.to_owned(),
        source,
    })?;
    fs::write(directory.join("tls.crt"), certificate)?;
    fs::write(directory.join("tls.key"), key)?;
    Ok(authority)
}

fn make(host: &str) -> Result<(String, String, String), rcgen::Error> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "operator-sdk run local");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority_key = KeyPair::generate()?;
    let authority = params.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(params, authority_key);

    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([host.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, host);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.signed_by(&key, &issuer)?.pem();
    Ok((authority, certificate, key.serialize_pem()))
}
