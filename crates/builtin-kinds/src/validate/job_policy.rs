//! Validates the success and failure policies of Jobs.

use std::collections::BTreeSet;

use apimachinery::field::{Error, ErrorType, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::{Check, NEGATIVE};
use crate::tree::{at, list, text};

const RULES_MAX: usize = 20;
const PATTERNS_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const INDEXES_BYTES_MAX: usize = 64 * 1024;

pub(super) fn failure_policy(check: &mut Check, spec: &Value, path: &Path) {
    let rules = list(spec, &["podFailurePolicy", "rules"]);
    let path = path.child("rules");
    if rules.len() > RULES_MAX {
        let error = Error::too_many(path.clone(), rules.len(), RULES_MAX);
        check.errors.push(error);
    }
    let pod = at(spec, &["template", "spec"]);
    let containers: BTreeSet<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|field| list(pod, &[field]))
        .map(|container| text(container, &["name"]))
        .collect();
    for (index, rule) in rules.iter().enumerate() {
        failure_rule(check, spec, rule, &path.index(index), &containers);
    }
}

fn failure_rule(check: &mut Check, spec: &Value, rule: &Value, path: &Path, containers: &BTreeSet<&str>) {
    let action = text(rule, &["action"]);
    let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
    if action.is_empty() {
        let why = format!("valid values: [{}]", quoted(&actions));
        check.required(path.child("action"), &why);
    } else if action == "FailIndex" && at(spec, &["backoffLimitPerIndex"]).is_null() {
        let why = "requires the backoffLimitPerIndex to be set";
        check.invalid(path.child("action"), &action.into(), why);
    } else {
        check.one_of(rule, path, "action", &actions);
    }
    let codes = at(rule, &["onExitCodes"]);
    if !codes.is_null() {
        exit_codes(check, codes, &path.child("onExitCodes"), containers);
    }
    let patterns = list(rule, &["onPodConditions"]);
    pod_conditions(check, patterns, &path.child("onPodConditions"));
    let why = match (codes.is_null(), patterns.is_empty()) {
        (true, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        (false, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        _ => return,
    };
    let error = Error::new(ErrorType::Invalid, path.clone(), why);
    check.errors.push(error);
}

fn quoted(texts: &[&str]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("\"{text}\"")).collect();
    texts.join(" ")
}

fn exit_codes(check: &mut Check, codes: &Value, path: &Path, containers: &BTreeSet<&str>) {
    let operator = text(codes, &["operator"]);
    if operator.is_empty() {
        let why = format!("valid values: [{}]", quoted(&["In", "NotIn"]));
        check.required(path.child("operator"), &why);
    } else {
        check.one_of(codes, path, "operator", &["In", "NotIn"]);
    }
    let container = at(codes, &["containerName"]);
    if container.as_str().is_some_and(|name| !containers.contains(name)) {
        let why = "must be one of the container or initContainer names in the pod template";
        check.invalid(path.child("containerName"), container, why);
    }
    let values = list(codes, &["values"]);
    let path = path.child("values");
    if values.is_empty() {
        check.invalid(
            path.clone(),
            at(codes, &["values"]),
            "at least one value is required",
        );
    } else if values.len() > EXIT_CODES_MAX {
        let error = Error::too_many(path.clone(), values.len(), EXIT_CODES_MAX);
        check.errors.push(error);
    }
    let mut seen = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        let code = value.as_i64().unwrap_or_default();
        if operator == "In" && code == 0 {
            check.invalid(path.index(index), &0.into(), "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            check.duplicate(path.index(index), value);
        }
    }
    if !values.is_sorted_by_key(|value| value.as_i64()) {
        check.invalid(path, at(codes, &["values"]), "must be ordered");
    }
}

fn pod_conditions(check: &mut Check, patterns: &[Value], path: &Path) {
    if patterns.len() > PATTERNS_MAX {
        let error = Error::too_many(path.clone(), patterns.len(), PATTERNS_MAX);
        check.errors.push(error);
    }
    let statuses = ["False", "True", "Unknown"];
    for (index, pattern) in patterns.iter().enumerate() {
        let path = path.index(index);
        let kind = text(pattern, &["type"]);
        check.faults(&path.child("type"), kind, names::qualified_name(kind));
        if text(pattern, &["status"]).is_empty() {
            let why = format!("valid values: [{}]", quoted(&statuses));
            check.required(path.child("status"), &why);
        } else {
            check.one_of(pattern, &path, "status", &statuses);
        }
    }
}

pub(super) fn success_policy(check: &mut Check, spec: &Value, path: &Path) {
    let policy = at(spec, &["successPolicy"]);
    if policy.is_null() {
        return;
    }
    if text(spec, &["completionMode"]) != "Indexed" {
        return check.invalid_text(path.clone(), print(policy), "requires indexed completion mode");
    }
    let rules = list(policy, &["rules"]);
    let path = path.child("rules");
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        check.required(path.clone(), why);
    }
    if rules.len() > RULES_MAX {
        let error = Error::too_many(path.clone(), rules.len(), RULES_MAX);
        check.errors.push(error);
    }
    let completions = at(spec, &["completions"]).as_i64().unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        success_rule(check, rule, &path.index(index), completions);
    }
}

/// Formats a success policy as Go's struct.
fn print(policy: &Value) -> String {
    let rules: Vec<String> = list(policy, &["rules"])
        .iter()
        .map(|rule| {
            format!(
                "{{\"SucceededIndexes\":{},\"SucceededCount\":{}}}",
                at(rule, &["succeededIndexes"]),
                at(rule, &["succeededCount"])
            )
        })
        .collect();
    match at(policy, &["rules"]) {
        Value::Null => "{\"Rules\":null}".to_owned(),
        _ => format!("{{\"Rules\":[{}]}}", rules.join(",")),
    }
}

fn success_rule(check: &mut Check, rule: &Value, path: &Path, completions: i64) {
    let (count, indexes) = (at(rule, &["succeededCount"]), at(rule, &["succeededIndexes"]));
    if count.is_null() && indexes.is_null() {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        check.required(path.clone(), why);
    }
    let mut total = 0;
    if let Some(listed) = indexes.as_str() {
        let path = path.child("succeededIndexes");
        if listed.len() > INDEXES_BYTES_MAX {
            let error = Error::too_long(path.clone(), INDEXES_BYTES_MAX);
            check.errors.push(error);
        }
        match count_indexes(listed, completions) {
            Ok(number) => total = number,
            Err(why) => {
                let why = format!("error parsing succeededIndexes: {why}");
                check.invalid(path, indexes, why);
            }
        }
    }
    let Some(number) = count.as_i64() else { return };
    let path = path.child("succeededCount");
    if number < 0 {
        check.invalid(path.clone(), count, NEGATIVE);
    }
    if number > completions {
        let why =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        check.invalid(path.clone(), count, why);
    }
    if !indexes.is_null() && number > total {
        let why = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        check.invalid(path, count, why);
    }
}

/// Returns the number of indexes in a list such as `1,3-5,7`.
fn count_indexes(listed: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last: Option<i64> = None;
    if listed.is_empty() {
        return Ok(0);
    }
    for interval in listed.split(',') {
        let limits: Vec<&str> = interval.split('-').collect();
        if limits.len() > 2 {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let mut first = None;
        for limit in limits {
            let index: i64 = limit
                .parse()
                .map_err(|_| format!("cannot convert string to integer for index: {limit:?}"))?;
            if index >= completions {
                return Err(format!("too large index: {limit:?}"));
            }
            if let Some(last) = last.filter(|last| *last >= index) {
                return Err(format!(
                    "non-increasing order, previous: {last}, current: {index}"
                ));
            }
            total += first.map_or(1, |first| index - first);
            first = Some(index);
            last = Some(index);
        }
    }
    Ok(total)
}

/// Checks a name such as `example.com/controller`.
pub(super) fn managed_by(check: &mut Check, spec: &Value, path: &Path) {
    const LENGTH_MAX: usize = 63;
    let value = at(spec, &["managedBy"]);
    let Some(name) = value.as_str() else { return };
    let path = path.child("managedBy");
    check.domain_prefixed_path(name, &path);
    if name.len() > LENGTH_MAX {
        check.errors.push(Error::too_long(path, LENGTH_MAX));
    }
}
