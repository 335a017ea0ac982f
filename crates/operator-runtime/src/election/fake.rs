//! A fake server of a few objects with resource versions, for tests of elections. Connections of single clients can be
//! cut.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::service_fn;

#[derive(Clone, Default)]
pub(super) struct Server {
    state: Arc<Mutex<State>>,
    changes: Arc<watch::Sender<()>>,
}

#[derive(Default)]
struct State {
    revision: u64,
    /// By name only, because the names in the tests are unique.
    objects: BTreeMap<String, Value>,
    refused: BTreeSet<String>,
}

// === impl Server ===

impl Server {
    pub(super) fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    pub(super) fn object(&self, name: &str) -> Option<Value> {
        self.state.lock().objects.get(name).cloned()
    }

    pub(super) fn put(&self, mut object: Value) {
        let mut state = self.state.lock();
        state.revision += 1;
        object["metadata"]["resourceVersion"] = state.revision.to_string().into();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        state.objects.insert(name, object);
        drop(state);
        self.changes.send_replace(());
    }

    pub(super) fn remove(&self, name: &str) {
        self.state.lock().objects.remove(name);
        self.changes.send_replace(());
    }

    /// Changes an object as another client and returns its new version.
    pub(super) fn edit(&self, name: &str, edit: impl FnOnce(&mut Value)) -> u64 {
        let mut object = self.object(name).unwrap();
        edit(&mut object);
        self.put(object);
        self.version(name)
    }

    /// Waits until the object is written after `version`.
    pub(super) async fn changed_after(&self, name: &str, version: u64) {
        let mut changes = self.changes.subscribe();
        while self.version(name) <= version {
            changes.changed().await.unwrap();
        }
    }

    /// Answers later writes that contain this text with 503.
    pub(super) fn refuse(&self, text: &str) {
        self.state.lock().refused.insert(text.to_owned());
    }

    fn version(&self, name: &str) -> u64 {
        let object = self.object(name).unwrap();
        object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    }

    async fn answer(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let sent: Option<Value> = serde_json::from_slice(&body).ok();
        let last = parts.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
        if self
            .state
            .lock()
            .refused
            .iter()
            .any(|text| sent.as_ref().is_some_and(|sent| sent.to_string().contains(text)))
        {
            return status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
        }
        match (parts.method, sent) {
            (Method::GET, _) => match self.object(&last) {
                Some(object) => answer(StatusCode::OK, &object),
                None => status(StatusCode::NOT_FOUND, "NotFound"),
            },
            (Method::POST, Some(object)) => self.write(object, false),
            (Method::PUT, Some(object)) => self.write(object, true),
            (Method::DELETE, _) if self.object(&last).is_some() => {
                self.remove(&last);
                answer(
                    StatusCode::OK,
                    &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
                )
            }
            _ => status(StatusCode::NOT_FOUND, "NotFound"),
        }
    }

    fn write(&self, object: Value, replaces: bool) -> Response<Full<Bytes>> {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let stored = self.object(&name);
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        match &stored {
            Some(stored) if replaces && version(stored) == version(&object) => {}
            None if !replaces => {}
            Some(_) => return status(StatusCode::CONFLICT, "Conflict"),
            None => return status(StatusCode::NOT_FOUND, "NotFound"),
        }
        self.put(object);
        answer(StatusCode::OK, &self.object(&name).unwrap())
    }
}

fn answer(code: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    Response::builder()
        .status(code)
        .body(Full::from(body.to_string()))
        .unwrap()
}

fn status(code: StatusCode, reason: &str) -> Response<Full<Bytes>> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason,
                      "code": code.as_u16()});
    answer(code, &body)
}
