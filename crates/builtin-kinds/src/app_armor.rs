//! The annotations of AppArmor, which the field `appArmorProfile` replaced in 1.30.

use serde_json::{Value, json};

use crate::tree::{Object, at, object_in, objects_in};

/// The prefix of the annotations, which is followed by the name of a container.
pub(crate) const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Copies the profiles in the annotations of a new pod to its containers without a profile; returns the warnings.
pub(crate) fn sync(pod: &mut Object) -> Vec<String> {
    let annotations = pod.get("metadata").map(|metadata| at(metadata, &["annotations"]));
    let annotations = annotations.cloned().unwrap_or_default();
    let mut warnings = Vec::new();
    let Some(spec) = object_in(pod, "spec") else {
        return warnings;
    };
    let os = spec.get("os").map(|os| at(os, &["name"]));
    if annotations.is_null() || os.and_then(Value::as_str) == Some("windows") {
        return warnings;
    }
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in objects_in(spec, field) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let key = format!("{ANNOTATION}{name}");
            let has_profile = container
                .get("securityContext")
                .is_some_and(|context| !at(context, &["appArmorProfile"]).is_null());
            let Some(annotation) = at(&annotations, &[&key]).as_str().filter(|_| !has_profile) else {
                continue;
            };
            warnings.push(deprecated("metadata", &key));
            if let Some(profile) = profile(annotation) {
                let context = container.entry("securityContext").or_insert(Value::Null);
                if context.is_null() {
                    *context = json!({});
                }
                if let Some(context) = context.as_object_mut() {
                    context.insert("appArmorProfile".to_owned(), profile);
                }
            }
        }
    }
    warnings
}

/// Returns the warning about an annotation without a field; `metadata` is the path of the metadata.
pub(crate) fn deprecated(metadata: &str, key: &str) -> String {
    format!(
        "{metadata}.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
    )
}

/// Returns the field that is equivalent to an annotation.
fn profile(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let local = annotation.strip_prefix("localhost/")?;
            let is_valid = !local.trim().is_empty() && local.trim() == local;
            is_valid.then(|| json!({"type": "Localhost", "localhostProfile": local}))
        }
    }
}
