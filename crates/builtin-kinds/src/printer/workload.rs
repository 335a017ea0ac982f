//! The rows of workloads, autoscalers and disruption budgets.

use apimachinery::time::unix_seconds;
use serde_json::Value;

use super::{NONE, Row, UNSET, containers, format_labels, format_selector, human_duration, plain};
use crate::tree::{at, text};

pub(super) fn pod_template(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row.at(&["template", "spec"]));
    let labels = format_labels(row.at(&["template", "metadata", "labels"]));
    vec![row.name(), names, images, labels.into()]
}

/// Returns the name, the given cells, the age, and the wide columns about the template.
fn with_template(row: &Row<'_>, middle: Vec<Value>, selector: Option<String>) -> Vec<Value> {
    let mut cells = vec![row.name()];
    cells.extend(middle);
    cells.push(row.age());
    cells.extend(containers(row.at(&["spec", "template", "spec"])));
    cells.extend(selector.map(Value::from));
    cells
}

pub(super) fn replica_set(row: &Row<'_>) -> Vec<Value> {
    let selector = row.at(&["spec", "selector"]);
    // A ReplicationController selects by plain labels.
    let is_plain = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let shown = if is_plain {
        format_labels(selector)
    } else {
        format_selector(selector)
    };
    let middle = vec![
        row.number(&["spec", "replicas"]).into(),
        row.number(&["status", "replicas"]).into(),
        row.number(&["status", "readyReplicas"]).into(),
    ];
    with_template(row, middle, Some(shown))
}

pub(super) fn deployment(row: &Row<'_>) -> Vec<Value> {
    let ready = row.number(&["status", "readyReplicas"]);
    let desired = row.number(&["spec", "replicas"]);
    let middle = vec![
        format!("{ready}/{desired}").into(),
        row.number(&["status", "updatedReplicas"]).into(),
        row.number(&["status", "availableReplicas"]).into(),
    ];
    let selector = format_selector(row.at(&["spec", "selector"]));
    with_template(row, middle, Some(selector))
}

pub(super) fn stateful_set(row: &Row<'_>) -> Vec<Value> {
    let ready = row.number(&["status", "readyReplicas"]);
    let desired = row.number(&["spec", "replicas"]);
    with_template(row, vec![format!("{ready}/{desired}").into()], None)
}

pub(super) fn daemon_set(row: &Row<'_>) -> Vec<Value> {
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    let counts = counts.iter().map(|field| row.number(&["status", field]).into());
    let mut middle: Vec<Value> = counts.collect();
    let node_selector = row.at(&["spec", "template", "spec", "nodeSelector"]);
    middle.push(format_labels(node_selector).into());
    let selector = format_selector(row.at(&["spec", "selector"]));
    with_template(row, middle, Some(selector))
}

pub(super) fn revision(row: &Row<'_>) -> Vec<Value> {
    let owners = row.list(&["metadata", "ownerReferences"]).iter();
    let mut controllers = owners.filter(|owner| at(owner, &["controller"]) == &Value::Bool(true));
    let controller = controllers.next().map_or(NONE.to_owned(), |owner| {
        let version = text(owner, &["apiVersion"]);
        let kind = text(owner, &["kind"]).to_lowercase();
        let group = version.split_once('/').map(|(group, _)| format!(".{group}"));
        format!("{kind}{}/{}", group.unwrap_or_default(), text(owner, &["name"]))
    });
    vec![
        row.name(),
        controller.into(),
        row.number(&["revision"]).into(),
        row.age(),
    ]
}

pub(super) fn job(row: &Row<'_>) -> Vec<Value> {
    let succeeded = row.number(&["status", "succeeded"]);
    let parallelism = row.number(&["spec", "parallelism"]);
    let completions = match row.at(&["spec", "completions"]).as_i64() {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let start = unix_seconds(row.text(&["status", "startTime"]));
    let end = unix_seconds(row.text(&["status", "completionTime"])).unwrap_or(row.now);
    let duration = start.map_or(String::new(), |start| human_duration(end - start));
    let middle = vec![job_status(row).into(), completions.into(), duration.into()];
    let selector = format_selector(row.at(&["spec", "selector"]));
    with_template(row, middle, Some(selector))
}

fn job_status(row: &Row<'_>) -> &'static str {
    let has = |kind: &str| {
        row.list(&["status", "conditions"])
            .iter()
            .any(|c| text(c, &["type"]) == kind && text(c, &["status"]) == "True")
    };
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if row.is_deleted() {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

pub(super) fn cron_job(row: &Row<'_>) -> Vec<Value> {
    let last = row.text(&["status", "lastScheduleTime"]);
    let last = if last.is_empty() {
        NONE.to_owned()
    } else {
        row.since(last)
    };
    let zone = row.at(&["spec", "timeZone"]).as_str().unwrap_or(NONE);
    let suspended = match row.at(&["spec", "suspend"]).as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let template = row.at(&["spec", "jobTemplate", "spec"]);
    let mut cells = vec![
        row.name(),
        row.text(&["spec", "schedule"]).into(),
        zone.into(),
        suspended.into(),
        row.list(&["status", "active"]).len().into(),
        last.into(),
        row.age(),
    ];
    cells.extend(containers(at(template, &["template", "spec"])));
    cells.push(format_selector(at(template, &["selector"])).into());
    cells
}

pub(super) fn autoscaler(row: &Row<'_>) -> Vec<Value> {
    let target = row.at(&["spec", "scaleTargetRef"]);
    let reference = format!("{}/{}", text(target, &["kind"]), text(target, &["name"]));
    let min = row.at(&["spec", "minReplicas"]);
    let min = if min.is_null() {
        UNSET.to_owned()
    } else {
        plain(min)
    };
    vec![
        row.name(),
        reference.into(),
        metrics(row).into(),
        min.into(),
        row.number(&["spec", "maxReplicas"]).into(),
        row.number(&["status", "currentReplicas"]).into(),
        row.age(),
    ]
}

/// Returns the current and the target values of the metrics, at most two.
fn metrics(row: &Row<'_>) -> String {
    let specs = row.list(&["spec", "metrics"]);
    if specs.is_empty() {
        // The first version of the API only supports CPU.
        let target = row.at(&["spec", "targetCPUUtilizationPercentage"]);
        let current = row.at(&["status", "currentCPUUtilizationPercentage"]);
        let current = current
            .as_i64()
            .map_or("<unknown>".to_owned(), |c| format!("{c}%"));
        return match target.as_i64() {
            Some(target) => format!("cpu: {current}/{target}%"),
            None => NONE.to_owned(),
        };
    }
    let statuses = row.list(&["status", "currentMetrics"]);
    let shown = specs.iter().enumerate().take(2);
    let shown: Vec<String> = shown
        .map(|(index, spec)| metric(spec, statuses.get(index).unwrap_or(&Value::Null)))
        .collect();
    let more = specs.len().saturating_sub(2);
    let text = shown.join(", ");
    if more > 0 {
        format!("{text} + {more} more...")
    } else {
        text
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let kind = text(spec, &["type"]);
    let mut field = kind.to_owned();
    if let Some(first) = field.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    let target = at(spec, &[&field, "target"]);
    let current = at(status, &[&field, "current"]);
    let amount = |of: &Value, name: &str| at(of, &[name]).as_str().map(str::to_owned);
    let (shown, wanted) = match text(target, &["type"]) {
        "Utilization" => {
            let percent = |of: &Value| {
                let percent = at(of, &["averageUtilization"]).as_i64();
                percent.map(|percent| format!("{percent}%"))
            };
            (percent(current), percent(target))
        }
        "AverageValue" => (amount(current, "averageValue"), amount(target, "averageValue")),
        _ => (amount(current, "value"), amount(target, "value")),
    };
    let average = matches!(kind, "Object" | "External") && text(target, &["type"]) == "AverageValue";
    let suffix = if average { " (avg)" } else { "" };
    let name = match kind {
        "Resource" | "ContainerResource" => format!("{}: ", text(spec, &[&field, "name"])),
        _ => String::new(),
    };
    let shown = shown.unwrap_or_else(|| "<unknown>".to_owned());
    let wanted = wanted.unwrap_or_else(|| "<auto>".to_owned());
    format!("{name}{shown}/{wanted}{suffix}")
}

pub(super) fn disruption_budget(row: &Row<'_>) -> Vec<Value> {
    let limit = |field: &str| match row.at(&["spec", field]) {
        Value::Null => "N/A".to_owned(),
        value => plain(value),
    };
    vec![
        row.name(),
        limit("minAvailable").into(),
        limit("maxUnavailable").into(),
        row.number(&["status", "disruptionsAllowed"]).into(),
        row.age(),
    ]
}
