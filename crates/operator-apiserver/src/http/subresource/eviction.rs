//! `pods/eviction`: deletes a pod if its disruption budget allows.
//!
//! The decision is pure ([`decide`]); it is then applied to the budget, the pod's conditions and the pod.

use std::sync::Arc;

use apimachinery::object;
use apimachinery::selector::LabelSelector;
use http::StatusCode;
use serde_json::{Value, json};

use crate::admission::{self, Operation};
use crate::codec::Form;
use crate::http::call::{Answer, Call};
use crate::http::verb::{self, object_body};
use crate::registry::{DeleteOptions, ListOptions, Registry};
use crate::resource::Definition;
use crate::status::{self, Status};
use crate::write::Write;
use apimachinery::gvk::Gvk;

/// The maximum number of pending evictions of a budget.
const DISRUPTED_PODS_MAX: usize = 2000;
/// The maximum number of attempts of an eviction while a pod or a budget changes.
const TRIES: usize = 20;
/// Seconds after which a client may retry when a controller has not processed a change yet.
const RETRY_SECONDS: i64 = 10;

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let mut write = verb::write(call, definition)?;
    let mut eviction = object_body::read_other(call, &EVICTION, &write.warnings)?;
    super::check_place(&write, &eviction, "Eviction")?;
    super::complete_body(&write, &mut eviction, ("policy/v1", "Eviction"))?;
    admission::admit_body(&registry.admission, &write, Operation::Create, &mut eviction).await?;
    let options = &eviction["deleteOptions"];
    let dry_run = options.get("dryRun").and_then(Value::as_array);
    write.dry_run |= dry_run.is_some_and(|list| !list.is_empty());
    evict(registry, &write, &DeleteOptions::from_json(options)).await?;
    Ok(Answer::object(StatusCode::CREATED, &super::success(), form))
}

const EVICTION: Gvk = Gvk {
    group: "policy",
    version: "v1",
    kind: "Eviction",
};

async fn evict(registry: &Registry, write: &Write, options: &DeleteOptions) -> Result<(), Status> {
    let mut tries = 0;
    loop {
        tries += 1;
        let pod = registry.load(write)?;
        // The budgets are not read for a pod that needs none.
        let budget = match waits_or_is_over(&pod.value) {
            true => None,
            false => budget_of(registry, write, &pod.value)?,
        };
        let decision = decide(&pod.value, budget.as_deref())?;
        let mut options = options.clone();
        let guarded = decision.guarded && options.resource_version.is_none();
        if guarded {
            options.resource_version = Some(object::resource_version(&pod.value).to_owned());
        }
        if let (true, Some(budget)) = (decision.takes, &budget) {
            match take(registry, write, budget).await {
                Err(status) if status.code == 409 && tries < TRIES => continue,
                result => result?,
            }
        }
        match delete(registry, write, options).await {
            Err(status) if status.code == 409 && guarded => match &budget {
                Some(budget) => return Err(unprocessed(budget)),
                None if tries < TRIES => {}
                None => return Err(status),
            },
            result => return result,
        }
    }
}

/// The decision about an eviction.
#[derive(Debug, PartialEq, Eq)]
struct Decision {
    /// True if the pod must still have the checked version, because a change might make a budget count it.
    guarded: bool,
    /// True if the number of allowed disruptions decreases by one.
    takes: bool,
}

/// Decides whether a pod may be evicted under its budget, as `pkg/registry/core/pod/storage/eviction.go` does.
fn decide(pod: &Value, budget: Option<&Value>) -> Result<Decision, Status> {
    if waits_or_is_over(pod) {
        return Ok(Decision {
            guarded: !is_over(pod),
            takes: false,
        });
    }
    let Some(budget) = budget else {
        return Ok(Decision {
            guarded: false,
            takes: false,
        });
    };
    if !is_ready(pod) && lets_unhealthy_go(budget) {
        return Ok(Decision {
            guarded: true,
            takes: false,
        });
    }
    check_budget(budget)?;
    Ok(Decision {
        guarded: false,
        takes: true,
    })
}

fn is_over(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&object::text(pod, &["status", "phase"])) || object::is_terminating(pod)
}

/// Returns true if a pod does not run, so that no budget counts it.
fn waits_or_is_over(pod: &Value) -> bool {
    is_over(pod) || object::text(pod, &["status", "phase"]) == "Pending"
}

fn is_ready(pod: &Value) -> bool {
    let conditions = object::get(pod, &["status", "conditions"]).and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        object::text(condition, &["type"]) == "Ready" && object::text(condition, &["status"]) == "True"
    })
}

fn number(budget: &Value, field: &str) -> i64 {
    object::get(budget, &["status", field])
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

fn lets_unhealthy_go(budget: &Value) -> bool {
    if object::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow" {
        return true;
    }
    let desired = number(budget, "desiredHealthy");
    desired > 0 && number(budget, "currentHealthy") >= desired
}

fn check_budget(budget: &Value) -> Result<(), Status> {
    let name = object::name(budget);
    if number(budget, "observedGeneration") < object::generation(budget) {
        return Err(unprocessed(budget));
    }
    let subject = status::NamedResource {
        group: "policy".to_owned(),
        resource: "poddisruptionbudget".to_owned(),
        kind: "PodDisruptionBudget".to_owned(),
    };
    let allowed = number(budget, "disruptionsAllowed");
    if allowed < 0 {
        return Err(status::forbidden(
            &subject,
            name,
            "pdb disruptions allowed is negative",
        ));
    }
    let waiting = object::get(budget, &["status", "disruptedPods"]).and_then(Value::as_object);
    if waiting.is_some_and(|pods| pods.len() > DISRUPTED_PODS_MAX) {
        return Err(status::forbidden(
            &subject,
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed > 0 {
        return Ok(());
    }
    Err(status::budget_violated(&exhausted(budget), 0))
}

/// Returns the reason why a budget allows no disruption.
fn exhausted(budget: &Value) -> String {
    let name = object::name(budget);
    let conditions = object::get(budget, &["status", "conditions"]).and_then(Value::as_array);
    let failed = conditions.into_iter().flatten().find(|condition| {
        object::text(condition, &["type"]) == DISRUPTION_ALLOWED
            && object::text(condition, &["status"]) == "False"
            && object::text(condition, &["reason"]) == "SyncFailed"
    });
    if let Some(condition) = failed {
        let why = object::text(condition, &["message"]);
        return format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
        );
    }
    let (needs, has) = (number(budget, "desiredHealthy"), number(budget, "currentHealthy"));
    format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently")
}

fn unprocessed(budget: &Value) -> Status {
    let name = object::name(budget);
    let cause = format!("The disruption budget {name} is still being processed by the server.");
    status::budget_violated(&cause, RETRY_SECONDS)
}

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// Returns the one budget that selects a pod.
fn budget_of(registry: &Registry, write: &Write, pod: &Value) -> Result<Option<Arc<Value>>, Status> {
    let definition = budgets(registry)?;
    let page = registry.list(&definition, &write.namespace, &ListOptions::default())?;
    let mut matching = page.items.iter().filter(|budget| selects(&budget.value, pod));
    let first = matching.next().map(|budget| definition.serve(&budget.value));
    if matching.next().is_some() {
        return Err(status::plain(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    Ok(first)
}

fn selects(budget: &Value, pod: &Value) -> bool {
    object::get(budget, &["spec", "selector"])
        .and_then(LabelSelector::from_json)
        .is_some_and(|selector| selector.matches(pod))
}

fn budgets(registry: &Registry) -> Result<Arc<Definition>, Status> {
    registry
        .find("policy", "v1", "poddisruptionbudgets")
        .ok_or_else(status::unknown_resource)
}

/// Takes one disruption from a budget for the pod of a write.
async fn take(registry: &Registry, write: &Write, budget: &Value) -> Result<(), Status> {
    if write.dry_run {
        return Ok(());
    }
    let now = registry.timestamp();
    let mut taken = budget.clone();
    let left = number(budget, "disruptionsAllowed") - 1;
    let observed = number(budget, "observedGeneration");
    let budget_status = object::child_mut(&mut taken, "status");
    budget_status.insert("disruptionsAllowed".to_owned(), left.into());
    let waiting = budget_status.entry("disruptedPods").or_insert_with(|| json!({}));
    if let Some(waiting) = waiting.as_object_mut() {
        waiting.insert(write.name.clone(), now.as_str().into());
    }
    if left == 0 {
        let exhausted = json!({
            "type": DISRUPTION_ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "",
            "observedGeneration": observed, "lastTransitionTime": now,
        });
        crate::registry::binding::set_condition(&mut taken, exhausted);
    }
    let change = |_: &Value| Ok(taken.clone());
    let of_budget = Write {
        definition: budgets(registry)?,
        namespace: write.namespace.clone(),
        name: object::name(budget).to_owned(),
        subresource: "status".to_owned(),
        user: write.user.clone(),
        manager: "kube-apiserver".to_owned(),
        tracked: false,
        replaces: true,
        dry_run: false,
        options: Value::Null,
        warnings: crate::write::Warnings::default(),
        in_collection: false,
        conversions: Arc::default(),
        decisions: Arc::default(),
        requested_name: Default::default(),
        deadline: write.deadline,
    };
    registry.update(&of_budget, &change).await.map(drop)
}

/// Sets the condition of a disrupted pod, and deletes it.
async fn delete(registry: &Registry, write: &Write, mut options: DeleteOptions) -> Result<(), Status> {
    if !write.dry_run {
        let now = registry.timestamp();
        let marked = registry.rewrite(write, &|live: &Value| {
            options.check(write, live)?;
            let mut pod = live.clone();
            let target = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now,
            });
            crate::registry::binding::set_condition(&mut pod, target);
            Ok(pod)
        })?;
        if options.resource_version.is_some() {
            options.resource_version = Some(object::resource_version(&marked).to_owned());
        }
    }
    registry.delete(write, &options).await.map(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Decision, decide};

    fn pod(phase: &str, ready: &str) -> Value {
        json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn budget(status: &Value) -> Value {
        json!({"metadata": {"name": "p", "generation": 1}, "spec": {}, "status": status})
    }

    #[test]
    fn pods_that_do_not_run_need_no_budget() {
        let budget = budget(&json!({"observedGeneration": 1, "disruptionsAllowed": 0}));
        for (phase, guarded) in [("Pending", true), ("Succeeded", false), ("Failed", false)] {
            let decision = decide(&pod(phase, "False"), Some(&budget)).unwrap();
            assert_eq!(
                decision,
                Decision {
                    guarded,
                    takes: false
                },
                "{phase}"
            );
        }
    }

    #[test]
    fn an_unready_pod_is_evicted_while_enough_others_are_healthy() {
        let healthy = budget(&json!({"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 2}));
        assert!(!decide(&pod("Running", "False"), Some(&healthy)).unwrap().takes);
        assert_eq!(
            decide(&pod("Running", "True"), Some(&healthy)).unwrap_err().code,
            429
        );
        let unhealthy = budget(&json!({"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 2}));
        assert_eq!(
            decide(&pod("Running", "False"), Some(&unhealthy))
                .unwrap_err()
                .code,
            429
        );
        let mut lenient = unhealthy;
        lenient["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow".into();
        assert!(decide(&pod("Running", "False"), Some(&lenient)).unwrap().guarded);
    }

    #[test]
    fn failed_budgets_are_reported() {
        let failed = budget(&json!({
            "observedGeneration": 1,
            "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "why"}],
        }));
        let refused = decide(&pod("Running", "True"), Some(&failed)).unwrap_err();
        let cause = &refused.body["details"]["causes"][0]["message"];
        assert_eq!(
            cause,
            "The disruption budget p does not allow evicting pods currently because it failed sync: why"
        );
    }
}
