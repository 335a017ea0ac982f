//! `generate manifests`: from what the operator says of itself to `config/crd/bases` and `config/rbac/role.yaml`.

use operator_manifests::crd::Crd;
use operator_manifests::operator::OperatorManifests;
use operator_manifests::rbac::{self, Rule};
use operator_manifests::{kustomize, render};
use serde_json::{Value, json};

use super::{Plan, PlanError};
use crate::project::{Tree, layout};

/// The annotation that says in a definition which tool wrote it.
const VERSION_ANNOTATION: (&str, &str) = (
    "rust.operator-sdk.dev/version",
    concat!("v", env!("CARGO_PKG_VERSION")),
);

pub(crate) fn plan(tree: &Tree, operator: &OperatorManifests) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    for crd in &operator.crds {
        let crd = complete(crd.clone())?;
        let path = layout::crd_base(&crd.file_name());
        plan.put(&path, tree.get(&path), render::documents([crd.value()]));
    }
    plan.put(layout::ROLE, tree.get(layout::ROLE), role(&operator.rules));
    Ok(plan)
}

/// A definition as it is written to disk.
pub(crate) fn complete(crd: Value) -> Result<Crd, PlanError> {
    Crd::complete(crd, Some(VERSION_ANNOTATION)).map_err(|error| PlanError::Manifests(error.to_string()))
}

/// The text of `config/rbac/role.yaml`.
pub(crate) fn role(rules: &[Rule]) -> String {
    let mut roles = rbac::roles(layout::ROLE_NAME, rules);
    if roles.first().is_none_or(|role| role["kind"] != "ClusterRole") {
        roles.insert(0, rbac::cluster_role(layout::ROLE_NAME));
    }
    render::documents(&roles)
}

/// A kustomization with one more entry among its resources.
pub(crate) fn with_entry(path: &str, text: &str, entry: &str) -> Result<String, PlanError> {
    match kustomize::add_entry(text, "resources", entry) {
        Ok(edited) => Ok(edited.unwrap_or_else(|| text.to_owned())),
        Err(error) => Err(PlanError::Edit {
            path: path.to_owned(),
            reason: error.to_string(),
            remedy: "correct the file, then run the command again".to_owned(),
        }),
    }
}

/// The rules of the ClusterRole and the Roles in a file that this tool wrote.
pub(crate) fn rules_of(text: &str) -> Result<Vec<Rule>, PlanError> {
    let broken = |reason: String| PlanError::Edit {
        path: layout::ROLE.to_owned(),
        reason,
        remedy: "it is generated: delete it, and run `operator-sdk generate manifests` afterwards".to_owned(),
    };
    let roles: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| broken(format!("it is not valid YAML: {error}")))?;
    let mut rules = Vec::new();
    for role in roles {
        let namespace = role
            .pointer("/metadata/namespace")
            .cloned()
            .unwrap_or(Value::Null);
        for rule in role.get("rules").and_then(Value::as_array).into_iter().flatten() {
            let mut rule = rule.clone();
            rule["namespace"] = json!(namespace);
            rules.push(serde_json::from_value(rule).map_err(|error| broken(error.to_string()))?);
        }
    }
    Ok(rules)
}
