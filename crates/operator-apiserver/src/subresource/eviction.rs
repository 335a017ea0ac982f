//! `pods/eviction`: deletes a pod if its disruption budgets allow.

use std::sync::Arc;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::call::{Answer, Call};
use crate::negotiate::Form;
use crate::negotiate::body::{self, Media};
use crate::object;
use crate::registry::{Definition, DeleteOptions, Registry};
use crate::status::{self, Status};
use crate::verb;

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let write = verb::write(call, definition)?;
    let media = Media::parse(call.header(CONTENT_TYPE), false)?;
    let decoded = body::decode(&call.body, media, ("policy/v1", "Eviction"))
        .map_err(|why| body::unrecognized(("v1", "Eviction"), media, &why, &call.body))?;
    let name = object::name(&decoded.value);
    if !name.is_empty() && name != call.info.name {
        return Err(status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let options = &decoded.value["deleteOptions"];
    let text = |path: &[&str]| {
        object::get(options, path)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let options = DeleteOptions {
        grace_period_seconds: options.get("gracePeriodSeconds").and_then(Value::as_i64),
        propagation_policy: text(&["propagationPolicy"]),
        uid: text(&["preconditions", "uid"]),
        resource_version: text(&["preconditions", "resourceVersion"]),
    };
    registry.delete(&write, &options).await?;
    let created = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    Ok(Answer::object(StatusCode::CREATED, &created, form))
}
