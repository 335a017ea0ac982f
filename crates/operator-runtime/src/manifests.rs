//! The manifests of an operator: its CRDs, the permissions that it needs, and its webhooks.
//!
//! `operator-sdk generate manifests` builds the operator, runs it with the argument `manifests`, and reads the JSON
//! that [`Operator::manifests`](crate::Operator::manifests) returns. From it, it writes `config/crd/bases`,
//! `config/rbac` and `config/webhook`. The types and the controllers are the only source.
//!
//! # The JSON
//! An object with these fields, each a list. Readers ignore unknown fields:
//!
//! * `crds`: CustomResourceDefinitions with one version each, to be merged by kind.
//! * `schemas`: `{"crd": NAME, "version": VERSION, "type": TYPE, "schema": {...}}`, the JSON Schema of each Rust type,
//!   with a definition in `$defs` for each nested type. It maps the parts of a CRD to types and fields.
//! * `rules`: see [`PolicyRule`].
//! * `impliedRules`: rules that follow from the kinds that controllers watch and own, each with a `reason`.
//! * `problems`: `{"type": TYPE, "message": TEXT}`: types without a CRD, and a `setup` that failed.
//! * `mutatingWebhooks` and `validatingWebhooks`: entries for the `webhooks` of a `MutatingWebhookConfiguration` and of
//!   a `ValidatingWebhookConfiguration`, complete except for `caBundle`. Their Service is `webhook-service` in the
//!   namespace `system`, which kustomize replaces.
//! * `conversions`: `{"crd": NAME, "conversion": {...}}`, the name of a CRD such as `memcacheds.cache.example.com` and
//!   its `spec.conversion`, with the same Service.

use kube::CustomResourceExt;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use crate::controller::Use;
use crate::error::Result;
use crate::manager::Manager;
use crate::object::Object;
pub use crate::policy_rule::PolicyRule;
use crate::webhook::{Description, Webhook};

mod implied;

/// Collects the CRDs and rules of an operator.
#[derive(Clone, Debug, Default, Serialize)]
#[must_use = "call `to_json` and print the result"]
pub(crate) struct Manifests {
    crds: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    schemas: Vec<TypeSchema>,
    rules: Vec<PolicyRule>,
    #[serde(skip)]
    uses: Vec<Use>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<Problem>,
    #[serde(flatten)]
    webhooks: Description,
}

/// The JSON Schema of a type, with definitions for nested types.
#[derive(Clone, Debug, Serialize)]
struct TypeSchema {
    crd: String,
    version: String,
    #[serde(rename = "type")]
    type_name: &'static str,
    schema: Value,
}

/// A part of the operator that could not be described.
#[derive(Clone, Debug, Serialize)]
struct Problem {
    #[serde(rename = "type")]
    type_name: String,
    message: String,
}

// === impl Manifests ===

impl Manifests {
    /// Adds the CustomResourceDefinition of `K`. If the derive of kube panics because a field has no structural schema,
    /// it adds a problem with the name of the type, which `operator-sdk generate manifests` reports.
    pub(crate) fn crd<K: CustomResourceExt + JsonSchema>(mut self) -> Self {
        let type_name = std::any::type_name::<K>();
        self.schemas.push(TypeSchema {
            crd: K::crd_name().to_owned(),
            version: K::api_resource().version,
            type_name,
            schema: schema_of::<K>(),
        });
        match std::panic::catch_unwind(K::crd) {
            // Derived CRDs have no maps with keys other than strings, so serialization cannot fail.
            Ok(crd) => self.crds.push(serde_json::to_value(crd).unwrap_or_default()),
            Err(panic) => self.problems.push(Problem {
                type_name: type_name.to_owned(),
                message: message_of(panic.as_ref()),
            }),
        }
        self
    }

    /// Adds the rules of the controllers. `setup` adds them to a manager that has no cluster and never runs.
    pub(crate) fn controllers(mut self, setup: impl FnOnce(&Manager) -> Result<()>) -> Self {
        match implied::uses_of(setup) {
            Ok((uses, rules)) => {
                self.uses.extend(uses);
                self.rules.extend(rules);
            }
            Err(error) => self.problems.push(Problem {
                type_name: "setup".to_owned(),
                message: error.to_string(),
            }),
        }
        self
    }

    /// Adds the webhooks of a kind, and the conversion of its CRD.
    pub(crate) fn webhook<K: Object>(mut self, webhook: &Webhook<K>) -> Self {
        let description = webhook.describe();
        self.webhooks
            .mutating_webhooks
            .extend(description.mutating_webhooks);
        self.webhooks
            .validating_webhooks
            .extend(description.validating_webhooks);
        self.webhooks.conversions.extend(description.conversions);
        self
    }

    /// Adds the rules of [`ManagedCertificates`](crate::certificates::ManagedCertificates) for the webhooks that were
    /// added before: to write a Secret in the namespace `system`, which is that of the operator in scaffolds, and the
    /// `caBundle` of webhook configurations and of CRDs with conversions.
    pub(crate) fn managed_certificates(mut self) -> Self {
        const VERBS: [&str; 3] = ["list", "watch", "patch"];
        let secrets = PolicyRule::of(&[""], &["secrets"], &["get", "create", "update"]);
        self.rules.push(PolicyRule {
            namespace: Some("system".to_owned()),
            ..secrets
        });
        let configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
        let group = "admissionregistration.k8s.io";
        self.rules.push(PolicyRule::of(&[group], &configurations, &VERBS));
        let crds: Vec<_> = self
            .webhooks
            .conversions
            .iter()
            .filter_map(|conversion| conversion["crd"].as_str().map(str::to_owned))
            .collect();
        if !crds.is_empty() {
            let definitions = ["customresourcedefinitions"];
            self.rules.push(PolicyRule {
                resource_names: crds,
                ..PolicyRule::of(&["apiextensions.k8s.io"], &definitions, &VERBS)
            });
        }
        self
    }

    /// Returns the JSON that the [module documentation](self) describes, indented.
    pub(crate) fn to_json(&self) -> String {
        let mut all = serde_json::json!(self);
        let implied = implied::rules(&self.uses, &self.crds);
        if !implied.is_empty() {
            all["impliedRules"] = serde_json::json!(implied);
        }
        format!("{all:#}")
    }
}

/// Returns the schema with a definition for each type, without the changes that the API server requires.
fn schema_of<K: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    generator.into_root_schema_for::<K>().to_value()
}

/// Returns the message of a panic.
fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_have_the_form_of_the_rbac_api() {
        let urls = PolicyRule {
            non_resource_urls: vec!["/metrics".to_owned()],
            ..PolicyRule::of(&[], &[], &["get"])
        };
        let manifests = Manifests {
            rules: vec![PolicyRule::of(&[""], &["pods", "pods/log"], &["get"]), urls],
            ..Manifests::default()
        };
        let manifests: Value = serde_json::from_str(&manifests.to_json()).unwrap();
        let rules = json!([
            {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]);
        let none = json!([]);
        let wanted = json!({
            "crds": none, "rules": rules, "mutatingWebhooks": none, "validatingWebhooks": none, "conversions": none,
        });
        assert_eq!(manifests, wanted);
    }
}
