//! `pods/binding`: puts a pod on a node.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::admission::{self, Operation};
use crate::codec::Form;
use crate::http::call::{Answer, Call};
use crate::http::verb;
use crate::object;
use crate::patch::managed_fields;
use crate::registry::Registry;
use crate::resource::Definition;
use crate::status::{self, Status};
use crate::write::Write;

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let mut write = verb::write(call, definition)?;
    let mut binding = super::decode(call, "v1", "Binding")?;
    let find = |resource| {
        let found = registry.find("", "v1", resource);
        found.ok_or_else(status::unknown_resource)
    };
    if definition.is("", "bindings") {
        // The older form: only the body has the name of the pod.
        object::name(&binding).clone_into(&mut write.name);
        if write.name.is_empty() {
            return Err(status::bad_request("Name parameter required."));
        }
    }
    super::check_place(&write, &binding, "Binding")?;
    super::complete_body(&write, &mut binding, ("v1", "Binding"))?;
    let tracking = verb::write(call, &find("bindings")?)?;
    managed_fields::update(registry, &tracking, None, &mut binding);
    admit(registry, &write, &mut binding).await?;
    write.definition = find("pods")?;
    write.subresource = "binding".to_owned();
    bind(registry, &write, &binding)?;
    Ok(Answer::object(StatusCode::CREATED, &super::success(), form))
}

/// Binds the pod that a write names to the target of a Binding, if admission allows it.
pub(crate) async fn admit_and_bind(
    registry: &Registry,
    write: &Write,
    binding: &mut Value,
) -> Result<Arc<Value>, Status> {
    admit(registry, write, binding).await?;
    bind(registry, write, binding)
}

async fn admit(registry: &Registry, write: &Write, binding: &mut Value) -> Result<(), Status> {
    if !registry.disabled_plugins.contains("PodTopologyLabels") {
        add_topology(registry, binding);
    }
    admission::mutate_body(registry, write, Operation::Create, binding).await?;
    let target = |field: &str| object::text(binding, &["target", field]);
    check_target(target("name"), target("kind"))?;
    admission::validate_body(registry, write, Operation::Create, binding).await
}

/// Labels that say where a node is: its pods have them too.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// PodTopologyLabels: the labels of the node that the pod takes over when it is bound.
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

fn bind(registry: &Registry, write: &Write, binding: &Value) -> Result<Arc<Value>, Status> {
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
        super::set_condition(&mut pod, scheduled);
        Ok(pod)
    };
    registry.rewrite(write, &change)
}

fn check_target(node: &str, kind: &str) -> Result<(), Status> {
    let mut errors = Vec::new();
    if !kind.is_empty() && kind != "Node" {
        let kind = object::go_quote(kind);
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

/// The pod must be the one that the binding means, where it says which.
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
        let node = object::go_quote(node);
        return Err(format!("pod {name} is already assigned to node {node}"));
    }
    let gates = object::get(pod, &["spec", "schedulingGates"]).and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

fn binding_subject() -> status::Subject {
    status::Subject {
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
