{{ header }}{% if foreign %}
//! Reconciles {{ kind }} objects, a kind that this operator does not define.
{% else %}
//! Reconciles {{ kind }} objects, in addition to the other controllers of the kind.
{% endif %}

use std::sync::Arc;

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

/// Returns the controller: the kinds that it watches, and the function that it calls.
pub fn controller() -> Controller<{{ kind }}> {
    // Add `.owns::<Deployment>()` for each kind of object that `reconcile` applies.
{% if controller_name %}
    Controller::new(reconcile).named({{ controller_name | rust }})
{% else %}
    Controller::new(reconcile)
{% endif %}
}

/// Reconciles one {{ kind }}. It is called after every change of the object, and again after an error.
{{ signature("async fn reconcile(", ["object: Arc<" ~ kind ~ ">", "ctx: Context<" ~ kind ~ ">"], ") -> Result<Action> {") }}
    // TODO: other controllers write to the object too, so apply your own objects:
    //     ctx.apply_owned(config_map_for(&object)).await?;
    let _ = (object, ctx);
    Ok(Action::done())
}
