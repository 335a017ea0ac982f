//! The kubeconfig of the administrator.

use std::net::SocketAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::ServerIdentity;
use super::tls::Certificates;

const NAME: &str = "operator-sdk";

/// Returns a kubeconfig as YAML with embedded certificates. A given server certificate is embedded as the authority.
pub(super) fn render(
    address: SocketAddr,
    certificates: &Certificates,
    given: Option<&ServerIdentity>,
) -> String {
    let encode = |pem: &[u8]| BASE64_STANDARD.encode(pem);
    let authority = given.map_or(certificates.authority.as_bytes(), |given| &given.certificate);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: {NAME}
  cluster:
    server: https://{address}
    certificate-authority-data: {authority}
contexts:
- name: {NAME}
  context:
    cluster: {NAME}
    user: {NAME}-admin
current-context: {NAME}
users:
- name: {NAME}-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
",
        authority = encode(authority),
        certificate = encode(certificates.admin.certificate.as_bytes()),
        key = encode(certificates.admin.key.as_bytes()),
    )
}
