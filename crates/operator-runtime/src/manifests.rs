//! What an operator says of itself: the CRDs that it serves and the permissions that it needs.
//!
//! `operator-sdk generate manifests` builds the operator, runs it with the argument `manifests`, reads the JSON that
//! [`Manifests::to_json`] makes, and writes `config/crd/bases`, `config/rbac` and `config/webhook` from it. So the types
//! and the reconcilers are the one source, and there is no second parser of Rust code that could read them differently.
//! It never knows how the manifests are rendered.
//!
//! # The JSON
//! An object with these fields, each a list; readers ignore fields that they do not know:
//! * `crds`: CustomResourceDefinitions, one version each; versions of one kind are to be merged.
//! * `rules`: see [`PolicyRule`].
//! * `mutatingWebhooks` and `validatingWebhooks`: entries for the `webhooks` of a `MutatingWebhookConfiguration` and of a
//!   `ValidatingWebhookConfiguration`, complete but for `caBundle`. Their Service is `webhook-service` in the namespace
//!   `system`, which kustomize replaces by those of the project.
//! * `conversions`: `{"crd": NAME, "conversion": {...}}`, the name of a CRD such as `memcacheds.cache.example.com` and its
//!   `spec.conversion`, with the same Service.

use kube::CustomResourceExt;
use serde::Serialize;
use serde_json::Value;

use crate::object::Object;
use crate::webhook::{Description, Webhook};

/// Collects the CRDs and rules of an operator.
///
/// ```
/// use operator_runtime::manifests::{Manifests, PolicyRule};
///
/// let rule = PolicyRule::new().groups(["apps"]).resources(["deployments"]).verbs(["get", "list", "watch"]);
/// let json = Manifests::new().rules([rule]).to_json();
/// assert!(json.contains("deployments"));
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[must_use = "call `to_json` and print the result"]
pub struct Manifests {
    crds: Vec<Value>,
    rules: Vec<PolicyRule>,
    #[serde(flatten)]
    webhooks: Description,
}

/// What a reconciler needs from the API server; `#[operator_runtime::rbac]` implements it.
pub trait Rbac {
    /// The rules, in the order in which they were written.
    fn rules() -> Vec<PolicyRule>;
}

/// One rule of a Role or ClusterRole, in the JSON form of `rbac.authorization.k8s.io/v1`, with the namespace of the
/// Role where it is none of the ClusterRole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRule {
    /// API groups; the core group is the empty string.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Plural names; subresources as `pods/log`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Verbs, or `*`.
    pub verbs: Vec<String>,
    /// Names of the objects that the rule is limited to; all when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths such as `/metrics`, instead of groups and resources.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
    /// The namespace of the Role that the rule belongs to; `None` for the ClusterRole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

// === impl Manifests ===

impl Manifests {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the CustomResourceDefinition of `K`.
    pub fn crd<K: CustomResourceExt>(mut self) -> Self {
        // A CRD that a derive made is plain data: it has no map whose keys are not strings, so it always serializes.
        self.crds.push(serde_json::to_value(K::crd()).unwrap_or_default());
        self
    }

    /// Adds the rules of a reconciler: `MemcachedReconciler::rules()`.
    pub fn rules(mut self, rules: impl IntoIterator<Item = PolicyRule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Adds the webhooks of a kind, and the conversion of its CRD.
    pub fn webhook<K: Object>(mut self, webhook: &Webhook<K>) -> Self {
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

    /// Adds the rules of [`ManagedCertificates`](crate::certificates::ManagedCertificates), for the webhooks that were
    /// added before. They are in the namespace `system`, where scaffolds have the operator.
    pub fn managed_certificates(mut self) -> Self {
        let secrets = PolicyRule::new().groups([""]).resources(["secrets"]);
        self.rules
            .push(secrets.verbs(["get", "create", "update"]).namespace("system"));
        let configurations = PolicyRule::new()
            .groups(["admissionregistration.k8s.io"])
            .resources(["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]);
        self.rules.push(configurations.verbs(["list", "watch", "patch"]));
        let crds: Vec<&str> = self
            .webhooks
            .conversions
            .iter()
            .filter_map(|conversion| conversion["crd"].as_str())
            .collect();
        if !crds.is_empty() {
            let definitions = PolicyRule::new()
                .groups(["apiextensions.k8s.io"])
                .resources(["customresourcedefinitions"])
                .resource_names(crds);
            self.rules.push(definitions.verbs(["list", "watch", "patch"]));
        }
        self
    }

    /// The JSON, indented.
    pub fn to_json(&self) -> String {
        format!("{:#}", serde_json::json!(self))
    }
}

// === impl PolicyRule ===

impl PolicyRule {
    /// A rule that allows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds API groups.
    #[must_use]
    pub fn groups<'a>(mut self, groups: impl IntoIterator<Item = &'a str>) -> Self {
        self.api_groups.extend(groups.into_iter().map(str::to_owned));
        self
    }

    /// Adds resources.
    #[must_use]
    pub fn resources<'a>(mut self, resources: impl IntoIterator<Item = &'a str>) -> Self {
        self.resources.extend(resources.into_iter().map(str::to_owned));
        self
    }

    /// Adds verbs.
    #[must_use]
    pub fn verbs<'a>(mut self, verbs: impl IntoIterator<Item = &'a str>) -> Self {
        self.verbs.extend(verbs.into_iter().map(str::to_owned));
        self
    }

    /// Adds names of objects.
    #[must_use]
    pub fn resource_names<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.resource_names.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// Adds non-resource URLs.
    #[must_use]
    pub fn urls<'a>(mut self, urls: impl IntoIterator<Item = &'a str>) -> Self {
        self.non_resource_urls.extend(urls.into_iter().map(str::to_owned));
        self
    }

    /// Moves the rule into a Role of `namespace`.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_have_the_form_of_the_rbac_api() {
        let rule = PolicyRule::new()
            .groups([""])
            .resources(["pods", "pods/log"])
            .verbs(["get"]);
        let urls = PolicyRule::new().urls(["/metrics"]).verbs(["get"]);
        let manifests: Value = serde_json::from_str(&Manifests::new().rules([rule, urls]).to_json()).unwrap();
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
