//! Metrics of a running operator and of its objects, and the authorization of clients that read them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResourceExt;
use kube::api::{Api, PostParams};
use operator_apiserver::ApiServer;
use operator_runtime::prelude::*;
use operator_runtime::webhook::Webhook;

use crate::support::{Bench, Widget, WidgetSpec, config_map, get, in_time, key, reconcile_widgets, run};
use crate::webhooks::WidgetWebhook;
use crate::wire::{Fault, Wire};

/// A metric of controller-runtime: name, type, labels, and the bounds of its buckets.
type Row = (&'static str, &'static str, &'static [&'static str], &'static str);

const RECONCILE_TIME: &str = "0.005 0.01 0.025 0.05 0.1 0.15 0.2 0.25 0.3 0.35 0.4 0.45 0.5 0.6 0.7 0.8 0.9 1 1.25 \
                              1.5 1.75 2 2.5 3 3.5 4 4.5 5 6 7 8 9 10 15 20 25 30 40 50 60 +Inf";
const DECADES: &str =
    "1e-08 1e-07 1e-06 9.999999999999999e-06 9.999999999999999e-05 0.001 0.01 0.1 1 10 100 1000 +Inf";
const REQUEST_TIME: &str = "0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60 +Inf";
const REQUEST_SIZE: &str =
    "64 256 512 1024 4096 16384 65536 262144 1.048576e+06 4.194304e+06 1.6777216e+07 +Inf";

const TABLE: &[Row] = &[
    (
        "controller_runtime_reconcile_total",
        "counter",
        &["controller", "result"],
        "",
    ),
    (
        "controller_runtime_reconcile_errors_total",
        "counter",
        &["controller"],
        "",
    ),
    (
        "controller_runtime_terminal_reconcile_errors_total",
        "counter",
        &["controller"],
        "",
    ),
    (
        "controller_runtime_reconcile_panics_total",
        "counter",
        &["controller"],
        "",
    ),
    (
        "controller_runtime_reconcile_timeouts_total",
        "counter",
        &["controller"],
        "",
    ),
    (
        "controller_runtime_reconcile_time_seconds",
        "histogram",
        &["controller"],
        RECONCILE_TIME,
    ),
    (
        "controller_runtime_max_concurrent_reconciles",
        "gauge",
        &["controller"],
        "",
    ),
    ("controller_runtime_active_workers", "gauge", &["controller"], ""),
    (
        "workqueue_depth",
        "gauge",
        &["controller", "name", "priority"],
        "",
    ),
    ("workqueue_adds_total", "counter", &["controller", "name"], ""),
    (
        "workqueue_queue_duration_seconds",
        "histogram",
        &["controller", "name"],
        DECADES,
    ),
    (
        "workqueue_work_duration_seconds",
        "histogram",
        &["controller", "name"],
        DECADES,
    ),
    (
        "workqueue_unfinished_work_seconds",
        "gauge",
        &["controller", "name"],
        "",
    ),
    (
        "workqueue_longest_running_processor_seconds",
        "gauge",
        &["controller", "name"],
        "",
    ),
    ("workqueue_retries_total", "counter", &["controller", "name"], ""),
    (
        "controller_runtime_webhook_requests_total",
        "counter",
        &["code", "webhook"],
        "",
    ),
    (
        "controller_runtime_webhook_latency_seconds",
        "histogram",
        &["webhook"],
        DECADES,
    ),
    (
        "controller_runtime_webhook_requests_in_flight",
        "gauge",
        &["webhook"],
        "",
    ),
    ("controller_runtime_webhook_panics_total", "counter", &[], ""),
    (
        "controller_runtime_conversion_webhook_panics_total",
        "counter",
        &[],
        "",
    ),
    (
        "rest_client_requests_total",
        "counter",
        &["code", "host", "method"],
        "",
    ),
    (
        "rest_client_request_duration_seconds",
        "histogram",
        &["host", "verb"],
        REQUEST_TIME,
    ),
    (
        "rest_client_rate_limiter_duration_seconds",
        "histogram",
        &["host", "verb"],
        REQUEST_TIME,
    ),
    (
        "rest_client_request_size_bytes",
        "histogram",
        &["host", "verb"],
        REQUEST_SIZE,
    ),
    (
        "rest_client_response_size_bytes",
        "histogram",
        &["host", "verb"],
        REQUEST_SIZE,
    ),
    (
        "rest_client_request_retries_total",
        "counter",
        &["code", "host", "verb"],
        "",
    ),
    ("leader_election_master_status", "gauge", &["name"], ""),
    ("certwatcher_read_certificate_total", "counter", &[], ""),
    ("certwatcher_read_certificate_errors_total", "counter", &[], ""),
];

/// A metric in Prometheus' text format.
#[derive(Debug, Default)]
struct Exposed {
    kind: String,
    labels: BTreeSet<String>,
    /// The bounds of the first series.
    bounds: Vec<String>,
}

/// Parses the metrics in a text, by name.
fn exposed(text: &str) -> BTreeMap<String, Exposed> {
    let mut metrics = BTreeMap::<String, Exposed>::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            metrics.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if !line.starts_with('#') {
            let (series, _) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let parts = ["_bucket", "_sum", "_count"];
            let base = parts.iter().find_map(|part| name.strip_suffix(part));
            let base = base.filter(|base| metrics.contains_key(*base)).unwrap_or(name);
            let metric = metrics.get_mut(base).unwrap();
            for label in labels.trim_end_matches('}').split("\",") {
                let Some((label, value)) = label.split_once("=\"") else {
                    continue;
                };
                let value = value.trim_end_matches('"').to_owned();
                match label {
                    "le" if metric.bounds.contains(&value) => {}
                    "le" => metric.bounds.push(value),
                    _ => {
                        metric.labels.insert(label.to_owned());
                    }
                }
            }
        }
    }
    metrics
}

#[tokio::test]
async fn metrics_are_those_of_controller_runtime_after_one_reconcile() {
    let (wire, directory) = (Wire::new().await, tempfile::tempdir().unwrap());
    let server = ApiServer::builder().build().unwrap();
    let direct = kube::Client::new(server.clone(), "default");
    let crds = Api::all(direct.clone());
    crds.create(&PostParams::default(), &Widget::crd()).await.unwrap();
    let widgets: Api<Widget> = Api::default_namespaced(direct.clone());
    let widget = Widget::new("a", WidgetSpec { size: 1 });
    widgets.create(&PostParams::default(), &widget).await.unwrap();
    wire.up(server);
    let refused = AtomicBool::new(false);
    wire.fail(move |request| {
        let is_apply = request.starts_with("PATCH") && request.contains("/configmaps/");
        (is_apply && !refused.swap(true, Ordering::SeqCst)).then_some(Fault::Busy)
    });
    let args = wire.args(
        directory.path(),
        &[
            "--leader-elect",
            "--leader-election-namespace=default",
            "--metrics-bind-address=127.0.0.1:0",
            "--metrics-secure=false",
            "--webhook-host=127.0.0.1",
            "--webhook-port=0",
        ],
    );
    let manager = Manager::new("tester", &args).await.unwrap();
    manager
        .add_webhook(Webhook::<Widget>::new().validator(WidgetWebhook))
        .unwrap();
    let mut told = reconcile_widgets(&manager, |ctx: KeyContext, request: Request| async move {
        if let Some(widget) = ctx.get::<Widget>(&request).await? {
            ctx.apply_owned(&*widget, config_map(request.name(), "1")).await?;
        }
        Ok(Action::done())
    });
    let running = run(&manager);
    told.until("a", Some(1)).await;
    let config_maps: Api<ConfigMap> = Api::default_namespaced(direct);
    in_time(kube::runtime::wait::await_condition(
        config_maps,
        "a",
        |found: Option<&ConfigMap>| found.is_some(),
    ))
    .await
    .unwrap();
    // The response to the apply may not have arrived yet.
    in_time(async {
        let success = r#"controller_runtime_reconcile_total{controller="widget",result="success"} 1"#;
        while !manager.metrics().to_text().contains(success) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (code, text) = get(manager.metrics_address().unwrap(), "/metrics").await;
    assert_eq!(code, 200);
    running.end().await.unwrap();

    let mut metrics = exposed(&text);
    for (name, kind, labels, bounds) in TABLE {
        let metric = metrics
            .remove(*name)
            .unwrap_or_else(|| panic!("{name} is not in\n{text}"));
        assert_eq!(metric.kind, *kind, "{name}");
        assert!(
            metric.labels.iter().eq(labels.iter()),
            "{name}: {:?}",
            metric.labels
        );
        assert_eq!(metric.bounds.join(" "), *bounds, "{name}");
    }
    let more = metrics
        .keys()
        .filter(|name| !name.starts_with("process_") && !name.starts_with("operator_runtime_"));
    assert_eq!(more.collect::<Vec<_>>(), Vec::<&String>::new());
    for name in ["workers", "alive_tasks", "global_queue_depth"] {
        assert!(
            metrics.contains_key(&format!("operator_runtime_tokio_{name}")),
            "{name}"
        );
    }
    let host = wire.url().trim_start_matches("http://").to_owned();
    let refused = format!("rest_client_requests_total{{code=\"429\",method=\"PATCH\",host=\"{host}\"}} 1\n");
    let retried =
        format!("rest_client_request_retries_total{{code=\"429\",verb=\"PATCH\",host=\"{host}\"}} 1\n");
    assert!(text.contains(&refused) && text.contains(&retried), "{text}");
    assert!(
        text.contains("leader_election_master_status{name=\"tester\"} 1\n"),
        "{text}"
    );
    assert_eq!(told.unheard(), [], "{}", key("a"));
}

#[tokio::test]
async fn requests_of_every_client_are_counted_and_have_a_user_agent() {
    let (home, west) = (Bench::new().await, Bench::new().await);
    home.create("a", 1).await;
    let manager = home.manager().await;
    let cluster = manager
        .add_cluster(
            "west",
            west.client.clone(),
            operator_runtime::cache::CacheOptions::default(),
        )
        .unwrap();
    manager.client().live().get::<Widget>(&key("a")).await.unwrap();
    cluster.client().live().get::<Widget>(&key("a")).await.unwrap();
    let text = manager.metrics().to_text();
    for (code, host) in [(200, ""), (404, "west")] {
        for line in [
            format!("rest_client_requests_total{{code=\"{code}\",method=\"GET\",host=\"{host}\"}} 1\n"),
            format!("rest_client_request_duration_seconds_count{{verb=\"GET\",host=\"{host}\"}} 1\n"),
            format!("rest_client_response_size_bytes_count{{verb=\"GET\",host=\"{host}\"}} 1\n"),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
    for bench in [&home, &west] {
        assert_eq!(
            bench.network.agents().last().map(String::as_str),
            Some(concat!("tester operator-runtime/", env!("CARGO_PKG_VERSION")))
        );
    }
}
