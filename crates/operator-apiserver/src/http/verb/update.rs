//! PUT of an object or of its subresource.

use std::sync::Arc;

use apimachinery::object;
use http::StatusCode;
use serde_json::Value;

use super::{object_body, render, write};
use crate::codec::Form;
use crate::http::call::{Answer, Call};
use crate::http::router;
use crate::registry::Registry;
use crate::resource::Definition;
use crate::status::Status;

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let write = write(call, definition)?;
    let object = object_body::read(call, definition, &write.warnings, Some(&call.info.name))?;
    if definition.namespaced && write.namespace.is_empty() {
        return Err(router::no_namespace());
    }
    router::check_segment(&write.name)?;
    let change = |_: &Value| Ok(object.clone());
    let result = registry.update(&write, &change).await;
    let (code, updated) = match result {
        Err(missing)
            if missing.code == 404
                && write.subresource.is_empty()
                && definition.allows_create_on_update()
                && registry.load(&write).is_err() =>
        {
            let uid = object::uid(&object);
            if !uid.is_empty() {
                return Err(write.precondition_failed("UID", uid, ""));
            }
            let mut fresh = object.clone();
            object::set_meta(&mut fresh, "resourceVersion", None);
            (StatusCode::CREATED, registry.create(&write, fresh).await?)
        }
        result => (StatusCode::OK, result?),
    };
    render::object(registry, call, definition, form, code, &updated)
}
