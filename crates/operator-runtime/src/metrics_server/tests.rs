use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, PostParams};
use kube::client::Body;
use operator_envtest::{Backend, TestEnv};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::service_fn;

use super::*;

/// A fake API server with the token `good` of a user who may read metrics and the token `poor` of one who may not. It
/// counts requests.
fn reviewer(asked: Arc<AtomicUsize>) -> kube::Client {
    let service = service_fn(move |request: Request<Body>| {
        let asked = asked.clone();
        async move {
            asked.fetch_add(1, Ordering::Relaxed);
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            review["status"] = match path.rsplit('/').next() {
                Some("tokenreviews") => match review["spec"]["token"].as_str() {
                    Some(user @ ("good" | "poor")) => {
                        json!({"authenticated": true, "user": {"username": user, "groups": ["g"]}})
                    }
                    _ => json!({"authenticated": false}),
                },
                _ => {
                    let wanted = json!({"path": "/metrics", "verb": "get"});
                    assert_eq!(review["spec"]["nonResourceAttributes"], wanted);
                    assert_eq!(review["spec"]["groups"], json!(["g"]));
                    json!({"allowed": review["spec"]["user"] == "good"})
                }
            };
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
        }
    });
    kube::Client::new(service, "default")
}

async fn started(server: MetricsServer) -> (SocketAddr, DropGuard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(server.serve(listener, stop.clone()));
    (address, stop.drop_guard())
}

async fn get(
    address: SocketAddr,
    path: &str,
    headers: &[(header::HeaderName, &str)],
) -> (StatusCode, String, String) {
    let mut request = Request::builder().uri(format!("http://{address}{path}"));
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client
        .request(request.body(Full::<Bytes>::default()).unwrap())
        .await
        .unwrap();
    let kind = response
        .headers()
        .get(header::CONTENT_TYPE)
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let code = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, kind, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn form_is_negotiated() {
    let (address, _stop) = started(MetricsServer::new(Metrics::default())).await;
    let (code, kind, text) = get(address, "/metrics", &[]).await;
    assert_eq!((code, kind.as_str()), (StatusCode::OK, TEXT));
    assert!(text.contains("# TYPE controller_runtime_webhook_panics_total counter"));
    let (_, kind, text) = get(
        address,
        "/metrics",
        &[(header::ACCEPT, "application/openmetrics-text;version=1.0.0")],
    )
    .await;
    assert_eq!(kind, OPEN_METRICS);
    assert!(text.ends_with("# EOF\n"));
    assert_eq!(get(address, "/", &[]).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn only_authorized_users_read_and_answers_are_cached() {
    let asked = Arc::new(AtomicUsize::new(0));
    let server = MetricsServer::new(Metrics::default()).authorize(reviewer(asked.clone()));
    let (address, _stop) = started(server).await;
    let code = async |token: &str| {
        get(address, "/metrics", &[(header::AUTHORIZATION, token)])
            .await
            .0
    };
    assert_eq!(get(address, "/metrics", &[]).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    for _ in 0..3 {
        assert_eq!(code("Bearer good").await, StatusCode::OK);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    for _ in 0..3 {
        assert_eq!(code("Bearer poor").await, StatusCode::FORBIDDEN);
        assert_eq!(code("Bearer bad").await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn further_handlers_have_their_own_paths() {
    let hello = async |_| serve::text(StatusCode::OK, "hello");
    let server = MetricsServer::new(Metrics::default())
        .handler("/debug", hello)
        .unwrap();
    assert!(server.clone().handler("/metrics", hello).is_err());
    assert!(server.clone().handler("/debug", hello).is_err());
    let (address, _stop) = started(server).await;
    assert_eq!(get(address, "/debug", &[]).await.2, "hello");
}

/// Sends a request over TLS, trusting the authority, and returns the whole response.
async fn get_securely(address: SocketAddr, authority: &str) -> std::io::Result<String> {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
        .unwrap();
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn certificates_change_while_the_server_runs() {
    /// Returns a certificate for `localhost`, its key and its authority as PEM.
    fn pem() -> (String, String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem(), made.cert.pem())
    }

    let dir = std::env::temp_dir().join(format!("metrics-{:x}", crate::clock::random()));
    std::fs::create_dir(&dir).unwrap();
    let write = |certificate: &str, key: &str| {
        std::fs::write(dir.join("tls.crt"), certificate).unwrap();
        std::fs::write(dir.join("tls.key"), key).unwrap();
    };
    let ((certificate, key, authority), (other, other_key, other_authority)) = (pem(), pem());
    write(&certificate, &key);
    let certificates = Certificates::from_dir(&dir).unwrap();
    let (address, _stop) = started(MetricsServer::new(Metrics::default()).secure(certificates.clone())).await;
    assert!(
        get_securely(address, &authority)
            .await
            .unwrap()
            .starts_with("HTTP/1.1 200 OK")
    );
    assert!(get_securely(address, &other_authority).await.is_err());

    write(&other, &other_key);
    assert!(certificates.reload().unwrap());
    assert!(
        get_securely(address, &other_authority)
            .await
            .unwrap()
            .starts_with("HTTP/1.1 200 OK")
    );
    std::fs::remove_dir_all(&dir).unwrap();
}

#[tokio::test]
async fn shared_authority_signs_the_certificates_of_all_instances() {
    let env = operator_envtest::TestEnv::builder().start().await.unwrap();
    let authority = async || {
        let authority = crate::certificates::Authority::from_secret(env.client(), "default", "ca");
        authority.await.unwrap()
    };
    let pem = authority().await.certificate().to_owned();
    for authority in [authority().await, authority().await] {
        let certificates = Certificates::issued_by(authority, ["localhost"]).unwrap();
        let (address, _stop) = started(MetricsServer::new(Metrics::default()).secure(certificates)).await;
        assert!(
            get_securely(address, &pem)
                .await
                .unwrap()
                .contains("process_cpu_seconds_total")
        );
    }
}

#[tokio::test]
async fn server_ends_when_stopped() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(MetricsServer::new(Metrics::default()).serve(listener, stop.clone()));
    stop.cancel();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn idle_clients_do_not_delay_the_end() {
    let secure = Certificates::self_signed(["localhost"]).unwrap();
    let authority = secure.authority().unwrap();
    let plain = MetricsServer::new(Metrics::default());
    for (server, is_secure) in [(plain.clone(), false), (plain.secure(secure), true)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.serve(listener, stop.clone()));
        let silent = tokio::net::TcpStream::connect(address).await.unwrap();
        // The first request is already authorized when the next one is answered.
        match is_secure {
            true => drop(get_securely(address, &authority).await.unwrap()),
            false => drop(get(address, "/metrics", &[]).await),
        }
        stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(8), serving).await;
        ended.unwrap().unwrap().unwrap();
        drop(silent);
    }
}

#[tokio::test]
async fn metrics_need_authorization() {
    let env = TestEnv::builder()
        .backend(Backend::Embedded)
        .start()
        .await
        .unwrap();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(env.client());
    let token = async |name: &str| {
        let account = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let (params, request) = (PostParams::default(), json!({"spec": {"audiences": []}}));
        let request = serde_json::from_value(request).unwrap();
        let issued = accounts.create_token_request(name, &params, &request).await;
        let token = issued.unwrap().status.unwrap().token.unwrap();
        format!("Bearer {token}")
    };
    let (reader, stranger) = (token("reader").await, token("stranger").await);
    let role = json!({
        "metadata": {"name": "metrics-reader"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    });
    let binding = json!({
        "metadata": {"name": "metrics-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    });
    let (roles, bindings): (Api<ClusterRole>, Api<ClusterRoleBinding>) =
        (Api::all(env.client()), Api::all(env.client()));
    let (role, binding) = (
        serde_json::from_value(role).unwrap(),
        serde_json::from_value(binding).unwrap(),
    );
    roles.create(&PostParams::default(), &role).await.unwrap();
    bindings.create(&PostParams::default(), &binding).await.unwrap();

    let (address, _stop) = started(MetricsServer::new(Metrics::default()).authorize(env.client())).await;
    let get = async |path: &str, token: &str| {
        let (code, _, text) = get(address, path, &[(header::AUTHORIZATION, token)]).await;
        (code.as_u16(), text)
    };
    let unauthorized = (401, "Unauthorized\n".to_owned());
    assert_eq!(get("/metrics", "Bearer nonsense").await, unauthorized);
    let (code, text) = get("/metrics", &reader).await;
    assert_eq!(code, 200, "{text}");
    assert!(text.contains("process_cpu_seconds_total"), "{text}");
    let refused = |name: &str| {
        let user = format!("system:serviceaccount:default:{name}");
        (403, format!("Authorization denied for user {user}\n"))
    };
    assert_eq!(get("/metrics", &stranger).await, refused("stranger"));
    assert_eq!(get("/other", &reader).await, refused("reader"));
    env.stop().await;
}
