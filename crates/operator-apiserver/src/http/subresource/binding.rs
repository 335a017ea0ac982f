//! `pods/binding`: binds a pod to a node.

use std::sync::Arc;

use apimachinery::object;
use http::StatusCode;

use crate::codec::Form;
use crate::http::call::{Answer, Call};
use crate::http::verb::{self, object_body};
use crate::patch::managed_fields;
use crate::registry::Registry;
use crate::registry::binding;
use crate::resource::Definition;
use crate::status::{self, Status};
use apimachinery::gvk::Gvk;

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let mut write = verb::write(call, definition)?;
    let mut body = object_body::read_other(call, &BINDING, &write.warnings)?;
    let find = |resource| {
        let found = registry.find("", "v1", resource);
        found.ok_or_else(status::unknown_resource)
    };
    if definition.is("", "bindings") {
        // In the older collection, only the body contains the name of the pod.
        object::name(&body).clone_into(&mut write.name);
    }
    super::check_place(&write, &body, "Binding")?;
    super::complete_body(&write, &mut body, ("v1", "Binding"))?;
    let tracking = verb::write(call, &find("bindings")?)?;
    managed_fields::update(&registry.timestamp(), &tracking, None, &mut body);
    binding::admit(registry, &write, &mut body).await?;
    if write.name.is_empty() {
        return Err(status::bad_request("Name parameter required."));
    }
    write.definition = find("pods")?;
    write.subresource = "binding".to_owned();
    binding::bind(registry, &write, &body)?;
    Ok(Answer::object(StatusCode::CREATED, &super::success(), form))
}

const BINDING: Gvk = Gvk {
    group: "",
    version: "v1",
    kind: "Binding",
};
