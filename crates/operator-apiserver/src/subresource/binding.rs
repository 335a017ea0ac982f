//! `pods/binding`: puts a pod on a node.

use std::sync::Arc;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::call::{Answer, Call};
use crate::negotiate::Form;
use crate::negotiate::body::{self, Media};
use crate::object;
use crate::registry::{Definition, Registry, Write};
use crate::status::{self, Status};
use crate::verb;

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let write = verb::write(call, definition)?;
    let media = Media::parse(call.header(CONTENT_TYPE), false)?;
    let decoded = body::decode(&call.body, media, ("v1", "Binding"))
        .map_err(|why| body::unrecognized(("v1", "Binding"), media, &why, &call.body))?;
    bind(registry, &write, &decoded.value).await?;
    let created = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    Ok(Answer::object(StatusCode::CREATED, &created, form))
}

/// Binds the pod that a write names to the target of a Binding.
pub(crate) async fn bind(registry: &Registry, write: &Write, binding: &Value) -> Result<Arc<Value>, Status> {
    let node = object::text(binding, &["target", "name"]).to_owned();
    if node.is_empty() {
        return Err(status::plain("target.name: Required value"));
    }
    let kind = object::text(binding, &["target", "kind"]);
    if !kind.is_empty() && kind != "Node" {
        let kind = object::go_quote(kind);
        return Err(status::plain(format!(
            "target.kind: Unsupported value: {kind}: supported values: \"Node\", \"<empty>\""
        )));
    }
    let annotations = object::meta(binding, "annotations").cloned();
    let labels = object::meta(binding, "labels").cloned();
    let now = registry.timestamp();
    let change = |live: &Value| {
        if object::is_terminating(live) {
            let why = format!(
                "pod {} is being deleted, cannot be assigned to a host",
                write.name
            );
            return Err(status::conflict(&binding_subject(), &write.name, &why));
        }
        let bound = object::text(live, &["spec", "nodeName"]);
        if !bound.is_empty() {
            let why = format!(
                "pod {} is already assigned to node {}",
                write.name,
                object::go_quote(bound)
            );
            return Err(status::conflict(&binding_subject(), &write.name, &why));
        }
        let mut pod = live.clone();
        object::child_mut(&mut pod, "spec").insert("nodeName".to_owned(), node.clone().into());
        merge_meta(&mut pod, "annotations", annotations.as_ref());
        merge_meta(&mut pod, "labels", labels.as_ref());
        set_scheduled(&mut pod, &now);
        Ok(pod)
    };
    registry.update(write, &change).await
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

fn set_scheduled(pod: &mut Value, now: &str) {
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
    });
    let conditions = object::child_mut(pod, "status")
        .entry("conditions".to_owned())
        .or_insert_with(|| json!([]));
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    list.retain(|condition| object::text(condition, &["type"]) != "PodScheduled");
    list.push(scheduled);
}
