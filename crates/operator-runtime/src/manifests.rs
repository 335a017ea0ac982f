//! What an operator says of itself: the CRDs that it serves and the permissions that it needs.
//!
//! `operator-sdk generate manifests` builds the operator, runs it with the argument `manifests`, reads the JSON that
//! [`Manifests::to_json`] makes, and writes `config/crd/bases`, `config/rbac` and `config/webhook` from it. So the
//! types and the reconcilers are the one source, and there is no second parser of Rust code that could read them
//! differently. It never knows how the manifests are rendered.
//!
//! ```no_run
//! use operator_runtime::manifests::Manifests;
//! use operator_runtime::prelude::*;
//!
//! # struct MemcachedReconciler;
//! #[rbac(groups = "core", resources = "secrets", verbs = "get")]
//! impl Reconciler for MemcachedReconciler {
//! #     async fn reconcile(&self, _: Context, _: Request) -> Result<Action> { Ok(Action::done()) }
//!     // …
//! }
//!
//! fn setup(manager: &Manager) -> Result<()> {
//! #   use k8s_openapi::api::apps::v1::Deployment as Memcached;
//!     Controller::managed_by(manager).for_::<Memcached>().complete(MemcachedReconciler)?;
//!     Ok(())
//! }
//!
//! fn main() {
//!     let manifests = Manifests::new().rules(MemcachedReconciler::rules()).controllers(setup);
//!     println!("{}", manifests.to_json());
//! }
//! ```
//!
//! # The JSON
//! An object with these fields, each a list; readers ignore fields that they do not know:
//! * `crds`: CustomResourceDefinitions, one version each; versions of one kind are to be merged.
//! * `schemas`: `{"crd": NAME, "version": VERSION, "type": TYPE, "schema": {...}}`, the JSON Schema of each Rust type with
//!   a definition in `$defs` for each type in it, from which a reader learns which type and field a part of a definition
//!   comes from.
//! * `rules`: see [`PolicyRule`].
//! * `impliedRules`: rules that follow from what the controllers watch and own; each has the `reason` beside its fields.
//! * `problems`: `{"type": TYPE, "message": TEXT}`, what could not be said: a type that has no definition, or a `setup`
//!   that failed.
//! * `mutatingWebhooks` and `validatingWebhooks`: entries for the `webhooks` of a `MutatingWebhookConfiguration` and of a
//!   `ValidatingWebhookConfiguration`, complete but for `caBundle`. Their Service is `webhook-service` in the namespace
//!   `system`, which kustomize replaces by those of the project.
//! * `conversions`: `{"crd": NAME, "conversion": {...}}`, the name of a CRD such as `memcacheds.cache.example.com` and its
//!   `spec.conversion`, with the same Service.

use kube::CustomResourceExt;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use crate::controller::Use;
use crate::error::Result;
use crate::manager::Manager;
use crate::object::Object;
use crate::webhook::{Description, Webhook};

mod implied;

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

/// The schema of a kind by its types, before it is a definition.
#[derive(Clone, Debug, Serialize)]
struct TypeSchema {
    crd: String,
    version: String,
    #[serde(rename = "type")]
    type_name: &'static str,
    schema: Value,
}

/// What cannot be said of the operator.
#[derive(Clone, Debug, Serialize)]
struct Problem {
    #[serde(rename = "type")]
    type_name: String,
    message: String,
}

/// The permissions that a reconciler needs; [`#[rbac]`](crate::rbac) implements it.
///
/// ```
/// use operator_runtime::manifests::{Manifests, PolicyRule, Rbac};
///
/// /// By hand, where the rules are computed.
/// struct Importer;
///
/// impl Rbac for Importer {
///     fn rules() -> Vec<PolicyRule> {
///         ["configmaps", "secrets"].map(|name| PolicyRule::new().groups([""]).resources([name]).verbs(["get"])).into()
///     }
/// }
/// let manifests = Manifests::new().rules(Importer::rules());
/// ```
pub trait Rbac {
    /// The rules, in the order in which they were written.
    ///
    /// ```
    /// use operator_runtime::prelude::*;
    ///
    /// struct Mine;
    ///
    /// #[rbac(groups = "core", resources = "pods", verbs = "get;list")]
    /// #[rbac(urls = "/metrics", verbs = "get")]
    /// impl Mine {}
    ///
    /// assert_eq!(Mine::rules()[0].verbs, ["get", "list"]);
    /// assert_eq!(Mine::rules()[1].non_resource_urls, ["/metrics"]);
    /// ```
    fn rules() -> Vec<PolicyRule>;
}

/// One rule of a Role or ClusterRole, in the JSON form of `rbac.authorization.k8s.io/v1`, with the namespace of the
/// Role where it is none of the ClusterRole.
///
/// ```
/// use operator_runtime::manifests::PolicyRule;
///
/// let rule = PolicyRule::new().groups(["apps"]).resources(["deployments", "deployments/scale"]).verbs(["get"]);
/// let json = serde_json::to_value(&rule)?;
/// assert_eq!(json["apiGroups"][0], "apps");
/// # Ok::<(), serde_json::Error>(())
/// ```
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
    ///
    /// ```
    /// use operator_runtime::manifests::Manifests;
    ///
    /// let json: serde_json::Value = serde_json::from_str(&Manifests::new().to_json())?;
    /// assert_eq!(json["crds"], serde_json::json!([]));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the CustomResourceDefinition of `K`. Where the derive of kube panics, because a field has no structural
    /// schema, the JSON has a problem in its place that names the type, and `operator-sdk generate manifests` shows
    /// it.
    ///
    /// ```
    /// use kube::CustomResource;
    /// use operator_runtime::manifests::Manifests;
    /// use schemars::JsonSchema;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    /// #[kube(group = "cache.example.com", version = "v1", kind = "Memcached", namespaced)]
    /// struct MemcachedSpec {
    ///     size: u16,
    /// }
    ///
    /// let json: serde_json::Value = serde_json::from_str(&Manifests::new().crd::<Memcached>().to_json())?;
    /// assert_eq!(json["crds"][0]["metadata"]["name"], "memcacheds.cache.example.com");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn crd<K: CustomResourceExt + JsonSchema>(mut self) -> Self {
        let type_name = std::any::type_name::<K>();
        self.schemas.push(TypeSchema {
            crd: K::crd_name().to_owned(),
            version: K::api_resource().version,
            type_name,
            schema: schema_of::<K>(),
        });
        match std::panic::catch_unwind(K::crd) {
            // A CRD that a derive made is plain data: it has no map whose keys are not strings, so it always serializes.
            Ok(crd) => self.crds.push(serde_json::to_value(crd).unwrap_or_default()),
            Err(panic) => self.problems.push(Problem {
                type_name: type_name.to_owned(),
                message: message_of(panic.as_ref()),
            }),
        }
        self
    }

    /// Adds the rules that follow from what controllers are told: `setup` is the function that hands them to the
    /// manager, and it is called with a manager that has no cluster and never runs.
    ///
    /// | told | rules |
    /// |---|---|
    /// | `for_`, `owns`, `watches` | `get;list;watch` of the kind |
    /// | `for_`, a kind of this operator | `get;update;patch` of its `/status`, if it has one |
    /// | `for_` | `update` of its `/finalizers`, which owner references that block deletion need |
    /// | `owns` | `create;update;patch;delete` of the kind |
    /// | any controller | `create;patch` of events |
    ///
    /// What a reconciler reads or writes beyond that is said with `#[rbac]`. No controllers, no rules.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    /// use operator_runtime::manifests::Manifests;
    /// use operator_runtime::prelude::*;
    ///
    /// # struct Mine;
    /// # impl Reconciler for Mine {
    /// #     async fn reconcile(&self, _: Context, _: Request) -> Result<Action> { Ok(Action::done()) }
    /// # }
    /// fn setup(manager: &Manager) -> Result<()> {
    ///     Controller::managed_by(manager).for_::<Deployment>().owns::<ReplicaSet>().complete(Mine)?;
    ///     Ok(())
    /// }
    /// let json = Manifests::new().controllers(setup).to_json();
    /// assert!(json.contains("deployments/finalizers") && json.contains("replicasets"));
    /// ```
    pub fn controllers(mut self, setup: impl FnOnce(&Manager) -> Result<()>) -> Self {
        match implied::uses_of(setup) {
            Ok(uses) => self.uses.extend(uses),
            Err(error) => self.problems.push(Problem {
                type_name: "setup".to_owned(),
                message: error.to_string(),
            }),
        }
        self
    }

    /// Adds the rules of a reconciler: `MemcachedReconciler::rules()`.
    ///
    /// ```
    /// use operator_runtime::manifests::Manifests;
    /// use operator_runtime::prelude::*;
    ///
    /// struct MemcachedReconciler;
    ///
    /// #[rbac(groups = "core", resources = "secrets", verbs = "get")]
    /// impl MemcachedReconciler {}
    ///
    /// let json = Manifests::new().rules(MemcachedReconciler::rules()).to_json();
    /// assert!(json.contains("secrets"));
    /// ```
    pub fn rules(mut self, rules: impl IntoIterator<Item = PolicyRule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Adds the webhooks of a kind, and the conversion of its CRD.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap as Memcached;
    /// use operator_runtime::manifests::Manifests;
    /// use operator_runtime::webhook::{AdmissionRequest, Defaulter, Denied, Webhook};
    ///
    /// struct Defaults;
    ///
    /// impl Defaulter<Memcached> for Defaults {
    ///     async fn default(&self, _: &AdmissionRequest, _: &mut Memcached) -> Result<(), Denied> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let json = Manifests::new().webhook(&Webhook::<Memcached>::new().defaulter(Defaults)).to_json();
    /// assert!(json.contains("/mutate--v1-configmap"));
    /// ```
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
    /// added before: to keep a Secret in the namespace `system`, where scaffolds have the operator, and to write the
    /// `caBundle` of webhook configurations and converted CRDs.
    ///
    /// ```
    /// use operator_runtime::manifests::Manifests;
    ///
    /// let json: serde_json::Value = serde_json::from_str(&Manifests::new().managed_certificates().to_json())?;
    /// assert_eq!(json["rules"][0]["resources"][0], "secrets");
    /// assert_eq!(json["rules"][0]["namespace"], "system");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
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

    /// The JSON that the [module](self) describes, indented: what the operator prints for the argument `manifests`.
    ///
    /// ```
    /// use operator_runtime::manifests::Manifests;
    ///
    /// fn main() {
    ///     if std::env::args().nth(1).as_deref() == Some("manifests") {
    ///         println!("{}", Manifests::new().to_json());
    ///         return;
    ///     }
    ///     // … run the operator …
    /// }
    /// ```
    pub fn to_json(&self) -> String {
        let mut all = serde_json::json!(self);
        let implied = implied::rules(&self.uses, &self.crds);
        if !implied.is_empty() {
            all["impliedRules"] = serde_json::json!(implied);
        }
        format!("{all:#}")
    }
}

/// The schema with a definition for each type, none of which is changed for the API server.
fn schema_of<K: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    generator.into_root_schema_for::<K>().to_value()
}

/// What a panic says.
fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

// === impl PolicyRule ===

impl PolicyRule {
    /// A rule that allows nothing yet.
    ///
    /// ```
    /// use operator_runtime::manifests::PolicyRule;
    ///
    /// assert!(PolicyRule::new().verbs.is_empty());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds API groups; the core group is the empty string, and not `core` as in [`#[rbac]`](crate::rbac).
    ///
    /// ```
    /// use operator_runtime::manifests::PolicyRule;
    ///
    /// assert_eq!(PolicyRule::new().groups(["", "apps"]).api_groups, ["", "apps"]);
    /// ```
    #[must_use]
    pub fn groups<'a>(mut self, groups: impl IntoIterator<Item = &'a str>) -> Self {
        self.api_groups.extend(groups.into_iter().map(str::to_owned));
        self
    }

    /// Adds resources by their plural names; subresources as `pods/log`.
    ///
    /// ```
    /// use operator_runtime::manifests::PolicyRule;
    ///
    /// let rule = PolicyRule::new().groups([""]).resources(["pods", "pods/log"]).verbs(["get"]);
    /// assert_eq!(rule.resources, ["pods", "pods/log"]);
    /// ```
    #[must_use]
    pub fn resources<'a>(mut self, resources: impl IntoIterator<Item = &'a str>) -> Self {
        self.resources.extend(resources.into_iter().map(str::to_owned));
        self
    }

    /// Adds verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or `*` for all.
    ///
    /// ```
    /// use operator_runtime::manifests::PolicyRule;
    ///
    /// let rule = PolicyRule::new().groups(["apps"]).resources(["deployments"]).verbs(["get", "list", "watch"]);
    /// assert_eq!(rule.verbs.len(), 3);
    /// ```
    #[must_use]
    pub fn verbs<'a>(mut self, verbs: impl IntoIterator<Item = &'a str>) -> Self {
        self.verbs.extend(verbs.into_iter().map(str::to_owned));
        self
    }

    /// Limits the rule to objects of these names. Such a rule cannot allow `create`, of which the API server does not
    /// know the name, and `list` and `watch` only of clients that select the name.
    ///
    /// ```
    /// use operator_runtime::manifests::PolicyRule;
    ///
    /// let rule = PolicyRule::new().groups([""]).resources(["secrets"]).resource_names(["license"]).verbs(["get"]);
    /// assert_eq!(rule.resource_names, ["license"]);
    /// ```
    #[must_use]
    pub fn resource_names<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.resource_names.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// Adds non-resource URLs; `*` at the end stands for any rest. Such a rule has neither groups nor resources.
    ///
    /// ```
    /// use operator_runtime::manifests::PolicyRule;
    ///
    /// let rule = PolicyRule::new().urls(["/metrics", "/debug/*"]).verbs(["get"]);
    /// assert!(rule.resources.is_empty());
    /// ```
    #[must_use]
    pub fn urls<'a>(mut self, urls: impl IntoIterator<Item = &'a str>) -> Self {
        self.non_resource_urls.extend(urls.into_iter().map(str::to_owned));
        self
    }

    /// Moves the rule from the ClusterRole into a Role of `namespace`.
    ///
    /// ```
    /// use operator_runtime::manifests::PolicyRule;
    ///
    /// let rule = PolicyRule::new().groups([""]).resources(["configmaps"]).verbs(["update"]).namespace("blue");
    /// assert_eq!(rule.namespace.as_deref(), Some("blue"));
    /// ```
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
