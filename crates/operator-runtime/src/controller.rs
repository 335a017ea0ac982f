//! Controllers: sources feed a queue, workers reconcile its keys. [`Controller`] is the builder.
//!
//! No key is reconciled by two workers at once, and however many events a key has while it is reconciled, it is
//! reconciled once more after them. Workers start when everything that the controller watches has been listed, so a
//! reconcile never sees half of what exists.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::cache::Cache;
use crate::error::Result;
use crate::event::Event;
use crate::handler::{self, EventHandler};
use crate::manager::Manager;
use crate::object::{Kind, Object, ObjectKey};
use crate::predicate::Predicate;
use crate::queue::LOW_PRIORITY;
use crate::queue::driver::WorkQueue;
pub use crate::queue::state::Backoff;

mod context;
mod worker;

pub use context::Context;
pub(crate) use worker::Worker;
use worker::{ErasedReconciler, Shared};

/// What to reconcile: the key of the object.
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
    /// # Errors
    /// Any error; see [`Error`](crate::Error) for what becomes of it.
    fn reconcile(&self, ctx: Context, request: Request) -> impl Future<Output = Result<Action>> + Send;
}

/// What follows from a reconcile that succeeded.
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

/// How a controller works.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// How many keys are reconciled at the same time; 1.
    pub max_concurrent_reconciles: usize,
    /// How the waits after failures grow; 5 ms doubling up to 1000 s.
    pub backoff: Backoff,
    /// A reconcile that takes longer is cancelled at its next `await`, which is an error of its key; no limit.
    pub reconciliation_timeout: Option<Duration>,
    /// How long the first lists may take before the manager stops with an error. Without a limit, the default, the
    /// controller waits, says so in the log and in `/readyz`, and the other controllers go on.
    pub cache_sync_timeout: Option<Duration>,
    /// Whether the controller runs on the leader alone, where leader election is on; true.
    pub needs_leader_election: bool,
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
    options: ControllerOptions,
    primary: Option<Kind>,
    sources: Vec<BuildSource>,
    mistake: Option<ControllerError>,
}

/// Why a controller cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Nothing would ever call the reconciler.
    #[error("there are no watches configured, controller will never get triggered: call for_ or watches")]
    NoWatches,
    /// `for_` was called twice.
    #[error("a controller is for one kind, and for_ was called for {first} and for {second}: use watches")]
    TwoPrimaries {
        /// The kind of the first call.
        first: String,
        /// The kind of the second.
        second: String,
    },
    /// `owns` needs to know whose objects they are.
    #[error("owns::<{0}> needs for_, which says who the owner is")]
    OwnsWithoutFor(String),
    /// Names are labels of metrics and logs, so they differ within a manager.
    #[error("controller {0} exists already: give one of the two another name with named")]
    DuplicateName(String),
    /// The controller comes too late.
    #[error("controller {0} was completed after the manager had started")]
    ManagerStarted(String),
    /// A first list took longer than `cache_sync_timeout`.
    #[error("controller {name}: failed to wait for caches to sync: {reason}")]
    CacheSync {
        /// The controller.
        name: String,
        /// What its watches say.
        reason: String,
    },
}

/// Connects one kind with the queue of the controller.
pub(crate) struct Source {
    /// Registers the handler; the future ends when the kind is in the cache and its objects in the queue.
    pub(crate) start: Box<dyn FnOnce(Arc<WorkQueue>) -> BoxFuture<'static, ()> + Send>,
}

/// Makes a source once the kind that the controller is for is known.
type BuildSource = Box<dyn FnOnce(Option<&Kind>) -> Result<Source, ControllerError>>;

// === impl Action ===

impl Action {
    /// Nothing more to do until something changes.
    pub fn done() -> Self {
        Self::new(Requeue::Never)
    }

    /// Reconcile again after this time, for what no event announces. It does not survive a restart, which reconciles
    /// everything anyway. A time of zero means [`Action::done`].
    pub fn requeue_after(after: Duration) -> Self {
        Self::new(if after.is_zero() {
            Requeue::Never
        } else {
            Requeue::After(after)
        })
    }

    /// Reconcile again after the backoff, as after an error but without one. The waits grow from call to call, up to
    /// 1000 s; [`Action::requeue_after`] is mostly what is wanted.
    pub fn requeue() -> Self {
        Self::new(Requeue::Backoff)
    }

    /// The priority of the requeue; that of the request unless said otherwise. Events have 0.
    pub fn with_priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    fn new(requeue: Requeue) -> Self {
        let priority = None;
        Self { requeue, priority }
    }
}

// === impl ControllerOptions ===

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            max_concurrent_reconciles: 1,
            backoff: Backoff::default(),
            reconciliation_timeout: None,
            cache_sync_timeout: None,
            needs_leader_election: true,
        }
    }
}

// === impl Controller ===

impl Controller {
    /// Begins a controller of `manager`.
    pub fn managed_by(manager: &Manager) -> Self {
        Self {
            manager: manager.clone(),
            name: None,
            options: ControllerOptions::default(),
            primary: None,
            sources: Vec::new(),
            mistake: None,
        }
    }

    /// Reconciles objects of `K`: each of their events is a request with their key. Once per controller.
    pub fn for_<K: Object>(self) -> Self {
        self.for_where::<K>(|_: &Event<K>| true)
    }

    /// [`Controller::for_`], for the events that `predicate` lets pass.
    pub fn for_where<K: Object>(mut self, predicate: impl Predicate<K>) -> Self {
        let kind = Kind::of::<K>();
        if let Some(first) = self.primary.replace(kind.clone()) {
            self.mistake = Some(ControllerError::TwoPrimaries {
                first: first.to_string(),
                second: kind.to_string(),
            });
        }
        self.watches_where::<K>(handler::for_object(), predicate)
    }

    /// Reconciles the owner, of the kind of `for_`, of each changed object of `K` that it controls.
    pub fn owns<K: Object>(self) -> Self {
        self.owns_where::<K>(|_: &Event<K>| true)
    }

    /// [`Controller::owns`], for the events that `predicate` lets pass.
    pub fn owns_where<K: Object>(mut self, predicate: impl Predicate<K>) -> Self {
        let cache = self.manager.cache().clone();
        self.sources.push(Box::new(move |primary| {
            let owner =
                primary.ok_or_else(|| ControllerError::OwnsWithoutFor(Kind::of::<K>().to_string()))?;
            Ok(source(
                &cache,
                handler::for_owner_of_kind::<K>(owner.clone(), true),
                predicate,
            ))
        }));
        self
    }

    /// Reconciles what `handler` makes of each event of `K`.
    pub fn watches<K: Object>(self, handler: impl EventHandler<K>) -> Self {
        self.watches_where::<K>(handler, |_: &Event<K>| true)
    }

    /// [`Controller::watches`], for the events that `predicate` lets pass.
    pub fn watches_where<K: Object>(
        mut self,
        handler: impl EventHandler<K>,
        predicate: impl Predicate<K>,
    ) -> Self {
        let cache = self.manager.cache().clone();
        self.sources
            .push(Box::new(move |_| Ok(source(&cache, handler, predicate))));
        self
    }

    /// Names the controller, in logs and metrics; the kind of `for_` in lower case unless said otherwise.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// How many keys are reconciled at the same time.
    pub fn max_concurrent_reconciles(mut self, count: usize) -> Self {
        self.options.max_concurrent_reconciles = count;
        self
    }

    /// Sets all options.
    pub fn options(mut self, options: ControllerOptions) -> Self {
        self.options = options;
        self
    }

    /// Hands the controller to the manager, which starts it when it runs.
    ///
    /// # Errors
    /// If the controller watches nothing, is for two kinds, or has the name of another one.
    pub fn complete(self, reconciler: impl Reconciler) -> Result<(), ControllerError> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        if self.sources.is_empty() {
            return Err(ControllerError::NoWatches);
        }
        let name = self
            .name
            .or_else(|| self.primary.as_ref().map(|kind| kind.kind.to_lowercase()));
        let name = name.unwrap_or_else(|| "controller".to_owned());
        let primary = self.primary.as_ref();
        let sources = self.sources.into_iter().map(|build| build(primary));
        let sources = sources.collect::<Result<_, _>>()?;
        let metrics = self.manager.metrics();
        let shared = Shared {
            kind: primary.cloned(),
            queue: WorkQueue::new(self.options.backoff, metrics.queue(&name)),
            reconciler: Arc::new(reconciler) as Arc<dyn ErasedReconciler>,
            client: self.manager.client().clone(),
            recorder: self.manager.recorder().clone(),
            metrics: metrics.controller(&name, self.options.max_concurrent_reconciles.max(1)),
            options: self.options,
            name: name.into(),
        };
        let worker = Worker { sources, shared };
        self.manager.add_controller(worker)
    }
}

fn source<K: Object>(cache: &Cache, handler: impl EventHandler<K>, predicate: impl Predicate<K>) -> Source {
    // The informer exists from now on, so that its watch starts with the cache.
    let informer = cache.informer::<K>();
    Source {
        start: Box::new(move |queue| {
            Box::pin(async move {
                informer.synced::<K>().await;
                informer.add_handler(move |event: &Event<K>| {
                    if predicate.test(event) {
                        let is_unchanged = event.is_initial() || event.is_resync();
                        let priority = if is_unchanged { LOW_PRIORITY } else { 0 };
                        handler
                            .requests(event)
                            .into_iter()
                            .for_each(|key| queue.add(key, priority));
                    }
                });
            })
        }),
    }
}
