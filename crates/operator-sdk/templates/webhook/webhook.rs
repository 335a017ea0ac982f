{{ header }}//! What the API server asks about {{ kind }} objects of version {{ version }}, before it takes them.

{% if foreign and api_path < "operator_runtime" %}
use {{ api_path }}::{{ kind }};
{% endif %}
use operator_runtime::webhook::Webhook;
{% if foreign and not api_path < "operator_runtime" %}
use {{ api_path }}::{{ kind }};
{% elif not foreign %}

use crate::{{ api_path }}::{{ kind }};
{% endif %}

/// Answers the API server.
#[derive(Clone, Copy, Debug, Default)]
pub struct {{ kind }}Webhook;

/// The webhooks of {{ kind }}. What serves them and what tells the API server about them is made from
/// this alone. Implement `options` of `Defaulter` or `Validator` to change the settings.
pub fn webhook() -> Webhook<{{ kind }}> {
    Webhook::new()
}
