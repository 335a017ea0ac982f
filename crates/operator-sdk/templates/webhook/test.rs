{{ header }}//! The webhooks of {{ kind }}, asked as the API server asks them.

use operator_runtime::prelude::*;
{% if foreign %}
use {{ api_path }}::{{ kind }};
{% else %}

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
