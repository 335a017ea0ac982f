//! The signature of a CertificateSigningRequest, which proves that the requester has the key.

use apimachinery::field::{Error, Path};
use apimachinery::object;
use builtin_kinds::certificate_request::{self, Signed};
use rustls::pki_types::SignatureVerificationAlgorithm;
use serde_json::Value;

use crate::resource::Definition;

/// Returns an error if the signature of a new request is invalid. Malformed requests get other errors elsewhere.
pub(super) fn fault(definition: &Definition, request: &Value) -> Option<Error> {
    if !definition.is("certificates.k8s.io", "certificatesigningrequests") {
        return None;
    }
    let text = object::text(request, &["spec", "request"]);
    let signed = certificate_request::signed(text)?;
    let provider = rustls::crypto::ring::default_provider();
    let algorithms = provider.signature_verification_algorithms.all;
    let algorithm = algorithms.iter().find(|known| is_of(**known, &signed))?;
    let verified = algorithm.verify_signature(&signed.key, &signed.message, &signed.signature);
    verified.is_err().then(|| {
        let path = Path::new("spec").child("request");
        Error::invalid(path, text.into(), refusal(&signed))
    })
}

/// Returns true if the request uses this algorithm. Unknown algorithms are not verified.
fn is_of(known: &dyn SignatureVerificationAlgorithm, signed: &Signed) -> bool {
    known.public_key_alg_id().as_ref() == signed.key_algorithm.as_slice()
        && known.signature_alg_id().as_ref() == signed.algorithm.as_slice()
}

/// Returns the text of Go's verification error.
fn refusal(signed: &Signed) -> &'static str {
    /// The object identifiers of RSA keys and of keys on elliptic curves, in DER.
    const RSA: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
    const ELLIPTIC: &[u8] = &[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
    if signed.key_algorithm.starts_with(RSA) {
        "crypto/rsa: verification error"
    } else if signed.key_algorithm.starts_with(ELLIPTIC) {
        "x509: ECDSA verification failure"
    } else {
        "x509: Ed25519 verification failure"
    }
}
