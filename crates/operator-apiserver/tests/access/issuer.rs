//! An issuer of OpenID Connect tokens that listens on a local address.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64_URL;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, KeyPair};
use ring::rand::SystemRandom;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    RsaEncoding, RsaKeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// The response to a request for a document.
#[derive(Clone)]
pub(crate) enum Document {
    Json(Value),
    Text(u16, &'static str),
    Redirect(String),
    /// Never responds.
    Hang,
    /// Sends a body without an end.
    Endless,
}

type Documents = Arc<Mutex<HashMap<String, Document>>>;

/// The issuer, its documents by path, and the paths of the requests so far.
pub(crate) struct Issuer {
    pub(crate) address: SocketAddr,
    pub(crate) authority: String,
    documents: Documents,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Issuer {
    /// Starts an issuer that publishes `keys`.
    pub(crate) async fn start(keys: &[&Key]) -> Self {
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned()];
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
        let (documents, requests) = (Documents::default(), Arc::<Mutex<Vec<String>>>::default());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let task = tokio::spawn(accept(listener, acceptor, documents.clone(), requests.clone()));
        let issuer = Self {
            address,
            authority: certificate.pem(),
            documents,
            requests,
            task,
        };
        let discovery = json!({"issuer": issuer.url(), "jwks_uri": format!("{}/keys", issuer.url())});
        issuer.set("/.well-known/openid-configuration", Document::Json(discovery));
        issuer.set_keys(keys);
        issuer
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    pub(crate) fn set(&self, path: &str, document: Document) {
        self.documents.lock().unwrap().insert(path.to_owned(), document);
    }

    pub(crate) fn set_keys(&self, keys: &[&Key]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
        self.set("/keys", Document::Json(json!({"keys": keys})));
    }

    /// Returns the number of requests for a path so far.
    pub(crate) fn count(&self, path: &str) -> usize {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|requested| *requested == path).count()
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    documents: Documents,
    requests: Arc<Mutex<Vec<String>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, documents, requests) = (acceptor.clone(), documents.clone(), requests.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request: Request<Incoming>| {
                let path = request.uri().path().to_owned();
                let document = documents.lock().unwrap().get(&path).cloned();
                requests.lock().unwrap().push(path);
                answer(document)
            });
            // A client that disconnects causes an error of its connection.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

type Body = BoxBody<Bytes, Infallible>;

async fn answer(document: Option<Document>) -> Result<Response<Body>, Infallible> {
    let full = |text: String| Full::<Bytes>::from(text).boxed();
    let response = Response::builder().header("content-type", "application/json");
    let (response, body) = match document {
        None => (response.status(404), full(String::new())),
        Some(Document::Json(value)) => (response, full(value.to_string())),
        Some(Document::Text(code, text)) => (response.status(code), full(text.to_owned())),
        Some(Document::Redirect(location)) => (
            response.status(302).header("location", location),
            full(String::new()),
        ),
        Some(Document::Hang) => std::future::pending().await,
        Some(Document::Endless) => {
            let part = || Ok(Frame::data(Bytes::from_static(&[b' '; 65536])));
            (
                response,
                StreamBody::new(futures::stream::repeat_with(part)).boxed(),
            )
        }
    };
    Ok(response.body(body).unwrap())
}

/// A key that signs tokens.
pub(crate) struct Key {
    pub(crate) id: &'static str,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair),
    Elliptic(EcdsaKeyPair, &'static str),
}

impl Key {
    pub(crate) fn rsa(id: &'static str) -> Self {
        let der = PrivateKeyDer::from_pem_slice(include_bytes!("issuer-key.pem")).unwrap();
        let pair = RsaKeyPair::from_pkcs8(der.secret_der()).unwrap();
        Self {
            id,
            pair: Pair::Rsa(pair),
        }
    }

    pub(crate) fn elliptic(id: &'static str, curve: &'static str) -> Self {
        let algorithm = match curve {
            "P-256" => &ECDSA_P256_SHA256_FIXED_SIGNING,
            _ => &ECDSA_P384_SHA384_FIXED_SIGNING,
        };
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, der.as_ref(), &random).unwrap();
        Self {
            id,
            pair: Pair::Elliptic(pair, curve),
        }
    }

    fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Rsa(pair) => {
                let public: signature::RsaPublicKeyComponents<Vec<u8>> = pair.public().into();
                json!({
                    "kty": "RSA", "kid": self.id, "use": "sig",
                    "n": BASE64_URL.encode(public.n), "e": BASE64_URL.encode(public.e),
                })
            }
            Pair::Elliptic(pair, curve) => {
                let point = pair.public_key().as_ref();
                let (x, y) = point[1..].split_at((point.len() - 1) / 2);
                json!({
                    "kty": "EC", "kid": self.id, "crv": curve,
                    "x": BASE64_URL.encode(x), "y": BASE64_URL.encode(y),
                })
            }
        }
    }

    /// Returns a token with this header and these claims.
    pub(crate) fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| BASE64_URL.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let padding: &'static dyn RsaEncoding = match header["alg"].as_str().unwrap() {
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "PS384" => &signature::RSA_PSS_SHA384,
                    "PS512" => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &random, message.as_bytes(), &mut signature)
                    .unwrap();
                signature
            }
            Pair::Elliptic(pair, _) => pair.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{message}.{}", BASE64_URL.encode(signature))
    }

    pub(crate) fn sign(&self, algorithm: &str, claims: &Value) -> String {
        self.sign_with(&json!({"alg": algorithm, "kid": self.id}), claims)
    }
}
