//! Admission: the plug-ins between authorisation and the registry, in the order of the real server.

mod namespace_lifecycle;

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
    let _ = (object, old);
    namespace_lifecycle::check(registry, write, operation)
}

/// The plug-ins that only look.
pub(crate) async fn validate(
    registry: &Registry,
    write: &Write,
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let _ = (object, old);
    if operation == Operation::Delete {
        namespace_lifecycle::check(registry, write, operation)?;
    }
    Ok(())
}
