{{ header }}//! The webhooks for {{ kind }} objects of version {{ version }}.

{% if foreign and api_path < "operator_runtime" %}
use {{ api_path }}::{{ kind }};
{% endif %}
use operator_runtime::webhook::Webhook;
{% if foreign and not api_path < "operator_runtime" %}
use {{ api_path }}::{{ kind }};
{% elif not foreign %}

use crate::{{ api_path }}::{{ kind }};
{% endif %}

/// Handles admission requests of the API server.
#[derive(Clone, Copy, Debug, Default)]
pub struct {{ kind }}Webhook;

/// Returns the webhooks of {{ kind }}. The webhook server and the webhook configurations are derived from
/// them. Implement `options` of `Defaulter` or `Validator` to change the settings.
pub fn webhook() -> Webhook<{{ kind }}> {
    Webhook::new()
}
