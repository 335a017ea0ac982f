//! CertificateApproval and CertificateSigning: require permission for the signer before a request is approved or
//! signed.

use apimachinery::go::quote;
use apimachinery::object;
use serde_json::Value;

use crate::admission::Admission;
use crate::identity::authz::Attributes;
use crate::status::Status;
use crate::write::Write;

const GROUP: &str = "certificates.k8s.io";

/// Checks a change of `approval` or `status`; other changes are accepted.
pub(super) async fn check(
    admission: &Admission,
    write: &Write,
    request: &Value,
    old: &Value,
) -> Result<(), Status> {
    if !write.definition.is(GROUP, "certificatesigningrequests") {
        return Ok(());
    }
    let (plugin, verb) = match write.subresource.as_str() {
        "approval" => ("CertificateApproval", "approve"),
        "status" if request.get("status") != old.get("status") => ("CertificateSigning", "sign"),
        _ => return Ok(()),
    };
    if admission.disabled_plugins.contains(plugin) {
        return Ok(());
    }
    let signer = object::text(old, &["spec", "signerName"]);
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer, &format!("{domain}/*")] {
        let asked = Attributes {
            name,
            ..Attributes::resource(&write.user, verb, GROUP, "signers")
        };
        if admission.authorizer.authorize(&asked).await.allowed {
            return Ok(());
        }
    }
    let why = format!(
        "user not permitted to {verb} requests with signerName {}",
        quote(signer)
    );
    Err(write.forbidden(None, &why))
}
