//! The kustomize tree of an operator (`config/`), built from an [`Operator`] description.
//!
//! The layout and the names are those of kubebuilder: `kubectl apply -k` takes `config/default`, which combines `crd`,
//! `rbac`, `manager` and, where enabled, `webhook`, `certmanager`, `prometheus` and `network-policy`. No feature is
//! enabled by removing comments: an enabled part is an entry of a kustomization.
//!
//! [`ConfigTree::of`] returns the files of an operator and the entries of its kustomizations. A command compares the
//! trees of the operator before and after its change, and writes the difference.

pub mod bundle;
mod certificates;
mod kustomization;
mod manager;
mod metrics;
mod monitoring;
mod rbac;
mod webhook;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use self::bundle::cluster_service_version;
pub use self::kustomization::{Entry, kustomization};
use crate::render;

/// The kustomization that is passed to `kubectl apply -k`.
pub const DEFAULT: &str = "config/default/kustomization.yaml";
/// The name of the operator's role, without the prefix of the project.
pub const MANAGER_ROLE: &str = "manager-role";
/// The port of the webhook server in the operator's pod.
pub const WEBHOOK_PORT: u16 = 9443;
/// The port of the metrics server in the operator's pod.
pub const METRICS_PORT: u16 = 8443;

/// The properties of an operator that its `config/` depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operator {
    /// The project's name: the prefix of every name, and the label of every object.
    pub project: String,
    /// The domain of its API groups.
    pub domain: String,
    /// True if the operator is namespace-scoped: Roles instead of ClusterRoles.
    pub namespaced: bool,
    /// True if the operator serves metrics.
    pub metrics: bool,
    /// True if Prometheus scrapes the metrics.
    pub prometheus: bool,
    /// True if network policies restrict access to its servers.
    pub network_policy: bool,
    /// True if cert-manager issues the certificates; otherwise the operator issues its own.
    pub cert_manager: bool,
    /// Its kinds, by version.
    pub kinds: Vec<Kind>,
}

/// One version of a kind that the operator serves, or has webhooks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// The group in file names: without the domain.
    pub group: String,
    /// The whole group.
    pub api_group: String,
    /// The version.
    pub version: String,
    /// The kind in CamelCase.
    pub kind: String,
    /// The plural in lower case.
    pub plural: String,
    /// True if its file names include the group.
    pub grouped: bool,
    /// True if the operator owns the definition; false for a foreign kind that only has webhooks here.
    pub defined: bool,
    /// True if there is a defaulting webhook.
    pub defaulting: bool,
    /// True if there is a validating webhook.
    pub validation: bool,
    /// True if its versions are converted by webhook.
    pub conversion: bool,
}

/// The generated files of a tree, and the entries of its kustomizations, which belong to the user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigTree {
    /// The content of each file, by path.
    pub files: BTreeMap<String, String>,
    /// The entries, in the order in which they are added.
    pub entries: Vec<Entry>,
}

// === impl Operator ===

impl Operator {
    /// Returns true if there is any webhook.
    pub fn has_webhooks(&self) -> bool {
        self.has_admission() || self.has_conversion()
    }

    /// Returns true if there is a webhook that the API server calls for a write.
    pub fn has_admission(&self) -> bool {
        self.kinds.iter().any(|kind| kind.defaulting || kind.validation)
    }

    /// Returns true if versions of a kind are converted by webhook.
    pub fn has_conversion(&self) -> bool {
        self.kinds.iter().any(|kind| kind.conversion)
    }

    /// Returns true if the operator creates the certificates of its webhooks.
    pub fn manages_certificates(&self) -> bool {
        self.has_webhooks() && !self.cert_manager
    }

    /// Returns the kinds with a definition of this operator, each once, regardless of the number of versions.
    fn defined(&self) -> Vec<&Kind> {
        let mut kinds: Vec<&Kind> = Vec::new();
        for kind in self.kinds.iter().filter(|kind| kind.defined) {
            if !kinds.iter().any(|there| there.is_same(kind)) {
                kinds.push(kind);
            }
        }
        kinds
    }

    fn labels(&self) -> Value {
        json!({
            "app.kubernetes.io/managed-by": "kustomize",
            "app.kubernetes.io/name": self.project,
        })
    }

    /// Returns the labels that select the operator's pods.
    fn selector(&self) -> Value {
        json!({
            "app.kubernetes.io/name": self.project,
            "control-plane": "controller-manager",
        })
    }

    /// Returns the metadata of a namespace-scoped object of the operator.
    fn metadata(&self, name: &str) -> Value {
        json!({"labels": self.labels(), "name": name, "namespace": "system"})
    }

    /// Returns the metadata of a cluster-scoped object.
    fn cluster_metadata(&self, name: &str) -> Value {
        json!({"labels": self.labels(), "name": name})
    }
}

// === impl Kind ===

impl Kind {
    fn is_same(&self, other: &Self) -> bool {
        self.api_group == other.api_group && self.kind == other.kind
    }

    /// Returns the name of the file with its definition.
    pub fn crd_file(&self) -> String {
        format!("{}_{}.yaml", self.api_group, self.plural)
    }

    /// Returns the name of the file with its sample.
    pub fn sample_file(&self) -> String {
        let kind = self.kind.to_lowercase();
        match self.group.as_str() {
            "" => format!("{}_{kind}.yaml", self.version),
            group => format!("{group}_{}_{kind}.yaml", self.version),
        }
    }

    /// Returns `<kind>`, or `<group><separator><kind>` if kinds of several groups may have the same name.
    fn prefix(&self, separator: &str) -> String {
        let kind = self.kind.to_lowercase();
        match (self.grouped, self.group.as_str()) {
            (true, group) if !group.is_empty() => format!("{group}{separator}{kind}"),
            _ => kind,
        }
    }
}

// === impl ConfigTree ===

impl ConfigTree {
    /// Returns the tree of an operator, without the files that are generated from its source (`config/crd/bases`,
    /// `config/rbac/role.yaml`, `config/webhook/manifests.yaml`) and without the samples, which belong to the user.
    pub fn of(operator: &Operator) -> Self {
        let mut tree = Self::default();
        manager::add(&mut tree, operator);
        rbac::add(&mut tree, operator);
        metrics::add(&mut tree, operator);
        monitoring::add(&mut tree, operator);
        webhook::add(&mut tree, operator);
        certificates::add(&mut tree, operator);
        bundle::add(&mut tree, operator);
        for kind in operator.kinds.iter().filter(|kind| kind.defined) {
            tree.entry("config/samples", "resources", json!(kind.sample_file()));
        }
        tree
    }

    /// Returns the entries of one kustomization.
    pub fn entries_of<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.path == path)
    }

    fn file(&mut self, path: &str, value: &Value, comments: &[(&str, &str)]) {
        self.files
            .insert(path.to_owned(), render::commented(value, comments));
    }

    fn entry(&mut self, folder: &str, key: &'static str, value: Value) {
        let entry = Entry {
            path: format!("{folder}/kustomization.yaml"),
            key,
            value,
        };
        if !self.entries.contains(&entry) {
            self.entries.push(entry);
        }
    }

    /// Adds a file that is a resource of the kustomization in the same directory.
    fn resource(&mut self, folder: &str, file: &str, value: &Value, comments: &[(&str, &str)]) {
        self.file(&format!("{folder}/{file}"), value, comments);
        self.entry(folder, "resources", json!(file));
    }

    /// Adds a patch of the operator's Deployment.
    fn manager_patch(&mut self, file: &str, operations: &[(&str, Value)], comment: &str) {
        let operations: Vec<Value> = operations
            .iter()
            .map(|(path, value)| json!({"op": "add", "path": path, "value": value}))
            .collect();
        self.file(
            &format!("config/default/{file}"),
            &json!(operations),
            &[("", comment)],
        );
        let target = json!({"kind": "Deployment", "name": "controller-manager"});
        self.entry(
            "config/default",
            "patches",
            json!({"path": file, "target": target}),
        );
    }
}

/// The JSON pointer of the Deployment's container in patches.
const ARGS: &str = "/spec/template/spec/containers/0/args/-";
const ENV: &str = "/spec/template/spec/containers/0/env/-";
const PORTS: &str = "/spec/template/spec/containers/0/ports/-";
const VOLUME_MOUNTS: &str = "/spec/template/spec/containers/0/volumeMounts/-";
const VOLUMES: &str = "/spec/template/spec/volumes/-";
