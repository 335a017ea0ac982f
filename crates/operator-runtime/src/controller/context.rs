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

    /// The client of the manager.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Says something about `object` to people: a Kubernetes Event, which `kubectl describe` shows.
    pub fn event<'a, K: Object>(&'a self, object: &'a K) -> EventWriter<'a> {
        self.recorder.event(object)
    }

    /// The value of this type that [`BaseContext::with_value`] gave to everything that the manager runs, if there is one.
    pub fn value<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.base.value()
    }

    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.controller
    }

    /// Names this reconcile in the logs.
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
