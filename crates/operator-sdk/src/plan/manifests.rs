//! `generate manifests`: computes `config/crd/bases` and `config/rbac/role.yaml` from the operator's description of
//! itself.

use operator_manifests::config::{self, MANAGER_ROLE, bundle};
use operator_manifests::crd::Crd;
use operator_manifests::operator::OperatorManifests;
use operator_manifests::rbac::{self, Rule};
use operator_manifests::{render, webhook};
use serde_json::{Value, json};

use super::draft::Draft;
use super::lint::{self, Lint};
use super::{Plan, PlanError};
use crate::project::{Config, Project, Tree, layout};
use crate::source::{self, Sources};

/// The annotation of a CRD with the tool that wrote it.
const VERSION_ANNOTATION: (&str, &str) = (
    "rust.operator-sdk.dev/version",
    concat!("v", env!("CARGO_PKG_VERSION")),
);

/// The operator's namespace before kustomize renames it.
pub(crate) const OWN_NAMESPACE: &str = "system";

/// The manifests to generate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) crds: bool,
    pub(crate) rbac: bool,
    pub(crate) webhooks: bool,
    /// The maximum number of characters of a description.
    pub(crate) max_description_len: Option<usize>,
}

impl Wanted {
    pub(crate) const ALL: Self = Self {
        crds: true,
        rbac: true,
        webhooks: true,
        max_description_len: None,
    };
    pub(crate) const NONE: Self = Self {
        crds: false,
        rbac: false,
        webhooks: false,
        max_description_len: None,
    };
}

/// Checks that every version of a kind with a conversion webhook is converted. The API server calls the webhook for all
/// versions, and requests for a missing one fail.
pub(crate) fn check_conversions(config: &Config) -> Result<(), PlanError> {
    for hub in &config.resources {
        let Some(webhooks) = hub.webhooks.as_ref().filter(|webhooks| webhooks.conversion) else {
            continue;
        };
        let mut versions = config
            .resources
            .iter()
            .filter(|there| there.api.is_some() && there.is_kind(&hub.group, &hub.kind))
            .map(|there| &there.version);
        let unknown = versions.find(|version| **version != hub.version && !webhooks.spoke.contains(version));
        // Tools that do not record the versions leave the list empty.
        if let Some(version) = unknown.filter(|_| !webhooks.spoke.is_empty()) {
            return Err(PlanError::Unconverted {
                group: hub.group.clone(),
                kind: hub.kind.clone(),
                hub: hub.version.clone(),
                version: version.clone(),
            });
        }
    }
    Ok(())
}

pub(crate) fn plan(
    project: &Project,
    operator: &OperatorManifests,
    wanted: Wanted,
) -> Result<Plan, PlanError> {
    let mut draft = Draft::new(&project.tree, true);
    if wanted.crds {
        write_crds(&mut draft, operator, wanted.max_description_len)?;
    }
    if wanted.rbac {
        let rules = rules(&project.tree, operator)?;
        draft.put(layout::ROLE, role(&rules, project.config.namespaced));
    }
    if wanted.webhooks {
        let configurations =
            webhook::configurations(&operator.mutating_webhooks, &operator.validating_webhooks);
        match configurations.is_empty() {
            true => draft.remove(layout::WEBHOOK_MANIFESTS),
            false => draft.put(layout::WEBHOOK_MANIFESTS, render::documents(&configurations)),
        }
    }
    Ok(draft.plan)
}

/// Returns all rules: those that the operator declares, and those of the markers in its comments.
pub(crate) fn rules(tree: &Tree, operator: &OperatorManifests) -> Result<Vec<Rule>, PlanError> {
    let markers = source::rbac::markers(&Sources::of(tree))?;
    let markers = markers.into_iter().map(|written| written.rule);
    Ok(operator.all_rules().cloned().chain(markers).collect())
}

/// Returns the problems of the operator's types.
pub(crate) fn lints(tree: &Tree, operator: &OperatorManifests) -> Result<Vec<Lint>, PlanError> {
    Ok(lint::lint(tree, operator, &joined_by_kind(&operator.crds)?))
}

fn write_crds(
    draft: &mut Draft<'_>,
    operator: &OperatorManifests,
    max_description_len: Option<usize>,
) -> Result<(), PlanError> {
    let crds = joined_by_kind(&operator.crds)?;
    for mut crd in crds {
        crd.shorten(max_description_len);
        let path = layout::crd_base(&crd.file_name());
        draft.put(&path, render::documents([crd.value()]));
    }
    Ok(())
}

/// Plans the base of the ClusterServiceVersion with the kinds that the operator owns.
pub(crate) fn kustomize(project: &Project, operator: &OperatorManifests) -> Result<Plan, PlanError> {
    let mut draft = Draft::new(&project.tree, true);
    let described = super::config::operator(&project.config, &project.tree)?;
    let path = format!(
        "config/manifests/bases/{}.clusterserviceversion.yaml",
        project.config.project_name
    );
    let broken = |reason: String| PlanError::Edit {
        path: path.clone(),
        reason,
        remedy: "correct the file, or delete it to generate it again".to_owned(),
    };
    let mut base = match draft.get(&path) {
        Some(text) => {
            serde_saphyr::from_str(text).map_err(|error| broken(apimachinery::yaml::summary(&error)))?
        }
        None => config::cluster_service_version(&described),
    };
    let crds = joined_by_kind(&operator.crds)?;
    bundle::set_owned(&mut base, crds.iter().map(Crd::value)).map_err(|reason| broken(reason.to_string()))?;
    draft.put(&path, render::yaml(&base));
    Ok(draft.plan)
}

/// Returns one CRD per kind, with all its versions.
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

/// Completes a CRD to the form on disk.
pub(crate) fn complete(crd: Value) -> Result<Crd, PlanError> {
    Crd::complete(crd, Some(VERSION_ANNOTATION)).map_err(|error| PlanError::Manifests(error.to_string()))
}

/// Adds a derived version to a CRD on disk. Without a valid CRD on disk, returns only the derived version.
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

/// Removes one version from a CRD on disk.
pub(crate) fn without_version(text: &str, version: &str) -> Result<String, PlanError> {
    let broken = |reason: String| PlanError::Edit {
        path: layout::CRD_BASES.to_owned(),
        reason,
        remedy: "it is generated: write it again with `operator-sdk generate manifests`".to_owned(),
    };
    let mut crd: Value =
        serde_saphyr::from_str(text).map_err(|error| broken(apimachinery::yaml::summary(&error)))?;
    if super::delete::stores(&crd, version) {
        return Err(PlanError::Usage(
            format!("objects are stored in version {version}"),
            "store them in another version first: move `storage = false` from its type to this one",
        ));
    }
    if let Some(versions) = crd.pointer_mut("/spec/versions").and_then(Value::as_array_mut) {
        versions.retain(|there| there["name"] != version);
    }
    Ok(render::documents([&crd]))
}

/// Groups with cluster-scoped resources.
const CLUSTER_GROUPS: [&str; 2] = ["admissionregistration.k8s.io", "apiextensions.k8s.io"];

/// Returns the text of `config/rbac/role.yaml`. If the operator watches only its own namespace, its rules are in a Role
/// of that namespace, except those for cluster-scoped resources.
pub(crate) fn role(rules: &[Rule], namespaced: bool) -> String {
    let mut rules = rules.to_vec();
    if namespaced {
        let in_namespace = |rule: &&mut Rule| {
            let cluster = |group: &String| CLUSTER_GROUPS.contains(&group.as_str());
            rule.non_resource_urls.is_empty() && !rule.api_groups.iter().all(cluster)
        };
        for rule in rules.iter_mut().filter(in_namespace) {
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

/// Returns the rules of the ClusterRole and the Roles in a file that this tool wrote.
pub(crate) fn rules_of(text: &str) -> Result<Vec<Rule>, PlanError> {
    let broken = |reason: String| PlanError::Edit {
        path: layout::ROLE.to_owned(),
        reason,
        remedy: "it is generated: delete it, and run `operator-sdk generate manifests`".to_owned(),
    };
    let roles: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| broken(format!("it is not valid YAML: {error}")))?;
    let mut rules = Vec::new();
    for role in roles {
        let namespace = role.pointer("/metadata/namespace").and_then(Value::as_str);
        for rule in role.get("rules").and_then(Value::as_array).into_iter().flatten() {
            let mut rule = rule.clone();
            if let Some(rule) = rule.as_object_mut() {
                rule.insert("namespace".to_owned(), json!(namespace));
            }
            rules.push(serde_json::from_value(rule).map_err(|error| broken(error.to_string()))?);
        }
    }
    Ok(rules)
}
