//! NodeRestriction: limits a kubelet to its own node, lease and CSINode, and the pods on its node.

use apimachinery::go::quote;
use apimachinery::object;
use serde_json::Value;

use super::Operation;
use super::attributes::Attributes;
use super::token_audience;
use crate::admission::Admission;
use crate::identity::authn;
use crate::identity::authz::refers_to_any;
use crate::status::{self, Status};
use crate::write::Write;
use builtin_kinds::tree::{at, list, text};

const MIRROR: &str = "kubernetes.io/config.mirror";
const LEASES: &str = "kube-node-lease";

/// Labels of Kubernetes domains that kubelets may set.
const KUBELET_LABELS: [&str; 13] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.kubernetes.io/region",
    "failure-domain.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Domains whose labels kubelets may set.
const KUBELET_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Checks a write of a stored object.
pub(super) fn check(attributes: &Attributes<'_>) -> Result<(), Status> {
    let write = attributes.write;
    let Some(node) = authn::node_name(&write.user) else {
        return Ok(());
    };
    let definition = &write.definition;
    let subject = (
        definition.subject.group.as_str(),
        definition.subject.resource.as_str(),
    );
    let forbid = |why: String| Err(attributes.forbidden(&why));
    match (subject, write.subresource.as_str()) {
        (("", "pods"), "") => check_pod(attributes, node),
        (("", "pods"), "status") => check_pod_status(attributes, node),
        (("", "pods"), "eviction") => Ok(()),
        (("", "pods"), other) => forbid(format!("unexpected pod subresource {}", quote(other))),
        (("", "nodes"), _) => check_node(attributes, node),
        (("coordination.k8s.io", "leases"), _) => {
            if write.namespace != LEASES {
                return forbid(format!(
                    "can only access leases in the {LEASES:?} system namespace"
                ));
            }
            if attributes.name() != node {
                return forbid(
                    "can only access node lease with the same name as the requesting node".to_owned(),
                );
            }
            Ok(())
        }
        (("storage.k8s.io", "csinodes"), _) if attributes.name() != node => {
            forbid("can only access CSINode with the same name as the requesting node".to_owned())
        }
        _ => Ok(()),
    }
}

fn check_pod(attributes: &Attributes<'_>, node: &str) -> Result<(), Status> {
    let quoted = quote(node);
    let why = match attributes.operation {
        Operation::Create => match attributes.object {
            Some(pod) => mirror_fault(pod, node, attributes.admission),
            None => None,
        },
        Operation::Delete => {
            let own = attributes
                .old
                .is_some_and(|pod| text(pod, &["spec", "nodeName"]) == node);
            (!own).then(|| format!("node {quoted} can only delete pods with spec.nodeName set to itself"))
        }
        operation => Some(format!(
            "unexpected operation {}, node {quoted} can only create and delete mirror pods",
            quote(operation.name())
        )),
    };
    why.map_or(Ok(()), |why| Err(attributes.forbidden(&why)))
}

/// Returns the property of a mirror pod that a kubelet must not set.
fn mirror_fault(pod: &Value, node: &str, admission: &Admission) -> Option<String> {
    let quoted = quote(node);
    let annotation = object::meta(pod, "annotations").and_then(|annotations| annotations.get(MIRROR));
    if annotation.is_none() {
        return Some(format!(
            "pod does not have {} annotation, node {quoted} can only create mirror pods",
            quote(MIRROR)
        ));
    }
    if text(pod, &["spec", "nodeName"]) != node {
        return Some(format!(
            "node {quoted} can only create pods with spec.nodeName set to itself"
        ));
    }
    let owners = list(pod, &["metadata", "ownerReferences"]);
    let own = |owner: &Value| {
        text(owner, &["apiVersion"]) == "v1"
            && text(owner, &["kind"]) == "Node"
            && text(owner, &["name"]) == node
            && at(owner, &["controller"]) == &Value::Bool(true)
    };
    let [owner] = owners else {
        return Some(format!(
            "node {quoted} can only create pods with {} owner reference set to itself",
            if owners.len() > 1 { "a single" } else { "an" }
        ));
    };
    if !own(owner) {
        return Some(format!(
            "node {quoted} can only create pods with an owner reference set to itself"
        ));
    }
    if at(owner, &["blockOwnerDeletion"]) == &Value::Bool(true) {
        return Some(format!(
            "node {quoted} must not set blockOwnerDeletion on an owner reference"
        ));
    }
    let live = admission.store.get("nodes", node);
    let uid = live
        .map(|live| object::uid(&live.value).to_owned())
        .unwrap_or_default();
    if text(owner, &["uid"]) != uid {
        return Some(format!(
            "node {node} UID mismatch: expected {} got {uid}",
            text(owner, &["uid"])
        ));
    }
    if !text(pod, &["spec", "serviceAccountName"]).is_empty() {
        return Some("a mirror pod may not reference service accounts".to_owned());
    }
    if let Some(kind) = refers_to_any(pod) {
        return Some(format!("a mirror pod may not reference {kind}"));
    }
    let claims = list(pod, &["spec", "volumes"])
        .iter()
        .any(|volume| at(volume, &["persistentVolumeClaim"]).is_object());
    claims.then(|| "a mirror pod may not reference persistentvolumeclaims".to_owned())
}

fn check_pod_status(attributes: &Attributes<'_>, node: &str) -> Result<(), Status> {
    let quoted = quote(node);
    let (Some(pod), Some(old)) = (attributes.object, attributes.old) else {
        return Ok(());
    };
    if text(old, &["spec", "nodeName"]) != node {
        return Err(attributes.forbidden(&format!(
            "node {quoted} can only update pod status for pods with spec.nodeName set to itself"
        )));
    }
    if object::meta(pod, "labels") != object::meta(old, "labels") {
        return Err(attributes.forbidden(&format!("node {quoted} cannot update labels through pod status")));
    }
    Ok(())
}

fn check_node(attributes: &Attributes<'_>, node: &str) -> Result<(), Status> {
    let quoted = quote(node);
    let name = attributes.name();
    if name != node {
        return Err(attributes.forbidden(&format!(
            "node {quoted} is not allowed to modify node {}",
            quote(name)
        )));
    }
    let Some(changed) = attributes.object else {
        return Ok(());
    };
    let old = attributes.old;
    if let Some(old) = old {
        let differs = |path: &[&str]| at(changed, path) != at(old, path);
        for (path, field) in [
            (&["metadata", "ownerReferences"][..], "ownerReferences"),
            (&["spec", "taints"][..], "taints"),
        ] {
            if differs(path) {
                return Err(attributes.forbidden(&format!("node {quoted} is not allowed to modify {field}")));
            }
        }
    }
    let forbidden = forbidden_labels(changed, old);
    if forbidden.is_empty() {
        return Ok(());
    }
    let what = if old.is_some() {
        "modify"
    } else {
        "set the following"
    };
    Err(attributes.forbidden(&format!(
        "is not allowed to {what} labels: {}",
        forbidden.join(", ")
    )))
}

/// Returns the changed labels that a kubelet may not set, in order.
fn forbidden_labels(node: &Value, old: Option<&Value>) -> Vec<String> {
    let label = |object: Option<&Value>, key: &str| {
        let labels = object.and_then(|object| object::meta(object, "labels"));
        labels.and_then(|labels| labels.get(key)).cloned()
    };
    let keys = |object: Option<&Value>| {
        let labels = object.and_then(|object| object::meta(object, "labels"));
        let labels = labels.and_then(Value::as_object).into_iter().flatten();
        labels.map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    let mut all = keys(Some(node));
    all.extend(keys(old));
    all.sort();
    all.dedup();
    all.retain(|key| label(Some(node), key) != label(old, key) && !may_set(key));
    all
}

fn may_set(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let is_in = |parent: &str| domain == parent || domain.ends_with(&format!(".{parent}"));
    if is_in("node-restriction.kubernetes.io") {
        return false;
    }
    let is_kubernetes = is_in("kubernetes.io") || is_in("k8s.io");
    !is_kubernetes || KUBELET_LABELS.contains(&label) || KUBELET_DOMAINS.iter().any(|domain| is_in(domain))
}

/// Checks the body of an eviction or of a token request.
pub(super) async fn check_body(admission: &Admission, write: &Write, body: &Value) -> Result<(), Status> {
    let Some(node) = authn::node_name(&write.user) else {
        return Ok(());
    };
    let is = |resource: &str, subresource: &str| {
        write.definition.is("", resource) && write.subresource == subresource
    };
    let forbid = |why: &str| Err(write.forbidden(None, why));
    let pod_of = |name: &str| {
        admission
            .store
            .get("pods", &format!("{}/{name}", write.namespace))
    };
    if is("pods", "eviction") {
        let own = pod_of(&write.name).is_some_and(|pod| text(&pod.value, &["spec", "nodeName"]) == node);
        if !own {
            return forbid(&format!(
                "node {node} can only evict pods with spec.nodeName set to itself"
            ));
        }
    }
    if !is("serviceaccounts", "token") {
        return Ok(());
    }
    let bound = |field: &str| text(body, &["spec", "boundObjectRef", field]);
    if bound("apiVersion") != "v1" || bound("kind") != "Pod" || bound("name").is_empty() {
        return forbid("node requested token not bound to a pod");
    }
    if bound("uid").is_empty() {
        return forbid("node requested token with a pod binding without a uid");
    }
    let Some(pod) = pod_of(bound("name")) else {
        return Err(status::not_found(
            &status::NamedResource {
                group: String::new(),
                resource: "pods".to_owned(),
                kind: "Pod".to_owned(),
            },
            bound("name"),
        ));
    };
    let live = object::uid(&pod.value);
    if live != bound("uid") {
        return forbid(&format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
            bound("uid")
        ));
    }
    if text(&pod.value, &["spec", "nodeName"]) != node {
        return forbid("node requested token bound to a pod scheduled on a different node");
    }
    match token_audience::fault(admission, write, &pod.value, body).await {
        Some(why) => forbid(&why),
        None => Ok(()),
    }
}
