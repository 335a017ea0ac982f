//! Calls to admission and conversion webhooks: JSON over HTTPS, with the errors of the real client.
//!
//! A webhook has a URL or a Service. The address of a Service is taken from [`Routes`], or else from its external name,
//! or from its first endpoint.

pub(crate) mod extension;
mod failure;
mod https_client;
mod kubeconfig;
mod review;
mod target;
mod trust;

use std::collections::HashMap;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, RwLock};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub(crate) use self::https_client::HttpsClient;
pub(crate) use self::kubeconfig::WebhookCredentials;
use self::target::Target;
pub(crate) use self::target::endpoint_of;
pub(crate) use self::trust::client_config;
use crate::store::Store;
use apimachinery::object;

/// The maximum length of a response.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The maximum number of idle connections of each webhook.
const IDLE_MAX: usize = 4;

/// The maximum number of requests in one call, including redirects.
const REDIRECTS_MAX: u32 = 10;

/// The addresses of Services, for servers without a pod network.
#[derive(Debug, Default)]
pub(crate) struct Routes(RwLock<HashMap<(String, String), SocketAddr>>);

impl Routes {
    pub(crate) fn set(&self, namespace: &str, name: &str, address: SocketAddr) {
        let key = (namespace.to_owned(), name.to_owned());
        self.0.write().insert(key, address);
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<SocketAddr> {
        let key = (namespace.to_owned(), name.to_owned());
        self.0.read().get(&key).copied()
    }
}

/// The local addresses of pods that run as local processes.
#[derive(Debug, Default)]
pub(crate) struct PodRoutes(RwLock<HashMap<IpAddr, IpAddr>>);

impl PodRoutes {
    pub(crate) fn set(&self, pod: IpAddr, local: Option<IpAddr>) {
        let mut routes = self.0.write();
        match local {
            Some(local) => drop(routes.insert(pod, local)),
            None => drop(routes.remove(&pod)),
        }
    }

    /// Returns the address to connect to for a pod.
    pub(crate) fn resolve(&self, pod: SocketAddr) -> SocketAddr {
        let local = self.0.read().get(&pod.ip()).copied();
        local.map_or(pod, |local| SocketAddr::new(local, pod.port()))
    }
}

/// Finds the addresses of Services.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) store: Arc<Store>,
    pub(crate) routes: Routes,
    pub(crate) pods: PodRoutes,
}

impl Services {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            routes: Routes::default(),
            pods: PodRoutes::default(),
        }
    }
}

/// The reason why a call returned no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The configuration of the webhook is invalid.
    #[error("could not get REST client: {0}")]
    Configuration(String),
    /// The call failed, or its response is invalid.
    #[error("failed to call webhook: {0}")]
    Failed(String),
}

impl CallError {
    /// Returns the reason, without the prefix that admission adds.
    pub(crate) fn why(&self) -> &str {
        let (Self::Configuration(why) | Self::Failed(why)) = self;
        why
    }
}

/// A webhook client with its connections.
#[derive(Debug)]
pub(crate) struct WebhookClient {
    target: Target,
    tls: Result<Arc<ClientConfig>, String>,
    /// The value of the `Authorization` header, if there is one.
    authorization: Option<String>,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    answer_bytes_max: usize,
}

impl WebhookClient {
    /// Reads a `clientConfig`.
    pub(crate) fn new(config: &Value) -> Self {
        Self::with_credentials(config, &WebhookCredentials::default())
    }

    /// Reads a `clientConfig`, and takes the credentials for its host.
    pub(crate) fn with_credentials(config: &Value, credentials: &WebhookCredentials) -> Self {
        let target = Target::read(config);
        let user = credentials.of(&target.host, target.port, target.service.is_some());
        Self {
            tls: client_config(&bundle(config), user.identity(), false),
            target,
            authorization: user.authorization,
            idle: Mutex::default(),
            answer_bytes_max: ANSWER_BYTES_MAX,
        }
    }

    /// Reads a kubeconfig: the server of its current context, with the credentials of the user.
    ///
    /// # Errors
    /// Returns an error if the kubeconfig is invalid.
    pub(crate) fn from_kubeconfig(text: &str) -> Result<Self, String> {
        let access = kubeconfig::read(text)?;
        Ok(Self {
            target: Target::of_server(&access.server)?,
            tls: Ok(client_config(&access.authorities, access.user.identity(), false)?),
            authorization: access.user.authorization,
            idle: Mutex::default(),
            answer_bytes_max: ANSWER_BYTES_MAX,
        })
    }

    /// Sends a body, and returns the status code and the body of the response.
    pub(crate) async fn send(
        &self,
        services: &Services,
        user_agent: &str,
        body: String,
        timeout: Duration,
    ) -> Result<(u16, Bytes), CallError> {
        let tls = self.tls.clone().map_err(CallError::Configuration)?;
        let sent = Sent {
            user_agent,
            authorization: self.authorization.as_deref(),
            body: Bytes::from(body),
            has_body: true,
            tls,
        };
        let answer = tokio::time::timeout(timeout, self.follow(services, self.target.clone(), &sent)).await;
        let answer = answer.unwrap_or_else(|_| Err(Broken::at(&self.target, "context deadline exceeded")));
        let answer =
            answer.map_err(|broken| CallError::Failed(format!("Post {:?}: {}", broken.url, broken.why)))?;
        Ok((answer.code, answer.body))
    }

    /// Sends a review and parses the response, which is a review of the same version and kind.
    pub(crate) async fn post(
        &self,
        services: &Services,
        user_agent: &str,
        review: &Value,
        timeout: Duration,
    ) -> Result<Value, CallError> {
        let tls = self.tls.clone().map_err(CallError::Configuration)?;
        let mut target = self.target.clone();
        // Webhooks receive the timeout in whole seconds, rounded up.
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        if seconds > 0 {
            target.path = format!("{}?timeout={seconds}s", target.path);
        }
        let sent = Sent {
            user_agent,
            authorization: self.authorization.as_deref(),
            body: Bytes::from(review.to_string()),
            has_body: true,
            tls,
        };
        let answer = tokio::time::timeout(timeout, self.follow(services, target.clone(), &sent)).await;
        let answer = answer.unwrap_or_else(|_| Err(Broken::at(&target, "context deadline exceeded")));
        let answer = answer.map_err(|broken| {
            let Broken { url, why } = broken;
            CallError::Failed(format!("Post {url:?}: {why}"))
        })?;
        failure::read_answer(&answer, review).map_err(CallError::Failed)
    }

    /// Sends the review, and follows redirects as Go's client does: 307 and 308 repeat the request, others change it to
    /// a GET.
    async fn follow(
        &self,
        services: &Services,
        mut target: Target,
        sent: &Sent<'_>,
    ) -> Result<Answered, Broken> {
        let (mut repeats, mut redirects) = (sent.has_body, 0);
        loop {
            let at = |why: &dyn Display| Broken::at(&target, why);
            let request = sent.request(&target, repeats).map_err(|error| at(&error))?;
            // Boxed because the future is large, and would be part of that of each request that may call a webhook.
            let answer = Box::pin(self.exchange(services, &target, sent.tls.clone(), request)).await;
            let answer = answer.map_err(|why| at(&why))?;
            let Some(location) = answer.location.clone().filter(|location| !location.is_empty()) else {
                return Ok(answer);
            };
            redirects += 1;
            if redirects >= REDIRECTS_MAX {
                return Err(Broken {
                    url: location,
                    why: format!("stopped after {REDIRECTS_MAX} redirects"),
                });
            }
            repeats &= matches!(answer.code, 307 | 308);
            target = target
                .redirected(&location)
                .map_err(|why| Broken { url: location, why })?;
        }
    }

    async fn exchange(
        &self,
        services: &Services,
        target: &Target,
        tls: Arc<ClientConfig>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Answered, String> {
        let is_own = target.authority == self.target.authority;
        // A connection that the other side has closed returns the request without sending it.
        while is_own && let Some(mut sender) = self.take_idle() {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return self.finish(Some(sender), response).await,
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(failure::of_http(error.error())),
                },
            }
        }
        let mut sender = connect(services, target, tls).await?;
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| failure::of_http(&error))?;
        self.finish(is_own.then_some(sender), response).await
    }

    fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        self.idle.lock().pop()
    }

    /// Reads a response, and keeps the connection for the next call.
    async fn finish(
        &self,
        sender: Option<SendRequest<Full<Bytes>>>,
        response: Response<hyper::body::Incoming>,
    ) -> Result<Answered, String> {
        let code = response.status().as_u16();
        let is_redirect = matches!(code, 301 | 302 | 303 | 307 | 308);
        let location = response.headers().get(LOCATION).filter(|_| is_redirect);
        let location = location.map(|location| String::from_utf8_lossy(location.as_bytes()).into_owned());
        let media = response.headers().get(CONTENT_TYPE);
        let is_text = media.is_none_or(|media| media.as_bytes().starts_with(b"text/"));
        let body = Limited::new(response.into_body(), self.answer_bytes_max)
            .collect()
            .await;
        let body = body.map_err(|error| failure::of_body(&*error))?.to_bytes();
        if let Some(sender) = sender.filter(|sender| !sender.is_closed()) {
            let mut idle = self.idle.lock();
            if idle.len() < IDLE_MAX {
                idle.push(sender);
            }
        }
        Ok(Answered {
            code,
            location,
            is_text,
            body,
        })
    }
}

/// The content of each request of a call.
struct Sent<'a> {
    user_agent: &'a str,
    authorization: Option<&'a str>,
    body: Bytes,
    /// True for a POST with the body; false for a GET.
    has_body: bool,
    tls: Arc<ClientConfig>,
}

impl Sent<'_> {
    /// Returns the request with the review, or the GET request after a redirect.
    fn request(&self, target: &Target, with_review: bool) -> http::Result<Request<Full<Bytes>>> {
        let mut builder = Request::builder()
            .uri(&target.path)
            .header(HOST, &target.authority)
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, self.user_agent);
        if let Some(authorization) = self.authorization {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        if !with_review {
            return builder.method(Method::GET).body(Full::default());
        }
        builder
            .method(Method::POST)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(self.body.clone()))
    }
}

/// One response.
struct Answered {
    code: u16,
    /// The target of a redirect.
    location: Option<String>,
    /// True if errors may quote the body: it is plain text.
    is_text: bool,
    body: Bytes,
}

/// A request without a response.
struct Broken {
    url: String,
    why: String,
}

impl Broken {
    fn at(target: &Target, why: impl Display) -> Self {
        Self {
            url: target.url(),
            why: why.to_string(),
        }
    }
}

async fn connect(
    services: &Services,
    target: &Target,
    tls: Arc<ClientConfig>,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let (host, port) = target.resolve(services)?;
    let stream = TcpStream::connect((host.as_str(), port))
        .await
        .map_err(|error| failure::of_dial(&host, port, &error))?;
    // Disable Nagle's algorithm: the requests are small and wait for a response.
    let _ = stream.set_nodelay(true);
    if !target.secure {
        return converse(stream).await;
    }
    let name = ServerName::try_from(target.host.clone())
        .map_err(|_| format!("invalid server name {:?}", target.host))?;
    let stream = TlsConnector::from(tls)
        .connect(name, stream)
        .await
        .map_err(|error| failure::of_tls(&error))?;
    converse(stream).await
}

async fn converse<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failure::of_http(&error))?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Returns the `caBundle` of a configuration.
pub(crate) fn bundle(config: &Value) -> Vec<u8> {
    let text = object::text(config, &["caBundle"]);
    BASE64_STANDARD.decode(text).unwrap_or_default()
}
