//! CertificateSubjectRestriction: nobody becomes an administrator by asking for a certificate.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::attributes::Attributes;
use crate::builtin::tree::text;
use crate::status::Status;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const GROUP: &[u8] = b"system:masters";
/// The attribute `organizationName` of a subject.
const ORGANIZATION: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x0a];

pub(super) fn check(attributes: &Attributes<'_>) -> Result<(), Status> {
    let write = attributes.write;
    let Some(request) = attributes.object.filter(|_| attributes.old.is_none()) else {
        return Ok(());
    };
    let is_request = write
        .definition
        .is("certificates.k8s.io", "certificatesigningrequests");
    if !is_request || text(request, &["spec", "signerName"]) != SIGNER || !names_administrators(request) {
        return Ok(());
    }
    Err(attributes.forbidden(&format!(
        "use of {SIGNER} signer with system:masters group is not allowed"
    )))
}

/// Whether the subject of the request is of the group of administrators. The text of an attribute follows its name, with
/// its type and length between.
fn names_administrators(request: &Value) -> bool {
    let pem = BASE64_STANDARD
        .decode(text(request, &["spec", "request"]))
        .unwrap_or_default();
    let pem = String::from_utf8_lossy(&pem);
    let block = pem
        .split("-----BEGIN CERTIFICATE REQUEST-----")
        .nth(1)
        .and_then(|rest| rest.split("-----END").next());
    let encoded: String = block.unwrap_or_default().split_whitespace().collect();
    let der = BASE64_STANDARD.decode(encoded).unwrap_or_default();
    der.windows(ORGANIZATION.len() + 2 + GROUP.len()).any(|window| {
        window.starts_with(&ORGANIZATION)
            && window.ends_with(GROUP)
            && window.get(ORGANIZATION.len() + 1).copied().map(usize::from) == Some(GROUP.len())
    })
}
