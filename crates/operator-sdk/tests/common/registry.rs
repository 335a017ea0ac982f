//! An image registry in this process. It implements the part of the distribution API that pushes and pulls use, with
//! tokens.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// The pushed content: blobs by `repository@digest`, manifests by `repository:tag`, and the requests in order.
#[derive(Default)]
pub struct Stored {
    pub blobs: BTreeMap<String, Bytes>,
    pub manifests: BTreeMap<String, Bytes>,
    pub requests: Vec<String>,
}

pub struct Registry {
    pub host: String,
    pub stored: Arc<Mutex<Stored>>,
    _runtime: tokio::runtime::Runtime,
}

/// `me:secret` in base64.
pub const AUTH: &str = "bWU6c2VjcmV0";
const TOKEN: &str = "Bearer the-token";

impl Registry {
    pub fn start() -> Self {
        Self::start_with(true)
    }

    /// Starts a registry that needs no token.
    pub fn anonymous() -> Self {
        Self::start_with(false)
    }

    fn start_with(needs_token: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let stored = Arc::new(Mutex::new(Stored::default()));
        runtime.spawn(accept(listener, host.clone(), stored.clone(), needs_token));
        Self {
            host,
            stored,
            _runtime: runtime,
        }
    }
}

async fn accept(listener: TcpListener, host: String, stored: Arc<Mutex<Stored>>, needs_token: bool) {
    while let Ok((stream, _)) = listener.accept().await {
        let (host, stored) = (host.clone(), stored.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (host, stored) = (host.clone(), stored.clone());
            async move { Ok::<_, Infallible>(answer(request, &host, &stored, needs_token).await) }
        });
        tokio::spawn(async move {
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn plain(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_owned())));
    *response.status_mut() = status;
    response
}

async fn answer(
    request: Request<Incoming>,
    host: &str,
    stored: &Mutex<Stored>,
    needs_token: bool,
) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    let path = parts.uri.path().to_owned();
    let authorization = parts
        .headers
        .get("authorization")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut stored = stored.lock().unwrap();
    stored.requests.push(format!("{} {path}", parts.method));
    if path == "/token" {
        let granted = authorization == format!("Basic {AUTH}")
            && parts
                .uri
                .query()
                .and_then(|query| query.strip_prefix("service=test&scope=repository%3Ateam%2Fop%3Apull"))
                .is_some_and(|access| ["", "%2Cpush"].contains(&access));
        return if granted {
            plain(StatusCode::OK, r#"{"token":"the-token"}"#)
        } else {
            plain(StatusCode::UNAUTHORIZED, "{}")
        };
    }
    if needs_token && authorization != TOKEN {
        let mut response = plain(StatusCode::UNAUTHORIZED, "{}");
        let challenge =
            format!(r#"Bearer realm="http://{host}/token",service="test",scope="repository:team/op:pull""#);
        response
            .headers_mut()
            .insert("www-authenticate", challenge.parse().unwrap());
        return response;
    }
    let Some(rest) = path.strip_prefix("/v2/team/op/") else {
        return plain(
            StatusCode::NOT_FOUND,
            r#"{"errors":[{"code":"NAME_UNKNOWN","message":"no such repository"}]}"#,
        );
    };
    match (&parts.method, rest.split_once('/')) {
        (&Method::HEAD, Some(("blobs", digest))) if stored.blobs.contains_key(digest) => {
            plain(StatusCode::OK, "")
        }
        // Blobs are in another storage, as in large registries.
        (&Method::GET, Some(("blobs", digest))) if stored.blobs.contains_key(digest) => {
            let mut response = plain(StatusCode::TEMPORARY_REDIRECT, "");
            let location = format!("/v2/team/op/storage/{digest}");
            response
                .headers_mut()
                .insert("location", location.parse().unwrap());
            response
        }
        (&Method::GET, Some(("storage", digest))) => Response::new(Full::new(stored.blobs[digest].clone())),
        (&Method::GET, Some(("manifests", name))) => {
            let by_digest = |manifest: &&Bytes| super::digest(manifest) == name;
            let found = stored.manifests.get(name);
            match found.or_else(|| stored.manifests.values().find(by_digest)) {
                Some(manifest) => Response::new(Full::new(manifest.clone())),
                None => plain(
                    StatusCode::NOT_FOUND,
                    r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#,
                ),
            }
        }
        (&Method::POST, Some(("blobs", "uploads/"))) => {
            let mut response = plain(StatusCode::ACCEPTED, "");
            response
                .headers_mut()
                .insert("location", "/v2/team/op/blobs/uploads/1?state=x".parse().unwrap());
            response
        }
        (&Method::PUT, Some(("blobs", "uploads/1"))) => {
            let query = parts.uri.query().unwrap_or_default();
            let digest = query
                .strip_prefix("state=x&digest=")
                .unwrap_or_default()
                .to_owned();
            if digest != super::digest(&body) {
                return plain(
                    StatusCode::BAD_REQUEST,
                    r#"{"errors":[{"message":"the digest is another"}]}"#,
                );
            }
            stored.blobs.insert(digest, body);
            plain(StatusCode::CREATED, "")
        }
        (&Method::PUT, Some(("manifests", tag))) => {
            stored.manifests.insert(tag.to_owned(), body);
            plain(StatusCode::CREATED, "")
        }
        _ => plain(StatusCode::NOT_FOUND, "{}"),
    }
}
