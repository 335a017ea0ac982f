//! The changes of the `config/` tree.
//!
//! The tree is a function of the operator (`operator_manifests::config`). A command compares the trees of the operator
//! before and after its change: files that differ are written, and entries of kustomizations are added and removed.
//! Other changes of the user are kept.

use std::collections::BTreeSet;

use operator_manifests::config::{self, ConfigTree, Entry, Kind, Operator};
use operator_manifests::kustomize;
use serde_json::json;

use super::PlanError;
use super::draft::{Draft, yaml_error};
use crate::project::{Config, Resource, Tree};

/// Returns the operator of a project for `config/`: the settings of PROJECT and those of the kustomizations.
pub(crate) fn operator(config: &Config, tree: &Tree) -> Result<Operator, PlanError> {
    let text = tree.get(config::DEFAULT).unwrap_or_default();
    let has = |entry: &str| {
        kustomize::has_entry(text, "resources", &json!(entry))
            .map_err(|error| yaml_error(config::DEFAULT, &error))
    };
    Ok(Operator {
        project: config.project_name.clone(),
        domain: config.domain.clone(),
        namespaced: config.namespaced,
        metrics: has("metrics_service.yaml")?,
        prometheus: has("../prometheus")?,
        network_policy: has("../network-policy")?,
        cert_manager: has("../certmanager")?,
        kinds: config.resources.iter().map(|it| kind(config, it)).collect(),
    })
}

/// Returns the same operator with the kinds of another PROJECT file.
pub(crate) fn with_config(operator: &Operator, config: &Config) -> Operator {
    Operator {
        namespaced: config.namespaced,
        kinds: config.resources.iter().map(|it| kind(config, it)).collect(),
        ..operator.clone()
    }
}

fn kind(config: &Config, resource: &Resource) -> Kind {
    let webhooks = resource.webhooks.clone().unwrap_or_default();
    Kind {
        group: resource.group.clone(),
        api_group: resource.api_group(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
        plural: resource.plural(),
        grouped: config.multigroup && !resource.flat,
        defined: resource.api.is_some(),
        defaulting: webhooks.defaulting,
        validation: webhooks.validation,
        conversion: webhooks.conversion,
    }
}

/// Plans the changes of `config/` if the operator changes from `before` to `after`.
pub(crate) fn change(
    draft: &mut Draft<'_>,
    before: Option<&Operator>,
    after: &Operator,
) -> Result<(), PlanError> {
    let old = before.map(ConfigTree::of).unwrap_or_default();
    let new = ConfigTree::of(after);
    change_files(draft, &old, &new)?;
    change_entries(draft, &old, &new, after)
}

fn change_files(draft: &mut Draft<'_>, old: &ConfigTree, new: &ConfigTree) -> Result<(), PlanError> {
    let paths: BTreeSet<&String> = old.files.keys().chain(new.files.keys()).collect();
    let mut changed = Vec::new();
    for path in paths {
        let (before, after) = (old.files.get(path), new.files.get(path));
        let there = draft.get(path).map(str::to_owned);
        if before == after || there.as_ref() == after || (there.is_none() && before.is_some()) {
            continue;
        }
        if there.is_some() && there.as_ref() != before && !draft.force {
            changed.push(path.clone());
            continue;
        }
        match after {
            Some(text) => draft.put(path, text.clone()),
            None => draft.remove(path),
        }
    }
    match (changed.is_empty(), old.files.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => Err(PlanError::InTheWay(changed)),
        (false, false) => Err(PlanError::Changed(changed)),
    }
}

fn change_entries(
    draft: &mut Draft<'_>,
    old: &ConfigTree,
    new: &ConfigTree,
    after: &Operator,
) -> Result<(), PlanError> {
    let gone = old.entries.iter().filter(|entry| !new.entries.contains(entry));
    for entry in gone {
        draft.remove_entry(&entry.path, entry.key, &entry.value)?;
    }
    let old_paths: BTreeSet<&str> = old.entries.iter().map(|entry| entry.path.as_str()).collect();
    let new_paths: BTreeSet<&str> = new.entries.iter().map(|entry| entry.path.as_str()).collect();
    for path in old_paths.difference(&new_paths) {
        remove_if_empty(draft, path, after)?;
    }
    for path in &new_paths {
        let entries: Vec<&Entry> = new.entries_of(path).collect();
        let before: Vec<&Entry> = old.entries_of(path).collect();
        if draft.get(path).is_some() {
            for entry in entries.iter().filter(|entry| !before.contains(entry)) {
                draft.add_entry(path, entry.key, &entry.value)?;
            }
        } else if before.is_empty() {
            let text = config::kustomization(after, path, entries);
            draft.put(path, text.map_err(|error| yaml_error(path, &error))?);
        }
        // Otherwise the user has removed this kustomization.
    }
    Ok(())
}

/// Removes a kustomization without entries, which kustomize rejects. A kustomization with entries of the user is kept.
fn remove_if_empty(draft: &mut Draft<'_>, path: &str, operator: &Operator) -> Result<(), PlanError> {
    let head = config::kustomization(operator, path, []).map_err(|error| yaml_error(path, &error))?;
    if draft.get(path).is_some_and(|text| text.trim() == head.trim()) {
        draft.remove(path);
    }
    Ok(())
}
