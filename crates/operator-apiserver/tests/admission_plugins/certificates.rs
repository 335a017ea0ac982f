//! Tests of admission for CertificateSigningRequests: allowed content, and permissions to approve and sign.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use operator_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::asking::{delete, merge, post};
use crate::server;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn pem(kind: &str, contents: &[u8]) -> String {
    let contents = BASE64_STANDARD.encode(contents);
    BASE64_STANDARD.encode(format!(
        "-----BEGIN {kind}-----\n{contents}\n-----END {kind}-----\n"
    ))
}

/// Returns a certificate request of a user in a group.
fn request(signer: &str, group: &str) -> Value {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    let name = rcgen::DnType::OrganizationName;
    parameters.distinguished_name.push(name, group);
    let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
    json!({
        "metadata": {"name": "r"},
        "spec": {"request": BASE64_STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"]},
    })
}

async fn server_with_request(signer: &str) -> ApiServer {
    let server = server().await;
    post(&server, REQUESTS, request(signer, "x")).await.is_done();
    server
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "r", "message": "m"})
}

fn conditions(conditions: &[Value]) -> Value {
    json!({"status": {"conditions": conditions}})
}

#[tokio::test]
async fn the_signature_of_a_request_is_verified() {
    let server = server().await;
    for (algorithm, why) in [
        (&rcgen::PKCS_ECDSA_P256_SHA256, "x509: ECDSA verification failure"),
        (&rcgen::PKCS_ECDSA_P384_SHA384, "x509: ECDSA verification failure"),
        (&rcgen::PKCS_ED25519, "x509: Ed25519 verification failure"),
    ] {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let signed = rcgen::CertificateParams::default()
            .serialize_request(&key)
            .unwrap();
        let der = signed.der().to_vec();
        let mut forged = der.clone();
        // Damages the signature, which is at the end.
        *forged.last_mut().unwrap() ^= 1;
        let mut longer = der.clone();
        longer.extend(b"ab");
        let shorter = der[..der.len() - 10].to_vec();
        for (contents, why) in [
            (der, ""),
            (forged, why),
            (longer, "asn1: syntax error: trailing data"),
            (shorter, "asn1: syntax error: data truncated"),
        ] {
            let mut object = request("example.com/name", "x");
            object["metadata"] = json!({"generateName": "r-"});
            let text = pem("CERTIFICATE REQUEST", &contents);
            object["spec"]["request"] = text.as_str().into();
            let answer = post(&server, REQUESTS, object).await;
            if why.is_empty() {
                answer.is_done();
            } else {
                let why = format!("spec.request: Invalid value: \"{text}\": {why}");
                answer.is_refused(422, &why);
            }
        }
    }
}

#[tokio::test]
async fn a_signer_has_a_domain_and_a_path() {
    let server = server().await;
    let cases = [
        (
            "kubernetes.io/legacy-unknown",
            "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this API version",
        ),
        (
            "a/b/c",
            "spec.signerName: Invalid value: \"a/b/c\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
        (
            "example/name",
            "spec.signerName: Invalid value: \"example\": should be a domain with at least two segments separated by dots",
        ),
    ];
    for (signer, why) in cases {
        let refused = post(&server, REQUESTS, request(signer, "x")).await;
        refused.is_refused(
            422,
            &format!("CertificateSigningRequest.certificates.k8s.io \"r\" is invalid: {why}"),
        );
    }
    let refused = post(&server, REQUESTS, request("Example.com/name", "x")).await;
    assert!(
        refused
            .message()
            .contains("validating label \"Example\": a lowercase RFC 1123 label"),
        "{}",
        refused.body
    );
}

#[tokio::test]
async fn requests_for_the_administrator_group_are_rejected() {
    let server = server().await;
    let signer = "kubernetes.io/kube-apiserver-client";
    let why = "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    let hidden = |text: &str| {
        let mut request = request(signer, "system:masters");
        let pem = BASE64_STANDARD
            .decode(request["spec"]["request"].as_str().unwrap())
            .unwrap();
        let pem = String::from_utf8(pem).unwrap().replace("\r\n", "\n");
        let pem = pem.replacen("REQUEST-----\n", &format!("REQUEST-----\n{text}"), 1);
        request["spec"]["request"] = BASE64_STANDARD.encode(pem).into();
        request
    };
    for request in [hidden(""), hidden("Header: x\n\n")] {
        post(&server, REQUESTS, request).await.is_refused(403, why);
    }
    let other = request("example.com/other", "system:masters");
    post(&server, REQUESTS, other).await.is_done();
    delete(&server, &format!("{REQUESTS}/r")).await.is_done();
    post(&server, REQUESTS, request(signer, "system:masters2"))
        .await
        .is_done();
}

#[tokio::test]
async fn an_approval_or_denial_is_final() {
    let server = server_with_request("example.com/s").await;
    let path = format!("{REQUESTS}/r");
    let approval = format!("{path}/approval");
    let approved = merge(&server, &approval, conditions(&[condition("Approved", "True")])).await;
    approved.is_done();
    let stored = &approved.body["status"]["conditions"][0];
    assert!(stored["lastUpdateTime"].is_string());
    assert!(stored["lastTransitionTime"].is_string());
    merge(&server, &approval, conditions(&[])).await.is_refused(
        422,
        "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"",
    );
    let both = [stored.clone(), condition("Denied", "True")];
    merge(&server, &approval, conditions(&both)).await.is_refused(
        422,
        "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
    );
}

#[tokio::test]
async fn the_parts_of_an_answer_come_through_the_subresources_that_they_belong_to() {
    let server = server_with_request("example.com/s").await;
    let (approval, status) = (format!("{REQUESTS}/r/approval"), format!("{REQUESTS}/r/status"));
    merge(&server, &status, conditions(&[condition("Approved", "True")]))
        .await
        .is_refused(
            422,
            "status.conditions: Forbidden: updates may not add a condition of type \"Approved\"",
        );
    merge(&server, &approval, conditions(&[condition("Approved", "False")]))
        .await
        .is_refused(
            422,
            "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
        );
    merge(&server, &approval, conditions(&[condition("Approved", "True")]))
        .await
        .is_done();
    let certificate = |text: &str| json!({"status": {"certificate": text}});
    merge(&server, &status, certificate(&pem("PUBLIC KEY", b"x"))).await.is_refused(
        422,
        "status.certificate: Invalid value: \"<certificate data>\": only CERTIFICATE PEM blocks are allowed, found \"PUBLIC KEY\"",
    );
    merge(&server, &status, certificate(&pem("CERTIFICATE", b"x")))
        .await
        .is_done();
    merge(&server, &status, certificate(&pem("CERTIFICATE", b"y")))
        .await
        .is_refused(
            422,
            "status.certificate: Forbidden: updates may not modify existing certificate content",
        );
}
