//! Webhook configurations of an operator.
//!
//! The names and the form are those of controller-gen. The Service has its name in `config/webhook`, to which kustomize
//! adds the prefix of the project.

use serde_json::{Value, json};

/// One version of a kind that has kubebuilder's default webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The whole API group.
    pub api_group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind in CamelCase.
    pub kind: &'a str,
    /// The plural in lower case.
    pub plural: &'a str,
}

/// Returns the configurations with these entries, sorted by name. Returns an empty list if there are no entries.
///
/// ```
/// let entry = serde_json::json!({"name": "vmemcached-v1.kb.io"});
/// let configurations = operator_manifests::webhook::configurations(&[], &[entry]);
/// assert_eq!(configurations[0]["metadata"]["name"], "validating-webhook-configuration");
/// ```
pub fn configurations(mutating: &[Value], validating: &[Value]) -> Vec<Value> {
    let kinds = [("Mutating", mutating), ("Validating", validating)];
    kinds
        .into_iter()
        .filter(|(_, entries)| !entries.is_empty())
        .map(|(word, entries)| {
            let mut entries = entries.to_vec();
            entries.sort_by_key(|entry| entry["name"].as_str().map(str::to_owned));
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": format!("{word}WebhookConfiguration"),
                "metadata": {"name": format!("{}-webhook-configuration", word.to_lowercase())},
                "webhooks": entries,
            })
        })
        .collect()
}

// === impl Target ===

impl Target<'_> {
    /// Returns the entry of the defaulting webhook of the kind.
    pub fn mutating(&self) -> Value {
        self.entry("mutate")
    }

    /// Returns the entry of the validating webhook of the kind.
    pub fn validating(&self) -> Value {
        self.entry("validate")
    }

    fn entry(&self, verb: &str) -> Value {
        let kind = self.kind.to_lowercase();
        let letter = verb.get(..1).unwrap_or_default();
        let group = self.api_group.replace('.', "-");
        let path = format!("/{verb}-{group}-{}-{kind}", self.version);
        json!({
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "service": {"name": "webhook-service", "namespace": "system", "path": path},
            },
            "failurePolicy": "Fail",
            "name": format!("{letter}{kind}-{}.kb.io", self.version),
            "rules": [{
                "apiGroups": [self.api_group],
                "apiVersions": [self.version],
                "operations": ["CREATE", "UPDATE"],
                "resources": [self.plural],
            }],
            "sideEffects": "None",
        })
    }
}
