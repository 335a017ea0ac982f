//! [`Interceptor`] makes requests fail, delays them, or drops their responses.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;

use crate::record::{AccessRequest, request_of};

/// Intercepts the requests between an operator and the API server: a function of the test decides the outcome of each.
/// It corresponds to controller-runtime's `interceptor.Funcs`.
///
/// ```
/// # use operator_envtest::TestEnv;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::Api;
/// use kube::api::PostParams;
/// use operator_envtest::{Interceptor, Then};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let env = TestEnv::start().await?;
/// // The first creation of a ConfigMap fails, as on an overloaded server.
/// let failed = AtomicBool::new(false);
/// let interceptor = Interceptor::new(move |call| {
///     if call.is("create", "configmaps") && !failed.swap(true, Ordering::Relaxed) {
///         return Then::fail(500, "InternalError", "etcdserver: leader changed");
///     }
///     Then::Proceed
/// });
/// let client = interceptor.client(env.client());
///
/// let configs: Api<ConfigMap> = Api::default_namespaced(client);
/// let mut config = ConfigMap::default();
/// config.metadata.name = Some("a".to_owned());
/// let error = configs.create(&PostParams::default(), &config).await.unwrap_err();
/// assert!(error.to_string().contains("leader changed"));
/// configs.create(&PostParams::default(), &config).await?;
/// assert_eq!(interceptor.count("create", "configmaps"), 2);
/// env.stop().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Interceptor {
    hook: Arc<dyn Fn(&Call) -> Then + Send + Sync>,
    calls: Arc<Mutex<Vec<Call>>>,
}

/// A request with its RBAC attributes.
///
/// ```
/// use operator_envtest::Call;
///
/// /// Returns true for a write.
/// fn writes(call: &Call) -> bool {
///     !matches!(call.verb.as_str(), "get" | "list" | "watch")
/// }
/// # let _ = writes;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`; the method in lower case
    /// for paths without a resource, such as `/version`.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, such as `deployments`. Empty for other paths.
    pub resource: String,
    /// The subresource, such as `status`. Empty without one.
    pub subresource: String,
    /// The namespace. Empty without one.
    pub namespace: String,
    /// The name of the object. Empty without one.
    pub name: String,
    /// The path.
    pub path: String,
    /// The query string.
    pub query: String,
}

/// The outcome of an intercepted request.
///
/// ```
/// use operator_envtest::{Interceptor, Then};
///
/// let slow_writes = Interceptor::new(|call| match call.verb.as_str() {
///     "get" | "list" | "watch" => Then::Proceed,
///     _ => Then::Delay(std::time::Duration::from_millis(50)),
/// });
/// # let _ = slow_writes;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Then {
    /// Sends it to the server.
    Proceed,
    /// Sends it to the server after a delay.
    Delay(Duration),
    /// Answers with this status, without the server.
    Fail(Box<Status>),
    /// Answers with this object or list, without the server.
    Answer(Value),
    /// Sends it to the server, and breaks the connection before the response.
    LoseAnswer,
}

type BoxError = Box<dyn Error + Send + Sync>;

// === impl Interceptor ===

impl Interceptor {
    /// Creates an interceptor that calls `hook` for each request when it is sent. The function must not block.
    ///
    /// ```
    /// use operator_envtest::{Interceptor, Then};
    ///
    /// let silent = Interceptor::new(|_| Then::Proceed);
    /// assert!(silent.calls().is_empty());
    /// ```
    pub fn new(hook: impl Fn(&Call) -> Then + Send + Sync + 'static) -> Self {
        Self {
            hook: Arc::new(hook),
            calls: Arc::default(),
        }
    }

    /// Returns a client that sends its requests through `client` after calling the hook, including the lists and
    /// watches of a cache.
    ///
    /// ```
    /// # use operator_envtest::{Call, Interceptor, TestEnv, Then};
    /// # use kube::Api;
    /// # use k8s_openapi::api::core::v1::Namespace;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let env = TestEnv::start().await?;
    /// let interceptor = Interceptor::new(|_| Then::Proceed);
    /// let namespaces: Api<Namespace> = Api::all(interceptor.client(env.client()));
    /// namespaces.get("default").await?;
    /// assert_eq!((interceptor.count("get", "namespaces"), interceptor.calls()[0].name.as_str()), (1, "default"));
    /// # env.stop().await;
    /// # Ok(()) }
    /// ```
    pub fn client(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let interceptor = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, call) = (client.clone(), Call::of(&request));
            let then = (interceptor.hook)(&call);
            interceptor.lock().push(call);
            async move { follow(then, client, request).await }
        });
        Client::new(service, namespace)
    }

    /// Returns the requests so far, in the order in which they were sent.
    ///
    /// ```
    /// # use operator_envtest::{Call, Interceptor, TestEnv, Then};
    /// # use kube::Api;
    /// # use k8s_openapi::api::core::v1::Namespace;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let env = TestEnv::start().await?;
    /// let interceptor = Interceptor::new(|_| Then::Proceed);
    /// let namespaces: Api<Namespace> = Api::all(interceptor.client(env.client()));
    /// namespaces.get("default").await?;
    /// assert_eq!((interceptor.count("get", "namespaces"), interceptor.calls()[0].name.as_str()), (1, "default"));
    /// # env.stop().await;
    /// # Ok(()) }
    /// ```
    pub fn calls(&self) -> Vec<Call> {
        self.lock().clone()
    }

    /// Returns the number of requests so far with this verb and resource; see [`Call::is`].
    ///
    /// ```
    /// # use operator_envtest::{Call, Interceptor, TestEnv, Then};
    /// # use kube::Api;
    /// # use k8s_openapi::api::core::v1::Namespace;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let env = TestEnv::start().await?;
    /// let interceptor = Interceptor::new(|_| Then::Proceed);
    /// let namespaces: Api<Namespace> = Api::all(interceptor.client(env.client()));
    /// namespaces.get("default").await?;
    /// assert_eq!((interceptor.count("get", "namespaces"), interceptor.calls()[0].name.as_str()), (1, "default"));
    /// # env.stop().await;
    /// # Ok(()) }
    /// ```
    pub fn count(&self, verb: &str, resource: &str) -> usize {
        self.lock().iter().filter(|call| call.is(verb, resource)).count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Interceptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Interceptor").finish_non_exhaustive()
    }
}

async fn follow(then: Then, client: Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    match then {
        Then::Proceed => {}
        Then::Delay(delay) => tokio::time::sleep(delay).await,
        Then::Fail(status) => {
            let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return answer(code, &serde_json::to_value(&*status)?);
        }
        Then::Answer(object) => return answer(StatusCode::OK, &object),
        Then::LoseAnswer => {
            client.send(request).await?;
            return Err(io::Error::new(
                io::ErrorKind::ConnectionReset,
                "the response was dropped by the test",
            )
            .into());
        }
    }
    Ok(client.send(request).await?)
}

fn answer(code: StatusCode, body: &Value) -> Result<Response<Body>, BoxError> {
    let answer = Response::builder().status(code);
    let answer = answer.header(CONTENT_TYPE, "application/json");
    Ok(answer.body(Body::from(serde_json::to_vec(body)?))?)
}

// === impl Call ===

impl Call {
    /// Returns true if the request has this verb and resource, such as `pods`, `deployments.apps` or
    /// `deployments.apps/status`.
    ///
    /// ```
    /// use operator_envtest::{Interceptor, Then};
    ///
    /// let without_status = Interceptor::new(|call| match call.is("patch", "deployments.apps/status") {
    ///     true => Then::LoseAnswer,
    ///     false => Then::Proceed,
    /// });
    /// # let _ = without_status;
    /// ```
    pub fn is(&self, verb: &str, resource: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        self.verb == verb
            && (&*self.resource, &*self.subresource, &*self.group) == (resource, subresource, group)
    }

    fn of(request: &Request<Body>) -> Self {
        let uri = request.uri();
        let requested = request_of(request.method(), uri).unwrap_or_else(|| AccessRequest {
            verb: request.method().as_str().to_lowercase(),
            ..AccessRequest::default()
        });
        Self {
            verb: requested.verb,
            group: requested.group,
            resource: requested.resource,
            subresource: requested.subresource,
            namespace: requested.namespace,
            name: requested.name,
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
        }
    }
}

// === impl Then ===

impl Then {
    /// Returns an error response of the API server with the code, reason and message of its `Status`, such as 409 and
    /// `Conflict`.
    ///
    /// ```
    /// use operator_envtest::Then;
    ///
    /// let conflict = Then::fail(409, "Conflict", "the object has been modified");
    /// assert!(matches!(conflict, Then::Fail(status) if status.is_conflict()));
    /// ```
    pub fn fail(code: u16, reason: &str, message: &str) -> Self {
        let mut status = Status::failure(message, reason);
        status.code = code;
        Self::Fail(Box::new(status))
    }
}
