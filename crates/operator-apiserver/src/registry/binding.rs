//! Binds a pod to a node.

use std::sync::Arc;

use apimachinery::object;
use serde_json::{Value, json};

use super::Registry;
use crate::admission::{self, Operation};
use crate::status::{self, Status};
use crate::write::Write;

/// Binds the pod that a write names to the target of a Binding, if admission allows it.
pub(crate) async fn admit_and_bind(
    registry: &Registry,
    write: &Write,
    binding: &mut Value,
) -> Result<Arc<Value>, Status> {
    admit(registry, write, binding).await?;
    bind(registry, write, binding)
}

/// Runs admission for a Binding.
pub(crate) async fn admit(registry: &Registry, write: &Write, binding: &mut Value) -> Result<(), Status> {
    if !registry.admission.disabled_plugins.contains("PodTopologyLabels") {
        add_topology(registry, binding);
    }
    admission::mutate_body(&registry.admission, write, Operation::Create, binding).await?;
    let target = |field: &str| object::text(binding, &["target", field]);
    check_target(target("name"), target("kind"))?;
    admission::validate_body(&registry.admission, write, Operation::Create, binding).await
}

/// Topology labels of a node that are copied to its pods.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// PodTopologyLabels: returns the node's labels that the pod gets when it is bound.
fn add_topology(registry: &Registry, binding: &mut Value) {
    let Some(node) = registry
        .store
        .get("nodes", object::text(binding, &["target", "name"]))
    else {
        return;
    };
    let labels = TOPOLOGY.iter().filter_map(|label| {
        Some((
            (*label).to_owned(),
            object::meta(&node.value, "labels")?.get(*label)?.clone(),
        ))
    });
    let labels: serde_json::Map<String, Value> = labels.collect();
    merge_meta(
        binding,
        "labels",
        Some(&labels.into())
            .filter(|labels: &&Value| labels.as_object().is_some_and(|labels| !labels.is_empty())),
    );
}

/// Binds the pod that a write names to the target of a Binding.
pub(crate) fn bind(registry: &Registry, write: &Write, binding: &Value) -> Result<Arc<Value>, Status> {
    let node = object::text(binding, &["target", "name"]);
    let now = registry.timestamp();
    let change = |live: &Value| {
        check_identity(write, binding, live)?;
        check_unbound(live, &write.name)
            .map_err(|why| status::conflict(&binding_subject(), &write.name, &why))?;
        let mut pod = live.clone();
        object::child_mut(&mut pod, "spec").insert("nodeName".to_owned(), node.into());
        merge_meta(&mut pod, "annotations", object::meta(binding, "annotations"));
        merge_meta(&mut pod, "labels", object::meta(binding, "labels"));
        let scheduled = json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
        });
        set_condition(&mut pod, scheduled);
        Ok(pod)
    };
    registry.rewrite(write, &change)
}

fn check_target(node: &str, kind: &str) -> Result<(), Status> {
    let mut errors = Vec::new();
    if !kind.is_empty() && kind != "Node" {
        let kind = apimachinery::go::quote(kind);
        errors.push(format!(
            "target.kind: Unsupported value: {kind}: supported values: \"Node\", \"<empty>\""
        ));
    }
    if node.is_empty() {
        errors.push("target.name: Required value".to_owned());
    }
    match errors.as_slice() {
        [] => Ok(()),
        [error] => Err(status::plain(error)),
        _ => Err(status::plain(format!("[{}]", errors.join(", ")))),
    }
}

/// Checks that the pod has the uid and the resourceVersion of the binding, if they are set.
fn check_identity(write: &Write, binding: &Value, live: &Value) -> Result<(), Status> {
    let wanted = [
        ("UID", object::uid(binding), object::uid(live)),
        (
            "ResourceVersion",
            object::resource_version(binding),
            object::resource_version(live),
        ),
    ];
    for (what, wanted, found) in wanted {
        if !wanted.is_empty() && wanted != found {
            return Err(write.precondition_failed(what, wanted, found));
        }
    }
    Ok(())
}

fn check_unbound(pod: &Value, name: &str) -> Result<(), String> {
    if object::is_terminating(pod) {
        return Err(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    let node = object::text(pod, &["spec", "nodeName"]);
    if !node.is_empty() {
        let node = apimachinery::go::quote(node);
        return Err(format!("pod {name} is already assigned to node {node}"));
    }
    let gates = object::get(pod, &["spec", "schedulingGates"]).and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

fn binding_subject() -> status::NamedResource {
    status::NamedResource {
        group: String::new(),
        resource: "pods/binding".to_owned(),
        kind: "Binding".to_owned(),
    }
}

fn merge_meta(pod: &mut Value, field: &str, added: Option<&Value>) {
    let Some(added) = added.filter(|added| added.is_object()) else {
        return;
    };
    let mut merged = object::meta(pod, field).cloned().unwrap_or(Value::Null);
    crate::patch::merge::apply(&mut merged, added);
    object::set_meta(pod, field, Some(merged));
}

/// Replaces the condition of the same type in an object's status, or adds it. The transition time changes only with the
/// condition's status.
pub(crate) fn set_condition(object: &mut Value, mut condition: Value) {
    let conditions = object::child_mut(object, "status")
        .entry("conditions")
        .or_insert_with(|| json!([]));
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    let same = |old: &&mut Value| old.get("type") == condition.get("type");
    match list.iter_mut().find(same) {
        Some(old) => {
            if old.get("status") == condition.get("status")
                && let (Some(time), Some(new)) = (old.get("lastTransitionTime"), condition.as_object_mut())
            {
                new.insert("lastTransitionTime".to_owned(), time.clone());
            }
            *old = condition;
        }
        None => list.push(condition),
    }
}
