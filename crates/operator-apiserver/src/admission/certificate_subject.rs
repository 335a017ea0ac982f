//! CertificateSubjectRestriction: rejects certificates for the group of administrators.

use serde_json::Value;

use super::attributes::Attributes;
use crate::identity::authn::MASTERS;
use crate::status::Status;
use builtin_kinds::certificate_request;
use builtin_kinds::tree::text;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

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

/// Returns true if the subject of the request is in the group of administrators.
fn names_administrators(request: &Value) -> bool {
    let organizations = certificate_request::organizations(text(request, &["spec", "request"]));
    organizations.is_ok_and(|organizations| organizations.iter().any(|name| name == MASTERS))
}
