//! GET of a collection.

use super::{options, render};
use crate::codec::Form;
use crate::http::call::{Answer, Call};
use crate::registry::Registry;
use crate::resource::Definition;
use crate::resource::crd::conversion;
use crate::status::Status;

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Definition,
    form: Form,
) -> Result<Answer, Status> {
    let options = options::list_options(call, definition)?;
    let page = registry.list(definition, &call.info.namespace, &options)?;
    let stored = page.items.iter().map(|stored| &stored.value);
    conversion::prepare(&registry.converter, definition, stored).await?;
    render::list(registry, call, definition, form, &page)
}
