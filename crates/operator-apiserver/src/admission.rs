//! Admission: the plug-ins between authorisation and the registry, in the order of the real server.

mod certificate_requester;
mod default_toleration_seconds;
mod namespace_lifecycle;
mod node_taint;
mod priority;
mod service_account;
mod storage_protection;

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
    if operation != Operation::Create || !write.subresource.is_empty() || write.definition.is_custom() {
        return Ok(());
    }
    let subject = &write.definition.subject;
    match (subject.group.as_str(), subject.resource.as_str()) {
        ("", "pods") => {
            let is_enabled = |plugin: &str| !registry.disabled_plugins.contains(plugin);
            if is_enabled("ServiceAccount") {
                service_account::admit(registry, write, object)?;
            }
            if is_enabled("Priority") {
                priority::admit(registry, write, object)?;
            }
            if is_enabled("DefaultTolerationSeconds") {
                default_toleration_seconds::admit(object);
            }
        }
        ("", "nodes") => node_taint::admit(object),
        ("certificates.k8s.io", "certificatesigningrequests") => {
            certificate_requester::admit(&write.user, object);
        }
        _ => storage_protection::admit(subject, object),
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
