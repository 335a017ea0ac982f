//! Costs of the server: starts, writes, reads, watchers, memory. Run with `cargo bench -p operator-apiserver`.
//!
//! It prints a table; the figures of one run are in docs/book/src/internals/performance.md.

#![expect(clippy::unwrap_used, reason = "the helpers of the tests fail")]

#[path = "../tests/asking/mod.rs"]
mod asking;
#[path = "../tests/hook/mod.rs"]
mod hook;
#[path = "../tests/memory/mod.rs"]
mod memory;

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::try_join_all;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::config::Kubeconfig;
use operator_apiserver::client::Gvr;
use operator_apiserver::{ApiServer, ListenOptions};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tower::ServiceExt;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const WRITES: usize = 20_000;
const READS: usize = 50_000;
const OBJECTS: usize = 100_000;
const WATCHERS: usize = 1_000;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

type Measurement = (&'static str, fn() -> Result<()>);

/// The measurements, in their order. The arguments of the command select some of them by name.
const MEASUREMENTS: [Measurement; 11] = [
    ("start", || on_one_core(start())),
    ("creates", || on_one_core(creates())),
    ("reads", || on_one_core(reads())),
    ("applies", || on_one_core(applies())),
    ("watchers", || on_one_core(watchers())),
    ("objects", || on_one_core(many_objects())),
    ("definitions", || on_one_core(many_definitions())),
    ("pods", || on_one_core(pods())),
    ("reviews", || on_one_core(reviews())),
    ("webhooks", || on_one_core(webhooks())),
    ("http2", || on_two_cores(over_http2())),
];

fn main() -> Result<()> {
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let known = MEASUREMENTS.map(|(name, _)| name);
    if let Some(unknown) = named.iter().find(|name| !known.contains(&name.as_str())) {
        let known = known.join(", ");
        return Err(format!("there is no measurement {unknown:?}; the measurements are {known}").into());
    }
    for (name, measure) in MEASUREMENTS {
        if named.is_empty() || named.iter().any(|named| named == name) {
            measure()?;
        }
    }
    Ok(())
}

/// Runs a measurement on one thread, because figures are for each core.
fn on_one_core(measurement: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(measurement)
}

fn on_two_cores(measurement: impl Future<Output = Result<()>>) -> Result<()> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    runtime.block_on(measurement)
}

fn row(what: &str, figure: impl std::fmt::Display) {
    println!("{what:<64} {figure}");
}

fn per_second(count: usize, began: Instant) -> String {
    format!("{:>9.0} /s", count as f64 / began.elapsed().as_secs_f64())
}

fn milliseconds(duration: Duration) -> String {
    format!("{:>9.2} ms", duration.as_secs_f64() * 1e3)
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "bench"}}, "data": {"key": "value"}})
}

fn request(method: &str, path: &str, body: Option<&Value>) -> Result<Request<Full<Bytes>>> {
    let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
    let builder = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json");
    Ok(builder.body(Full::new(body))?)
}

/// Sends a request in-process, and reads the response to the end.
async fn call(server: &ApiServer, request: Request<Full<Bytes>>) -> Result<Bytes> {
    let Ok(response) = server.clone().oneshot(request).await;
    let status = response.status();
    let bytes = response
        .into_body()
        .collect()
        .await
        .map_err(|_| "the body broke off")?
        .to_bytes();
    if !status.is_success() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&bytes)).into());
    }
    Ok(bytes)
}

async fn start() -> Result<()> {
    // The first server of a process parses the tables of built-in kinds.
    let began = Instant::now();
    let server = ApiServer::builder().build()?;
    call(&server, request("GET", "/api/v1/namespaces/default", None)?).await?;
    row(
        "first server of a process, start to first answer",
        milliseconds(began.elapsed()),
    );
    let began = Instant::now();
    for _ in 0..100 {
        let server = ApiServer::builder().build()?;
        call(&server, request("GET", "/api/v1/namespaces/default", None)?).await?;
    }
    row(
        "each further server, start to first answer",
        milliseconds(began.elapsed() / 100),
    );
    Ok(())
}

async fn creates() -> Result<()> {
    let server = ApiServer::builder().build()?;
    let client = server.client();
    let gvr = Gvr::new("", "v1", "configmaps");
    let began = Instant::now();
    for index in 0..WRITES {
        client
            .create(&gvr, "default", config_map(&format!("client-{index}")))
            .await?;
    }
    row(
        "creates through the in-process client, one core",
        per_second(WRITES, began),
    );
    let began = Instant::now();
    for index in 0..WRITES {
        call(
            &server,
            request(
                "POST",
                CONFIG_MAPS,
                Some(&config_map(&format!("service-{index}"))),
            )?,
        )
        .await?;
    }
    row(
        "creates through the tower service (JSON both ways), one core",
        per_second(WRITES, began),
    );
    Ok(())
}

async fn reads() -> Result<()> {
    let server = ApiServer::builder().build()?;
    call(&server, request("POST", CONFIG_MAPS, Some(&config_map("read")))?).await?;
    let path = format!("{CONFIG_MAPS}/read");
    let began = Instant::now();
    for _ in 0..READS {
        call(&server, request("GET", &path, None)?).await?;
    }
    row(
        "gets through the tower service, one core",
        per_second(READS, began),
    );
    Ok(())
}

/// Measures repeated applies of an unchanged Deployment.
async fn applies() -> Result<()> {
    let server = ApiServer::builder().build()?;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "example.com/web:1", "ports": [{"containerPort": 80}]}]},
        }},
    });
    let apply = || {
        let path = "/apis/apps/v1/namespaces/default/deployments/web?fieldManager=bench";
        let mut apply = request("PATCH", path, Some(&deployment))?;
        let kind = header::HeaderValue::from_static("application/apply-patch+yaml");
        apply.headers_mut().insert(header::CONTENT_TYPE, kind);
        Ok::<_, Box<dyn Error + Send + Sync>>(apply)
    };
    call(&server, apply()?).await?;
    let began = Instant::now();
    for _ in 0..WRITES {
        call(&server, apply()?).await?;
    }
    let each = began.elapsed() / u32::try_from(WRITES)?;
    row(
        "server-side apply of a Deployment that changes nothing",
        format!("{:>9.0} µs", each.as_secs_f64() * 1e6),
    );
    Ok(())
}

async fn watchers() -> Result<()> {
    let server = ApiServer::builder().build()?;
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..WATCHERS {
        let watch = request("GET", &format!("{CONFIG_MAPS}?watch=true"), None)?;
        let Ok(response) = server.clone().oneshot(watch).await;
        let (mut body, sender) = (response.into_body(), sender.clone());
        tokio::spawn(async move {
            while let Some(Ok(_)) = body.frame().await {
                if sender.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
    }
    // Wait until existing objects are delivered, before the measurement starts.
    tokio::time::sleep(Duration::from_millis(200)).await;
    while seen.try_recv().is_ok() {}
    let mut worst = Duration::ZERO;
    for round in 0..20 {
        call(
            &server,
            request("POST", CONFIG_MAPS, Some(&config_map(&format!("event-{round}"))))?,
        )
        .await?;
        let committed = Instant::now();
        for _ in 0..WATCHERS {
            let at = seen.recv().await.ok_or("a watcher ended")?;
            worst = worst.max(at.saturating_duration_since(committed));
        }
    }
    row(
        "one event to 1,000 watchers, until the last has it (worst of 20)",
        milliseconds(worst),
    );
    Ok(())
}

/// Returns the resident memory of this process, in kilobytes.
fn resident() -> f64 {
    memory::memory_of("self", "VmRSS").unwrap_or_default() as f64 / 1024.0
}

async fn many_objects() -> Result<()> {
    let server = ApiServer::builder().history_events(1_000).build()?;
    let client = server.client();
    let gvr = Gvr::new("", "v1", "configmaps");
    let before = resident();
    for index in 0..OBJECTS {
        client
            .create(&gvr, "default", config_map(&format!("object-{index:06}")))
            .await?;
    }
    row(
        "memory per object, 100,000 objects",
        format!("{:>9.2} kB", (resident() - before) / OBJECTS as f64),
    );
    let began = Instant::now();
    let bytes = call(&server, request("GET", CONFIG_MAPS, None)?).await?;
    row(
        "list of 100,000 objects, first time",
        milliseconds(began.elapsed()),
    );
    let began = Instant::now();
    call(&server, request("GET", CONFIG_MAPS, None)?).await?;
    let size = bytes.len() / 1_000_000;
    row(
        &format!("list of 100,000 objects ({size} MB), again"),
        milliseconds(began.elapsed()),
    );
    let path = format!("{CONFIG_MAPS}?limit=500");
    let began = Instant::now();
    for _ in 0..20 {
        call(&server, request("GET", &path, None)?).await?;
    }
    row("first page of 500 of 100,000", milliseconds(began.elapsed() / 20));
    Ok(())
}

const PODS: usize = 10_000;

/// Measures lists of pods as JSON and as protobuf.
async fn pods() -> Result<()> {
    let builder = ApiServer::builder().disable_admission_plugins(["ServiceAccount"]);
    let server = builder.build()?;
    let client = server.client();
    let gvr = Gvr::new("", "v1", "pods");
    for index in 0..PODS {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{index}"), "labels": {"app": "bench"}},
            "spec": {"containers": [{"name": "web", "image": "example.com/web:1", "ports": [{"containerPort": 80}]}]},
        });
        client.create(&gvr, "default", pod).await?;
    }
    for (name, media) in [
        ("JSON", "application/json"),
        ("protobuf", "application/vnd.kubernetes.protobuf"),
    ] {
        let list = || {
            let mut list = request("GET", "/api/v1/namespaces/default/pods", None)?;
            let media = header::HeaderValue::from_static(media);
            list.headers_mut().insert(header::ACCEPT, media);
            Ok::<_, Box<dyn Error + Send + Sync>>(list)
        };
        let began = Instant::now();
        let bytes = call(&server, list()?).await?;
        let size = bytes.len() / 100_000;
        row(
            &format!(
                "list of 10,000 pods as {name} ({}.{} MB), first time",
                size / 10,
                size % 10
            ),
            milliseconds(began.elapsed()),
        );
        let began = Instant::now();
        for _ in 0..10 {
            call(&server, list()?).await?;
        }
        row(
            &format!("list of 10,000 pods as {name}, again"),
            milliseconds(began.elapsed() / 10),
        );
    }
    Ok(())
}

async fn reviews() -> Result<()> {
    let server = ApiServer::builder().build()?;
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": "system:kube-scheduler",
            "resourceAttributes": {"verb": "create", "group": "", "resource": "pods", "subresource": "binding", "namespace": "default"},
        },
    });
    let began = Instant::now();
    for _ in 0..WRITES {
        call(&server, request("POST", path, Some(&review))?).await?;
    }
    row("SubjectAccessReviews, one core", per_second(WRITES, began));
    Ok(())
}

/// Measures creates with a validating webhook, which runs on the same core.
async fn webhooks() -> Result<()> {
    const CREATES: usize = 2_000;
    let server = ApiServer::builder().build()?;
    let hook = hook::Hook::start(|_| hook::allow()).await;
    let webhook = hook::webhook("bench", hook.by_url(), Value::Null);
    hook::configure(&server, "validating", vec![webhook]).await;
    let began = Instant::now();
    for index in 0..CREATES {
        let body = config_map(&format!("hooked-{index}"));
        call(&server, request("POST", CONFIG_MAPS, Some(&body))?).await?;
    }
    row(
        "create with an admission webhook over TLS, one core",
        milliseconds(began.elapsed() / u32::try_from(CREATES)?),
    );
    Ok(())
}

const DEFINITIONS: usize = 10_000;
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(number: usize) -> Value {
    let group = format!("group-{}.example.com", number % 100);
    let fields: serde_json::Map<String, Value> = (0..20)
        .map(|field| {
            (
                format!("field{field}"),
                json!({"type": "string", "pattern": "^[a-z]{1,63}$"}),
            )
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("kind{number}s.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": format!("kind{number}s"), "kind": format!("Kind{number}")},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": fields},
                }}},
            }],
        },
    })
}

/// Measures definitions of 20 fields in 100 groups: the cost of each should not depend on their number.
async fn many_definitions() -> Result<()> {
    let server = ApiServer::builder().build()?;
    let mut began = Instant::now();
    for number in 0..DEFINITIONS {
        call(&server, request("POST", DEFINITION, Some(&definition(number)))?).await?;
        if [99, 2_999, DEFINITIONS - 1].contains(&number) {
            let count = if number == 99 { 100 } else { 1000 };
            row(
                &format!("create of a definition beside {} others", number + 1 - count),
                milliseconds(began.elapsed() / u32::try_from(count)?),
            );
        }
        if [99, 1_999, DEFINITIONS - 1_001].contains(&number) {
            began = Instant::now();
        }
    }
    for path in ["/openapi/v3", "/openapi/v2", "/apis/group-1.example.com/v1"] {
        for time in ["first time", "again"] {
            let began = Instant::now();
            call(&server, request("GET", path, None)?).await?;
            row(
                &format!("GET {path} with {DEFINITIONS} definitions, {time}"),
                milliseconds(began.elapsed()),
            );
        }
    }
    began = Instant::now();
    for number in 0..DEFINITIONS {
        let name = format!("{DEFINITION}/kind{number}s.group-{}.example.com", number % 100);
        call(&server, request("DELETE", &name, None)?).await?;
    }
    row(
        &format!("delete of each of {DEFINITIONS} definitions"),
        milliseconds(began.elapsed() / u32::try_from(DEFINITIONS)?),
    );
    Ok(())
}

async fn over_http2() -> Result<()> {
    let began = Instant::now();
    let server = ApiServer::builder().build()?;
    let listener = server.listen(ListenOptions::default()).await?;
    row(
        "server with HTTPS and new certificates, until it listens",
        milliseconds(began.elapsed()),
    );
    let mut connection = connect(&listener.kubeconfig(), listener.local_addr()).await?;
    let began = Instant::now();
    const PARALLEL: usize = 64;
    let lanes = (0..PARALLEL).map(|lane| {
        let mut connection = connection.clone();
        async move {
            for index in 0..WRITES / PARALLEL {
                let body = config_map(&format!("http-{lane}-{index}"));
                let url = format!("https://localhost{CONFIG_MAPS}");
                let response = connection
                    .send_request(request("POST", &url, Some(&body))?)
                    .await?;
                if !response.status().is_success() {
                    return Err(response.status().to_string().into());
                }
                response.into_body().collect().await?;
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        }
    });
    try_join_all(lanes).await?;
    row(
        "creates over HTTP/2 with TLS, one connection, two cores",
        per_second(WRITES / PARALLEL * PARALLEL, began),
    );
    let url = format!("https://localhost{CONFIG_MAPS}/http-0-0");
    let began = Instant::now();
    for _ in 0..1_000 {
        connection
            .send_request(request("GET", &url, None)?)
            .await?
            .into_body()
            .collect()
            .await?;
    }
    row(
        "get over HTTP/2 with TLS, one after the other",
        milliseconds(began.elapsed() / 1_000),
    );
    listener.shutdown().await;
    Ok(())
}

async fn connect(kubeconfig: &str, address: std::net::SocketAddr) -> Result<http2::SendRequest<Full<Bytes>>> {
    use base64::Engine as _;
    let decode = |text: Option<&String>| {
        let text = text.ok_or("the kubeconfig has no such data")?;
        Ok::<_, Box<dyn Error + Send + Sync>>(base64::engine::general_purpose::STANDARD.decode(text)?)
    };
    let config = Kubeconfig::from_yaml(kubeconfig)?;
    let cluster = config
        .clusters
        .first()
        .and_then(|entry| entry.cluster.clone())
        .ok_or("no cluster")?;
    let user = serde_json::to_value(
        config
            .auth_infos
            .first()
            .and_then(|entry| entry.auth_info.clone()),
    )?;
    let text = |name: &str| user.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&decode(
        cluster.certificate_authority_data.as_ref(),
    )?)?)?;
    let certificate = CertificateDer::from_pem_slice(&decode(text("client-certificate-data").as_ref())?)?;
    let key = PrivateKeyDer::from_pem_slice(&decode(text("client-key-data").as_ref())?)?;
    let mut tls =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)?;
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let stream = tokio_rustls::TlsConnector::from(Arc::new(tls))
        .connect(ServerName::try_from("127.0.0.1")?, stream)
        .await?;
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}
