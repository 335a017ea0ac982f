use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tower::{Layer as _, Service as _, service_fn};

use super::*;

/// Returns the metrics of a manager that has one part of each type.
fn exposed() -> String {
    let metrics = Metrics::default();
    let controller = metrics.controller("memcached", 4);
    controller.finished(Outcome::TerminalError, Duration::from_millis(30));
    let queue = metrics.queue("memcached");
    queue.depth(|| vec![(0, 3), (-100, 2)]);
    metrics.webhook("/mutate-v1-pod");
    metrics.leader("lock").leading(true);
    metrics.to_text()
}

#[track_caller]
fn assert_line(text: &str, line: &str) {
    assert!(
        text.lines().any(|found| found == line),
        "{line} is not in\n{text}"
    );
}

#[test]
fn names_types_and_labels_are_those_of_controller_runtime() {
    let text = exposed();
    for line in [
        "# TYPE controller_runtime_reconcile_total counter",
        r#"controller_runtime_reconcile_total{controller="memcached",result="error"} 1"#,
        r#"controller_runtime_reconcile_total{controller="memcached",result="success"} 0"#,
        r#"controller_runtime_reconcile_total{controller="memcached",result="requeue"} 0"#,
        r#"controller_runtime_reconcile_total{controller="memcached",result="requeue_after"} 0"#,
        r#"controller_runtime_reconcile_errors_total{controller="memcached"} 1"#,
        r#"controller_runtime_terminal_reconcile_errors_total{controller="memcached"} 1"#,
        r#"controller_runtime_reconcile_panics_total{controller="memcached"} 0"#,
        r#"controller_runtime_reconcile_timeouts_total{controller="memcached"} 0"#,
        "# TYPE controller_runtime_reconcile_time_seconds histogram",
        r#"controller_runtime_reconcile_time_seconds_bucket{le="0.025",controller="memcached"} 0"#,
        r#"controller_runtime_reconcile_time_seconds_bucket{le="0.05",controller="memcached"} 1"#,
        r#"controller_runtime_reconcile_time_seconds_bucket{le="60",controller="memcached"} 1"#,
        r#"controller_runtime_max_concurrent_reconciles{controller="memcached"} 4"#,
        r#"controller_runtime_active_workers{controller="memcached"} 0"#,
        "# TYPE workqueue_depth gauge",
        r#"workqueue_depth{name="memcached",controller="memcached",priority="0"} 3"#,
        r#"workqueue_depth{name="memcached",controller="memcached",priority="-100"} 2"#,
        r#"workqueue_adds_total{name="memcached",controller="memcached"} 0"#,
        r#"workqueue_retries_total{name="memcached",controller="memcached"} 0"#,
        r#"workqueue_queue_duration_seconds_bucket{le="1e-08",name="memcached",controller="memcached"} 0"#,
        r#"workqueue_work_duration_seconds_bucket{le="9.999999999999999e-06",name="memcached",controller="memcached"} 0"#,
        r#"workqueue_unfinished_work_seconds{name="memcached",controller="memcached"} 0"#,
        r#"workqueue_longest_running_processor_seconds{name="memcached",controller="memcached"} 0"#,
        r#"controller_runtime_webhook_requests_total{webhook="/mutate-v1-pod",code="200"} 0"#,
        r#"controller_runtime_webhook_requests_total{webhook="/mutate-v1-pod",code="500"} 0"#,
        r#"controller_runtime_webhook_requests_in_flight{webhook="/mutate-v1-pod"} 0"#,
        r#"controller_runtime_webhook_latency_seconds_count{webhook="/mutate-v1-pod"} 0"#,
        "controller_runtime_webhook_panics_total 0",
        "controller_runtime_conversion_webhook_panics_total 0",
        r#"leader_election_master_status{name="lock"} 1"#,
        "certwatcher_read_certificate_total 0",
        "certwatcher_read_certificate_errors_total 0",
    ] {
        assert_line(&text, line);
    }
}

/// The files are written by `operator-sdk`.
#[test]
fn the_metrics_of_the_scaffolded_dashboard_and_alerts_exist() {
    let metrics = Metrics::default();
    metrics.cache().watch_live("Pod", None, true);
    metrics.cache().quarantined("Pod", 0);
    metrics.client().write_skipped("Pod");
    // `up` is a metric of Prometheus; the metrics of requests are tested below.
    let text = exposed() + &metrics.to_text() + "up 1\nrest_client_requests_total 1\n";
    let sample =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/memcached-operator/config");
    let mut names = BTreeSet::new();
    for file in ["grafana/dashboard.json", "prometheus/rules.yaml"] {
        let file = std::fs::read_to_string(sample.join(file)).unwrap();
        let selected = file.split("{job=");
        let name = |before: &str| {
            before
                .rsplit(|c: char| c != '_' && !c.is_alphanumeric())
                .next()
                .map(str::to_owned)
        };
        names.extend(selected.filter_map(name).filter(|name| !name.is_empty()));
    }
    assert!(names.len() > 12, "{names:?}");
    for name in names {
        let is_exported = text
            .lines()
            .any(|line| line.split(['{', ' ']).next() == Some(&name));
        assert!(is_exported, "{name}");
    }
}

/// The files are written by `operator-sdk`.
#[test]
fn the_labels_by_which_the_dashboard_and_alerts_group_exist() {
    let metrics = Metrics::default();
    metrics.cache().watch_live("Pod", None, true);
    metrics.cache().quarantined("Pod", 0);
    metrics.client().write_skipped("Pod");
    let requests = "rest_client_requests_total{code=\"200\",method=\"GET\",host=\"\"} 1\n";
    let text = exposed() + &metrics.to_text() + requests;
    let sample =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/memcached-operator/config");
    let mut groups = 0;
    for file in ["grafana/dashboard.json", "prometheus/rules.yaml"] {
        let file = std::fs::read_to_string(sample.join(file)).unwrap();
        for group in file.split(" by (").skip(1) {
            let (labels, rest) = group.split_once(')').unwrap();
            let before = rest.split("{job=").next().unwrap();
            let name = before.rsplit(|c: char| c != '_' && !c.is_alphanumeric()).next();
            let name = name.unwrap();
            let samples: Vec<&str> = text
                .lines()
                .filter(|line| line.split(['{', ' ']).next() == Some(name))
                .collect();
            for label in labels.split(", ") {
                // Prometheus adds the namespace of the target.
                let exists = label == "namespace"
                    || samples
                        .iter()
                        .any(|sample| sample.contains(&format!("{label}=\"")));
                assert!(exists, "{name} has no label {label}: {samples:?}");
            }
            groups += 1;
        }
    }
    assert!(groups > 15, "{groups}");
}

#[test]
fn buckets_of_durations_are_the_decades_from_ten_nanoseconds() {
    let text = exposed();
    let bounds: Vec<&str> = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix("workqueue_queue_duration_seconds_bucket{le=\"")?
                .split('"')
                .next()
        })
        .collect();
    let wanted = [
        "1e-08",
        "1e-07",
        "1e-06",
        "9.999999999999999e-06",
        "9.999999999999999e-05",
        "0.001",
        "0.01",
        "0.1",
        "1",
        "10",
        "100",
        "1000",
        "+Inf",
    ];
    assert_eq!(bounds, wanted);
}

#[test]
fn every_sample_is_described_once_and_before_it() {
    let text = exposed();
    let mut described = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert!(
                described.insert(rest.split(' ').next().unwrap().to_owned()),
                "{line} comes twice"
            );
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix));
            assert!(
                described.contains(name) || base.is_some_and(|base| described.contains(base)),
                "{line}"
            );
        }
    }
    assert!(!text.contains("# EOF"));
}

#[cfg(target_os = "linux")]
#[test]
fn this_process_is_measured() {
    let text = exposed();
    assert_line(&text, "# TYPE process_cpu_seconds_total counter");
    for name in [
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_open_fds",
    ] {
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        assert!(value.is_some_and(|value| value > 0.0), "{name}: {value:?}");
    }
}

#[test]
fn managers_share_no_metrics() {
    let (one, other) = (Metrics::default(), Metrics::default());
    one.queue("same").added(1);
    let line = r#"workqueue_adds_total{name="same",controller="same"}"#;
    assert_line(&one.to_text(), &format!("{line} 1"));
    other.queue("same");
    assert_line(&other.to_text(), &format!("{line} 0"));
}

#[test]
fn running_keys_count_until_they_are_dropped() {
    let metrics = Metrics::default();
    let running = metrics.queue("q").started(Duration::from_secs(2));
    let unfinished = |text: &str| {
        let prefix = r#"workqueue_unfinished_work_seconds{name="q",controller="q"} "#;
        text.lines()
            .find_map(|line| line.strip_prefix(prefix)?.parse::<f64>().ok())
            .unwrap()
    };
    assert!(unfinished(&metrics.to_text()) > 0.0);
    drop(running);
    let text = metrics.to_text();
    assert_eq!(unfinished(&text), 0.0);
    assert_line(
        &text,
        r#"workqueue_work_duration_seconds_count{name="q",controller="q"} 1"#,
    );
    assert_line(
        &text,
        r#"workqueue_queue_duration_seconds_sum{name="q",controller="q"} 2"#,
    );
}

#[test]
fn many_priorities_share_one_label() {
    let metrics = Metrics::default();
    metrics
        .queue("q")
        .depth(|| (0..30).map(|priority| (priority, 1)).collect());
    let line = r#"workqueue_depth{name="q",controller="q",priority="exceeded_cardinality_limit"} 5"#;
    assert_line(&metrics.to_text(), line);
}

#[test]
fn number_of_priority_labels_is_limited() {
    let metrics = Metrics::default();
    let now = std::sync::Arc::new(std::sync::atomic::AtomicI32::new(0));
    let asked = now.clone();
    metrics
        .queue("q")
        .depth(move || vec![(asked.load(std::sync::atomic::Ordering::Relaxed), 1)]);
    let mut lines = BTreeSet::new();
    for priority in 0..100 {
        now.store(priority, std::sync::atomic::Ordering::Relaxed);
        let text = metrics.to_text();
        let depths = text.lines().filter(|line| line.starts_with("workqueue_depth{"));
        lines.extend(depths.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())));
    }
    assert_eq!(lines.len(), 26, "{lines:?}");
    now.store(7, std::sync::atomic::Ordering::Relaxed);
    let text = metrics.to_text();
    assert_line(
        &text,
        r#"workqueue_depth{name="q",controller="q",priority="7"} 1"#,
    );
    assert_line(
        &text,
        r#"workqueue_depth{name="q",controller="q",priority="8"} 0"#,
    );
}

#[tokio::test]
async fn requests_are_counted_by_code_method_and_host_and_measured() {
    let metrics = Metrics::default();
    let layer = metrics.rest_client_layer("10.0.0.1:6443");
    let conflict = async |_: Request<Full<Bytes>>| {
        let answer = Response::builder().status(StatusCode::CONFLICT);
        Ok::<_, Infallible>(answer.body(Full::<Bytes>::from("x".repeat(300))).unwrap())
    };
    let mut refusing = layer.layer(service_fn(conflict));
    let mut broken = layer.layer(service_fn(async |_: Request<Full<Bytes>>| {
        Err::<Response<Full<Bytes>>, _>("connection reset")
    }));
    let request = |method, uri: &str, body: &'static str| {
        let request = Request::builder().method(method).uri(uri);
        request.body(Full::from(body)).unwrap()
    };
    let put = request(Method::PUT, "/a", "{\"much\": 1}");
    let answer = refusing.call(put).await.unwrap();
    answer.into_body().collect().await.unwrap();
    broken.call(request(Method::GET, "/a", "")).await.unwrap_err();
    // Watches are counted and not measured.
    let watch = request(Method::GET, "/a?watch=true", "");
    drop(refusing.call(watch).await.unwrap());
    layer.held_back(&Method::GET, Duration::from_millis(800));
    let text = metrics.to_text();
    for line in [
        r#"rest_client_requests_total{code="409",method="PUT",host="10.0.0.1:6443"} 1"#,
        r#"rest_client_requests_total{code="<error>",method="GET",host="10.0.0.1:6443"} 1"#,
        r#"rest_client_requests_total{code="409",method="GET",host="10.0.0.1:6443"} 1"#,
        r#"rest_client_request_duration_seconds_count{verb="PUT",host="10.0.0.1:6443"} 1"#,
        r#"rest_client_request_duration_seconds_count{verb="GET",host="10.0.0.1:6443"} 1"#,
        r#"rest_client_request_size_bytes_bucket{le="64",verb="PUT",host="10.0.0.1:6443"} 1"#,
        r#"rest_client_response_size_bytes_sum{verb="PUT",host="10.0.0.1:6443"} 300"#,
        r#"rest_client_response_size_bytes_bucket{le="256",verb="PUT",host="10.0.0.1:6443"} 0"#,
        r#"rest_client_response_size_bytes_bucket{le="512",verb="PUT",host="10.0.0.1:6443"} 1"#,
        r#"rest_client_rate_limiter_duration_seconds_bucket{le="0.5",verb="GET",host="10.0.0.1:6443"} 0"#,
        r#"rest_client_rate_limiter_duration_seconds_bucket{le="1",verb="GET",host="10.0.0.1:6443"} 1"#,
    ] {
        assert_line(&text, line);
    }
    assert!(!text.contains(r#"rest_client_request_size_bytes_count{verb="GET""#));
}

#[test]
fn skipped_writes_are_counted_by_kind() {
    let metrics = Metrics::default();
    metrics.client().write_skipped("Deployment.apps");
    metrics.cache().skipped_writes_requeued("Deployment.apps", 2);
    metrics.cache().quarantined("Pod", 2);
    let text = metrics.to_text();
    assert_line(
        &text,
        r#"operator_runtime_writes_skipped_total{kind="Deployment.apps"} 1"#,
    );
    assert_line(
        &text,
        r#"operator_runtime_skipped_writes_requeued_total{kind="Deployment.apps"} 2"#,
    );
    assert_line(&text, r#"operator_runtime_quarantined_objects{kind="Pod"} 2"#);
}
