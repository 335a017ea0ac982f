//! Subresources whose body has another kind than their resource.

mod binding;
mod connect;
mod eviction;
mod kubelet;
mod pod_log;
mod review;
mod scale;
mod token_request;

use std::sync::Arc;

use apimachinery::object;
use http::StatusCode;
use serde_json::{Value, json};

use crate::codec::{Form, Transform};
use crate::http::call::{Answer, Call};
use crate::http::handler::Handler;
use crate::http::verb;
use crate::registry::Registry;
use crate::registry::check_namespace;
use crate::registry::create::fill_namespace;
use crate::resource::Definition;
use crate::status::{self, Status};
use crate::write::Write;

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

/// Serves a POST to the older collection of bindings.
pub(crate) async fn serve_bindings(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    binding::serve(registry, call, definition, form).await
}

/// Checks that a body belongs to the object of the URL.
fn check_place(write: &Write, body: &Value, kind: &str) -> Result<(), Status> {
    if object::name(body) != write.name {
        return Err(status::bad_request(format!(
            "name in URL does not match name in {kind} object"
        )));
    }
    check_namespace(write, body)
}

/// Returns an object that is not stored, or only its metadata if the client requests that.
fn transient(code: StatusCode, object: &Value, form: Form) -> Answer {
    match form.transform {
        Transform::PartialObjectMetadata => Answer::object(code, &verb::partial(object, form), form),
        _ => Answer::object(code, object, form),
    }
}

/// Sets the type and the namespace of a body whose kind differs from its resource, as admission receives it.
fn complete_body(write: &Write, body: &mut Value, (api_version, kind): (&str, &str)) -> Result<(), Status> {
    if let Some(body) = body.as_object_mut() {
        body.insert("apiVersion".to_owned(), api_version.into());
        body.insert("kind".to_owned(), kind.into());
    }
    fill_namespace(write, body)
}

/// Returns the success Status for requests without a result object.
fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// Returns true if the responses of a subresource have no columns.
pub(crate) fn has_no_table(subresource: &str) -> bool {
    matches!(subresource, "binding" | "eviction" | "token")
}

/// Returns true if a subresource connects the client to something else.
pub(crate) fn connects(subresource: &str) -> bool {
    matches!(subresource, "attach" | "exec" | "portforward" | "proxy")
}

/// Returns true if a subresource needs more than the generic verbs.
pub(crate) fn is_special(subresource: &str) -> bool {
    SPECIAL.contains(&subresource)
}

/// Serves a request to a special subresource.
pub(crate) async fn serve(
    handler: &Handler,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let registry = &handler.registry;
    match call.info.subresource.as_str() {
        "scale" => scale::serve(registry, call, definition, form).await,
        "binding" => binding::serve(registry, call, definition, form).await,
        "eviction" => eviction::serve(registry, call, definition, form).await,
        "token" => token_request::serve(handler, call, definition, form).await,
        "log" => pod_log::serve(registry, call, definition),
        "attach" | "exec" | "portforward" => connect::serve(handler, call, definition).await,
        "proxy" => connect::serve_proxy(registry, call, definition).await,
        other => {
            handler
                .registry
                .get(definition, &call.info.namespace, &call.info.name)?;
            Err(status::internal(&format!(
                "the embedded server does not serve the subresource {other}"
            )))
        }
    }
}
