//! A webhook that listens over HTTPS, and its configuration.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use operator_apiserver::ApiServer;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::asking::post;

/// The response of a webhook to a request.
pub(crate) enum Reply {
    /// The response of a review.
    Review(Value),
    Json(Value),
    Text(u16, &'static str),
    /// A redirect to a location.
    Redirect(u16, String),
    Hang,
    Die,
}

/// Returns the reply to a path and a body. The path starts with the user of a front proxy and an `@`, if there is one.
pub(crate) type Handler = Arc<dyn Fn(&str, &Value) -> Reply + Send + Sync>;

/// The paths and bodies of the received requests.
type Received = Arc<Mutex<Vec<(String, Value)>>>;

/// The requests, and the headers of those with credentials.
type Records = (Received, Arc<Mutex<Vec<String>>>);

/// A webhook that listens, and the requests that it received, with their paths.
pub(crate) struct Hook {
    pub(crate) address: SocketAddr,
    pub(crate) authority: String,
    pub(crate) received: Received,
    /// The `Authorization` headers of the requests that have one.
    pub(crate) authorizations: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hook {
    pub(crate) async fn start(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with_paths(move |_, body| reply(body)).await
    }

    /// Starts a webhook whose replies depend on the path.
    pub(crate) async fn start_with_paths(
        reply: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let names = vec!["localhost".to_owned(), "hook.default.svc".to_owned()];
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let authorizations = Arc::new(Mutex::new(Vec::new()));
        let known = authorizations.clone();
        let reply: Handler = Arc::new(reply);
        let task = tokio::spawn(listen(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            reply,
            (received.clone(), known),
        ));
        Self {
            address,
            authority: BASE64_STANDARD.encode(certificate.pem()),
            received,
            authorizations,
            task,
        }
    }

    pub(crate) fn by_url(&self) -> Value {
        let url = format!("https://localhost:{}/hook", self.address.port());
        json!({"url": url, "caBundle": self.authority})
    }

    pub(crate) fn by_service(&self) -> Value {
        let service = json!({"namespace": "default", "name": "hook", "path": "/hook"});
        json!({"service": service, "caBundle": self.authority})
    }

    /// Returns the `request` fields of the received reviews.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let received = self.received.lock().unwrap();
        received
            .iter()
            .map(|(_, review)| review["request"].clone())
            .collect()
    }
}

async fn listen(listener: TcpListener, acceptor: TlsAcceptor, reply: Handler, received: Records) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, reply, received) = (acceptor.clone(), reply.clone(), received.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request| answer(request, reply.clone(), received.clone()));
            // A webhook that stops causes an error of its connection.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    reply: Handler,
    (received, authorizations): Records,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    // The user of a front proxy is recorded with the path.
    let user = request.headers().get("x-remote-user");
    let user = user.map(|user| format!("{}@", user.to_str().unwrap()));
    let path = format!("{}{}", user.unwrap_or_default(), request.uri());
    if let Some(header) = request.headers().get("authorization") {
        let header = header.to_str().unwrap().to_owned();
        authorizations.lock().unwrap().push(header);
    }
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    received.lock().unwrap().push((path.clone(), review.clone()));
    let mut response = Response::builder();
    let (code, text) = match reply(&path, &review) {
        Reply::Review(mut response) => {
            if response["uid"].is_null() {
                response["uid"] = review["request"]["uid"].clone();
            }
            let version = &review["apiVersion"];
            let answer = json!({"kind": "AdmissionReview", "apiVersion": version, "response": response});
            (200, answer.to_string())
        }
        Reply::Json(answer) => (200, answer.to_string()),
        Reply::Text(code, text) => (code, text.to_owned()),
        Reply::Redirect(code, location) => {
            response = response.header("location", location);
            (code, String::new())
        }
        Reply::Hang => std::future::pending::<Result<_, Infallible>>().await.unwrap(),
        Reply::Die => return Err(std::io::Error::other("dies")),
    };
    Ok(response.status(code).body(Full::from(text)).unwrap())
}

pub(crate) fn allow() -> Reply {
    Reply::Review(json!({"allowed": true}))
}

pub(crate) fn patch(operations: &Value) -> Reply {
    let patch = BASE64_STANDARD.encode(operations.to_string());
    Reply::Review(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

/// Returns a webhook for all operations on config maps, with more fields.
pub(crate) fn webhook(name: &str, client: Value, more: Value) -> Value {
    let mut webhook = json!({
        "name": format!("{name}.example.com"), "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
    });
    webhook["clientConfig"] = client;
    if let (Some(webhook), Value::Object(more)) = (webhook.as_object_mut(), more) {
        webhook.extend(more);
    }
    webhook
}

pub(crate) async fn configure(server: &ApiServer, kind: &str, webhooks: Vec<Value>) {
    let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
    let configuration = json!({"metadata": {"name": "hooks"}, "webhooks": webhooks});
    post(server, &path, configuration).await.is_done();
}
