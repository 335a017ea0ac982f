//! POST to a collection.

use std::sync::Arc;

use http::StatusCode;

use super::{object_body, render, write};
use crate::call::{Answer, Call};
use crate::negotiate::Form;
use crate::registry::{Definition, Registry};
use crate::status::Status;
use crate::subresource;

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let write = write(call, definition)?;
    let object = object_body::read(call, definition, &write.warnings, None)?;
    if subresource::is_review(definition) {
        return subresource::serve_review(registry, &write, form, object).await;
    }
    let created = registry.create(&write, object).await?;
    render::object(registry, call, definition, form, StatusCode::CREATED, &created)
}
