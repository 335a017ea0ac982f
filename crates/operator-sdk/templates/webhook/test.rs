{{ header }}//! The webhooks of {{ kind }}, asked as the API server asks them.

{% if foreign and api_path < "operator_runtime" %}
use {{ api_path }}::{{ kind }};
{% endif %}
use operator_runtime::prelude::*;
{% if foreign and not api_path < "operator_runtime" %}
use {{ api_path }}::{{ kind }};
{% elif not foreign %}

use {{ crate_name }}::{{ api_path }}::{{ "{" }}{{ kind }}, {{ kind }}Spec};
{% endif %}

/// An object as a user may write it.
fn sample() -> {{ kind }} {
{% if foreign %}
    {{ kind }}::default()
{% else %}
    {{ kind }}::new("sample", {{ kind }}Spec::default())
{% endif %}
}
