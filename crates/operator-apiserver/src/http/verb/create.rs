//! POST to a collection.

use std::sync::Arc;

use http::StatusCode;

use super::{object_body, render, write};
use crate::codec::Form;
use crate::http::call::{Answer, Call};
use crate::http::handler::Handler;
use crate::http::subresource;
use crate::resource::Definition;
use crate::status::Status;

pub(super) async fn serve(
    handler: &Handler,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let write = write(call, definition)?;
    let object = object_body::read(call, definition, &write.warnings, None)?;
    if subresource::is_review(definition) {
        return subresource::serve_review(handler, &write, form, object).await;
    }
    let created = handler.registry.create(&write, object).await?;
    render::object(
        &handler.registry,
        call,
        definition,
        form,
        StatusCode::CREATED,
        &created,
    )
}
