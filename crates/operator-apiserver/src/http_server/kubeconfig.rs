//! The kubeconfig of the administrator.

use std::net::SocketAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::tls::Certificates;

const NAME: &str = "operator-sdk";

/// A kubeconfig as YAML, with all certificates in it.
pub(super) fn render(address: SocketAddr, certificates: &Certificates) -> String {
    let encode = |pem: &str| BASE64_STANDARD.encode(pem);
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
        authority = encode(&certificates.authority),
        certificate = encode(&certificates.admin.certificate),
        key = encode(&certificates.admin.key),
    )
}
