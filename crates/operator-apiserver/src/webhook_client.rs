//! Calls to the webhooks of admission and of conversion: JSON over HTTPS, with errors in the words of the real client.
//!
//! A webhook is named by a URL or by a Service. A Service leads where [`Routes`] say; else to its external name, or to
//! the first of its endpoints.

mod failure;
mod trust;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, RwLock};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::object;
use crate::registry::Registry;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Connections that are kept for the next call, for each webhook.
const IDLE_MAX: usize = 4;

/// Where Services lead, for those who have no network of pods.
#[derive(Debug, Default)]
pub(crate) struct Routes(RwLock<HashMap<(String, String), SocketAddr>>);

impl Routes {
    pub(crate) fn set(&self, namespace: &str, name: &str, address: SocketAddr) {
        let key = (namespace.to_owned(), name.to_owned());
        self.0.write().insert(key, address);
    }

    fn get(&self, namespace: &str, name: &str) -> Option<SocketAddr> {
        let key = (namespace.to_owned(), name.to_owned());
        self.0.read().get(&key).copied()
    }
}

/// Why a call brought no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The webhook is configured in a way that nobody can be called.
    #[error("could not get REST client: {0}")]
    Configuration(String),
    /// Nobody answered, or not with what was asked for.
    #[error("failed to call webhook: {0}")]
    Failed(String),
}

impl CallError {
    /// The text without what admission puts in front of it.
    pub(crate) fn why(&self) -> &str {
        let (Self::Configuration(why) | Self::Failed(why)) = self;
        why
    }
}

/// Who is called.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    /// Host and port as they stand in the URL.
    authority: String,
    host: String,
    port: u16,
    path: String,
    /// Namespace and name of the Service that is called.
    service: Option<(String, String)>,
}

/// One webhook that can be called, with its connections.
#[derive(Debug)]
pub(crate) struct WebhookClient {
    target: Target,
    tls: Result<Arc<ClientConfig>, String>,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl WebhookClient {
    /// Reads a `clientConfig`.
    pub(crate) fn new(config: &Value) -> Self {
        Self {
            target: Target::read(config),
            tls: trust::client_config(&bundle(config)),
            idle: Mutex::default(),
        }
    }

    /// Sends a review and reads the answer, within a time.
    pub(crate) async fn post(
        &self,
        registry: &Registry,
        user_agent: &str,
        review: &Value,
        timeout: Duration,
    ) -> Result<Value, CallError> {
        let tls = self.tls.clone().map_err(CallError::Configuration)?;
        let path = format!("{}?timeout={}s", self.target.path, timeout.as_secs());
        let shown = format!("https://{}{path}", self.target.authority);
        let request = Request::builder()
            .method(Method::POST)
            .uri(&path)
            .header(HOST, &self.target.authority)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, user_agent)
            .body(Full::new(Bytes::from(review.to_string())))
            .map_err(|error| CallError::Configuration(error.to_string()))?;
        let answer = tokio::time::timeout(timeout, self.exchange(registry, tls, request)).await;
        let answer = answer.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        let (code, body) = answer.map_err(|why| CallError::Failed(format!("Post {shown:?}: {why}")))?;
        failure::read_answer(code, &body).map_err(CallError::Failed)
    }

    async fn exchange(
        &self,
        registry: &Registry,
        tls: Arc<ClientConfig>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(u16, Bytes), String> {
        // A connection that the other side has closed meanwhile gives the request back unsent.
        while let Some(mut sender) = self.take_idle() {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return self.finish(sender, response).await,
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(failure::of_http(error.error())),
                },
            }
        }
        let mut sender = self.connect(registry, tls).await?;
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| failure::of_http(&error))?;
        self.finish(sender, response).await
    }

    fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        self.idle.lock().pop()
    }

    async fn finish(
        &self,
        sender: SendRequest<Full<Bytes>>,
        response: Response<hyper::body::Incoming>,
    ) -> Result<(u16, Bytes), String> {
        let code = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await;
        let body = body.map_err(|error| failure::of_body(&*error))?.to_bytes();
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX && !sender.is_closed() {
            idle.push(sender);
        }
        Ok((code, body))
    }

    async fn connect(
        &self,
        registry: &Registry,
        tls: Arc<ClientConfig>,
    ) -> Result<SendRequest<Full<Bytes>>, String> {
        let (host, port) = self.target.resolve(registry)?;
        let stream = TcpStream::connect((host.as_str(), port))
            .await
            .map_err(|error| failure::of_dial(&host, port, &error))?;
        // Small requests that wait for an answer: nothing is gained by waiting for more to send.
        let _ = stream.set_nodelay(true);
        let name = ServerName::try_from(self.target.host.clone())
            .map_err(|_| format!("invalid server name {:?}", self.target.host))?;
        let stream = TlsConnector::from(tls)
            .connect(name, stream)
            .await
            .map_err(|error| failure::of_tls(&error))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failure::of_http(&error))?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

fn bundle(config: &Value) -> Vec<u8> {
    let text = object::text(config, &["caBundle"]);
    BASE64_STANDARD.decode(text).unwrap_or_default()
}

impl Target {
    fn read(config: &Value) -> Self {
        match config.get("service").filter(|service| service.is_object()) {
            Some(service) => Self::of_service(service),
            None => Self::of_url(object::text(config, &["url"])),
        }
    }

    fn of_url(url: &str) -> Self {
        let rest = url.strip_prefix("https://").unwrap_or(url);
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(443)),
            _ => (authority, 443),
        };
        Self {
            authority: authority.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            path: path.to_owned(),
            service: None,
        }
    }

    fn of_service(service: &Value) -> Self {
        let namespace = object::text(service, &["namespace"]);
        let name = object::text(service, &["name"]);
        let port = service.get("port").and_then(Value::as_u64).unwrap_or(443);
        let path = object::text(service, &["path"]);
        let host = format!("{name}.{namespace}.svc");
        Self {
            authority: format!("{host}:{port}"),
            host,
            port: u16::try_from(port).unwrap_or(443),
            path: if path.is_empty() { "/" } else { path }.to_owned(),
            service: Some((namespace.to_owned(), name.to_owned())),
        }
    }

    /// The host and port to connect to.
    fn resolve(&self, registry: &Registry) -> Result<(String, u16), String> {
        let Some((namespace, name)) = &self.service else {
            return Ok((self.host.clone(), self.port));
        };
        if let Some(address) = registry.routes.get(namespace, name) {
            return Ok((address.ip().to_string(), address.port()));
        }
        let key = format!("{namespace}/{name}");
        let Some(service) = registry.store.get("services", &key) else {
            return Err(format!("service {name:?} not found"));
        };
        let service = &service.value;
        let ports = object::get(service, &["spec", "ports"]).and_then(Value::as_array);
        let mut ports = ports.into_iter().flatten();
        let Some(port) = ports.find(|port| port.get("port") == Some(&self.port.into())) else {
            return Err(format!(
                "no service port {} found for service {name:?}",
                self.port
            ));
        };
        if object::text(service, &["spec", "type"]) == "ExternalName" {
            let host = object::text(service, &["spec", "externalName"]);
            return Ok((host.to_owned(), self.port));
        }
        let endpoints = registry.store.get("endpoints", &key);
        endpoints
            .and_then(|endpoints| endpoint(&endpoints.value, object::text(port, &["name"])))
            .ok_or_else(|| format!("no endpoints available for service {name:?}"))
    }
}

/// The first ready address of Endpoints, and the port of a name.
fn endpoint(endpoints: &Value, name: &str) -> Option<(String, u16)> {
    let subsets = endpoints.get("subsets")?.as_array()?;
    subsets.iter().find_map(|subset| {
        let ip = object::text(subset.get("addresses")?.get(0)?, &["ip"]);
        let mut ports = subset.get("ports")?.as_array()?.iter();
        let port = ports.find(|port| object::text(port, &["name"]) == name)?;
        let port = u16::try_from(port.get("port")?.as_u64()?).ok()?;
        Some((ip.to_owned(), port))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_url_or_a_service_says_who_is_called() {
        for (config, authority, host, port, path) in [
            (
                json!({"url": "https://hook.example.com/a/b"}),
                "hook.example.com",
                "hook.example.com",
                443,
                "/a/b",
            ),
            (
                json!({"url": "https://[::1]:9443"}),
                "[::1]:9443",
                "::1",
                9443,
                "/",
            ),
            (
                json!({"service": {"namespace": "n", "name": "s", "path": "/x", "port": 8443}}),
                "s.n.svc:8443",
                "s.n.svc",
                8443,
                "/x",
            ),
        ] {
            let target = Target::read(&config);
            assert_eq!(
                (
                    target.authority.as_str(),
                    target.host.as_str(),
                    target.port,
                    target.path.as_str()
                ),
                (authority, host, port, path)
            );
        }
    }
}
