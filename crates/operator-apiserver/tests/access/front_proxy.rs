//! Tests of the request headers of front proxies.

use std::sync::Arc;

use operator_apiserver::{ApiServer, FrontProxy, ListenOptions, Listener};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::asking::get;

/// An authority of client certificates.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "front-proxies");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// Returns a connector with a client certificate for a name. It trusts the server.
    fn client(&self, listener: &Listener, name: &str) -> TlsConnector {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(listener.authority().as_bytes()).unwrap();
        roots.add(authority).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        TlsConnector::from(Arc::new(config))
    }
}

/// Returns the status code and the user as the server sees it.
async fn who_am_i(listener: &Listener, client: &TlsConnector, headers: &str) -> (u16, Value) {
    let stream = TcpStream::connect(listener.local_addr()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = client.connect(name, stream).await.unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let request = format!(
        "POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{review}",
        review.len(),
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A server may close the connection without a TLS close message.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    (code, body["status"]["userInfo"].clone())
}

fn proxy(authority: &Authority) -> FrontProxy {
    let mut proxy = FrontProxy::new(authority.pem.as_bytes());
    proxy.allowed_names = vec!["front".to_owned()];
    proxy.username_headers = vec!["X-Remote-User".to_owned()];
    proxy.uid_headers = vec!["X-Remote-Uid".to_owned()];
    proxy.group_headers = vec!["X-Remote-Group".to_owned()];
    proxy.extra_prefixes = vec!["X-Remote-Extra-".to_owned()];
    proxy
}

#[tokio::test]
async fn a_proxy_names_the_user() {
    let authority = Authority::new();
    let server = ApiServer::builder()
        .front_proxy(proxy(&authority))
        .build()
        .unwrap();
    let listener = server.listen(ListenOptions::default()).await.unwrap();
    let front = authority.client(&listener, "front");
    let headers = "X-Remote-User: rita\r\nX-Remote-Group: g1\r\nX-Remote-Group: g2\r\nX-Remote-Uid: 9\r\nX-Remote-Extra-Foo%2fBar: v\r\nX-Remote-Extra-Foo: w\r\nAuthorization: Bearer wrong\r\n";
    let (code, user) = who_am_i(&listener, &front, headers).await;
    assert_eq!(code, 201);
    assert_eq!(
        user,
        json!({
            "username": "rita", "uid": "9", "groups": ["g1", "g2", "system:authenticated"],
            "extra": {"foo": ["w"], "foo/bar": ["v"]},
        })
    );
    // Without a user name in the headers, the proxy's certificate identifies no user.
    assert_eq!(
        who_am_i(&listener, &front, "X-Remote-Group: system:masters\r\n")
            .await
            .0,
        401
    );
    let other = authority.client(&listener, "other");
    assert_eq!(who_am_i(&listener, &other, headers).await.0, 401);
    let impostor = Authority::new().client(&listener, "front");
    assert_eq!(who_am_i(&listener, &impostor, headers).await.0, 401);
}

#[tokio::test]
async fn the_authorities_are_published() {
    let authority = Authority::new();
    let server = ApiServer::builder()
        .front_proxy(proxy(&authority))
        .build()
        .unwrap();
    let listener = server.listen(ListenOptions::default()).await.unwrap();
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let map = get(&server, path).await.body;
    assert_eq!(
        map["data"],
        json!({
            "client-ca-file": listener.authority(),
            "requestheader-allowed-names": "[\"front\"]",
            "requestheader-client-ca-file": authority.pem,
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
        })
    );
    assert_eq!(map["metadata"]["managedFields"][0]["manager"], "kube-apiserver");
}
