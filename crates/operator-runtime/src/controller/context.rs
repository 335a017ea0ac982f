//! What a reconcile is given: the client, the event recorder, and who it is.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::client::Client;
use crate::event_recorder::{EventRecorder, EventWriter};
use crate::manager::BaseContext;
use crate::object::Object;

/// Everything that a reconcile needs of the runtime. It is the [`Client`] of the manager, by dereference, with the
/// event recorder beside it. Clones are cheap.
///
/// ```no_run
/// # use operator_runtime::prelude::*;
/// # use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
/// # async fn example(ctx: Context, request: Request, owner: Deployment, desired: ReplicaSet) -> Result<Action> {
/// let Some(deployment) = ctx.get::<Deployment>(&request).await? else { return Ok(Action::done()) };
/// let replica_set = ctx.apply_owned(&*deployment, desired).await?;
/// ctx.event(&*deployment).normal("Applied", "The ReplicaSet is up to date").await?;
/// # Ok(Action::done())
/// # }
/// ```
#[derive(Clone)]
pub struct Context {
    client: Client,
    recorder: EventRecorder,
    base: BaseContext,
    controller: Arc<str>,
    reconcile_id: Arc<str>,
}

// === impl Context ===

impl Context {
    pub(crate) fn new(
        client: Client,
        recorder: EventRecorder,
        base: BaseContext,
        controller: Arc<str>,
        reconcile_id: String,
    ) -> Self {
        Self {
            client,
            recorder,
            base,
            controller,
            reconcile_id: reconcile_id.into(),
        }
    }

    /// The client of the manager, for functions that take a [`Client`]; its methods are those of the context too.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use operator_runtime::prelude::*;
    /// use operator_runtime::Client;
    ///
    /// async fn count(client: &Client) -> Result<usize> {
    ///     Ok(client.list::<ConfigMap>(None).await?.len())
    /// }
    ///
    /// # struct Counter;
    /// impl Reconciler for Counter {
    ///     async fn reconcile(&self, ctx: Context, _: Request) -> Result<Action> {
    ///         let count = count(ctx.client()).await?;
    ///         tracing::info!(count, "counted");
    ///         Ok(Action::done())
    ///     }
    /// }
    /// ```
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Says something about `object` to people: a Kubernetes Event, which `kubectl describe` shows. It is written in
    /// the background; see [`event_recorder`](crate::event_recorder).
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use operator_runtime::prelude::*;
    ///
    /// async fn tell(ctx: &Context, deployment: &Deployment) -> Result<()> {
    ///     ctx.event(deployment).warning("QuotaExceeded", "There is no room for a third replica").await?;
    ///     Ok(())
    /// }
    /// # let _ = tell;
    /// ```
    pub fn event<'a, K: Object>(&'a self, object: &'a K) -> EventWriter<'a> {
        self.recorder.event(object)
    }

    /// The value of this type that [`BaseContext::with_value`] gave to everything that the manager runs, if there is
    /// one.
    ///
    /// ```
    /// use operator_runtime::manager::BaseContext;
    /// use operator_runtime::prelude::*;
    ///
    /// struct Region(String);
    ///
    /// // Where the manager is built: `.base_context(base)`.
    /// let base = BaseContext::new().with_value(Region("eu-1".to_owned()));
    ///
    /// fn region(ctx: &Context) -> Option<&str> {
    ///     ctx.value::<Region>().map(|region| region.0.as_str())
    /// }
    /// # let _ = (base, region);
    /// ```
    pub fn value<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.base.value()
    }

    /// The name of the controller, as in its logs and metrics: see [`Controller::named`](super::Controller::named).
    ///
    /// ```
    /// use operator_runtime::prelude::*;
    ///
    /// # struct Shared;
    /// // One reconciler for two controllers:
    /// impl Reconciler for Shared {
    ///     async fn reconcile(&self, ctx: Context, _: Request) -> Result<Action> {
    ///         let is_audit = ctx.controller() == "deployment-auditor";
    ///         # let _ = is_audit;
    ///         Ok(Action::done())
    ///     }
    /// }
    /// ```
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// Names this reconcile in the logs, as `reconcileID`: unique to it, for what is logged or asked elsewhere.
    ///
    /// ```
    /// use operator_runtime::prelude::*;
    ///
    /// /// The value of a header that the service behind the operator logs.
    /// fn trace_header(ctx: &Context) -> String {
    ///     format!("{}/{}", ctx.controller(), ctx.reconcile_id())
    /// }
    /// # let _ = trace_header;
    /// ```
    pub fn reconcile_id(&self) -> &str {
        &self.reconcile_id
    }
}

impl Deref for Context {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut context = formatter.debug_struct("Context");
        context
            .field("controller", &self.controller)
            .field("reconcile_id", &self.reconcile_id)
            .finish_non_exhaustive()
    }
}
