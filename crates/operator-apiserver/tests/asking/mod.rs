//! Sends requests to a server in the process, for tests of statuses and warnings.
#![allow(dead_code, reason = "not every test uses all of it")]

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt;

/// The response of a server.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn is_refused(&self, code: u16, why: &str) {
        assert_eq!(self.code, code, "{}", self.body);
        assert!(
            self.message().ends_with(why),
            "{} does not end with {why}",
            self.message()
        );
    }

    #[track_caller]
    pub(crate) fn is_done(&self) {
        assert!(self.code < 300, "{}", self.body);
    }
}

pub(crate) async fn send(
    server: &ApiServer,
    method: Method,
    path: &str,
    media: &str,
    body: &Value,
) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let warnings = parts.headers.get_all("warning").iter();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer {
        code: parts.status.as_u16(),
        warnings: warnings.map(|text| text.to_str().unwrap().to_owned()).collect(),
        body: serde_json::from_slice(&bytes).unwrap(),
    }
}

pub(crate) async fn post(server: &ApiServer, path: &str, body: Value) -> Answer {
    send(server, Method::POST, path, "application/json", &body).await
}

pub(crate) async fn merge(server: &ApiServer, path: &str, body: Value) -> Answer {
    send(server, Method::PATCH, path, "application/merge-patch+json", &body).await
}

pub(crate) async fn delete(server: &ApiServer, path: &str) -> Answer {
    send(server, Method::DELETE, path, "application/json", &json!({})).await
}

pub(crate) async fn get(server: &ApiServer, path: &str) -> Answer {
    send(server, Method::GET, path, "application/json", &Value::Null).await
}
