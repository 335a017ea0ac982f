//! The RBAC rules that follow from the kinds that controllers watch and own.

use futures::FutureExt;
use http::{Request, Response};
use kube::client::Body;
use serde::Serialize;
use serde_json::Value;

use super::PolicyRule;
use crate::controller::{Use, UseRole};
use crate::error::{Error, Result};
use crate::manager::{Manager, ManagerOptions};
use crate::object::Kind;

/// A rule and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ImpliedRule {
    #[serde(flatten)]
    rule: PolicyRule,
    reason: String,
}

/// Returns the kinds and rules of the controllers that `setup` adds.
pub(super) fn uses_of(setup: impl FnOnce(&Manager) -> Result<()>) -> Result<(Vec<Use>, Vec<PolicyRule>)> {
    // A client needs a runtime even if it sends nothing. Callers of `manifests()` may have none.
    let own = match tokio::runtime::Handle::try_current() {
        Ok(_) => None,
        Err(_) => Some(tokio::runtime::Builder::new_current_thread().build()?),
    };
    let _entered = own.as_ref().map(tokio::runtime::Runtime::enter);
    let offline = tower::service_fn(|_: Request<Body>| async {
        let nobody: std::io::Result<Response<Body>> =
            Err(std::io::Error::other("not connected to a cluster"));
        nobody
    });
    let options = ManagerOptions {
        webhook_bind_address: "127.0.0.1:0".to_owned(),
        ..ManagerOptions::from(kube::Client::new(offline, "default"))
    };
    let manager = Manager::new("manifests", options).now_or_never();
    // Without servers, the future completes without waiting.
    let manager = manager.ok_or_else(|| Error::msg("the manager is not ready at once"))??;
    setup(&manager)?;
    Ok(manager.needs())
}

/// Returns the distinct rules for these uses, for an operator that defines these CRDs.
pub(super) fn rules(uses: &[Use], crds: &[Value]) -> Vec<ImpliedRule> {
    let mut rules: Vec<ImpliedRule> = Vec::new();
    for used in uses {
        for rule in rules_of(used, crds) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    if !uses.is_empty() {
        rules.push(ImpliedRule {
            rule: PolicyRule::of(&["events.k8s.io"], &["events"], &["create", "patch"]),
            reason: "events".to_owned(),
        });
    }
    rules
}

fn rules_of(used: &Use, crds: &[Value]) -> Vec<ImpliedRule> {
    let kind = &used.kind;
    let method = match used.role {
        UseRole::Primary => "Controller",
        UseRole::Owns => "owns",
        UseRole::Watches => "watches",
    };
    let rule = |subresource: &str, verbs: &[&str]| ImpliedRule {
        rule: PolicyRule::of(&[&kind.group], &[&format!("{}{subresource}", kind.plural)], verbs),
        reason: format!("{method}::<{}>", kind.kind),
    };
    let mut rules = vec![rule("", &["get", "list", "watch"])];
    match used.role {
        UseRole::Primary => {
            if has_status(kind, crds) {
                rules.push(rule("/status", &["get", "patch", "update"]));
            }
            rules.push(rule("/finalizers", &["update"]));
        }
        UseRole::Owns => rules.push(rule("", &["create", "delete", "patch", "update"])),
        UseRole::Watches => {}
    }
    rules
}

/// Returns true if the operator defines the kind with a status.
fn has_status(kind: &Kind, crds: &[Value]) -> bool {
    let name = format!("{}.{}", kind.plural, kind.group);
    let own = crds.iter().filter(|crd| crd["metadata"]["name"] == name);
    let mut versions = own
        .filter_map(|crd| crd.pointer("/spec/versions")?.as_array())
        .flatten();
    versions.any(|version| version.pointer("/subresources/status").is_some())
}
