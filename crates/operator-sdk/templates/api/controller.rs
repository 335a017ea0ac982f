{{ header }}//! Keeps the cluster as each {{ kind }} asks.

use operator_runtime::prelude::*;

use crate::{{ api_path }}::{{ kind }};

/// Reconciles {{ kind }} objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct {{ reconciler }};

// What the operator may do; `operator-sdk generate manifests` writes config/rbac/role.yaml from it.
#[rbac(
    groups = "{{ api_group }}",
    resources = "{{ plural }}",
    verbs = "get;list;watch;create;update;patch;delete"
)]
#[rbac(
    groups = "{{ api_group }}",
    resources = "{{ plural }}/status",
    verbs = "get;update;patch"
)]
#[rbac(
    groups = "{{ api_group }}",
    resources = "{{ plural }}/finalizers",
    verbs = "update"
)]
#[rbac(groups = "events.k8s.io", resources = "events", verbs = "create;patch")]
impl Reconciler for {{ reconciler }} {
    /// Brings the cluster closer to what one {{ kind }} asks for.
    ///
    /// Runs whenever the object, or something that it owns, has changed, and again after an error. It
    /// must come to the same end however often it runs: look at what is there, say what should be.
    async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
        let Some(object) = ctx.get::<{{ kind }}>(&request).await? else {
            // It was deleted; the cluster collects what it owned.
            return Ok(Action::done());
        };

        // TODO: apply what the object asks for, such as a Deployment that it owns, and say in the
        // status what came of it:
        //     let deployment = ctx.apply_owned(&*object, deployment_for(&object)).await?;

        let available = Condition::available(true, "Reconciled", "nothing is left to do");
        ctx.status(&*object).condition(available).patch().await?;
        Ok(Action::done())
    }
}

impl {{ reconciler }} {
    /// Watches {{ kind }} objects.
    pub fn setup_with_manager(self, manager: &Manager) -> Result<()> {
        Controller::managed_by(manager)
            .for_::<{{ kind }}>()
            // Add `.owns::<Deployment>()` for a kind that the reconciler applies.
            .complete(self)?;
        Ok(())
    }
}
