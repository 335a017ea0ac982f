//! StorageObjectInUseProtection: adds finalizers that protect volumes and claims while they are in use.

use apimachinery::object;
use serde_json::{Value, json};

use crate::status::NamedResource;

fn finalizer(subject: &NamedResource) -> Option<&'static str> {
    match (subject.group.as_str(), subject.resource.as_str()) {
        ("", "persistentvolumes") => Some("kubernetes.io/pv-protection"),
        ("", "persistentvolumeclaims") => Some("kubernetes.io/pvc-protection"),
        ("storage.k8s.io", "volumeattributesclasses") => Some("kubernetes.io/vac-protection"),
        _ => None,
    }
}

pub(super) fn admit(subject: &NamedResource, object: &mut Value) {
    let Some(finalizer) = finalizer(subject) else {
        return;
    };
    if object::finalizers(object).contains(&finalizer) {
        return;
    }
    let finalizers = object::metadata_mut(object)
        .entry("finalizers".to_owned())
        .or_insert(Value::Null);
    match finalizers.as_array_mut() {
        Some(list) => list.push(finalizer.into()),
        None => *finalizers = json!([finalizer]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::status::NamedResource;

    #[test]
    fn a_claim_keeps_its_finalizers_with_the_protection() {
        let subject = NamedResource {
            group: String::new(),
            resource: "persistentvolumeclaims".to_owned(),
            kind: "PersistentVolumeClaim".to_owned(),
        };
        let mut claim = json!({"metadata": {"finalizers": ["example.com/a"]}});
        super::admit(&subject, &mut claim);
        super::admit(&subject, &mut claim);
        let want = json!(["example.com/a", "kubernetes.io/pvc-protection"]);
        assert_eq!(claim["metadata"]["finalizers"], want);
    }
}
