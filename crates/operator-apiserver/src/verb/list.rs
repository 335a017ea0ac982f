//! GET of a collection.

use super::{options, render};
use crate::call::{Answer, Call};
use crate::crd::conversion;
use crate::negotiate::Form;
use crate::registry::{Definition, Registry};
use crate::status::{self, Status};

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Definition,
    form: Form,
) -> Result<Answer, Status> {
    let options = options::list_options(call, definition)?;
    if !options.token.is_empty() && options.revision.is_some_and(|revision| revision != 0) {
        return Err(status::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let page = registry.list(definition, &call.info.namespace, &options)?;
    let stored = page.items.iter().map(|stored| &stored.value);
    conversion::prepare(registry, definition, stored).await?;
    render::list(registry, call, definition, form, &page)
}
