//! `generate manifests`: from what the operator says of itself to `config/crd/bases` and `config/rbac/role.yaml`.

use operator_manifests::config::MANAGER_ROLE;
use operator_manifests::crd::Crd;
use operator_manifests::operator::OperatorManifests;
use operator_manifests::rbac::{self, Rule};
use operator_manifests::render;
use serde_json::{Value, json};

use super::{Plan, PlanError};
use crate::project::{Project, layout};

/// The annotation that says in a definition which tool wrote it.
const VERSION_ANNOTATION: (&str, &str) = (
    "rust.operator-sdk.dev/version",
    concat!("v", env!("CARGO_PKG_VERSION")),
);

/// The operator's namespace, before kustomize gives it its name.
const OWN_NAMESPACE: &str = "system";

pub(crate) fn plan(project: &Project, operator: &OperatorManifests) -> Result<Plan, PlanError> {
    let tree = &project.tree;
    let mut plan = Plan::default();
    for crd in joined_by_kind(&operator.crds)? {
        let path = layout::crd_base(&crd.file_name());
        plan.put(&path, tree.get(&path), render::documents([crd.value()]));
    }
    plan.put(
        layout::ROLE,
        tree.get(layout::ROLE),
        role(&operator.rules, project.config.namespaced),
    );
    Ok(plan)
}

/// One definition a kind, with all its versions.
fn joined_by_kind(crds: &[Value]) -> Result<Vec<Crd>, PlanError> {
    let failed = |error: &dyn std::fmt::Display| PlanError::Manifests(error.to_string());
    let mut joined: Vec<Crd> = Vec::new();
    for crd in crds {
        let crd = complete(crd.clone())?;
        match joined
            .iter_mut()
            .find(|there| there.file_name() == crd.file_name())
        {
            Some(there) => there.join(crd).map_err(|error| failed(&error))?,
            None => joined.push(crd),
        }
    }
    for crd in &joined {
        crd.check_storage().map_err(|error| failed(&error))?;
    }
    Ok(joined)
}

/// A definition as it is written to disk.
pub(crate) fn complete(crd: Value) -> Result<Crd, PlanError> {
    Crd::complete(crd, Some(VERSION_ANNOTATION)).map_err(|error| PlanError::Manifests(error.to_string()))
}

/// A definition on disk with one more derived version; the derived one alone where there is none, or none that is one.
pub(crate) fn joined(there: Option<&str>, derived: Value) -> Result<Crd, PlanError> {
    let derived = complete(derived)?;
    let there = there.and_then(|text| serde_saphyr::from_str::<Value>(text).ok());
    let Some(mut crd) = there.and_then(|value| Crd::complete(value, Some(VERSION_ANNOTATION)).ok()) else {
        return Ok(derived);
    };
    crd.join(derived)
        .map_err(|error| PlanError::Manifests(error.to_string()))?;
    Ok(crd)
}

/// A definition on disk without one of its versions.
pub(crate) fn without_version(text: &str, version: &str) -> Result<String, PlanError> {
    let broken = |reason: String| PlanError::Edit {
        path: layout::CRD_BASES.to_owned(),
        reason,
        remedy: "it is generated: write it anew with `operator-sdk generate manifests`".to_owned(),
    };
    let mut crd: Value = serde_saphyr::from_str(text).map_err(|error| broken(error.to_string()))?;
    if super::delete::stores(&crd, version) {
        return Err(PlanError::Usage(
            format!("objects are stored in version {version}"),
            "store them in another version first: take `storage = false` from its type and give it to this one",
        ));
    }
    if let Some(versions) = crd.pointer_mut("/spec/versions").and_then(Value::as_array_mut) {
        versions.retain(|there| there["name"] != version);
    }
    Ok(render::documents([&crd]))
}

/// The text of `config/rbac/role.yaml`. Where the operator watches its own namespace alone, what would be in the
/// ClusterRole is in a Role of that namespace.
pub(crate) fn role(rules: &[Rule], namespaced: bool) -> String {
    let mut rules = rules.to_vec();
    if namespaced {
        for rule in &mut rules {
            rule.namespace.get_or_insert_with(|| OWN_NAMESPACE.to_owned());
        }
    }
    let mut roles = rbac::roles(MANAGER_ROLE, &rules);
    let own = roles.iter().any(|role| match namespaced {
        true => role["metadata"]["namespace"] == OWN_NAMESPACE,
        false => role["kind"] == "ClusterRole",
    });
    if !own {
        let namespace = namespaced.then_some(OWN_NAMESPACE);
        roles.insert(0, rbac::empty_role(MANAGER_ROLE, namespace));
    }
    render::documents(&roles)
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
        let namespace = role.pointer("/metadata/namespace").and_then(Value::as_str);
        let namespace = namespace.filter(|namespace| *namespace != OWN_NAMESPACE);
        for rule in role.get("rules").and_then(Value::as_array).into_iter().flatten() {
            let mut rule = rule.clone();
            rule["namespace"] = json!(namespace);
            rules.push(serde_json::from_value(rule).map_err(|error| broken(error.to_string()))?);
        }
    }
    Ok(rules)
}
