//! The settings of a ClusterExtension ([`Config`]): the watched namespace, and the changes of the Deployments.

use apimachinery::go::quote;
use serde_json::Value;

use crate::object::Object;

/// The fields of `deploymentConfig`: those of a Subscription's `spec.config`, except the selector.
const DEPLOYMENT_FIELDS: [&str; 9] = [
    "nodeSelector",
    "tolerations",
    "resources",
    "envFrom",
    "env",
    "volumes",
    "volumeMounts",
    "affinity",
    "annotations",
];

/// The validated settings of an extension.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Config {
    /// The watched namespaces; one empty string for all namespaces.
    pub(super) targets: Vec<String>,
    pub(super) deployment: Option<Value>,
}

/// Parses the settings for a bundle with the given supported install modes.
///
/// # Errors
/// Returns the reason why the settings are invalid for the bundle.
pub(super) fn read(extension: &Value, modes: &[&str]) -> Result<Config, String> {
    let invalid = |errors: &[String]| {
        let text = match errors {
            [error] => error.clone(),
            errors => format!("multiple errors found:\n  - {}", errors.join("\n  - ")),
        };
        Err(format!(
            "invalid ClusterExtension configuration: invalid configuration: {text}"
        ))
    };
    let empty = Value::Object(serde_json::Map::new());
    let inline = extension.pointer("/spec/config/inline").unwrap_or(&empty);
    let namespace = extension.text("/spec/namespace");
    let (all, own, single) = (
        modes.contains(&"AllNamespaces"),
        modes.contains(&"OwnNamespace"),
        modes.contains(&"SingleNamespace"),
    );
    let takes_namespace = own || single;
    let mut errors = Vec::new();
    for name in inline.as_object().into_iter().flatten().map(|(name, _)| name) {
        let known = name == "deploymentConfig" || name == "watchNamespace" && takes_namespace;
        if !known {
            errors.push(format!("unknown field {}", quote(name)));
        }
    }
    let watched = match inline.get("watchNamespace").filter(|_| takes_namespace) {
        None | Some(Value::Null) => {
            if takes_namespace && !all {
                errors.push("required field \"watchNamespace\" is missing".to_owned());
            }
            None
        }
        Some(Value::String(watched)) => {
            errors.extend(misplaced(watched, namespace, own, single));
            Some(watched.clone())
        }
        Some(_) => {
            errors.push("invalid value for field \"watchNamespace\"".to_owned());
            None
        }
    };
    let deployment = match inline.get("deploymentConfig") {
        None | Some(Value::Null) => None,
        Some(Value::Object(fields)) => {
            let unknown = fields
                .keys()
                .filter(|name| !DEPLOYMENT_FIELDS.contains(&name.as_str()));
            errors.extend(unknown.map(|name| format!("unknown field {}", quote(name))));
            Some(Value::Object(fields.clone()))
        }
        Some(_) => {
            errors.push("invalid value for field \"deploymentConfig\"".to_owned());
            None
        }
    };
    if !errors.is_empty() {
        return invalid(&errors);
    }
    Ok(Config {
        targets: vec![watched.unwrap_or_default()],
        deployment,
    })
}

/// Checks a watched namespace against the install modes; returns the error.
fn misplaced(watched: &str, namespace: &str, own: bool, single: bool) -> Option<String> {
    let (value, place) = (quote(watched), quote(namespace));
    match (own, single, watched == namespace) {
        (true, false, false) => Some(format!(
            "invalid value {value}: watchNamespace must be {place} (the namespace where the operator is installed) because \
             this operator only supports OwnNamespace install mode"
        )),
        (false, true, true) => Some(format!(
            "invalid value {value}: watchNamespace must be different from {place} (the install namespace) because this \
             operator uses SingleNamespace install mode to watch a different namespace"
        )),
        _ => None,
    }
}
