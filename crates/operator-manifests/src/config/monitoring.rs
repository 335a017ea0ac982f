//! The alert rules of `config/prometheus` and the dashboard of `config/grafana`, for the metrics of `operator-runtime`.

use serde_json::{Value, json};

use super::{ConfigTree, Operator};

pub(super) fn add(tree: &mut ConfigTree, operator: &Operator) {
    if !operator.metrics {
        return;
    }
    let comment = "Alerts for the metrics of the operator. Needs the Prometheus operator.";
    tree.resource(
        "config/prometheus",
        "rules.yaml",
        &rules(operator),
        &[("", comment)],
    );
    let dashboard = format!("{:#}\n", dashboard(operator));
    tree.files
        .insert("config/grafana/dashboard.json".to_owned(), dashboard);
}

/// Returns the job label, which Prometheus takes from the name of the metrics Service.
fn job(operator: &Operator) -> String {
    format!("job=\"{}-controller-manager-metrics-service\"", operator.project)
}

struct Alert {
    name: &'static str,
    /// `$job` is the selector of the operator's metrics.
    condition: &'static str,
    lasts: &'static str,
    severity: &'static str,
    summary: &'static str,
}

const ALERTS: [Alert; 7] = [
    Alert {
        name: "OperatorDown",
        condition: "absent(up{$job} == 1)",
        lasts: "5m",
        severity: "critical",
        summary: "Prometheus cannot read metrics of the operator",
    },
    Alert {
        name: "OperatorHasNoLeader",
        condition: "sum by (namespace, name) (leader_election_master_status{$job}) == 0",
        lasts: "5m",
        severity: "critical",
        summary: "No replica is the leader: objects are not reconciled",
    },
    Alert {
        name: "OperatorWatchDown",
        condition: "min by (namespace, kind) (operator_runtime_watch_live{$job}) == 0",
        lasts: "10m",
        severity: "critical",
        summary: "The watch of {{ $labels.kind }} fails: changes are not noticed. The log has the error",
    },
    Alert {
        name: "OperatorReconcileErrors",
        condition: "sum by (namespace, controller) (rate(controller_runtime_reconcile_errors_total{$job}[10m])) / \
                    sum by (namespace, controller) (rate(controller_runtime_reconcile_total{$job}[10m])) > 0.1",
        lasts: "15m",
        severity: "warning",
        summary: "More than 10 % of the reconciles of {{ $labels.controller }} fail",
    },
    Alert {
        name: "OperatorReconcilePanics",
        condition: "sum by (namespace, controller) (increase(controller_runtime_reconcile_panics_total{$job}[10m])) > 0",
        lasts: "0m",
        severity: "warning",
        summary: "The reconciler {{ $labels.controller }} panicked",
    },
    Alert {
        name: "OperatorReconcileStuck",
        condition: "max by (namespace, controller) (workqueue_longest_running_processor_seconds{$job}) > 600",
        lasts: "0m",
        severity: "warning",
        summary: "A reconcile of {{ $labels.controller }} has been running for more than 10 minutes",
    },
    Alert {
        name: "OperatorObjectsNotDecoded",
        condition: "max by (namespace, kind) (operator_runtime_quarantined_objects{$job}) > 0",
        lasts: "10m",
        severity: "warning",
        summary: "Objects of the kind {{ $labels.kind }} do not fit the type and are omitted. Their events have the errors",
    },
];

fn rules(operator: &Operator) -> Value {
    let job = job(operator);
    let alerts: Vec<Value> = ALERTS
        .iter()
        .map(|alert| {
            json!({
                "alert": alert.name,
                "annotations": {"summary": alert.summary},
                "expr": alert.condition.replace("$job", &job),
                "for": alert.lasts,
                "labels": {"severity": alert.severity},
            })
        })
        .collect();
    let mut metadata = operator.metadata("controller-manager-rules");
    metadata["labels"]["control-plane"] = json!("controller-manager");
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata,
        "spec": {"groups": [{"name": operator.project, "rules": alerts}]},
    })
}

struct Panel {
    title: &'static str,
    unit: &'static str,
    /// Expressions with their legends. `$job` is the selector of the operator's metrics.
    queries: &'static [(&'static str, &'static str)],
}

const PANELS: [Panel; 12] = [
    Panel {
        title: "Reconciles",
        unit: "ops",
        queries: &[(
            "sum by (controller, result) (rate(controller_runtime_reconcile_total{$job}[$__rate_interval]))",
            "{{controller}} {{result}}",
        )],
    },
    Panel {
        title: "Failed reconciles",
        unit: "ops",
        queries: &[
            (
                "sum by (controller) (rate(controller_runtime_reconcile_errors_total{$job}[$__rate_interval]))",
                "{{controller}} errors",
            ),
            (
                "sum by (controller) (rate(controller_runtime_reconcile_panics_total{$job}[$__rate_interval]))",
                "{{controller}} panics",
            ),
        ],
    },
    Panel {
        title: "Duration of a reconcile",
        unit: "s",
        queries: &[
            (
                "histogram_quantile(0.5, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket{$job}[$__rate_interval])))",
                "{{controller}} median",
            ),
            (
                "histogram_quantile(0.99, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket{$job}[$__rate_interval])))",
                "{{controller}} 99 %",
            ),
        ],
    },
    Panel {
        title: "Workers",
        unit: "short",
        queries: &[
            (
                "sum by (controller) (controller_runtime_active_workers{$job})",
                "{{controller}} active",
            ),
            (
                "sum by (controller) (controller_runtime_max_concurrent_reconciles{$job})",
                "{{controller}} maximum",
            ),
        ],
    },
    Panel {
        title: "Length of the queue",
        unit: "short",
        queries: &[("sum by (controller) (workqueue_depth{$job})", "{{controller}}")],
    },
    Panel {
        title: "Time in the queue, 99 %",
        unit: "s",
        queries: &[(
            "histogram_quantile(0.99, sum by (controller, le) (rate(workqueue_queue_duration_seconds_bucket{$job}[$__rate_interval])))",
            "{{controller}}",
        )],
    },
    Panel {
        title: "Requests to the API server",
        unit: "reqps",
        queries: &[(
            "sum by (method, code) (rate(rest_client_requests_total{$job}[$__rate_interval]))",
            "{{method}} {{code}}",
        )],
    },
    Panel {
        title: "Skipped writes",
        unit: "ops",
        queries: &[(
            "sum by (kind) (rate(operator_runtime_writes_skipped_total{$job}[$__rate_interval]))",
            "{{kind}}",
        )],
    },
    Panel {
        title: "Watches: 1 is live",
        unit: "short",
        queries: &[("min by (kind) (operator_runtime_watch_live{$job})", "{{kind}}")],
    },
    Panel {
        title: "Leader: 1 is the leader",
        unit: "short",
        queries: &[("leader_election_master_status{$job}", "{{pod}}")],
    },
    Panel {
        title: "Memory",
        unit: "bytes",
        queries: &[("process_resident_memory_bytes{$job}", "{{pod}}")],
    },
    Panel {
        title: "CPU",
        unit: "short",
        queries: &[(
            "rate(process_cpu_seconds_total{$job}[$__rate_interval])",
            "{{pod}}",
        )],
    },
];

fn dashboard(operator: &Operator) -> Value {
    let job = job(operator);
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let panels = PANELS.iter().enumerate().map(|(at, panel)| {
        let targets = panel.queries.iter().enumerate().map(|(at, (query, legend))| {
            json!({
                "datasource": source,
                "expr": query.replace("$job", &job),
                "legendFormat": legend,
                "refId": format!("Q{at}"),
            })
        });
        json!({
            "id": at + 1,
            "title": panel.title,
            "type": "timeseries",
            "datasource": source,
            "gridPos": {"h": 8, "w": 12, "x": at % 2 * 12, "y": at / 2 * 8},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "targets": targets.collect::<Vec<Value>>(),
        })
    });
    json!({
        "title": operator.project,
        "uid": format!("{}-controller-manager", operator.project),
        "tags": ["operator"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}]},
        "panels": panels.collect::<Vec<Value>>(),
    })
}
