//! Tests of credentials over HTTPS: untrusted certificates, tokens with uids, audiences, and anonymous requests.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;

use std::sync::Arc;

use asking::post;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use operator_apiserver::{ApiServer, Authorization, Builder, ListenOptions, Listener};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/robot/token";

async fn listen(builder: Builder) -> Listener {
    let server = builder.build().unwrap();
    server.listen(ListenOptions::default()).await.unwrap()
}

/// Returns a connector that trusts the server, optionally with a client certificate that the server does not trust.
fn connector(listener: &Listener, with_certificate: bool) -> TlsConnector {
    if !with_certificate {
        return connector_with(listener, None);
    }
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "impostor");
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:masters");
    let certificate = params.self_signed(&key).unwrap();
    // The server names its authorities, and a client may send another certificate all the same.
    connector_with(listener, Some((certificate.der().clone(), &key)))
}

/// Returns a client that trusts the server and has a certificate.
fn connector_with(
    listener: &Listener,
    identity: Option<(CertificateDer<'static>, &KeyPair)>,
) -> TlsConnector {
    let kubeconfig = listener.kubeconfig();
    let line = kubeconfig
        .lines()
        .find_map(|line| line.trim().strip_prefix("certificate-authority-data:"));
    let authority = BASE64_STANDARD.decode(line.unwrap().trim()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&authority).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        Some((certificate, key)) => {
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    TlsConnector::from(Arc::new(config))
}

/// Returns the status code and the user as the server sees it.
async fn who_am_i(listener: &Listener, with_certificate: bool, token: Option<&str>) -> (u16, Value) {
    who_is(listener, connector(listener, with_certificate), token).await
}

async fn who_is(listener: &Listener, connector: TlsConnector, token: Option<&str>) -> (u16, Value) {
    let stream = TcpStream::connect(listener.local_addr()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let request = format!(
        "POST {REVIEWS} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{review}",
        token.unwrap_or_default(),
        review.len(),
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A server may close the connection without a TLS close message.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn a_client_whose_certificate_is_not_trusted_needs_a_token() {
    let listener = listen(ApiServer::builder().token_with_uid("t", "jane", "u-1", ["g"])).await;
    let (code, refused) = who_am_i(&listener, true, None).await;
    assert_eq!((code, &refused["message"]), (401, &json!("Unauthorized")));
    let (code, _) = who_am_i(&listener, true, Some("wrong")).await;
    assert_eq!(code, 401);
    let (code, answer) = who_am_i(&listener, true, Some("t")).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(
        answer["status"]["userInfo"],
        json!({"username": "jane", "uid": "u-1", "groups": ["g", "system:authenticated"]})
    );
}

#[tokio::test]
async fn always_allow_has_no_anonymous_user() {
    let allows = || ApiServer::builder().authorization(Authorization::AlwaysAllow);
    for builder in [allows(), allows().anonymous_auth(true)] {
        let listener = listen(builder).await;
        assert_eq!(who_am_i(&listener, false, None).await.0, 401);
    }
    let (code, refused) = who_am_i(&listen(ApiServer::builder()).await, false, None).await;
    assert_eq!(code, 403, "{refused}");
}

async fn with_robot(builder: Builder) -> (ApiServer, Value) {
    let server = builder.build().unwrap();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let robot = post(&server, accounts, json!({"metadata": {"name": "robot"}})).await;
    (server, robot.body)
}

#[tokio::test]
async fn a_token_request_for_another_uid_is_a_conflict() {
    let (server, robot) = with_robot(ApiServer::builder()).await;
    let uid = robot["metadata"]["uid"].as_str().unwrap();
    let own = json!({"metadata": {"uid": uid}, "spec": {}});
    post(&server, TOKEN, own).await.is_done();
    let refused = post(&server, TOKEN, json!({"metadata": {"uid": "wrong"}, "spec": {}})).await;
    assert_eq!(refused.code, 409);
    assert_eq!(
        refused.message(),
        format!(
            "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"robot\": the UID in the token request (wrong) does not match the UID of the service account ({uid})"
        )
    );
    assert_eq!(
        refused.body["details"],
        json!({"name": "robot", "group": "authentication.k8s.io", "kind": "TokenRequest"})
    );
}

#[tokio::test]
async fn tokens_are_for_the_audiences_of_the_server() {
    let builder = ApiServer::builder()
        .api_audiences(["a", "b"])
        .token("t", "jane", [""; 0]);
    let (server, _) = with_robot(builder).await;
    let made = post(&server, TOKEN, json!({"spec": {}})).await;
    assert_eq!(made.body["spec"]["audiences"], json!(["a", "b"]));
    let token = made.body["status"]["token"].as_str().unwrap();
    for (token, wanted, audiences) in [
        (token, json!([]), json!(["a", "b"])),
        (token, json!(["b", "c"]), json!(["b"])),
        ("t", json!([]), json!(["a", "b"])),
        ("t", json!(["b", "c"]), json!(["b"])),
        ("t", json!(["c"]), Value::Null),
    ] {
        let spec = json!({"token": token, "audiences": wanted});
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
        let answer = post(&server, "/apis/authentication.k8s.io/v1/tokenreviews", review).await;
        assert_eq!(answer.body["status"]["audiences"], audiences, "{}", answer.body);
    }
}

#[tokio::test]
async fn tokens_of_every_issuer_are_taken() {
    let key = KeyPair::generate().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let server = |issuers: &[&str]| {
        let mut builder = ApiServer::builder()
            .data_directory(directory.path())
            .service_account_signing_key(key.serialize_pem())
            .api_audiences(["a"])
            .service_account_issuer(issuers[0]);
        for issuer in &issuers[1..] {
            builder = builder.accepted_service_account_issuer(*issuer);
        }
        builder
    };
    let (old, _) = with_robot(server(&["https://old"])).await;
    let made = post(&old, TOKEN, json!({"spec": {}})).await;
    drop(old);
    let spec = json!({"token": made.body["status"]["token"]});
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
    for (issuers, known) in [
        (vec!["https://new", "https://old"], json!(true)),
        (vec!["https://new"], Value::Null),
    ] {
        let server = server(&issuers).build().unwrap();
        let answer = post(
            &server,
            "/apis/authentication.k8s.io/v1/tokenreviews",
            review.clone(),
        )
        .await;
        assert_eq!(answer.body["status"]["authenticated"], known, "{}", answer.body);
    }
}

#[tokio::test]
async fn a_signed_certificate_is_that_of_the_subject_of_the_request() {
    let listener = listen(ApiServer::builder()).await;
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["a.example.com".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "jane");
    params
        .distinguished_name
        .push(DnType::OrganizationName, "developers");
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let parsed = builtin_kinds::certificate_request::parse(&BASE64_STANDARD.encode(request)).unwrap();
    assert_eq!(
        (parsed.common_name.as_str(), parsed.organizations.as_slice()),
        ("jane", &["developers".to_owned()][..])
    );
    let signer = listener.certificate_signer();
    let sign = |lifetime: u64, usages: &[&str]| {
        let lifetime = std::time::Duration::from_secs(lifetime);
        let pem = signer.sign(&parsed, usages, lifetime, std::time::SystemTime::now());
        CertificateDer::from_pem_slice(pem.unwrap().as_bytes()).unwrap()
    };
    let usages = ["digital signature", "client auth"];
    let connector = connector_with(&listener, Some((sign(3600, &usages), &key)));
    let (code, answer) = who_is(&listener, connector, None).await;
    assert_eq!(code, 201, "{answer}");
    let user = &answer["status"]["userInfo"];
    assert_eq!(user["username"], "jane");
    assert_eq!(user["groups"], json!(["developers", "system:authenticated"]));
    // Certificates begin five minutes in the past.
    for (lifetime, usages) in [(60, &usages[..]), (3600, &["digital signature", "server auth"])] {
        let connector = connector_with(&listener, Some((sign(lifetime, usages), &key)));
        assert_eq!(who_is(&listener, connector, None).await.0, 401);
    }
}
