//! GET of one object.

use bytes::Bytes;
use http::StatusCode;

use super::{options, render};
use crate::codec::protobuf;
use crate::codec::{Form, Transform};
use crate::http::call::{Answer, Call};
use crate::registry::Registry;
use crate::resource::Definition;
use crate::resource::crd::conversion;
use crate::status::{self, Status};

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Definition,
    form: Form,
) -> Result<Answer, Status> {
    if call.query.flag("export") {
        return Err(status::bad_request(
            "the export parameter, deprecated since v1.14, is no longer supported",
        ));
    }
    check_revision(registry, call)?;
    let info = &call.info;
    let stored = registry.get(definition, &info.namespace, &info.name)?;
    conversion::prepare(&registry.converter, definition, [&stored.value]).await?;
    let object = definition.serve(&stored.value);
    let as_stored = std::sync::Arc::ptr_eq(&object, &stored.value);
    if as_stored && form.protobuf && form.transform == Transform::None {
        let bytes = protobuf::encode::envelope(
            (&*definition.api_version(), &*definition.subject.kind),
            stored.protobuf(),
        );
        return Ok(Answer::new(StatusCode::OK, form.content_type(), bytes.into()));
    }
    if as_stored && form == Form::default() && form.transform == Transform::None {
        let mut bytes = Vec::with_capacity(stored.bytes().len() + 1);
        bytes.extend_from_slice(stored.bytes());
        bytes.push(b'\n');
        return Ok(Answer::new(
            StatusCode::OK,
            form.content_type(),
            Bytes::from(bytes),
        ));
    }
    render::object(registry, call, definition, form, StatusCode::OK, &object)
}

fn check_revision(registry: &Registry, call: &Call) -> Result<(), Status> {
    let text = call.query.text("resourceVersion");
    if text.is_empty() {
        return Ok(());
    }
    let wanted = options::parse_revision(call, text)?;
    let current = registry.store.revision();
    if wanted > current {
        return Err(status::too_large_revision(wanted, current));
    }
    Ok(())
}
