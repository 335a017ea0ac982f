//! Admission: the plug-ins between authorisation and the registry, in the order of the real server.
//!
//! Policies and webhooks are read once, when they are written ([`hooks`]): a request that none of them is about pays
//! for one look at an empty list.

mod attributes;
mod authorizer;
mod certificate_requester;
mod default_toleration_seconds;
pub(crate) mod expression;
mod hooks;
mod matching;
mod namespace_lifecycle;
mod node_taint;
mod policy;
mod priority;
mod service_account;
mod storage_protection;

use serde_json::Value;

use self::attributes::Attributes;
pub(crate) use self::hooks::{Hooks, configure, is_configuration};
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

/// The plug-ins that only look at a new or changed object.
pub(crate) async fn validate(
    registry: &Registry,
    write: &Write,
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    ask(registry, write, operation, Some(object), old).await
}

/// The plug-ins that look at an object that is to be deleted.
pub(crate) async fn validate_delete(registry: &Registry, write: &Write, old: &Value) -> Result<(), Status> {
    namespace_lifecycle::check(registry, write, Operation::Delete, old)?;
    ask(registry, write, Operation::Delete, None, Some(old)).await
}

/// Asks the policies and webhooks that only look.
async fn ask(
    registry: &Registry,
    write: &Write,
    operation: Operation,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Status> {
    let hooks = registry.hooks.current();
    if hooks.is_empty() || matching::is_exempt(&write.definition) {
        return Ok(());
    }
    let attributes = Attributes {
        registry,
        write,
        operation,
        object,
        old,
    };
    policy::validating::validate(&attributes, &hooks.validating_policies)
}
