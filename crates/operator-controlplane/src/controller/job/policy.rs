//! The policies of a Job: the pod failure policy, and the success policy for indexes.
//!
//! Semantics: kubernetes.io/docs/concepts/workloads/controllers/job, "Pod failure policy" and "Success policy".

use std::collections::BTreeSet;

use serde_json::Value;

use crate::controller::job::indexes::Indexes;
use crate::object::Object;

/// The effect of a failed pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// True if it counts towards the limits.
    pub(super) counts: bool,
    /// True if its index fails.
    pub(super) fails_index: bool,
    /// The reason why the whole Job fails.
    pub(super) fails_job: Option<String>,
}

const COUNTED: Judgement = Judgement {
    counts: true,
    fails_index: false,
    fails_job: None,
};

/// Returns the effect of the first rule of the policy that matches the pod. If no rule matches, the failure counts.
pub(super) fn judge(job: &Value, pod: &Value) -> Judgement {
    let rules = job.items("/spec/podFailurePolicy/rules").iter().enumerate();
    let mut matches = rules.filter_map(|(at, rule)| Some((at, rule.text("/action"), evidence(rule, pod)?)));
    match matches.next() {
        Some((_, "Ignore", _)) => Judgement {
            counts: false,
            ..COUNTED
        },
        Some((_, "FailIndex", _)) => Judgement {
            fails_index: true,
            ..COUNTED
        },
        Some((at, "FailJob", evidence)) => Judgement {
            fails_job: Some(format!("{evidence} matching FailJob rule at index {at}")),
            ..COUNTED
        },
        _ => COUNTED,
    }
}

/// Returns the property of a pod that matches a rule.
fn evidence(rule: &Value, pod: &Value) -> Option<String> {
    let place = format!("{}/{}", pod.namespace(), pod.name());
    if let Some(codes) = rule.get("onExitCodes") {
        let (container, code) = exit(codes, pod)?;
        return Some(format!(
            "Container {container} for pod {place} failed with exit code {code}"
        ));
    }
    let wanted = rule.items("/onPodConditions").iter();
    let found = wanted
        .map(|wanted| (wanted.text("/type"), wanted.text("/status")))
        .find(|(kind, status)| {
            pod.condition(kind)
                .is_some_and(|found| found.text("/status") == *status)
        });
    found.map(|(kind, _)| format!("Pod {place} has condition {kind}"))
}

/// Returns the first failed container with one of the exit codes.
fn exit<'p>(rule: &Value, pod: &'p Value) -> Option<(&'p str, i64)> {
    let codes: BTreeSet<i64> = rule.items("/values").iter().filter_map(Value::as_i64).collect();
    let is_among = rule.text("/operator") == "In";
    let container = rule.text("/containerName");
    ["/status/containerStatuses", "/status/initContainerStatuses"]
        .into_iter()
        .flat_map(|list| pod.items(list))
        .filter(|status| container.is_empty() || status.text("/name") == container)
        .filter_map(|status| Some((status.text("/name"), status.int("/state/terminated/exitCode")?)))
        .find(|(_, code)| *code != 0 && codes.contains(code) == is_among)
}

/// Returns the reason why the succeeded indexes satisfy the success policy.
pub(super) fn success(job: &Value, completed: &Indexes) -> Option<String> {
    if completed.is_empty() {
        return None;
    }
    let rules = job.items("/spec/successPolicy/rules");
    let at = rules.iter().position(|rule| {
        let count = rule.int("/succeededCount");
        match rule.get("succeededIndexes").and_then(Value::as_str) {
            Some(text) => {
                let required = Indexes::parse(text);
                required.common(completed) >= count.unwrap_or(required.count())
            }
            None => count.is_some_and(|count| completed.count() >= count),
        }
    });
    at.map(|at| format!("Matched rules at index {at}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(rules: &Value) -> Value {
        json!({"spec": {"podFailurePolicy": {"rules": rules}}})
    }

    fn pod(code: i64) -> Value {
        json!({
            "metadata": {"namespace": "a", "name": "p"},
            "status": {
                "phase": "Failed",
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}],
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
        })
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = json!([
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}},
            {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "NotIn", "values": [1, 2]}},
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [2]}},
        ]);
        let judged = |code| judge(&job(&rules), &pod(code));
        assert!(!judged(3).counts);
        assert_eq!(
            judged(42).fails_job.as_deref(),
            Some("Container c for pod a/p failed with exit code 42 matching FailJob rule at index 1")
        );
        assert!(judged(2).fails_index);
        assert_eq!(judged(1), COUNTED);
        assert_eq!(judged(0), COUNTED);
    }

    #[test]
    fn a_condition_of_the_pod_can_decide() {
        let rules = |status: &str| json!([{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": status}]}]);
        assert_eq!(
            judge(&job(&rules("True")), &pod(1)).fails_job.as_deref(),
            Some("Pod a/p has condition DisruptionTarget matching FailJob rule at index 0")
        );
        assert_eq!(judge(&job(&rules("False")), &pod(1)), COUNTED);
    }

    #[test]
    fn some_indexes_can_be_enough() {
        let job = json!({"spec": {"successPolicy": {"rules": [
            {"succeededIndexes": "0,2-4"},
            {"succeededIndexes": "5-9", "succeededCount": 2},
            {"succeededCount": 6},
        ]}}});
        let met = |text: &str| success(&job, &Indexes::parse(text));
        assert_eq!(met(""), None);
        assert_eq!(met("0,2,3"), None);
        assert_eq!(met("0-4").as_deref(), Some("Matched rules at index 0"));
        assert_eq!(met("5,9").as_deref(), Some("Matched rules at index 1"));
        assert_eq!(met("1,3,10-13").as_deref(), Some("Matched rules at index 2"));
    }
}
