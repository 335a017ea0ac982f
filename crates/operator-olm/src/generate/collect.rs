//! Collects the objects of an operator by kind: [`Objects`].

use std::collections::BTreeSet;

use apimachinery::object;
use serde_json::Value;

use super::{GenerateError, shapes};
use crate::validator::SUPPORTED;

/// The supported kinds that are not copied unchanged, by group; see [`Objects::add`].
const PARTS: [&str; 7] = [
    "CustomResourceDefinition",
    "Service",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
];

/// The objects of an operator by kind, each in the order of the input.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    pub(super) csvs: Vec<Value>,
    pub(super) roles: Vec<Value>,
    pub(super) cluster_roles: Vec<Value>,
    pub(super) role_bindings: Vec<Value>,
    pub(super) cluster_role_bindings: Vec<Value>,
    pub(super) service_accounts: Vec<Value>,
    pub(super) deployments: Vec<Value>,
    pub(super) definitions: Vec<Value>,
    pub(super) services: Vec<Value>,
    pub(super) validating_webhooks: Vec<Value>,
    pub(super) mutating_webhooks: Vec<Value>,
    /// The objects of the kinds that the CRDs define.
    pub(super) examples: Vec<Value>,
    pub(super) scorecard: Option<Value>,
    pub(super) others: Vec<Value>,
    /// The objects that no part of a bundle contains, as `Kind name`.
    pub(super) dropped: Vec<String>,
}

impl Objects {
    pub(super) fn collect(all: &[Value]) -> Result<Self, GenerateError> {
        let mut objects = Self::default();
        let mut rest = Vec::new();
        for value in all {
            shapes::check(value).map_err(|reason| {
                let (group, version) = group_version(value);
                let separator = if group.is_empty() { "" } else { "/" };
                GenerateError::Decode {
                    gvk: format!("{group}{separator}{version}, Kind={}", kind(value)),
                    reason,
                }
            })?;
            objects.add(value, &mut rest);
        }
        let defined: BTreeSet<(String, String, String)> = objects.defined().collect();
        for value in rest {
            let (group, version) = group_version(&value);
            let key = (group.to_owned(), version.to_owned(), kind(&value).to_owned());
            if defined.contains(&key) {
                objects.examples.push(value);
            } else if SUPPORTED.contains(&kind(&value)) && !PARTS.contains(&kind(&value)) {
                objects.others.push(value);
            } else {
                let name = format!("{} {}", kind(&value), object::name(&value));
                objects.dropped.push(name);
            }
        }
        for once in [
            &mut objects.roles,
            &mut objects.cluster_roles,
            &mut objects.deployments,
            &mut objects.definitions,
            &mut objects.validating_webhooks,
            &mut objects.mutating_webhooks,
            &mut objects.examples,
        ] {
            deduplicate(once);
        }
        Ok(objects)
    }

    fn add(&mut self, value: &Value, rest: &mut Vec<Value>) {
        let (group, _) = group_version(value);
        let webhooks = || value.get("webhooks").and_then(Value::as_array).cloned();
        let list = match (group, kind(value)) {
            ("operators.coreos.com", "ClusterServiceVersion") => &mut self.csvs,
            ("rbac.authorization.k8s.io", "Role") => &mut self.roles,
            ("rbac.authorization.k8s.io", "ClusterRole") => &mut self.cluster_roles,
            ("rbac.authorization.k8s.io", "RoleBinding") => &mut self.role_bindings,
            ("rbac.authorization.k8s.io", "ClusterRoleBinding") => &mut self.cluster_role_bindings,
            ("", "ServiceAccount") => &mut self.service_accounts,
            ("", "Service") => &mut self.services,
            ("apps", "Deployment") => &mut self.deployments,
            ("apiextensions.k8s.io", "CustomResourceDefinition") => &mut self.definitions,
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
                return self.validating_webhooks.extend(webhooks().unwrap_or_default());
            }
            ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => {
                return self.mutating_webhooks.extend(webhooks().unwrap_or_default());
            }
            ("scorecard.operatorframework.io", "Configuration") => {
                self.scorecard = Some(value.clone());
                return;
            }
            _ => rest,
        };
        list.push(value.clone());
    }

    /// Returns the CRDs with each of their versions.
    pub(super) fn served(&self) -> impl Iterator<Item = (&Value, &str)> {
        self.definitions.iter().flat_map(|definition| {
            let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
            let names = versions.into_iter().flatten();
            names.map(move |version| {
                let name = version.get("name").and_then(Value::as_str);
                (definition, name.unwrap_or_default())
            })
        })
    }

    /// Returns the group, version and kind of all CRDs.
    fn defined(&self) -> impl Iterator<Item = (String, String, String)> {
        self.served().map(|(definition, version)| {
            let text = |pointer: &str| {
                let value = definition.pointer(pointer).and_then(Value::as_str);
                value.unwrap_or_default().to_owned()
            };
            (text("/spec/group"), version.to_owned(), text("/spec/names/kind"))
        })
    }
}

/// Returns the group and version of an object.
pub(super) fn group_version(value: &Value) -> (&str, &str) {
    let api_version = value
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    api_version.split_once('/').unwrap_or(("", api_version))
}

pub(super) fn kind(value: &Value) -> &str {
    value.get("kind").and_then(Value::as_str).unwrap_or_default()
}

fn deduplicate(values: &mut Vec<Value>) {
    let mut seen = BTreeSet::new();
    values.retain(|value| seen.insert(value.to_string()));
}
