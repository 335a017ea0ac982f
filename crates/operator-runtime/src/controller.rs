//! Controllers: sources feed a queue, workers reconcile its keys. [`Controller`] is the builder.
//!
//! No key is reconciled by two workers at once, and however many events a key has while it is reconciled, it is
//! reconciled once more after them. Workers start when everything that the controller watches has been listed, so a
//! reconcile never sees half of what exists.
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
//! # fn main() -> Result<()> { cluster(async |manager, ctx| {
//! struct Greeter;
//!
//! impl Reconciler for Greeter {
//!     async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
//!         let Some(web) = ctx.get::<Deployment>(&request).await? else { return Ok(Action::done()) };
//!         ctx.apply_owned(&*web, config_map("greeting", "large")).await?;
//!         Ok(Action::done())
//!     }
//! }
//!
//! Controller::managed_by(manager).for_::<Deployment>().owns::<ConfigMap>().complete(Greeter)?;
//! ctx.create(deployment("web")).await?;
//! # let configs = kube::Api::<ConfigMap>::namespaced(ctx.kube().clone(), "default");
//! # let exists = |config: Option<&ConfigMap>| config.is_some();
//! # kube::runtime::wait::await_condition(configs, "greeting", exists).await?;
//! # Ok(()) }) }
//! ```

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::error::Result;
use crate::event::Event;
use crate::handler::{self, EventHandler};
use crate::manager::Manager;
use crate::object::{Kind, Meta, Object, ObjectKey, View};
use crate::predicate::Predicate;
use crate::queue::driver::WorkQueue;
pub use crate::queue::limiter::{Backoff, RateLimit, RateLimiter};

mod context;
mod handle;
mod object_reconciler;
mod options;
mod source;
mod watch;
mod worker;

pub use context::Context;
pub use handle::ControllerHandle;
pub use object_reconciler::{ObjectReconciler, as_reconciler};
pub use options::ControllerOptions;
pub(crate) use options::Settings;
use source::{Filters, Source};
pub use source::{Requests, Sender, channel};
pub use watch::Watch;
pub(crate) use worker::Worker;
use worker::{ErasedReconciler, MakeSpan, Shared};

/// What to reconcile: the key of the object.
///
/// ```
/// use operator_runtime::Request;
///
/// let request = Request::namespaced("default", "web");
/// assert_eq!((request.namespace(), request.name()), (Some("default"), "web"));
/// // What names a cluster-scoped object has no namespace.
/// assert_eq!(Request::cluster("worker-1").to_string(), "worker-1");
/// ```
pub type Request = ObjectKey;

/// Brings the cluster, or something outside of it, to what an object asks for.
///
/// It is called with a key and never with what happened to it: it looks at how things are, compares with how they
/// should be, and acts. It is called for deleted objects too, for which [`Client::get`](crate::Client::get) returns
/// `None`; and it may be called when nothing has changed.
///
/// An error is logged and the key tried again with exponential backoff. A panic is such an error: it never ends the
/// operator.
///
/// ```no_run
/// use k8s_openapi::api::apps::v1::Deployment;
/// use operator_runtime::prelude::*;
///
/// struct Watchdog;
///
/// impl Reconciler for Watchdog {
///     async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
///         let Some(deployment) = ctx.get::<Deployment>(&request).await? else { return Ok(Action::done()) };
///         tracing::info!(replicas = deployment.spec.replicas, "seen");
///         Ok(Action::done())
///     }
/// }
/// ```
pub trait Reconciler: Send + Sync + 'static {
    /// Reconciles the object of the request, if it still exists.
    ///
    /// It is called for one key at a time, and for as many different ones at once as
    /// [`max_concurrent_reconciles`](ControllerOptions::max_concurrent_reconciles) says, with the same `&self`.
    ///
    /// ```
    /// use operator_runtime::prelude::*;
    ///
    /// struct Cleaner;
    ///
    /// impl Reconciler for Cleaner {
    ///     async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
    ///         tracing::info!(controller = ctx.controller(), %request, "asked to clean");
    ///         // Nothing announces when it is dirty again.
    ///         Ok(Action::requeue_after(std::time::Duration::from_secs(600)))
    ///     }
    /// }
    /// # let _ = Cleaner;
    /// ```
    ///
    /// # Errors
    /// Any error; see [`Error`](crate::Error) for what becomes of it.
    fn reconcile(&self, ctx: Context, request: Request) -> impl Future<Output = Result<Action>> + Send;
}

/// What follows from a reconcile that succeeded.
///
/// ```
/// use std::time::Duration;
/// use operator_runtime::Action;
///
/// // Look again in five minutes, behind everything that changes meanwhile.
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

/// Builds a controller and hands it to the manager.
///
/// ```no_run
/// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
/// use operator_runtime::{predicate, prelude::*};
///
/// # struct Mine;
/// # impl Reconciler for Mine {
/// #     async fn reconcile(&self, _: Context, _: Request) -> Result<Action> { Ok(Action::done()) }
/// # }
/// # fn example(manager: &Manager) -> Result<()> {
/// Controller::managed_by(manager)
///     .for_where::<Deployment>(predicate::generation_changed())
///     .owns::<ReplicaSet>()
///     .max_concurrent_reconciles(8)
///     .complete(Mine)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "call `complete` to hand the controller to the manager"]
pub struct Controller {
    manager: Manager,
    name: Option<String>,
    /// What single methods set; it has precedence over `options`.
    own: ControllerOptions,
    options: ControllerOptions,
    primary: Option<Kind>,
    uses: Vec<Use>,
    filters: Vec<Box<dyn Predicate<dyn Meta>>>,
    sources: Vec<BuildSource>,
    span: Option<MakeSpan>,
    mistake: Option<ControllerError>,
}

/// Why a controller cannot be built.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
/// # fn main() -> Result<()> { cluster(async |manager, _| {
/// use operator_runtime::controller::ControllerError;
///
/// let (mine, _requests) = recorder();
/// let mistake = Controller::managed_by(manager).named("owner").owns::<ConfigMap>().complete(mine);
/// assert!(matches!(mistake, Err(ControllerError::OwnsWithoutFor(kind)) if kind == "ConfigMap"));
/// # Ok(()) }) }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Nothing would ever call the reconciler.
    #[error(
        "there are no watches configured, controller will never get triggered. Use for_(), owns(), watches() or \
         watches_raw() to set them up"
    )]
    NoWatches,
    /// Without a kind there is nothing to name the controller after.
    #[error("one of for_() or named() must be called")]
    NoName,
    /// `for_` was called twice.
    #[error(
        "for_() should only be called once, could not assign multiple objects for reconciliation: {first} and {second}; \
         use watches() for one of them"
    )]
    TwoPrimaries {
        /// The kind of the first call.
        first: String,
        /// The kind of the second.
        second: String,
    },
    /// `owns` needs to know whose objects they are.
    #[error("owns() can only be used together with for_(), which says who the owner of each {0} is")]
    OwnsWithoutFor(String),
    /// Names are labels of metrics and logs, so they differ within a manager.
    #[error(
        "controller with name {0} already exists. Controller names must be unique to avoid multiple controllers \
         reporting the same metric: use named(), or skip_name_validation of ControllerOptions"
    )]
    DuplicateName(String),
    /// The controller comes too late.
    #[error("controller {0}: can't accept new runnable as stop procedure is already engaged")]
    ManagerStopping(String),
    /// The controller is no more.
    #[error("controller {0} has ended")]
    Ended(String),
    /// A first list took longer than `cache_sync_timeout`.
    #[error("failed to wait for {name} caches to sync: timed out: {reason}")]
    CacheSync {
        /// The controller.
        name: String,
        /// What its watches say.
        reason: String,
    },
}

/// A kind of the manager's own cluster that a controller was told of, and what it is to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) role: UseRole,
    pub(crate) kind: Kind,
}

/// What a kind is to a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseRole {
    For,
    Owns,
    Watches,
}

/// Makes a source once everything is known that the controller was told.
type BuildSource = Box<dyn FnOnce(Option<&Kind>, Filters) -> Result<Source, ControllerError>>;

// === impl Action ===

impl Action {
    /// Nothing more to do until something changes. The failures of the key are forgotten.
    ///
    /// ```
    /// use operator_runtime::Action;
    ///
    /// assert_ne!(Action::done(), Action::requeue());
    /// ```
    pub fn done() -> Self {
        Self::new(Requeue::Never)
    }

    /// Reconcile again after this time, for what no event announces. It does not survive a restart, which reconciles
    /// everything anyway. An event of the object ends the wait: the reconcile that it causes says what follows.
    /// The failures of the key are forgotten. A time of zero means [`Action::done`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use operator_runtime::Action;
    ///
    /// // A certificate that has to be renewed in a day:
    /// let tomorrow = Action::requeue_after(Duration::from_secs(24 * 60 * 60));
    /// assert_ne!(tomorrow, Action::done());
    /// ```
    pub fn requeue_after(after: Duration) -> Self {
        Self::new(if after.is_zero() {
            Requeue::Never
        } else {
            Requeue::After(after)
        })
    }

    /// Reconcile again after the backoff, as after an error but without one. The waits grow from call to call, up to
    /// 1000 s; [`Action::requeue_after`] is mostly what is wanted.
    ///
    /// ```
    /// use operator_runtime::Action;
    ///
    /// /// Looks again soon, then less and less often, at what is slow to become ready.
    /// fn next(ready: bool) -> Action {
    ///     if ready { Action::done() } else { Action::requeue() }
    /// }
    /// assert_eq!(next(true), Action::done());
    /// ```
    pub fn requeue() -> Self {
        Self::new(Requeue::Backoff)
    }

    /// The priority of the requeue; that of the request unless said otherwise. Events have 0, keys of the first list
    /// and of resyncs -100, and higher ones go first.
    ///
    /// ```
    /// use std::time::Duration;
    /// use operator_runtime::Action;
    ///
    /// // Housekeeping, for when nothing else is to be done.
    /// let later = Action::requeue_after(Duration::from_secs(3600)).with_priority(-100);
    /// assert_ne!(later, Action::requeue_after(Duration::from_secs(3600)));
    /// ```
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

impl Controller {
    /// Begins a controller of `manager`. Nothing happens before [`Controller::complete`].
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, ctx| {
    /// let (mine, mut requests) = recorder();
    /// Controller::managed_by(manager).for_::<Deployment>().complete(mine)?;
    ///
    /// ctx.create(deployment("web")).await?;
    /// assert_eq!(requests.recv().await, Some(Request::namespaced("default", "web")));
    /// # Ok(()) }) }
    /// ```
    pub fn managed_by(manager: &Manager) -> Self {
        Self {
            manager: manager.clone(),
            name: None,
            own: ControllerOptions::default(),
            options: ControllerOptions::default(),
            primary: None,
            uses: Vec::new(),
            filters: Vec::new(),
            sources: Vec::new(),
            span: None,
            mistake: None,
        }
    }

    /// Reconciles objects of `K`: each of their events is a request with their key. Once per controller, which is named
    /// after the kind; `K` may be `PartialObjectMeta` of a type, where the metadata is enough.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, ctx| {
    /// use kube::core::PartialObjectMeta;
    ///
    /// let (mine, mut requests) = recorder();
    /// Controller::managed_by(manager).for_::<PartialObjectMeta<ConfigMap>>().complete(mine)?;
    /// # let web = Request::namespaced("default", "web");
    /// ctx.create(config_map("web", "3")).await?;
    /// # while requests.recv().await != Some(web.clone()) {}
    /// # Ok(()) }) }
    /// ```
    pub fn for_<K: Object>(self) -> Self {
        self.for_with(Watch::<K>::new())
    }

    /// [`Controller::for_`], for the events that `predicate` lets pass. Those of other kinds are not asked; see
    /// [`Controller::filter_events`].
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, ctx| {
    /// use operator_runtime::predicate;
    ///
    /// let (mine, mut requests) = recorder();
    /// let wanted = predicate::filter(|web: &Deployment| web.metadata.name.as_deref() == Some("web"));
    /// Controller::managed_by(manager).for_where::<Deployment>(wanted).complete(mine)?;
    /// ctx.create(deployment("other")).await?;
    /// ctx.create(deployment("web")).await?;
    /// assert_eq!(requests.recv().await, Some(Request::namespaced("default", "web")));
    /// # Ok(()) }) }
    /// ```
    pub fn for_where<K: Object>(self, predicate: impl Predicate<K>) -> Self {
        self.for_with(Watch::new().filter(predicate))
    }

    /// [`Controller::for_`], with all that a [`Watch`] can say: of any kind, as any type, for certain events, in
    /// another cluster.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// use operator_runtime::Kind;
    /// use operator_runtime::controller::Watch;
    ///
    /// # let (mine, _requests) = recorder();
    /// let gateways = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
    /// Controller::managed_by(manager).for_with(Watch::dynamic(&gateways)).complete(mine)?;
    /// # Ok(()) }) }
    /// ```
    pub fn for_with<K: View>(mut self, watch: Watch<K>) -> Self {
        let kind = watch.kind.clone();
        if let Some(first) = self.primary.replace(kind.clone()) {
            self.mistake = Some(ControllerError::TwoPrimaries {
                first: first.to_string(),
                second: kind.to_string(),
            });
        }
        self.used(UseRole::For, &watch)
            .source_of(watch, handler::for_object())
    }

    /// Reconciles the owner, of the kind of `for_`, of each changed object of `K` that it controls. Of several owners
    /// that is the one whose reference has `controller: true`.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, ctx| {
    /// let (mine, mut requests) = recorder();
    /// Controller::managed_by(manager).for_::<ConfigMap>().owns::<Deployment>().complete(mine)?;
    /// let web = ctx.create(config_map("web", "3")).await?;
    /// assert_eq!(requests.recv().await, Some(Request::namespaced("default", "web")));
    ///
    /// ctx.apply_owned(&*web, deployment("front")).await?;
    /// assert_eq!(requests.recv().await, Some(Request::namespaced("default", "web")));
    /// # Ok(()) }) }
    /// ```
    pub fn owns<K: Object>(self) -> Self {
        self.owns_with(Watch::<K>::new())
    }

    /// [`Controller::owns`], for the events that `predicate` lets pass.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// use k8s_openapi::api::apps::v1::ReplicaSet;
    /// use operator_runtime::predicate;
    ///
    /// # let (mine, _requests) = recorder();
    /// // Changes of the status of a ReplicaSet are of no interest.
    /// Controller::managed_by(manager)
    ///     .for_::<Deployment>()
    ///     .owns_where::<ReplicaSet>(predicate::generation_changed())
    ///     .complete(mine)?;
    /// # Ok(()) }) }
    /// ```
    pub fn owns_where<K: Object>(self, predicate: impl Predicate<K>) -> Self {
        self.owns_with(Watch::new().filter(predicate))
    }

    /// [`Controller::owns`], of any kind, as any type, for certain events, or for every owner.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// use kube::core::PartialObjectMeta;
    /// use operator_runtime::controller::Watch;
    ///
    /// # let (mine, _requests) = recorder();
    /// // Metadata says who the owners are, and every one of them is to hear.
    /// let configs = Watch::<PartialObjectMeta<ConfigMap>>::new().every_owner();
    /// Controller::managed_by(manager).for_::<Deployment>().owns_with(configs).complete(mine)?;
    /// # Ok(()) }) }
    /// ```
    pub fn owns_with<K: View>(mut self, watch: Watch<K>) -> Self {
        self = self.used(UseRole::Owns, &watch);
        let cache = self.cache_of(&watch);
        self.sources.push(Box::new(move |primary, filters| {
            let owner = primary.ok_or_else(|| ControllerError::OwnsWithoutFor(watch.kind.to_string()))?;
            let handler = handler::for_owner_of_kind::<K>(owner.clone(), !watch.every_owner);
            Ok(Source::kind(&cache, watch, handler, filters))
        }));
        self
    }

    /// Reconciles what `handler` makes of each event of `K`.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, ctx| {
    /// use operator_runtime::handler;
    ///
    /// let (mine, mut requests) = recorder();
    /// // A ConfigMap `NAME-settings` is read by the Deployment `NAME`.
    /// let reader = handler::map(|config: &ConfigMap| {
    ///     let name = config.metadata.name.as_deref().and_then(|name| name.strip_suffix("-settings"));
    ///     name.map(|name| ObjectKey::namespaced("default", name)).into_iter().collect()
    /// });
    /// Controller::managed_by(manager).for_::<Deployment>().watches::<ConfigMap>(reader).complete(mine)?;
    ///
    /// ctx.create(config_map("web-settings", "3")).await?;
    /// assert_eq!(requests.recv().await, Some(Request::namespaced("default", "web")));
    /// # Ok(()) }) }
    /// ```
    pub fn watches<K: Object>(self, handler: impl EventHandler<K>) -> Self {
        self.watches_with(Watch::new(), handler)
    }

    /// [`Controller::watches`], for the events that `predicate` lets pass.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// use operator_runtime::{handler, predicate};
    ///
    /// # let (mine, _requests) = recorder();
    /// Controller::managed_by(manager)
    ///     .for_::<Deployment>()
    ///     .watches_where::<ConfigMap>(
    ///         handler::map(|_: &ConfigMap| vec![ObjectKey::namespaced("default", "web")]),
    ///         predicate::labels_match([("reload", "true")].into_iter().collect()),
    ///     )
    ///     .complete(mine)?;
    /// # Ok(()) }) }
    /// ```
    pub fn watches_where<K: Object>(
        self,
        handler: impl EventHandler<K>,
        predicate: impl Predicate<K>,
    ) -> Self {
        self.watches_with(Watch::new().filter(predicate), handler)
    }

    /// [`Controller::watches`], of any kind, as any type, for certain events.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// use kube::api::DynamicObject;
    /// use operator_runtime::controller::Watch;
    /// use operator_runtime::{Kind, handler};
    ///
    /// # let (mine, _requests) = recorder();
    /// let classes = Kind::in_cluster("gateway.networking.k8s.io/v1", "GatewayClass", "gatewayclasses");
    /// let everybody = handler::map(|_: &DynamicObject| vec![ObjectKey::namespaced("default", "web")]);
    /// Controller::managed_by(manager)
    ///     .for_::<Deployment>()
    ///     .watches_with(Watch::dynamic(&classes), everybody)
    ///     .complete(mine)?;
    /// # Ok(()) }) }
    /// ```
    pub fn watches_with<K: View>(self, watch: Watch<K>, handler: impl EventHandler<K>) -> Self {
        self.used(UseRole::Watches, &watch).source_of(watch, handler)
    }

    fn used<K>(mut self, role: UseRole, watch: &Watch<K>) -> Self {
        if watch.cache.is_none() {
            let kind = watch.kind.clone();
            self.uses.push(Use { role, kind });
        }
        self
    }

    fn source_of<K: View>(mut self, watch: Watch<K>, handler: impl EventHandler<K>) -> Self {
        let cache = self.cache_of(&watch);
        let build = move |_: Option<&Kind>, filters| Ok(Source::kind(&cache, watch, handler, filters));
        self.sources.push(Box::new(build));
        self
    }

    /// Hears, of every kind, only of events that this predicate and all others let pass. What comes from streams and
    /// other sources is not filtered.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// # use k8s_openapi::api::apps::v1::ReplicaSet;
    /// # use operator_runtime::predicate;
    /// # let (mine, _requests) = recorder();
    /// Controller::managed_by(manager)
    ///     .for_::<Deployment>()
    ///     .owns::<ReplicaSet>()
    ///     .filter_events(predicate::not_paused("example.com/paused"))
    ///     .complete(mine)?;
    /// # Ok(()) }) }
    /// ```
    pub fn filter_events(mut self, predicate: impl Predicate<dyn Meta>) -> Self {
        self.filters.push(Box::new(predicate));
        self
    }

    /// Reconciles the keys that a stream brings, such as that of a [`channel`]. When the stream ends, the controller
    /// goes on with its other sources.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// let (mine, mut requests) = recorder();
    /// let tickets = futures::stream::iter([Request::cluster("ticket-7")]);
    /// Controller::managed_by(manager).named("tickets").requests_from(tickets).complete(mine)?;
    /// assert_eq!(requests.recv().await, Some(Request::cluster("ticket-7")));
    /// # Ok(()) }) }
    /// ```
    pub fn requests_from(self, keys: impl Stream<Item = Request> + Send + 'static) -> Self {
        self.source(Source::keys(keys))
    }

    /// Reconciles what `handler` makes of the events that a stream brings, mostly [`Event::Generic`].
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// use std::sync::Arc;
    /// use operator_runtime::event::Event;
    /// use operator_runtime::handler;
    ///
    /// let (mine, mut requests) = recorder();
    /// // Objects that somebody else watches: each comes through a handler, as those of `watches` do.
    /// let event = Event::Generic { object: Arc::new(config_map("web", "3")) };
    /// let events = futures::stream::iter([event]);
    /// Controller::managed_by(manager).named("others").events_from(events, handler::for_object()).complete(mine)?;
    /// assert_eq!(requests.recv().await, Some(Request::namespaced("default", "web")));
    /// # Ok(()) }) }
    /// ```
    pub fn events_from<K: Send + Sync + 'static>(
        self,
        events: impl Stream<Item = Event<K>> + Send + 'static,
        handler: impl EventHandler<K>,
    ) -> Self {
        self.source(Source::events(events, handler))
    }

    /// Reconciles the keys that a function adds, which runs beside the controller until the token is cancelled. Its
    /// error ends the manager.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// # use std::time::Duration;
    /// let (mine, mut requests) = recorder();
    /// Controller::managed_by(manager)
    ///     .named("poller")
    ///     .watches_raw(async |requests, stop| {
    ///         let mut hour = tokio::time::interval(Duration::from_secs(3600));
    ///         while stop.run_until_cancelled(hour.tick()).await.is_some() {
    ///             requests.add(("default", "report"));
    ///         }
    ///         Ok(())
    ///     })
    ///     .complete(mine)?;
    /// assert_eq!(requests.recv().await, Some(Request::namespaced("default", "report")));
    /// # Ok(()) }) }
    /// ```
    pub fn watches_raw<F, R>(self, run: F) -> Self
    where
        F: FnOnce(Requests, CancellationToken) -> R + Send + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.source(Source::raw(run))
    }

    fn cache_of<K>(&self, watch: &Watch<K>) -> Cache {
        let other = watch.cache.as_ref();
        other.unwrap_or_else(|| self.manager.cache()).clone()
    }

    fn source(mut self, source: Source) -> Self {
        self.sources.push(Box::new(move |_, _| Ok(source)));
        self
    }

    /// Names the controller, in logs and metrics; the kind of `for_` in lower case unless said otherwise; a
    /// controller without `for_` needs a name. Two controllers of a manager must not have the same name.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// use operator_runtime::controller::ControllerError;
    ///
    /// # let ((first, _first), (second, _second), (third, _third)) = (recorder(), recorder(), recorder());
    /// Controller::managed_by(manager).for_::<Deployment>().complete(first)?;
    /// let same = Controller::managed_by(manager).for_::<Deployment>().complete(second);
    /// assert!(matches!(same, Err(ControllerError::DuplicateName(name)) if name == "deployment"));
    ///
    /// Controller::managed_by(manager).for_::<Deployment>().named("deployment-auditor").complete(third)?;
    /// # Ok(()) }) }
    /// ```
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// How many keys are reconciled at the same time; 1 unless said otherwise. One key is never reconciled twice at
    /// once.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// # let (mine, _requests) = recorder();
    /// Controller::managed_by(manager).for_::<Deployment>().max_concurrent_reconciles(8).complete(mine)?;
    /// # Ok(()) }) }
    /// ```
    pub fn max_concurrent_reconciles(mut self, count: usize) -> Self {
        self.own.max_concurrent_reconciles = Some(count);
        self
    }

    /// How long keys wait that failed or asked for it: a [`Backoff`] or any [`RateLimit`]; 5 ms, doubling up to 1000 s,
    /// unless said otherwise.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// use std::time::Duration;
    /// use operator_runtime::controller::Backoff;
    ///
    /// # let (mine, _requests) = recorder();
    /// // The service behind it is slow to recover: ask it every five minutes at the most seldom.
    /// let patient = Backoff { base: Duration::from_secs(1), max: Duration::from_secs(300) };
    /// Controller::managed_by(manager).for_::<Deployment>().rate_limit(patient).complete(mine)?;
    /// # Ok(()) }) }
    /// ```
    pub fn rate_limit(mut self, limit: impl Into<RateLimit>) -> Self {
        self.own.rate_limit = Some(limit.into());
        self
    }

    /// Sets the options that are given; what they leave open stays as it was. What
    /// [`Controller::max_concurrent_reconciles`] and [`Controller::rate_limit`] set has precedence.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// use operator_runtime::ControllerOptions;
    ///
    /// # let (mine, _requests) = recorder();
    /// let careful = ControllerOptions { recover_panic: Some(false), ..ControllerOptions::default() };
    /// Controller::managed_by(manager)
    ///     .for_::<Deployment>()
    ///     .max_concurrent_reconciles(8)
    ///     .options(careful)
    ///     .complete(mine)?;
    /// # Ok(()) }) }
    /// ```
    pub fn options(mut self, options: ControllerOptions) -> Self {
        self.options = options.or(&self.options);
        self
    }

    /// The span of each reconcile, in the place of one with `controller`, `controllerGroup`, `controllerKind`,
    /// `namespace`, `name` and `reconcileID`; as controller-runtime's `LogConstructor`. The function is given the request
    /// and the id.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// # let (mine, _requests) = recorder();
    /// Controller::managed_by(manager)
    ///     .for_::<Deployment>()
    ///     .span(|request, id| tracing::info_span!("deploy", deployment = %request, id))
    ///     .complete(mine)?;
    /// # Ok(()) }) }
    /// ```
    pub fn span(mut self, span: impl Fn(&Request, &str) -> tracing::Span + Send + Sync + 'static) -> Self {
        self.span = Some(Box::new(span));
        self
    }

    /// Hands the controller to the manager, which starts it when it runs: at once if it does already, on the leader
    /// alone where there is one.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// use operator_runtime::controller::ControllerError;
    ///
    /// # let ((deaf, _deaf), (mine, _mine)) = (recorder(), recorder());
    /// assert!(matches!(Controller::managed_by(manager).named("deaf").complete(deaf), Err(ControllerError::NoWatches)));
    ///
    /// Controller::managed_by(manager).for_::<Deployment>().complete(mine)?;
    /// # Ok(()) }) }
    /// ```
    ///
    /// # Errors
    /// If the controller watches nothing, is for two kinds, or has no name or that of another one; or if the manager
    /// stops.
    pub fn complete(self, reconciler: impl Reconciler) -> Result<(), ControllerError> {
        self.build(reconciler).map(drop)
    }

    /// [`Controller::complete`], with a handle to the controller, which can be told later what else to watch.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |manager, _| {
    /// # let (mine, _seen) = recorder();
    /// let controller = Controller::managed_by(manager).for_::<Deployment>().build(mine)?;
    /// assert_eq!(controller.name(), "deployment");
    /// # Ok(()) }) }
    /// ```
    ///
    /// # Errors
    /// As [`Controller::complete`].
    pub fn build(self, reconciler: impl Reconciler) -> Result<ControllerHandle, ControllerError> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let primary = self.primary.as_ref();
        let name = self.name.or_else(|| Some(primary?.kind.to_lowercase()));
        let name: Arc<str> = name.ok_or(ControllerError::NoName)?.into();
        if self.sources.is_empty() {
            return Err(ControllerError::NoWatches);
        }
        let filters: Filters = self.filters.into();
        let sources = self.sources.into_iter();
        let sources = sources.map(|build| build(primary, filters.clone()));
        let sources = sources.collect::<Result<_, _>>()?;
        let options = self.own.or(&self.options);
        let options = options.or(&self.manager.controller_options(primary));
        let options = Settings::of(&options);
        let metrics = self.manager.metrics();
        let queue = options.new_queue.make(&name, options.rate_limit.limiter());
        let shared = Shared {
            kind: primary.cloned(),
            queue: WorkQueue::new(queue, options.priority_queue, metrics.queue(&name)),
            reconciler: Arc::new(reconciler) as Arc<dyn ErasedReconciler>,
            client: self.manager.client_of(options.needs_leader_election),
            reconciles: self.manager.reconciles().clone(),
            recorder: self.manager.recorder().clone(),
            base: self.manager.base_context().clone(),
            metrics: metrics.controller(&name, options.max_concurrent_reconciles),
            span: self.span,
            options,
            name: name.clone(),
        };
        let (late, added) = mpsc::unbounded_channel();
        self.manager
            .add_controller(Worker::new(sources, added, shared), self.uses)?;
        let cache = self.manager.cache().clone();
        Ok(ControllerHandle { name, cache, late })
    }
}
