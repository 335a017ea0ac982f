//! Separates the roles and bindings of the operator from those of other accounts.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::object::name;
use serde_json::{Value, json};

use super::collect::{Objects, kind};

/// The roles, bindings and service accounts, separated by their use.
#[derive(Clone, Debug, Default)]
pub(super) struct Split {
    /// The entries of `permissions`, by service account.
    pub(super) permissions: Vec<Value>,
    /// The entries of `clusterPermissions`, by service account.
    pub(super) cluster_permissions: Vec<Value>,
    /// The objects that are not part of the ClusterServiceVersion.
    pub(super) rest: Vec<Value>,
}

/// Rules by service account.
type Rules<'a> = BTreeMap<&'a str, Vec<&'a Value>>;

pub(super) fn split(objects: &Objects, extra: &[String]) -> Split {
    let accounts: BTreeSet<&str> = objects
        .deployments
        .iter()
        .map(|deployment| {
            let account = deployment.pointer("/spec/template/spec/serviceAccountName");
            let account = account.and_then(Value::as_str).filter(|name| !name.is_empty());
            account.unwrap_or("default")
        })
        .chain(extra.iter().map(String::as_str))
        .collect();
    let roles = by_name(&objects.roles);
    let cluster_roles = by_name(&objects.cluster_roles);
    let mut used_roles = BTreeSet::new();
    let mut used_cluster_roles = BTreeSet::new();
    let mut bindings = Vec::new();
    let mut permissions = Rules::new();
    let mut cluster_permissions = Rules::new();
    for binding in &objects.role_bindings {
        let (known, used) = match reference(binding) {
            Some(("Role", _)) => (&roles, &mut used_roles),
            Some(("ClusterRole", _)) => (&cluster_roles, &mut used_cluster_roles),
            _ => {
                bindings.push(binding.clone());
                continue;
            }
        };
        bindings.extend(apply(binding, &accounts, known, used, &mut permissions));
    }
    for binding in &objects.cluster_role_bindings {
        if matches!(reference(binding), Some(("ClusterRole", _))) {
            let used = &mut used_cluster_roles;
            bindings.extend(apply(
                binding,
                &accounts,
                &cluster_roles,
                used,
                &mut cluster_permissions,
            ));
        } else {
            bindings.push(binding.clone());
        }
    }
    let unused = |objects: &[Value], used: &BTreeSet<&str>| -> Vec<Value> {
        let unused = objects.iter().filter(|object| !used.contains(name(object)));
        unused.cloned().collect()
    };
    let mut rest = unused(&objects.roles, &used_roles);
    rest.extend(unused(&objects.cluster_roles, &used_cluster_roles));
    rest.extend(bindings);
    rest.extend(unused(&objects.service_accounts, &accounts));
    Split {
        permissions: entries(permissions),
        cluster_permissions: entries(cluster_permissions),
        rest,
    }
}

fn by_name(objects: &[Value]) -> BTreeMap<&str, &Value> {
    objects.iter().map(|object| (name(object), object)).collect()
}

/// Returns the kind and name of a binding's role; `None` if the reference has another group.
fn reference(binding: &Value) -> Option<(&str, &str)> {
    let reference = binding.get("roleRef")?;
    let group = reference
        .get("apiGroup")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let name = reference.get("name").and_then(Value::as_str)?;
    let accepted = group.is_empty() || group == "rbac.authorization.k8s.io";
    accepted.then_some((kind(reference), name))
}

/// Adds the rules of a binding to its service accounts; returns the binding if it has other subjects.
fn apply<'a>(
    binding: &'a Value,
    accounts: &BTreeSet<&str>,
    roles: &BTreeMap<&'a str, &'a Value>,
    used: &mut BTreeSet<&'a str>,
    permissions: &mut Rules<'a>,
) -> Option<Value> {
    let role = reference(binding).and_then(|(_, name)| roles.get_key_value(name));
    let Some((role_name, role)) = role else {
        return Some(binding.clone());
    };
    let subjects = binding.get("subjects").and_then(Value::as_array);
    let mut has_others = false;
    for subject in subjects.into_iter().flatten() {
        let account = subject.get("name").and_then(Value::as_str).unwrap_or_default();
        if kind(subject) != "ServiceAccount" || !accounts.contains(account) {
            has_others = true;
            continue;
        }
        used.insert(role_name);
        let rules = role.get("rules").and_then(Value::as_array);
        permissions
            .entry(account)
            .or_default()
            .extend(rules.into_iter().flatten());
    }
    has_others.then(|| binding.clone())
}

fn entries(permissions: Rules<'_>) -> Vec<Value> {
    let permissions = permissions.into_iter().filter(|(_, rules)| !rules.is_empty());
    permissions
        .map(|(account, rules)| json!({"rules": rules, "serviceAccountName": account}))
        .collect()
}
