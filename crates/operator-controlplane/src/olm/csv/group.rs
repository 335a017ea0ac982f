//! Checks the OperatorGroup, the first step of every phase.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::{Phase, phase};
use crate::object::Object;
use crate::objects::Objects;
use crate::olm::kinds::OPERATOR_GROUP;
use crate::olm::operator_group::{apis, targets};
use crate::olm::originals;

/// The result of the checks.
pub(super) enum Check<'a> {
    /// The group has no status yet.
    Wait,
    Failed(Phase),
    /// The group and its targets.
    Member(&'a Arc<Value>, Vec<String>),
}

pub(super) fn check<'a>(objects: &'a Objects, csv: &'a Arc<Value>) -> Check<'a> {
    let namespace = csv.namespace();
    let mut groups = objects.list(&OPERATOR_GROUP, namespace);
    let Some(group) = groups.next() else {
        return Check::Failed(phase(
            "Failed",
            "NoOperatorGroup",
            "csv in namespace with no operatorgroups",
        ));
    };
    if groups.next().is_some() {
        let message = "csv created in namespace with multiple operatorgroups, can't pick one automatically";
        return Check::Failed(phase("Failed", "TooManyOperatorGroups", message));
    }
    if group.get("status").is_none() {
        return Check::Wait;
    }
    let targets = targets(group);
    if targets.is_empty() {
        let message = "no targetNamespaces are matched operatorgroups namespace selection";
        return Check::Failed(phase("Failed", "NoTargetNamespaces", message));
    }
    if csv.annotation("olm.targetNamespaces").is_none() {
        return Check::Wait;
    }
    if let Some(phase) = modes(csv, &targets).or_else(|| conflict(objects, csv, group, &targets)) {
        return Check::Failed(phase);
    }
    Check::Member(group, targets)
}

/// Checks the install modes against the target namespaces; returns the phase of a failure.
pub(super) fn modes(csv: &Value, targets: &[String]) -> Option<Phase> {
    let modes = csv.items("/spec/installModes");
    let mut names = BTreeSet::new();
    if !modes.iter().all(|mode| names.insert(mode.text("/type"))) {
        let all: Vec<String> = modes
            .iter()
            .map(|mode| format!("{{{} {}}}", mode.text("/type"), mode.flag("/supported")))
            .collect();
        let message = format!(
            "InstallMode list contains duplicates, cannot make set: [{}]",
            all.join(" ")
        );
        return Some(phase("Failed", "InvalidInstallModes", message));
    }
    let supports = |name: &str| {
        let mut modes = modes.iter();
        modes.any(|mode| mode.text("/type") == name && mode.flag("/supported"))
    };
    let own = targets.iter().any(|target| target == csv.namespace());
    let unsupported = |message: String| Some(phase("Failed", "UnsupportedOperatorGroup", message));
    let refused = |mode: &str, what: &str| {
        unsupported(format!(
            "{mode} InstallModeType not supported, cannot configure to watch {what}"
        ))
    };
    match targets {
        [] => unsupported(
            "operatorgroup has invalid selected namespaces, cannot configure to watch zero namespaces"
                .to_owned(),
        ),
        [all] if all.is_empty() && !supports("AllNamespaces") => refused("AllNamespaces", "all namespaces"),
        [all] if all.is_empty() => None,
        [_] if own && !supports("OwnNamespace") => refused("OwnNamespace", "own namespace"),
        [_] if !own && !supports("SingleNamespace") => refused("SingleNamespace", "one namespace"),
        [_] => None,
        many if !supports("MultiNamespace") => {
            refused("MultiNamespace", &format!("{} namespaces", many.len()))
        }
        _ if own && !supports("OwnNamespace") => refused("OwnNamespace", "own namespace"),
        _ => None,
    }
}

/// Returns the failure of a group that provides the same APIs as another group with overlapping targets.
fn conflict(objects: &Objects, csv: &Arc<Value>, group: &Value, targets: &[String]) -> Option<Phase> {
    let own = apis(&[csv]);
    if group.flag("/spec/staticProvidedAPIs") {
        let provided = group.annotation("olm.providedAPIs").unwrap_or_default();
        let provided: BTreeSet<&str> = provided.split(',').collect();
        if own.iter().any(|api| !provided.contains(api.as_str())) {
            let message = "static provided api operatorgroup cannot be modified by these apis";
            return Some(phase(
                "Failed",
                "CannotModifyStaticOperatorGroupProvidedAPIs",
                message,
            ));
        }
    }
    let overlaps = |other: &Value| {
        let other = crate::olm::operator_group::targets(other);
        let all = |targets: &[String]| targets.iter().any(String::is_empty);
        all(targets) || all(&other) || other.iter().any(|target| targets.contains(target))
    };
    let is_older = |other: &Value| {
        let time = |csv: &Value| csv.time("/metadata/creationTimestamp");
        time(other) < time(csv) || time(other) == time(csv) && other.uid() < csv.uid()
    };
    let groups = objects
        .list(&OPERATOR_GROUP, "")
        .filter(|other| other.uid() != group.uid());
    for other in groups.filter(|other| overlaps(other)) {
        let rivals = originals(objects, other.namespace());
        let rival = rivals
            .filter(|rival| rival.text("/status/phase") != "Failed" && is_older(rival))
            .any(|rival| !apis(&[rival]).is_disjoint(&own));
        if rival {
            let message = "intersecting operatorgroups provide the same apis";
            return Some(phase("Failed", "InterOperatorGroupOwnerConflict", message));
        }
    }
    None
}
