{{ header }}//! Reconciles {{ kind }} objects.

use std::sync::Arc;

use operator_runtime::prelude::*;

use crate::{{ api_path }}::{{ kind }};

/// Returns the controller: the kinds that it watches, and the function that it calls.
pub fn controller() -> Controller<{{ kind }}> {
    // Add `.owns::<Deployment>()` for each kind of object that `reconcile` applies.
    Controller::new(reconcile)
}

/// Brings the cluster to the state that one {{ kind }} describes.
///
/// It is called after every change of the object or of an object that it owns, and again after an error. Compare the
/// current state with the desired one: it may be called when nothing has changed.
{{ signature("async fn reconcile(", ["object: Arc<" ~ kind ~ ">", "ctx: Context<" ~ kind ~ ">"], ") -> Result<Action> {") }}
    // TODO: apply the objects that this one needs; the garbage collector deletes them together with it:
    //     let deployment = ctx.apply_owned(deployment_for(&object)).await?;
    let _ = object;

    ctx.update_status(|status| {
        let available = Condition::available(true, "Reconciled", "nothing is left to do");
        status.conditions.set(available);
    })
    .await?;
    Ok(Action::done())
}
