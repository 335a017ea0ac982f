//! Warnings about accepted objects.

mod kinds;
mod overlap;
mod pod;

use apimachinery::field::Path;
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::prepare::generation_changed;
use crate::tree::{at, list, text};
use apimachinery::gvk::Gvk;

/// Returns the warning for every request to a deprecated resource.
pub fn deprecation(group: &str, resource: &str) -> Option<&'static str> {
    match (group, resource) {
        ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        ("", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        _ => None,
    }
}

/// Returns the warnings about a written object: fields that are deprecated, ineffective or surprising.
pub fn warnings(gvk: &Gvk, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let path = Path::new("spec");
    match (gvk.group, gvk.kind) {
        // Updates of pods are usually made by controllers.
        ("", "Pod") if old.is_none() => {
            name(&mut warnings, object, "the Pod's hostname");
            pod::pod(&mut warnings, object, None);
        }
        ("", "PodTemplate") => {
            pod::pod(
                &mut warnings,
                at(object, &["template"]),
                Some(&Path::new("template")),
            );
        }
        ("apps", _) | ("batch", "Job") | ("", "ReplicationController") => {
            if old.is_none() {
                name(&mut warnings, object, "Pod names and hostnames");
            }
            if old.is_none_or(|old| generation_changed(gvk, old, object)) {
                pod::pod(
                    &mut warnings,
                    at(object, &["spec", "template"]),
                    Some(&path.child("template")),
                );
            }
        }
        ("batch", "CronJob") => {
            if old.is_none() {
                name(&mut warnings, object, "Pod names and hostnames");
            }
            if old.is_none_or(|old| generation_changed(gvk, old, object)) {
                let path = path.child("jobTemplate").child("spec").child("template");
                let template = at(object, &["spec", "jobTemplate", "spec", "template"]);
                pod::pod(&mut warnings, template, Some(&path));
            }
        }
        ("discovery.k8s.io", "EndpointSlice")
            if old.is_none() && text(object, &["addressType"]) == "FQDN" =>
        {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        ("networking.k8s.io", "Ingress") if old.is_none() => ingress(&mut warnings, object),
        ("", "PersistentVolume") => persistent_volume(&mut warnings, object),
        ("", "PersistentVolumeClaim") => persistent_volume_claim(&mut warnings, at(object, &["spec"]), &path),
        ("", "Node") => kinds::node(&mut warnings, object, old),
        ("", "Secret") => kinds::secret(&mut warnings, object),
        ("", "Service") => kinds::service(&mut warnings, object),
        ("", "ServiceAccount") => kinds::service_account(&mut warnings, object, old),
        ("node.k8s.io", "RuntimeClass") => kinds::runtime_class(&mut warnings, object),
        ("storage.k8s.io", "CSIDriver") => {
            let tokens = ["spec", "tokenRequests"];
            if old.is_none_or(|old| at(old, &tokens) != at(object, &tokens)) {
                kinds::csi_driver(&mut warnings, object);
            }
        }
        ("storage.k8s.io", "StorageClass") => kinds::storage_class(&mut warnings, object),
        _ => {}
    }
    warnings
}

fn name(warnings: &mut Vec<String>, object: &Value, used_in: &str) {
    let faults = names::dns1123_label(text(object, &["metadata", "name"]));
    if !faults.is_empty() && !text(object, &["metadata", "name"]).is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            faults.join(" ")
        ));
    }
}

fn ingress(warnings: &mut Vec<String>, object: &Value) {
    let annotation = "kubernetes.io/ingress.class";
    if !at(object, &["metadata", "annotations", annotation]).is_null() {
        warnings.push(format!(
            "annotation {annotation:?} is deprecated, please use 'spec.ingressClassName' instead"
        ));
    }
}

fn persistent_volume(warnings: &mut Vec<String>, object: &Value) {
    if text(object, &["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
    let terms = ["spec", "nodeAffinity", "required", "nodeSelectorTerms"];
    let path = Path::new(&terms.join("."));
    for (index, term) in list(object, &terms).iter().enumerate() {
        let path = path.index(index).child("matchExpressions");
        for (index, expression) in list(term, &["matchExpressions"]).iter().enumerate() {
            if let Some(why) = kinds::old_label(text(expression, &["key"])) {
                let label = text(expression, &["key"]);
                warnings.push(format!("{}: {label} is {why}", path.index(index).child("key")));
            }
        }
    }
    pod::old_volumes_of(warnings, object);
}

/// Warns about storage that is not a whole number of bytes.
fn persistent_volume_claim(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    for field in ["requests", "limits"] {
        let path = path.child("resources").child(field);
        fractional_amount(warnings, at(spec, &["resources", field]), "storage", &path);
    }
}

/// Warns if an amount is not a whole number of bytes.
fn fractional_amount(warnings: &mut Vec<String>, amounts: &Value, name: &str, path: &Path) {
    let amount = at(amounts, &[name]);
    if !amount.is_null() && !Quantity::from_json(amount).is_ok_and(|quantity| quantity.is_whole()) {
        let shown = amount.as_str().unwrap_or_default();
        warnings.push(format!(
            "{}: fractional byte value {shown:?} is invalid, must be an integer",
            path.key(name)
        ));
    }
}
