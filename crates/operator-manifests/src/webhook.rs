//! Webhook configurations: the registration of an operator's webhooks with the API server.
//!
//! The names and the form are controller-gen's; the Service is named as `config/webhook` has it, and kustomize gives it
//! the names of the project.

use serde_json::{Value, json};

/// The subject of a webhook in kubebuilder's conventions: one version of a kind.
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

/// The configurations with these entries, sorted by name; none for a list without entries.
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
    /// The entry of its defaulting webhook.
    pub fn mutating(&self) -> Value {
        self.entry("mutate")
    }

    /// The entry of its validating webhook.
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
