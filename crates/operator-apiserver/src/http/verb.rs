//! The verbs: execute requests to resources.

mod create;
mod delete;
mod get;
mod list;
pub(crate) mod object_body;
pub(crate) mod options;
pub(crate) mod patch;
pub(crate) mod render;
mod update;
mod watch;

pub(crate) use self::render::partial;

use std::sync::Arc;

use crate::codec::Form;
use crate::http::call::{Answer, Call};
use crate::http::handler::Handler;
use crate::http::subresource;
use crate::registry::expiry;
use crate::resource::Definition;
use crate::status::{self, Status};
use crate::write::Write;

/// Executes a request to a resource.
pub(crate) async fn serve(
    handler: &Handler,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let registry = &*handler.registry;
    if expiry::is_expiring(definition) {
        expiry::expire(registry);
    }
    // The large futures are boxed, so that a read does not need their memory.
    if subresource::is_special(&call.info.subresource) {
        return Box::pin(subresource::serve(handler, call, definition, form)).await;
    }
    if definition.is("", "bindings") {
        return Box::pin(subresource::serve_bindings(registry, call, definition, form)).await;
    }
    match call.info.verb {
        "get" => get::serve(registry, call, definition, form).await,
        "list" => list::serve(registry, call, definition, form).await,
        "watch" => watch::serve(handler, call, definition, form),
        "create" => Box::pin(create::serve(handler, call, definition, form)).await,
        "update" => Box::pin(update::serve(registry, call, definition, form)).await,
        "patch" => Box::pin(patch::serve(registry, call, definition, form)).await,
        "delete" => Box::pin(delete::serve(registry, call, definition, form)).await,
        "deletecollection" => Box::pin(delete::serve_collection(registry, call, definition, form)).await,
        _ => Err(status::method_not_allowed()),
    }
}

/// Returns the write that a request describes.
pub(crate) fn write(call: &Call, definition: &Arc<Definition>) -> Result<Write, Status> {
    // The options of a delete may be in its body.
    let deletes = matches!(call.info.verb, "delete" | "deletecollection");
    if !deletes {
        options::check(call)?;
    }
    Ok(Write {
        definition: definition.clone(),
        namespace: if definition.namespaced {
            call.info.namespace.clone()
        } else {
            String::new()
        },
        // A path with a name also creates custom resources; the name is that of the object.
        name: match call.info.verb {
            "create" if call.info.subresource.is_empty() => String::new(),
            _ => call.info.name.clone(),
        },
        subresource: call.info.subresource.clone(),
        user: call.user.clone(),
        manager: options::field_manager(call),
        tracked: false,
        replaces: call.info.verb == "update",
        dry_run: !deletes && !options::dry_runs(call).is_empty(),
        options: options::given(call),
        warnings: call.warnings.clone(),
        in_collection: false,
        conversions: Arc::default(),
        decisions: Arc::default(),
        requested_name: Default::default(),
        deadline: call.deadline,
    })
}
