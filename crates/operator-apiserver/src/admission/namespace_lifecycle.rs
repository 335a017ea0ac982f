//! NamespaceLifecycle: rejects creates in a missing or terminating namespace.

use apimachinery::object;
use serde_json::{Value, json};

use super::Operation;
use crate::admission::Admission;
use crate::status::{self, NamedResource, Status};
use crate::write::Write;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) fn check(
    admission: &Admission,
    write: &Write,
    operation: Operation,
    object: &Value,
) -> Result<(), Status> {
    let definition = &write.definition;
    if definition.is("", "namespaces") {
        if operation == Operation::Delete && IMMORTAL.contains(&write.name.as_str()) {
            return Err(status::forbidden(
                &definition.subject,
                &write.name,
                "this namespace may not be deleted",
            ));
        }
        return Ok(());
    }
    if operation != Operation::Create || !definition.namespaced || write.namespace.is_empty() {
        return Ok(());
    }
    // Access reviews may refer to namespaces that do not exist.
    if definition.subject.group == "authorization.k8s.io" {
        return Ok(());
    }
    let Some(namespace) = admission.store.get("namespaces", &write.namespace) else {
        let subject = NamedResource {
            group: String::new(),
            resource: "namespaces".to_owned(),
            kind: "Namespace".to_owned(),
        };
        return Err(status::not_found(&subject, &write.namespace));
    };
    if !object::is_terminating(&namespace.value) {
        return Ok(());
    }
    let namespace = &write.namespace;
    Err(status::forbidden_because(
        &definition.subject,
        object::name(object),
        &format!("unable to create new content in namespace {namespace} because it is being terminated"),
        &json!({
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }),
    ))
}
