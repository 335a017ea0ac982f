//! Admission: the plug-ins between authorisation and the registry, in the order of the real server.

mod default_toleration_seconds;
mod namespace_lifecycle;
mod priority;
mod service_account;

use serde_json::Value;

use crate::object;
use crate::registry::{Registry, Write};
use crate::status::{self, Status};

/// What a request does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// The plug-ins that may change the object, and the checks that come first.
pub(crate) async fn admit(
    registry: &Registry,
    write: &Write,
    operation: Operation,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let _ = old;
    namespace_lifecycle::check(registry, write, operation, object)?;
    if operation == Operation::Create && write.definition.is_terminating() {
        return Err(status::forbidden(
            &write.definition.subject,
            object::name(object),
            "create not allowed while custom resource definition is terminating",
        ));
    }
    let creates_pod = operation == Operation::Create && write.definition.is("", "pods");
    if creates_pod && write.subresource.is_empty() {
        service_account::admit(registry, write, object)?;
        priority::admit(registry, write, object)?;
        default_toleration_seconds::admit(object);
    }
    Ok(())
}

/// The plug-ins that only look.
pub(crate) async fn validate(
    registry: &Registry,
    write: &Write,
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let _ = old;
    if operation == Operation::Delete {
        namespace_lifecycle::check(registry, write, operation, object)?;
    }
    Ok(())
}
