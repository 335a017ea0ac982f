//! Admission: the plug-ins between authorisation and the registry, in the order of the real server.

mod default_toleration_seconds;
mod namespace_lifecycle;
mod priority;
mod service_account;

use serde_json::Value;

use crate::registry::{Registry, Write};
use crate::status::Status;

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
