//! DefaultStorageClass and DefaultIngressClass: set the default class of objects without one.
//! PersistentVolumeClaimResize: a claim can grow only if its class allows it.

use apimachinery::object;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::attributes::Attributes;
use crate::admission::Admission;
use crate::status::{NamedResource, Status};
use builtin_kinds::tree::{at, text};

const STORAGE_CLASSES: &str = "storageclasses.storage.k8s.io";
const INGRESS_CLASSES: &str = "ingressclasses.networking.k8s.io";

/// The class field of a kind, and its default class.
struct Classed {
    plugin: &'static str,
    classes: &'static str,
    field: &'static str,
    /// The annotation that named the class before there was a field.
    old_name: &'static str,
    marks: &'static [&'static str],
}

const CLAIM: Classed = Classed {
    plugin: "DefaultStorageClass",
    classes: STORAGE_CLASSES,
    field: "storageClassName",
    old_name: "volume.beta.kubernetes.io/storage-class",
    marks: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
};

const INGRESS: Classed = Classed {
    plugin: "DefaultIngressClass",
    classes: INGRESS_CLASSES,
    field: "ingressClassName",
    old_name: "kubernetes.io/ingress.class",
    marks: &["ingressclass.kubernetes.io/is-default-class"],
};

/// Sets the default class of a new object without one.
pub(super) fn default(admission: &Admission, subject: &NamedResource, object: &mut Value) {
    let classed = match (subject.group.as_str(), subject.resource.as_str()) {
        ("", "persistentvolumeclaims") => CLAIM,
        ("networking.k8s.io", "ingresses") => INGRESS,
        _ => return,
    };
    let is_named = !at(object, &["spec", classed.field]).is_null()
        || !text(object, &["metadata", "annotations", classed.old_name]).is_empty();
    if is_named || admission.disabled_plugins.contains(classed.plugin) {
        return;
    }
    if let Some(class) = default_class(admission, &classed) {
        object::child_mut(object, "spec").insert(classed.field.to_owned(), class.into());
    }
}

/// Returns the newest default class; of several with the same age, the first by name.
fn default_class(admission: &Admission, classed: &Classed) -> Option<String> {
    let classes = admission.store.list(classed.classes, "").objects;
    let is_default = |class: &Value| {
        let is_marked = |mark: &&str| text(class, &["metadata", "annotations", mark]) == "true";
        classed.marks.iter().any(is_marked)
    };
    let marked = classes
        .iter()
        .map(|class| &*class.value)
        .filter(|class| is_default(class));
    let newest = marked.min_by_key(|class| {
        let created = text(class, &["metadata", "creationTimestamp"]).to_owned();
        (std::cmp::Reverse(created), object::name(class).to_owned())
    });
    newest.map(|class| object::name(class).to_owned())
}

/// Rejects the growth of a claim that is not bound, or whose class does not allow it.
pub(super) fn check_growth(attributes: &Attributes<'_>) -> Result<(), Status> {
    let write = attributes.write;
    let (Some(claim), Some(old)) = (attributes.object, attributes.old) else {
        return Ok(());
    };
    if !write.definition.is("", "persistentvolumeclaims") || !write.subresource.is_empty() {
        return Ok(());
    }
    let size =
        |claim: &Value| Quantity::from_json(at(claim, &["spec", "resources", "requests", "storage"])).ok();
    if size(claim) <= size(old) {
        return Ok(());
    }
    if text(old, &["status", "phase"]) != "Bound" {
        return Err(attributes.forbidden("Only bound persistent volume claims can be expanded"));
    }
    let class = |claim| match text(claim, &["metadata", "annotations", CLAIM.old_name]) {
        "" => text(claim, &["spec", CLAIM.field]).to_owned(),
        class => class.to_owned(),
    };
    let (class, old_class) = (class(claim), class(old));
    let found = attributes.admission.store.get(STORAGE_CLASSES, &class);
    let allows = found.is_some_and(|class| at(&class.value, &["allowVolumeExpansion"]) == &Value::Bool(true));
    if allows && class == old_class {
        return Ok(());
    }
    Err(attributes.forbidden(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    ))
}
