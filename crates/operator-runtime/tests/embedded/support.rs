//! Shared helpers of these tests: a server behind a network that can fail, a kind, and reconcilers that report their
//! requests.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::{Method, Request as HttpRequest, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::Expression;
use kube::{CustomResource, CustomResourceExt};
use operator_apiserver::ApiServer;
use operator_runtime::cache::{CacheOptions, KindOptions, Namespaces, WatchBackoff, WatchOptions};
use operator_runtime::controller::{ControllerOptions, RateLimit};
use operator_runtime::manager::ManagerOptions;
use operator_runtime::prelude::*;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::Service;

/// Timeout of waits in tests.
const PATIENCE: Duration = Duration::from_secs(20);

/// The kind of these tests.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Widget",
    namespaced,
    status = "WidgetStatus"
)]
pub(crate) struct WidgetSpec {
    pub(crate) size: i32,
}

/// The status of a widget.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub(crate) struct WidgetStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub(crate) conditions: Conditions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<i32>,
}

/// An API server behind a network.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) client: kube::Client,
    pub(crate) network: Network,
}

/// Records all requests, and fails those that a test selects.
#[derive(Clone)]
pub(crate) struct Network {
    server: ApiServer,
    log: Arc<Mutex<Vec<String>>>,
    agents: Arc<Mutex<Vec<String>>>,
    refuse: Arc<Mutex<Refuse>>,
    /// Ends the open watches.
    cut: Arc<Mutex<CancellationToken>>,
    /// The watches whose events are delayed: those whose requests contain this text.
    held: Arc<watch::Sender<Option<String>>>,
}

type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Returns the status code with which a request, `METHOD path?query`, fails.
type Refuse = Box<dyn Fn(&str) -> Option<u16> + Send>;

impl Bench {
    /// Starts a server with the definition of widgets.
    pub(crate) async fn new() -> Self {
        let bench = Self::without_widgets();
        bench.install_widgets().await;
        // Tests count ConfigMaps, and the API server creates one.
        let configs: Api<ConfigMap> = Api::namespaced(bench.client.clone(), "kube-system");
        let own = "kube-apiserver-legacy-service-account-token-tracking";
        configs.delete(own, &DeleteParams::default()).await.unwrap();
        bench
    }

    /// Starts a server without the definition of widgets.
    pub(crate) fn without_widgets() -> Self {
        let network = Network {
            server: ApiServer::builder().build().unwrap(),
            log: Arc::default(),
            agents: Arc::default(),
            refuse: Arc::new(Mutex::new(Box::new(|_| None))),
            cut: Arc::default(),
            held: Arc::new(watch::Sender::new(None)),
        };
        let client = kube::Client::new(network.clone(), "default");
        Self { client, network }
    }

    pub(crate) async fn install_widgets(&self) {
        let crds = Api::all(self.client.clone());
        crds.create(&PostParams::default(), &Widget::crd()).await.unwrap();
    }

    /// Returns a manager with short backoff of watches.
    pub(crate) async fn manager(&self) -> Manager {
        self.manager_with(CacheOptions::default()).await
    }

    /// Returns a manager with other options and short backoff of watches.
    pub(crate) async fn manager_with(&self, options: CacheOptions) -> Manager {
        let options = CacheOptions {
            watch_backoff: WatchBackoff {
                min: Duration::from_millis(5),
                max: Duration::from_millis(20),
            },
            ..options
        };
        Manager::new(
            "tester",
            ManagerOptions {
                cache_options: options,
                health_probe_bind_address: "127.0.0.1:0".to_owned(),
                ..ManagerOptions::from(self.client.clone())
            },
        )
        .await
        .unwrap()
    }

    /// Runs a manager whose only controller reconciles the widgets with this function, and returns its requests.
    pub(crate) async fn operator<F, R>(&self, reconcile: F) -> (Manager, Running, Told)
    where
        F: Fn(KeyContext, Request) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action>> + Send + 'static,
    {
        let manager = self.manager().await;
        let told = reconcile_widgets(&manager, reconcile);
        let running = run(&manager);
        (manager, running, told)
    }

    pub(crate) fn widgets(&self) -> Api<Widget> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) async fn create(&self, name: &str, size: i32) -> Widget {
        let widget = Widget::new(name, WidgetSpec { size });
        self.widgets()
            .create(&PostParams::default(), &widget)
            .await
            .unwrap()
    }

    pub(crate) async fn resize(&self, name: &str, size: i32) {
        let mut widget = self.widgets().get(name).await.unwrap();
        widget.spec.size = size;
        self.widgets()
            .replace(name, &PostParams::default(), &widget)
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.widgets()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
}

impl Network {
    /// Fails requests from now on.
    pub(crate) fn refuse(&self, refuse: impl Fn(&str) -> Option<u16> + Send + 'static) {
        *self.refuse.lock() = Box::new(refuse);
    }

    /// Returns the number of matching requests since the last [`Network::take_writes`].
    pub(crate) fn count(&self, like: impl Fn(&str) -> bool) -> usize {
        self.log.lock().iter().filter(|request| like(request)).count()
    }

    /// Returns the matching requests since the last [`Network::take_writes`].
    pub(crate) fn requests(&self, like: impl Fn(&str) -> bool) -> Vec<String> {
        let log = self.log.lock();
        log.iter().filter(|request| like(request)).cloned().collect()
    }

    /// Ends the open watches.
    pub(crate) fn cut_watches(&self) {
        std::mem::take(&mut *self.cut.lock()).cancel();
    }

    /// Delays the events of watches, or delivers them.
    pub(crate) fn hold_watches(&self, hold: bool) {
        self.held.send_replace(hold.then(String::new));
    }

    /// Delays the events of watches of a resource until [`Network::hold_watches`] delivers them.
    pub(crate) fn hold_watches_of(&self, plural: &str) {
        self.held.send_replace(Some(format!("/{plural}?")));
    }

    fn watched(&self, request: String, body: Body) -> Body {
        let (cut, held) = (self.cut.lock().clone(), self.held.subscribe());
        let frames = body.into_data_stream().then(move |data| {
            let (mut held, request) = (held.clone(), request.clone());
            async move {
                let is_free =
                    |held: &Option<String>| held.as_ref().is_none_or(|held| !request.contains(held));
                // The test may have ended.
                let _ = held.wait_for(is_free).await;
                data.map(Frame::data)
            }
        });
        StreamBody::new(frames.take_until(cut.cancelled_owned())).boxed_unsync()
    }

    /// Returns the `User-Agent` of each request, empty without one.
    pub(crate) fn agents(&self) -> Vec<String> {
        self.agents.lock().clone()
    }

    /// Ends all watches, including new ones.
    pub(crate) fn end_watches(&self) {
        self.server.shutdown();
    }

    /// Directs the calls of a Service to this address.
    pub(crate) fn route_service(&self, name: &str, address: std::net::SocketAddr) {
        self.server.route_service("default", name, address);
    }

    /// Lets every request succeed from now on.
    pub(crate) fn heal(&self) {
        self.refuse(|_| None);
    }

    /// Returns the writes so far, and clears the record of requests.
    pub(crate) fn take_writes(&self) -> Vec<String> {
        let requests = std::mem::take(&mut *self.log.lock());
        requests
            .into_iter()
            .filter(|request| !request.starts_with("GET "))
            .collect()
    }
}

impl Service<HttpRequest<kube::client::Body>> for Network {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<kube::client::Body>) -> Self::Future {
        let what = format!("{} {}", request.method(), request.uri());
        let agent = request.headers().get(http::header::USER_AGENT);
        let agent = agent.and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        self.agents.lock().push(agent.to_owned());
        let refused = (self.refuse.lock())(&what);
        self.log.lock().push(what.clone());
        let (mut server, network) = (self.server.clone(), self.clone());
        Box::pin(async move {
            if let Some(code) = refused {
                return Ok(refusal(code, request.method()));
            }
            let is_watch = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true"));
            let answer = server.call(request).await?;
            Ok(answer.map(|body| {
                let body = body.map_err(Into::into).boxed_unsync();
                if is_watch {
                    network.watched(what, body)
                } else {
                    body
                }
            }))
        })
    }
}

fn refusal(code: u16, method: &Method) -> Response<Body> {
    let reason = match code {
        403 => "Forbidden",
        410 => "Expired",
        _ => "InternalError",
    };
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("the test refuses this {method}"),
    });
    let body = Full::from(status.to_string())
        .map_err(|never| match never {})
        .boxed_unsync();
    Response::builder().status(code).body(body).unwrap()
}

/// A request of a reconciler, and the size of the widget if it exists.
pub(crate) type Seen = (Request, Option<i32>);

/// A reconciler that reports its requests and then runs a function.
pub(crate) struct Teller<F> {
    told: mpsc::UnboundedSender<Seen>,
    then: F,
}

impl<F> Teller<F> {
    pub(crate) fn tell(&self, request: Request, size: Option<i32>) {
        // The test may have ended.
        let _ = self.told.send((request, size));
    }
}

impl<F, R> KeyReconciler for Teller<F>
where
    F: Fn(KeyContext, Request) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action>> + Send,
{
    async fn reconcile(&self, request: Request, ctx: KeyContext) -> Result<Action> {
        let widget = ctx.get::<Widget>(&request).await?;
        self.tell(request.clone(), widget.map(|widget| widget.spec.size));
        (self.then)(ctx, request).await
    }
}

/// The receiver of the requests of a [`Teller`].
pub(crate) struct Told(mpsc::UnboundedReceiver<Seen>);

impl Told {
    /// Returns the next request.
    pub(crate) async fn next(&mut self) -> Seen {
        in_time(self.0.recv()).await.expect("the reconciler is gone")
    }

    /// Waits for this request.
    pub(crate) async fn until(&mut self, name: &str, size: Option<i32>) {
        let wanted = (key(name), size);
        while self.next().await != wanted {}
    }

    /// Returns the requests that were not received yet.
    pub(crate) fn unheard(&mut self) -> Vec<Seen> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

/// Returns a reconciler that reports its requests and then runs `then`.
pub(crate) fn teller<F, R>(then: F) -> (Teller<F>, Told)
where
    F: Fn(KeyContext, Request) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action>> + Send,
{
    let (told, hear) = mpsc::unbounded_channel();
    (Teller { told, then }, Told(hear))
}

/// Returns a reconciler that only reports its requests.
pub(crate) fn plain_teller() -> (impl KeyReconciler, Told) {
    teller(|_, _| async { Ok(Action::done()) })
}

/// Adds a controller that reconciles the widgets with this function, and returns its requests.
pub(crate) fn reconcile_widgets<F, R>(manager: &Manager, reconcile: F) -> Told
where
    F: Fn(KeyContext, Request) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action>> + Send + 'static,
{
    let (reconciler, told) = teller(reconcile);
    let controller = Controller::by_key(Watch::<Widget>::new(), reconciler);
    manager.add_controller(controller).unwrap();
    told
}

/// Adds a controller that only observes the widgets, and returns its requests.
pub(crate) fn observe_widgets(manager: &Manager) -> Told {
    reconcile_widgets(manager, |_, _| async { Ok(Action::done()) })
}

/// Runs a function within a reconcile of its own controller, where unchanged writes are skipped.
pub(crate) async fn reconciling<T, R>(
    manager: &Manager,
    body: impl FnOnce(KeyContext) -> R + Send + 'static,
) -> T
where
    T: Send + 'static,
    R: Future<Output = T> + Send + 'static,
{
    type Body = Box<dyn FnOnce(KeyContext) -> BoxFuture<'static, ()> + Send>;
    struct Once(Mutex<Option<Body>>);
    impl KeyReconciler for Once {
        async fn reconcile(&self, _: Request, ctx: KeyContext) -> Result<Action> {
            let body = self.0.lock().take();
            if let Some(body) = body {
                body(ctx).await;
            }
            Ok(Action::done())
        }
    }
    let (sender, outcome) = oneshot::channel();
    let body: Body = Box::new(move |ctx| {
        Box::pin(async move {
            let outcome = AssertUnwindSafe(body(ctx)).catch_unwind().await;
            // The test may have ended.
            let _ = sender.send(outcome);
        })
    });
    let name = format!("once-{}", ONCE.fetch_add(1, Ordering::Relaxed));
    manager
        .add_controller(
            Controller::without_primary(&name, Once(Mutex::new(Some(body))))
                .requests_from(futures::stream::iter([key("once")])),
        )
        .unwrap();
    match in_time(outcome).await.unwrap() {
        Ok(outcome) => outcome,
        Err(panic) => resume_unwind(panic),
    }
}

static ONCE: AtomicUsize = AtomicUsize::new(0);

/// A running manager.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<()>>,
}

/// Runs a manager until it is stopped.
pub(crate) fn run(manager: &Manager) -> Running {
    let (stop, stopped) = oneshot::channel::<()>();
    let manager = manager.clone();
    let task = tokio::spawn(async move {
        manager
            .run_until(async {
                let _ = stopped.await;
            })
            .await
    });
    Running { stop, task }
}

impl Running {
    /// Starts to stop the manager.
    pub(crate) fn stop(self) -> JoinHandle<Result<()>> {
        let _ = self.stop.send(());
        self.task
    }

    /// Stops the manager, and waits until it has ended.
    pub(crate) async fn end(self) -> Result<()> {
        in_time(self.stop()).await.unwrap()
    }

    /// Waits until the manager ends without being stopped.
    pub(crate) async fn ended(self) -> Result<()> {
        in_time(self.task).await.unwrap()
    }
}

/// Waits with a timeout.
#[track_caller]
pub(crate) fn in_time<T>(wait: impl IntoFuture<Output = T>) -> impl Future<Output = T> {
    let waiter = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(PATIENCE, wait.into_future()).await {
            Ok(value) => value,
            Err(_) => panic!("waited too long at {waiter}"),
        }
    }
}

pub(crate) fn key(name: &str) -> Request {
    Request::namespaced("default", name)
}

/// Returns a ConfigMap with one entry.
pub(crate) fn config_map(name: &str, value: &str) -> k8s_openapi::api::core::v1::ConfigMap {
    let mut config_map = k8s_openapi::api::core::v1::ConfigMap::default();
    config_map.metadata.name = Some(name.to_owned());
    config_map.data = Some([("value".to_owned(), value.to_owned())].into());
    config_map
}

/// Returns a ConfigMap with one entry, in a namespace.
pub(crate) fn config_map_in(
    namespace: &str,
    name: &str,
    value: &str,
) -> k8s_openapi::api::core::v1::ConfigMap {
    let mut config_map = config_map(name, value);
    config_map.metadata.namespace = Some(namespace.to_owned());
    config_map
}

/// Returns the response of the health server.
pub(crate) async fn probe(manager: &Manager, path: &str) -> (u16, String) {
    get(manager.health_address().unwrap(), path).await
}

/// Returns the response of an HTTP server.
pub(crate) async fn get(address: std::net::SocketAddr, path: &str) -> (u16, String) {
    get_with(address, path, "").await
}

/// Returns the response of an HTTP server to a request with additional headers, each with a line end.
pub(crate) async fn get_with(address: std::net::SocketAddr, path: &str, headers: &str) -> (u16, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    in_time(stream.read_to_string(&mut answer)).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Selects the objects with a value in an index.
pub(crate) fn indexed(name: &str, value: &str) -> ListOptions {
    ListOptions {
        indexes: vec![(name.to_owned(), value.to_owned())],
        ..ListOptions::default()
    }
}

/// Selects the objects in the default namespace with a value of the label `tier`.
pub(crate) fn of_tier(tier: &str) -> ListOptions {
    ListOptions {
        labels: Expression::Equal("tier".to_owned(), tier.to_owned()).into(),
        ..ListOptions::from(Some("default"))
    }
}

/// Returns options of a kind that select labels.
pub(crate) fn labelled(labels: &str) -> KindOptions {
    let options = WatchOptions {
        labels: Some(labels.to_owned()),
        ..WatchOptions::default()
    };
    options.into()
}

/// Returns options of a kind with these namespaces.
pub(crate) fn within(namespaces: impl Into<Namespaces>) -> KindOptions {
    KindOptions {
        namespaces: Some(namespaces.into()),
        ..KindOptions::default()
    }
}

/// Returns options of a controller with this number of workers.
pub(crate) fn parallel(count: usize) -> ControllerOptions {
    ControllerOptions {
        max_concurrent_reconciles: Some(count),
        ..ControllerOptions::default()
    }
}

/// Returns options of a controller with this rate limit.
pub(crate) fn retried(limit: impl Into<RateLimit>) -> ControllerOptions {
    ControllerOptions {
        rate_limit: Some(limit.into()),
        ..ControllerOptions::default()
    }
}

/// Waits until the watch has delivered the operator's write.
pub(crate) async fn until_watched<K: operator_runtime::Object>(
    client: &operator_runtime::Client,
    name: &str,
    is_so: impl Fn(&K) -> bool,
) {
    let watched = client.with(|options| options.own_writes = false);
    in_time(async {
        loop {
            let object = watched.get::<K>(&key(name)).await.unwrap();
            if object.is_some_and(|object| is_so(&object)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}
