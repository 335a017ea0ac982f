//! ClusterServiceVersion: its phases, requirements and installation.
//!
//! [`next`] determines the next phase from the current state; the other functions install and remove objects.

mod api_service;
pub(in crate::olm) mod certificate;
mod group;
pub(in crate::olm) mod install;
mod rbac;
mod requirement;
pub(in crate::olm) mod webhook;

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use operator_apiserver::client::Event;
use serde_json::{Value, json};

use super::kinds::{
    API_SERVICE, CLUSTER_ROLE_BINDING, CSV, MUTATING_WEBHOOK, OPERATOR_CONDITION, OPERATOR_GROUP, ROLE,
    ROLE_BINDING, SECRET, SUBSCRIPTION, VALIDATING_WEBHOOK,
};
use super::operator_condition::not_upgradeable;
use super::properties::owned_apis;
use super::{is_copy, originals};
use crate::engine::Controller;
use crate::kind::{
    CLUSTER_ROLE, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE, SERVICE, SERVICE_ACCOUNT,
};
use crate::object::{Object, time};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Plan, World, delete, until, update_status};

/// The maximum duration of an installation.
const INSTALL_SECONDS: i64 = 5 * 60;
/// The maximum number of transitions in the status.
const HISTORY_MAX: usize = 20;

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    let mut certificates = certificate::generate;
    Controller {
        name: "olm-cluster-service-version",
        keys,
        plan: Box::new(move |world, key| plan(world, key, &mut certificates)),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    let object = &event.object;
    let gvr = &event.gvr;
    if CSV.is(gvr) {
        keys.push(Key::of(object));
    }
    let local = [
        &*CSV,
        &*DEPLOYMENT,
        &*SERVICE,
        &*SECRET,
        &*SERVICE_ACCOUNT,
        &*OPERATOR_CONDITION,
        &*SUBSCRIPTION,
    ];
    let global = [
        &*OPERATOR_GROUP,
        &*CUSTOM_RESOURCE_DEFINITION,
        &*NAMESPACE,
        &*ROLE,
        &*ROLE_BINDING,
        &*CLUSTER_ROLE,
        &*CLUSTER_ROLE_BINDING,
        &*MUTATING_WEBHOOK,
        &*VALIDATING_WEBHOOK,
        &*API_SERVICE,
    ];
    let namespace = if global.iter().any(|kind| kind.is(gvr)) {
        Some("")
    } else if local.iter().any(|kind| kind.is(gvr)) {
        Some(object.namespace())
    } else {
        None
    };
    if let Some(namespace) = namespace {
        keys.extend(originals(objects, namespace).map(|csv| Key::of(csv)));
    }
}

/// A ClusterServiceVersion with its target namespaces.
pub(super) struct Member<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) csv: &'a Value,
    pub(super) group: &'a Value,
    /// The target namespaces; one empty string for all namespaces.
    pub(super) targets: Vec<String>,
}

impl Member<'_> {
    fn objects(&self) -> &Objects {
        self.world.objects
    }

    fn is_global(&self) -> bool {
        self.targets == [""]
    }
}

/// A phase with its reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) phase: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

fn phase(phase: &'static str, reason: &'static str, message: impl Into<String>) -> Phase {
    Phase {
        phase,
        reason,
        message: message.into(),
    }
}

/// Creates a certificate for host names: authority, certificate and key, in PEM.
pub(in crate::olm) type Certificates<'a> =
    dyn FnMut(&[String], jiff::Timestamp) -> Option<certificate::Pair> + 'a;

pub(super) fn plan(world: &World<'_>, key: &Key, certificates: &mut Certificates<'_>) -> Plan {
    let found = world.objects.get(&CSV, &key.namespace, &key.name);
    let Some(csv) = found.filter(|csv| !csv.is_terminating()) else {
        return Plan::actions(rbac::abandoned(world.objects, key));
    };
    if is_copy(csv) {
        return Plan::done();
    }
    if csv.text("/status/phase") == "Deleting" {
        return Plan::act(delete(&CSV, csv, None));
    }
    let (group, targets) = match group::check(world.objects, csv) {
        group::Check::Wait => return Plan::done(),
        group::Check::Failed(phase) => return failed_group(world, csv, &phase),
        group::Check::Member(group, targets) => (group, targets),
    };
    let member = Member {
        world,
        csv,
        group,
        targets,
    };
    decide(&member, certificates)
}

fn failed_group(world: &World<'_>, csv: &Value, phase: &Phase) -> Plan {
    let status = transition(world, csv, phase, None);
    Plan {
        status: update_status(&CSV, csv, status),
        ..Plan::default()
    }
}

fn decide(member: &Member<'_>, certificates: &mut Certificates<'_>) -> Plan {
    let current = member.csv.text("/status/phase");
    let requirements =
        matches!(current, "Pending" | "Succeeded" | "Failed").then(|| requirement::check(member));
    if matches!(current, "InstallReady" | "Installing" | "Succeeded") {
        let actions = rbac::actions(member);
        if !actions.is_empty() && member.world.failure.is_none() {
            return Plan::actions(actions);
        }
    }
    if current == "InstallReady" {
        if let Some(failure) = member.world.failure {
            let message = format!("install strategy failed: {}", failure.message);
            return settle(
                member,
                &phase("Failed", "InstallComponentFailed", message),
                None,
                Vec::new(),
            );
        }
        match install::actions(member, certificates) {
            Ok(actions) if !actions.is_empty() => return Plan::actions(actions),
            Ok(_) => {}
            Err(message) => {
                let message = format!("install strategy failed: {message}");
                return settle(
                    member,
                    &phase("Failed", "InstallComponentFailed", message),
                    None,
                    Vec::new(),
                );
            }
        }
    }
    if current == "Succeeded" && webhook::is_certificate_due(member) {
        let actions = webhook::expired(member);
        let rotated = phase(
            "Pending",
            "NeedsCertRotation",
            "CSV owns resources that require a cert refresh",
        );
        return settle(member, &rotated, requirements.as_ref(), actions);
    }
    let next = next(member, requirements.as_ref());
    settle(member, &next, requirements.as_ref(), Vec::new())
}

/// Executes actions, and then writes the status of a phase.
fn settle(
    member: &Member<'_>,
    next: &Phase,
    requirements: Option<&requirement::Outcome>,
    actions: Vec<Action>,
) -> Plan {
    let (world, csv) = (member.world, member.csv);
    let mut status = transition(world, csv, next, requirements.map(|outcome| &outcome.statuses));
    if let Some(times) = webhook::times(member) {
        status["certsLastUpdated"] = times.0;
        status["certsRotateAt"] = times.1;
    }
    let write = update_status(&CSV, csv, status);
    let after = timeout(world, csv, next);
    if actions.is_empty() {
        return Plan {
            status: write,
            after,
            ..Plan::default()
        };
    }
    Plan {
        actions: actions.into_iter().chain(write).collect(),
        after,
        ..Plan::default()
    }
}

fn timeout(world: &World<'_>, csv: &Value, next: &Phase) -> Option<Duration> {
    let deadline = deadline(csv).filter(|_| next.phase == "Installing")?;
    Some(until(world.now, deadline))
}

/// Returns the time limit of an installation, which starts with the phase Installing.
fn deadline(csv: &Value) -> Option<jiff::Timestamp> {
    let history = csv.items("/status/conditions");
    let start = history
        .iter()
        .rev()
        .take_while(|entry| entry.text("/phase") == "Installing")
        .last()?;
    let start = start.time("/lastTransitionTime")?;
    start.checked_add(SignedDuration::from_secs(INSTALL_SECONDS)).ok()
}

/// Returns the status with a phase. An entry is added to the history if the phase or the reason changes.
fn transition(world: &World<'_>, csv: &Value, next: &Phase, requirements: Option<&Vec<Value>>) -> Value {
    let now = time(world.now);
    let mut status = csv.get("status").cloned().unwrap_or(json!({}));
    let moved = status.text("/phase") != next.phase || status.text("/reason") != next.reason;
    let changed = moved || status.text("/message") != next.message;
    if let Some(requirements) = requirements {
        status["requirementStatus"] = json!(requirements);
    }
    if status.get("cleanup").is_none() {
        status["cleanup"] = json!({});
    }
    if !changed {
        return status;
    }
    status["phase"] = next.phase.into();
    status["reason"] = next.reason.into();
    status["message"] = next.message.as_str().into();
    status["lastUpdateTime"] = now.clone();
    if moved {
        status["lastTransitionTime"] = now.clone();
        let mut history = status.items("/conditions").to_vec();
        history.push(json!({
            "phase": next.phase, "reason": next.reason, "message": next.message, "lastUpdateTime": now,
            "lastTransitionTime": now,
        }));
        let surplus = history.len().saturating_sub(HISTORY_MAX);
        history.drain(..surplus);
        status["conditions"] = json!(history);
    }
    status
}

/// Returns the current phase, to stay in it.
fn same(csv: &Value) -> Phase {
    let known = |text: &str, all: &[&'static str]| all.iter().find(|known| **known == text).copied();
    phase(
        known(
            csv.text("/status/phase"),
            &[
                "Pending",
                "InstallReady",
                "Installing",
                "Succeeded",
                "Failed",
                "Replacing",
                "Deleting",
            ],
        )
        .unwrap_or(""),
        known(csv.text("/status/reason"), REASONS).unwrap_or(""),
        csv.text("/status/message"),
    )
}

const REASONS: &[&str] = &[
    "RequirementsUnknown",
    "RequirementsNotMet",
    "OperatorConditionNotUpgradeable",
    "AllRequirementsMet",
    "InvalidInstallStrategy",
    "OwnerConflict",
    "InvalidWebhookDescription",
    "InstallSucceeded",
    "InstallWaiting",
    "InstallComponentFailed",
    "InstallComponentFailedNoRetry",
    "InstallCheckFailed",
    "APIServiceInstallFailed",
    "ComponentUnhealthy",
    "APIServiceResourceIssue",
    "NeedsCertRotation",
    "BeingReplaced",
    "NeedsReinstall",
    "APIServiceResourcesNeedReinstall",
    "Replaced",
    "NoOperatorGroup",
    "TooManyOperatorGroups",
    "NoTargetNamespaces",
    "InvalidInstallModes",
    "UnsupportedOperatorGroup",
    "InterOperatorGroupOwnerConflict",
    "CannotModifyStaticOperatorGroupProvidedAPIs",
];

/// Returns the next phase.
fn next(member: &Member<'_>, requirements: Option<&requirement::Outcome>) -> Phase {
    let csv = member.csv;
    let met = requirements.is_none_or(|outcome| outcome.met);
    match csv.text("/status/phase") {
        "Pending" => pending(member, met),
        "InstallReady" => phase(
            "Installing",
            "InstallSucceeded",
            "waiting for install components to report healthy",
        ),
        "Installing" => installing(member),
        "Succeeded" => succeeded(member, met),
        "Failed" => failed(member, met),
        "Replacing" if replacement(member).is_some_and(|new| is_installed(member.objects(), new)) => phase(
            "Deleting",
            "Replaced",
            "has been replaced by a newer ClusterServiceVersion that has successfully installed.",
        ),
        "Replacing" => same(csv),
        _ => phase("Pending", "RequirementsUnknown", "requirements not yet checked"),
    }
}

fn pending(member: &Member<'_>, met: bool) -> Phase {
    let csv = member.csv;
    if let Some(message) = strategy_fault(csv) {
        let message = format!("install strategy invalid: {message}");
        return phase("Failed", "InvalidInstallStrategy", message);
    }
    if let Some(message) = webhook::fault(csv) {
        return phase("Failed", "InvalidWebhookDescription", message);
    }
    let replaced = member
        .objects()
        .get(&CSV, csv.namespace(), csv.text("/spec/replaces"))
        .filter(|old| !is_copy(old) && old.uid() != csv.uid());
    if let Some(old) = replaced
        && let Some(message) = not_upgradeable(member.objects(), csv.namespace(), old.name())
    {
        let message = format!("operator is not upgradeable: {message}");
        return phase("Pending", "OperatorConditionNotUpgradeable", message);
    }
    if !met {
        return phase(
            "Pending",
            "RequirementsNotMet",
            "one or more requirements couldn't be found",
        );
    }
    if has_owner_conflict(member) {
        return phase("Failed", "OwnerConflict", "conflicting CRD owner in namespace");
    }
    if api_service::has_conflict(member) {
        return phase("Failed", "OwnerConflict", "unable to adopt APIService");
    }
    if replaced.is_some_and(|old| old.text("/status/phase") != "Replacing") {
        return same(csv);
    }
    phase(
        "InstallReady",
        "AllRequirementsMet",
        "all requirements found, attempting install",
    )
}

fn strategy_fault(csv: &Value) -> Option<String> {
    let strategy = csv.text("/spec/install/strategy");
    (strategy != "deployment").then(|| format!("unrecognized install strategy: {strategy}"))
}

/// Returns true if another operator of the namespace owns one of its APIs, and is not replaced by this operator.
fn has_owner_conflict(member: &Member<'_>) -> bool {
    let csv = member.csv;
    let own = owned_apis(csv);
    let chain = |other: &Value| {
        let mut name = csv.text("/spec/replaces");
        for _ in 0..HISTORY_MAX {
            if name.is_empty() || name == other.name() {
                break;
            }
            let older = member.objects().get(&CSV, csv.namespace(), name);
            name = older.map_or("", |older| older.text("/spec/replaces"));
        }
        name == other.name() || other.text("/spec/replaces") == csv.name()
    };
    originals(member.objects(), csv.namespace())
        .filter(|other| other.uid() != csv.uid() && other.text("/status/phase") != "Replacing")
        .filter(|other| !owned_apis(other).is_disjoint(&own))
        .any(|other| {
            !chain(other)
                && other.time("/metadata/creationTimestamp") <= csv.time("/metadata/creationTimestamp")
        })
}

fn installing(member: &Member<'_>) -> Phase {
    use install::Health;
    match install::health(member) {
        Health::Ready => succeeded_phase(),
        Health::Waiting(message) => {
            let over = deadline(member.csv).is_some_and(|deadline| member.world.now >= deadline);
            if over {
                return phase("Failed", "InstallCheckFailed", "install timeout");
            }
            phase("Installing", "InstallWaiting", format!("installing: {message}"))
        }
        Health::ApisMissing if deadline(member.csv).is_some_and(|deadline| member.world.now >= deadline) => {
            phase("Failed", "InstallCheckFailed", "install timeout")
        }
        Health::ApisMissing => phase("Installing", "InstallWaiting", "APIServices not installed"),
        Health::Changed(message) => phase("InstallReady", "InstallWaiting", format!("installing: {message}")),
        Health::Failed(message) => phase(
            "Failed",
            "InstallCheckFailed",
            format!("install failed: {message}"),
        ),
    }
}

fn succeeded_phase() -> Phase {
    phase(
        "Succeeded",
        "InstallSucceeded",
        "install strategy completed with no errors",
    )
}

fn succeeded(member: &Member<'_>, met: bool) -> Phase {
    use install::Health;
    if let Some(new) = replacement(member) {
        let message = format!("being replaced by csv: {}", new.name());
        return phase("Replacing", "BeingReplaced", message);
    }
    if !met {
        return phase("Failed", "RequirementsNotMet", "requirements no longer met");
    }
    match install::health(member) {
        Health::Ready => succeeded_phase(),
        Health::ApisMissing => phase("Failed", "APIServiceResourceIssue", "APIServices not installed"),
        Health::Waiting(message) | Health::Changed(message) | Health::Failed(message) => {
            phase("Failed", "ComponentUnhealthy", format!("installing: {message}"))
        }
    }
}

fn failed(member: &Member<'_>, met: bool) -> Phase {
    use install::Health;
    let csv = member.csv;
    match csv.text("/status/reason") {
        "NoOperatorGroup" | "TooManyOperatorGroups" | "NoTargetNamespaces" | "InvalidInstallModes" => {
            return phase("Pending", "RequirementsUnknown", "requirements not yet checked");
        }
        "UnsupportedOperatorGroup" => {
            let message = "InstallModes now support target namespaces";
            return phase("Pending", "RequirementsUnknown", message);
        }
        "InterOperatorGroupOwnerConflict" => {
            let message = "OperatorGroup no longer intersecting with conflicting owner";
            return phase("Pending", "RequirementsUnknown", message);
        }
        "CannotModifyStaticOperatorGroupProvidedAPIs" => {
            let message = "static OperatorGroup and intersecting groups now support providedAPIs";
            return phase("Pending", "RequirementsUnknown", message);
        }
        "InvalidInstallStrategy" | "InvalidWebhookDescription" => return same(csv),
        "OwnerConflict" if has_owner_conflict(member) || api_service::has_conflict(member) => {
            return same(csv);
        }
        _ => {}
    }
    let forward = member.group.text("/spec/upgradeStrategy") == "TechPreviewUnsafeFailForward";
    if let Some(new) = replacement(member).filter(|_| forward) {
        let message = format!(
            "Fail Forward is enabled, allowing {} csv to be replaced by csv: {}",
            csv.name(),
            new.name()
        );
        return phase("Replacing", "BeingReplaced", message);
    }
    if !met {
        return phase("Pending", "RequirementsNotMet", "requirements not met");
    }
    match install::health(member) {
        Health::Ready => succeeded_phase(),
        Health::Failed(_) if csv.text("/status/reason") == "InstallCheckFailed" => same(csv),
        Health::ApisMissing => phase(
            "Pending",
            "APIServiceResourcesNeedReinstall",
            "APIServices not installed",
        ),
        Health::Waiting(message) | Health::Changed(message) | Health::Failed(message) => {
            phase("Pending", "NeedsReinstall", format!("installing: {message}"))
        }
    }
}

/// Returns the ClusterServiceVersion that replaces this one.
fn replacement<'a>(member: &Member<'a>) -> Option<&'a Arc<Value>> {
    let (objects, csv) = (member.world.objects, member.csv);
    originals(objects, csv.namespace())
        .find(|new| new.uid() != csv.uid() && new.text("/spec/replaces") == csv.name())
}

/// Returns true if a new operator, or a later one that replaces it, is installed.
fn is_installed(objects: &Objects, new: &Value) -> bool {
    let mut new = Some(new);
    for _ in 0..HISTORY_MAX {
        let Some(csv) = new else { return false };
        if csv.text("/status/phase") == "Succeeded" {
            return true;
        }
        new = originals(objects, csv.namespace())
            .find(|newer| newer.text("/spec/replaces") == csv.name())
            .map(AsRef::as_ref);
    }
    false
}
