//! Validates the restart and resize policies of containers.

use std::collections::HashSet;

use apimachinery::field::{Error, Path};
use serde_json::Value;

use super::check::Check;
use crate::tree::{at, list, text};

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;

/// Checks the restart policy of a container.
pub(super) fn restart_policy(check: &mut Check, container: &Value, path: &Path, is_init: bool) {
    let rules = list(container, &["restartPolicyRules"]);
    if !at(container, &["restartPolicy"]).is_null() {
        check.one_of(
            container,
            path,
            "restartPolicy",
            &["Always", "Never", "OnFailure"],
        );
    } else if !rules.is_empty() {
        let why = "must specify restartPolicy when restart rules are used";
        check.required(path.child("restartPolicy"), why);
        if is_init {
            return;
        }
    }
    let of_rules = path.child("restartPolicyRules");
    if rules.len() > RULES_MAX {
        let error = Error::too_many(of_rules, rules.len(), RULES_MAX);
        return check.errors.push(error);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = path.child("restartPolicyRules").index(index);
        check.one_of(rule, &path, "action", &["Restart", "RestartAllContainers"]);
        let codes = at(rule, &["exitCodes"]);
        if codes.is_null() {
            check.required(path.child("exitCodes"), "must be specified");
        } else {
            let path = path.child("exitCodes");
            check.one_of(codes, &path, "operator", &["In", "NotIn"]);
            let values = list(codes, &["values"]).len();
            if values > EXIT_CODES_MAX {
                let error = Error::too_many(path.child("values"), values, EXIT_CODES_MAX);
                check.errors.push(error);
            }
        }
    }
}

/// Validates the resize policy of a container.
pub(super) fn resize_policy(check: &mut Check, container: &Value, path: &Path, pod_policy: &str) {
    let path = path.child("resizePolicy");
    let mut seen = HashSet::new();
    for (index, policy) in list(container, &["resizePolicy"]).iter().enumerate() {
        let resource = text(policy, &["resourceName"]);
        if !seen.insert(resource) {
            check.duplicate(path.index(index), &resource.into());
        }
        for (field, known) in [
            ("resourceName", ["cpu", "memory"]),
            ("restartPolicy", ["NotRequired", "RestartContainer"]),
        ] {
            let value = text(policy, &[field]);
            match value {
                "" => check.required(path.clone(), ""),
                _ if known.contains(&value) => {}
                _ => check
                    .errors
                    .push(Error::not_supported(path.clone(), &value.into(), &known)),
            }
        }
        let policy = text(policy, &["restartPolicy"]);
        if pod_policy == "Never" && policy != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            check.invalid(path.clone(), &policy.into(), why);
        }
    }
}
