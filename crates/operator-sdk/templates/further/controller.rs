{{ header }}{% if foreign %}
//! Reacts to each {{ kind }}, a kind of somebody else.
{% else %}
//! Does a part of what each {{ kind }} asks for, beside its other controllers.
{% endif %}

{% if not foreign %}
use operator_runtime::prelude::*;

use crate::{{ api_path }}::{{ kind }};
{% elif api_path < "operator_runtime" %}
use {{ api_path }}::{{ kind }};
use operator_runtime::prelude::*;
{% else %}
use operator_runtime::prelude::*;
use {{ api_path }}::{{ kind }};
{% endif %}

/// Reconciles {{ kind }} objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct {{ reconciler }};

// What the operator may do; `operator-sdk generate manifests` writes config/rbac/role.yaml from it.
#[rbac(
    groups = "{{ api_group or "core" }}",
    resources = "{{ plural }}",
    verbs = "get;list;watch;create;update;patch;delete"
)]
#[rbac(
    groups = "{{ api_group or "core" }}",
    resources = "{{ plural }}/status",
    verbs = "get;update;patch"
)]
#[rbac(
    groups = "{{ api_group or "core" }}",
    resources = "{{ plural }}/finalizers",
    verbs = "update"
)]
impl Reconciler for {{ reconciler }} {
    /// Brings the cluster closer to what one {{ kind }} asks for.
    ///
    /// Runs whenever the object has changed, and again after an error. It must come to the same end
    /// however often it runs: look at what is there, say what should be.
    async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
        let Some(object) = ctx.get::<{{ kind }}>(&request).await? else {
            // It was deleted.
            return Ok(Action::done());
        };

        // TODO: do what has to be done about the object. Others write to it too: change only what is
        // yours, best objects of your own with `ctx.apply_owned`.
        let _ = object;
        Ok(Action::done())
    }
}

impl {{ reconciler }} {
    /// Watches {{ kind }} objects.
    pub fn setup_with_manager(self, manager: &Manager) -> Result<()> {
        Controller::managed_by(manager)
{% if controller_name %}
            .named({{ controller_name | rust }})
{% endif %}
            .for_::<{{ kind }}>()
            // Add `.owns::<Deployment>()` for a kind that the reconciler applies.
            .complete(self)?;
        Ok(())
    }
}
