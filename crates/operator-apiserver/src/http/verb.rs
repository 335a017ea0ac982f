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

use http::Method;

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
    method: &Method,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let registry = &*handler.registry;
    check_method(method, call, definition)?;
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

/// Checks that the resource supports the verb at the path.
fn check_method(method: &Method, call: &Call, definition: &Definition) -> Result<(), Status> {
    let info = &call.info;
    if !info.rest.is_empty() && info.subresource != "proxy" {
        return Err(status::unknown_resource());
    }
    if !info.name.is_empty() && !has_items(definition) {
        return Err(status::unknown_resource());
    }
    let fits = match info.verb {
        "create" => info.name.is_empty() || !info.subresource.is_empty(),
        "update" | "patch" => !info.name.is_empty(),
        _ => true,
    };
    let everywhere = definition.namespaced && info.namespace.is_empty();
    let allowed = if info.subresource.is_empty() {
        definition.allows(info.verb) && (!everywhere || matches!(info.verb, "list" | "watch"))
    } else {
        let Some(subresource) = definition.subresource(&info.subresource) else {
            return Err(if definition.is_custom() {
                status::not_found(&definition.subject, &info.name)
            } else {
                status::unknown_resource()
            });
        };
        subresource.verbs.iter().any(|verb| verb == info.verb)
    };
    // Custom resources treat a HEAD as a GET.
    if fits && allowed && (definition.is_custom() || *method != Method::HEAD) {
        return Ok(());
    }
    if definition.is_custom() {
        return Err(status::method_not_supported(&definition.subject, info.verb));
    }
    Err(status::method_not_allowed())
}

/// Returns true if the path of a single object can exist; reviews have no such paths.
fn has_items(definition: &Definition) -> bool {
    ["get", "update", "patch", "delete"]
        .iter()
        .any(|verb| definition.allows(verb))
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
        name: call.info.name.clone(),
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
        deadline: call.deadline,
    })
}
