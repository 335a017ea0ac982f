//! Subresources whose body is of another kind than their resource.

mod binding;
mod eviction;
mod review;
mod scale;

use std::sync::Arc;

use crate::call::{Answer, Call};
use crate::negotiate::Form;
use crate::registry::{Definition, Registry};
use crate::status::{self, Status};

pub(crate) use self::binding::bind;
pub(crate) use self::review::{is_review, serve as serve_review};

const SPECIAL: [&str; 12] = [
    "attach",
    "binding",
    "eviction",
    "exec",
    "log",
    "portforward",
    "proxy",
    "scale",
    "token",
    "options",
    "template",
    "instantiate",
];

/// Whether a subresource needs more than the generic verbs.
pub(crate) fn is_special(subresource: &str) -> bool {
    SPECIAL.contains(&subresource)
}

/// Answers a request to a special subresource.
pub(crate) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    match call.info.subresource.as_str() {
        "scale" => scale::serve(registry, call, definition, form).await,
        "binding" => binding::serve(registry, call, definition, form).await,
        "eviction" => eviction::serve(registry, call, definition, form).await,
        other => Err(status::internal(&format!(
            "the embedded server does not serve the subresource {other}"
        ))),
    }
}
