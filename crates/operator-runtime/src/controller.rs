//! Controllers: sources add keys to a queue, and workers reconcile them. [`Controller`] is the builder.
//!
//! A key is reconciled by one worker at a time. Events that arrive during its reconcile cause one more reconcile.
//! Workers start when all watched kinds have been listed.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::Client;
use crate::error::Result;
use crate::event::Event;
use crate::event_recorder::EventRecorder;
use crate::handler::EventHandler;
use crate::metrics::Metrics;
use crate::object::{Kind, Meta, Object, ObjectKey, View};
use crate::policy_rule::PolicyRule;
use crate::predicate::Predicate;
use crate::queue::Requests;
use crate::queue::driver::WorkQueue;
pub use crate::queue::limiter::{Backoff, RateLimit, RateLimiter};
use crate::queue::{PATIENCE, Queue};

mod context;
mod handle;
mod options;
mod owned;
mod reconciler;
mod source;
mod watch;
mod worker;

pub use context::{Context, KeyContext};
pub use handle::ControllerHandle;
pub use options::ControllerOptions;
pub(crate) use options::Settings;
use reconciler::ByObject;
pub use reconciler::{KeyReconciler, Reconciler};
use source::{Filters, Source};
pub use watch::{Mapped, Unmapped, Watch};
pub(crate) use worker::Worker;
use worker::{MakeSpan, Shared};

/// A reconcile request: the key of the object to reconcile.
pub type Request = ObjectKey;

/// The result of a successful reconcile.
///
/// ```
/// use std::time::Duration;
/// use operator_runtime::Action;
///
/// // Reconcile again in five minutes, with a lower priority than events.
/// let later = Action::requeue_after(Duration::from_secs(300)).with_priority(-10);
/// assert_ne!(later, Action::done());
/// assert_eq!(Action::requeue_after(Duration::ZERO), Action::done());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "return it from `reconcile`"]
pub struct Action {
    pub(crate) requeue: Requeue,
    pub(crate) priority: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requeue {
    Never,
    After(Duration),
    Backoff,
}

/// A controller of the objects of type `K`, its primary kind.
///
/// [`Operator::controller`](crate::Operator::controller) or [`Manager::add_controller`](crate::Manager::add_controller)
/// runs it. A `Controller<()>` has no primary kind and reconciles keys from other sources.
///
/// ```no_run
/// use std::sync::Arc;
/// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
/// use operator_runtime::{ControllerOptions, predicate, prelude::*};
///
/// async fn reconcile(deployment: Arc<Deployment>, ctx: Context<Deployment>) -> Result<Action> {
///     Ok(Action::done())
/// }
///
/// let controller = Controller::from_watch(Watch::new().filter(predicate::generation_changed()), reconcile)
///     .owns::<ReplicaSet>()
///     .options(ControllerOptions { max_concurrent_reconciles: Some(8), ..ControllerOptions::default() });
/// ```
#[must_use = "add it to an Operator or a Manager"]
pub struct Controller<K> {
    name: Option<String>,
    options: ControllerOptions,
    primary: Option<Kind>,
    reconcile: Reconcile,
    uses: Vec<Use>,
    rules: Vec<PolicyRule>,
    filters: Vec<Box<dyn Predicate<dyn Meta>>>,
    sources: Vec<BuildSource>,
    span: Option<MakeSpan>,
    objects: PhantomData<fn() -> K>,
}

/// Calls the reconciler.
pub(crate) type Reconcile =
    Arc<dyn Fn(Request, KeyContext) -> BoxFuture<'static, Result<Action>> + Send + Sync>;

/// Creates a source from the client of the controller, the primary kind, and the predicates of all events.
type BuildSource = Box<dyn FnOnce(&Client, Option<&Kind>, Filters) -> Result<Source, ControllerError> + Send>;

/// The parts of a manager that a controller uses.
pub(crate) struct Host {
    /// The client for writes as the leader, and the client for writes on every instance.
    pub(crate) clients: [Client; 2],
    pub(crate) options: ControllerOptions,
    pub(crate) metrics: Metrics,
    pub(crate) reconciles: TaskTracker,
    pub(crate) recorder: EventRecorder,
}

/// An error of adding or running a controller.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The controller has no primary kind and no other source.
    #[error(
        "there are no watches configured, controller will never get triggered. Use watches(), requests_from(), \
         events_from() or watches_raw() to set them up"
    )]
    NoWatches,
    /// A watch maps objects to their owners, but the controller has no primary kind.
    #[error(
        "a watch of {0} reconciles owners, but the controller has no primary kind: use map() or handler()"
    )]
    NoOwnerKind(String),
    /// Another controller of the manager has the same name.
    #[error(
        "controller with name {0} already exists. Controller names must be unique to avoid multiple controllers \
         reporting the same metric: use named(), or skip_name_validation of ControllerOptions"
    )]
    DuplicateName(String),
    /// The manager is stopping.
    #[error("controller {0}: can't accept new runnable as stop procedure is already engaged")]
    ManagerStopping(String),
    /// The controller has stopped.
    #[error("controller {0} has stopped")]
    Stopped(String),
    /// A first list took longer than [`ControllerOptions::cache_sync_timeout`].
    #[error("failed to wait for {name} caches to sync: timed out: {reason}")]
    CacheSync {
        /// The controller.
        name: String,
        /// The errors of its watches.
        reason: String,
    },
}

/// A kind of the manager's own cluster that a controller uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) role: UseRole,
    pub(crate) kind: Kind,
}

/// The use of a kind by a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseRole {
    Primary,
    Owns,
    Watches,
}

// === impl Action ===

impl Action {
    /// Completes the reconcile and resets the backoff of the key. The next event reconciles the key again.
    pub fn done() -> Self {
        Self::new(Requeue::Never)
    }

    /// Reconciles again after this time, for changes that no event reports. An event before that cancels the wait. A
    /// restart reconciles all objects anyway. Resets the backoff of the key. Zero is the same as [`Action::done`].
    pub fn requeue_after(after: Duration) -> Self {
        Self::new(if after.is_zero() {
            Requeue::Never
        } else {
            Requeue::After(after)
        })
    }

    /// Reconciles again after the backoff of the key, as after an error. Each consecutive call increases the backoff,
    /// up to 1000 s. Prefer [`Action::requeue_after`].
    pub fn requeue() -> Self {
        Self::new(Requeue::Backoff)
    }

    /// Sets the priority of the requeue. Default: that of the request. Events have 0; the first list and resyncs have
    /// -100. Higher priorities are served first.
    pub fn with_priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    fn new(requeue: Requeue) -> Self {
        let priority = None;
        Self { requeue, priority }
    }
}

// === impl Controller ===

impl<K: Object> Controller<K> {
    /// Creates a controller that reconciles the objects of type `K`: each existing object once, and again after each of
    /// its events.
    ///
    /// The controller is named after the kind, in lower case, unless [`Controller::named`] sets another name.
    pub fn new(reconciler: impl Reconciler<K>) -> Self {
        Self::from_watch(Watch::new(), reconciler)
    }
}

impl<K: View> Controller<K> {
    /// Creates a controller for the objects of a [`Watch`]: for a kind without a Rust type, for certain events, or in
    /// another cluster. See [`Controller::new`] for the rest.
    pub fn from_watch(watch: Watch<K>, reconciler: impl Reconciler<K>) -> Self {
        let reconciler = Arc::new(ByObject {
            reconciler,
            kind: Arc::new(watch.kind.clone()),
            client: watch.client(),
        });
        Self::with_primary(
            watch,
            Arc::new(move |request, ctx| {
                let reconciler = reconciler.clone();
                Box::pin(async move { reconciler.reconcile::<K>(request, ctx).await })
            }),
        )
    }

    /// Creates a controller for the keys of the objects of a [`Watch`], including deleted ones. See
    /// [`Controller::from_watch`] for the rest.
    pub fn by_key(watch: Watch<K>, reconciler: impl KeyReconciler) -> Self {
        Self::with_primary(watch, by_key(reconciler))
    }

    fn with_primary(watch: Watch<K>, reconcile: Reconcile) -> Self {
        let kind = watch.kind.clone();
        let mut controller = Self::empty(reconcile);
        controller.name = Some(kind.kind.to_lowercase());
        if watch.client().is_none() {
            let (role, kind) = (UseRole::Primary, kind.clone());
            controller.uses.push(Use { role, kind });
        }
        controller.primary = Some(kind);
        controller.source_of(watch.into_primary())
    }

    /// Watches the type `C`, and reconciles the owner of a changed object, by its controller reference. It is short for
    /// `watches(Watch::<C>::new().owned())`.
    pub fn owns<C: Object>(self) -> Self {
        self.watches(Watch::<C>::new().owned())
    }
}

impl Controller<()> {
    /// Creates a controller without a primary kind. Its keys come from [`Controller::watches`],
    /// [`Controller::requests_from`], [`Controller::events_from`] or [`Controller::watches_raw`].
    pub fn without_primary(name: &str, reconciler: impl KeyReconciler) -> Self {
        Self::empty(by_key(reconciler)).named(name)
    }
}

fn by_key(reconciler: impl KeyReconciler) -> Reconcile {
    let reconciler = Arc::new(reconciler);
    Arc::new(move |request, ctx| {
        let reconciler = reconciler.clone();
        Box::pin(async move { KeyReconciler::reconcile(&*reconciler, request, ctx).await })
    })
}

impl<K> Controller<K> {
    fn empty(reconcile: Reconcile) -> Self {
        Self {
            name: None,
            options: ControllerOptions::default(),
            primary: None,
            reconcile,
            uses: Vec::new(),
            rules: Vec::new(),
            filters: Vec::new(),
            sources: Vec::new(),
            span: None,
            objects: PhantomData,
        }
    }

    /// Watches another kind and reconciles the keys that the watch returns for its events.
    pub fn watches<C: View>(mut self, watch: Watch<C, Mapped<C>>) -> Self {
        self.uses.extend(watch.role());
        self.source_of(watch)
    }

    fn source_of<C: View>(mut self, watch: Watch<C, Mapped<C>>) -> Self {
        let build =
            move |client: &Client, primary: Option<&Kind>, filters| watch.source(client, primary, filters);
        self.sources.push(Box::new(build));
        self
    }

    /// Adds permissions in addition to those that follow from the watched and owned kinds. The attribute
    /// [`#[rbac]`](crate::rbac) does the same.
    pub fn rules(mut self, rules: impl IntoIterator<Item = PolicyRule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Ignores the events of all watched kinds that `predicate` rejects. Streams and other sources are not filtered.
    pub fn filter_events(mut self, predicate: impl Predicate<dyn Meta>) -> Self {
        self.filters.push(Box::new(predicate));
        self
    }

    /// Reconciles the keys of a stream, such as the receiver of a `futures::channel::mpsc` channel. When the stream
    /// ends, the other sources continue.
    pub fn requests_from(self, keys: impl Stream<Item = Request> + Send + 'static) -> Self {
        self.source(Source::keys(keys))
    }

    /// Reconciles the keys that `handler` returns for the events of a stream, usually [`Event::Generic`].
    pub fn events_from<C: Send + Sync + 'static>(
        self,
        events: impl Stream<Item = Event<C>> + Send + 'static,
        handler: impl EventHandler<C>,
    ) -> Self {
        self.source(Source::events(events, handler))
    }

    /// Reconciles the keys that a function adds. The function runs until the token is cancelled; its error stops the
    /// manager.
    pub fn watches_raw<F, R>(self, run: F) -> Self
    where
        F: FnOnce(Requests, CancellationToken) -> R + Send + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.source(Source::raw(run))
    }

    fn source(mut self, source: Source) -> Self {
        self.sources.push(Box::new(move |_, _, _| Ok(source)));
        self
    }

    /// Sets the name of the controller in logs and metrics. It must be unique within the manager.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the options that are `Some`.
    pub fn options(mut self, options: ControllerOptions) -> Self {
        self.options = options.or(&self.options);
        self
    }

    /// Sets the function that creates the span of each reconcile from its request and its id. The default span has the
    /// fields `controller`, `controllerGroup`, `controllerKind`, `namespace`, `name` and `reconcileID`.
    pub fn span(mut self, span: impl Fn(&Request, &str) -> tracing::Span + Send + Sync + 'static) -> Self {
        self.span = Some(Box::new(span));
        self
    }

    pub(crate) fn needs(&self) -> (Vec<Use>, Vec<PolicyRule>) {
        (self.uses.clone(), self.rules.clone())
    }

    pub(crate) fn primary(&self) -> Option<&Kind> {
        self.primary.as_ref()
    }

    /// Creates the part that the manager runs, and its handle.
    pub(crate) fn build(self, host: Host) -> Result<(Worker, ControllerHandle), ControllerError> {
        if self.sources.is_empty() {
            return Err(ControllerError::NoWatches);
        }
        let name: Arc<str> = self.name.unwrap_or_default().into();
        let primary = self.primary;
        let options = self.options.or(&host.options);
        let options = Settings::of(&options);
        let [as_leader, on_every_instance] = host.clients;
        let client = match options.needs_leader_election {
            true => as_leader,
            false => on_every_instance,
        };
        let filters: Filters = self.filters.into();
        let sources = self.sources.into_iter();
        let sources = sources.map(|build| build(&client, primary.as_ref(), filters.clone()));
        let sources = sources.collect::<Result<_, _>>()?;
        let queue = Queue::new(options.rate_limit.limiter(), PATIENCE);
        let shared = Shared {
            kind: primary.clone(),
            queue: WorkQueue::new(queue, options.priority_queue, host.metrics.queue(&name)),
            reconcile: self.reconcile,
            client: client.clone(),
            reconciles: host.reconciles,
            recorder: host.recorder,
            metrics: host.metrics.controller(&name, options.max_concurrent_reconciles),
            span: self.span,
            options,
            name: name.clone(),
        };
        let (late, added) = mpsc::unbounded_channel();
        let handle = ControllerHandle {
            name,
            client,
            primary,
            late,
        };
        Ok((Worker::new(sources, added, shared), handle))
    }
}

impl<K> std::fmt::Debug for Controller<K> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut controller = formatter.debug_struct("Controller");
        controller
            .field("name", &self.name)
            .field("primary", &self.primary)
            .finish_non_exhaustive()
    }
}
