//! Tests of `/metrics`, the health checks, `/statusz` and `/flagz`.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;
mod hook;

use asking::{get, post};
use bytes::Bytes;
use hook::{Hook, allow, configure, webhook};
use http::Request;
use http_body_util::{BodyExt, Full};
use operator_apiserver::{ApiServer, Body};
use serde_json::json;
use tower::ServiceExt;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn open(server: &ApiServer, path: &str) -> http::Response<Body> {
    let request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
    server.clone().oneshot(request).await.unwrap()
}

async fn text(server: &ApiServer, path: &str) -> (u16, String) {
    let response = open(server, path).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

/// Returns the value of a series.
async fn metric(server: &ApiServer, series: &str) -> Option<f64> {
    let (_, page) = text(server, "/metrics").await;
    let line = page.lines().find_map(|line| line.strip_prefix(series));
    line.map(|value| value.trim().parse().unwrap())
}

#[tokio::test]
async fn requests_are_counted_by_their_attributes() {
    let server = ApiServer::builder().build().unwrap();
    post(&server, CONFIG_MAPS, json!({"metadata": {"name": "a"}}))
        .await
        .is_done();
    for _ in 0..2 {
        get(&server, &format!("{CONFIG_MAPS}/missing")).await;
    }
    get(&server, "/api/v1/namespaces/default/nonsense").await;
    let series = |code: &str, verb: &str, scope: &str, resource: &str, version: &str, component: &str| {
        format!(
            "apiserver_request_total{{code=\"{code}\",component=\"{component}\",dry_run=\"\",group=\"\",resource=\"{resource}\",scope=\"{scope}\",subresource=\"\",system_client=\"\",verb=\"{verb}\",version=\"{version}\"}}"
        )
    };
    let created = series("201", "POST", "resource", "configmaps", "v1", "apiserver");
    assert_eq!(metric(&server, &created).await, Some(1.0));
    let missing = series("404", "GET", "resource", "configmaps", "v1", "apiserver");
    assert_eq!(metric(&server, &missing).await, Some(2.0));
    // An unknown resource does not get its own label.
    let unknown = series("404", "LIST", "", "", "", "");
    assert_eq!(metric(&server, &unknown).await, Some(1.0));
    let (_, page) = text(&server, "/metrics").await;
    assert!(!page.contains("nonsense"), "{page}");
    let bucket = "apiserver_request_duration_seconds_bucket{component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"configmaps\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\",le=\"+Inf\"}";
    assert_eq!(metric(&server, bucket).await, Some(1.0));
    let objects = "apiserver_resource_objects{group=\"\",resource=\"configmaps\"}";
    assert_eq!(metric(&server, objects).await, Some(2.0));
    let storage = "apiserver_storage_objects{resource=\"clusterroles.rbac.authorization.k8s.io\"}";
    assert_eq!(metric(&server, storage).await, Some(70.0));
    for kind in ["mutating", "readOnly"] {
        // The request for the metrics itself is in flight.
        let wanted = if kind == "mutating" { 0.0 } else { 1.0 };
        let series = format!("apiserver_current_inflight_requests{{request_kind=\"{kind}\"}}");
        assert_eq!(metric(&server, &series).await, Some(wanted));
    }
    assert!(metric(&server, "process_start_time_seconds").await.is_some());
}

#[tokio::test]
async fn a_watch_runs_until_its_stream_ends() {
    let server = ApiServer::builder().build().unwrap();
    let labels = "component=\"apiserver\",group=\"\",resource=\"configmaps\",scope=\"namespace\",subresource=\"\",verb=\"WATCH\",version=\"v1\"";
    let running = format!("apiserver_longrunning_requests{{{labels}}}");
    assert_eq!(metric(&server, &running).await, None);
    let watch = open(&server, &format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(metric(&server, &running).await, Some(1.0));
    drop(watch);
    assert_eq!(metric(&server, &running).await, Some(0.0));
    let total = format!(
        "apiserver_request_total{{code=\"200\",{}}}",
        labels
            .replace(
                "component=\"apiserver\",",
                "component=\"apiserver\",dry_run=\"\","
            )
            .replace("verb=", "system_client=\"\",verb=")
    );
    assert_eq!(metric(&server, &total).await, Some(1.0));
}

#[tokio::test]
async fn admission_is_timed_by_step_and_by_webhook() {
    let (server, hook) = (
        ApiServer::builder().build().unwrap(),
        Hook::start(|_| allow()).await,
    );
    configure(
        &server,
        "validating",
        vec![webhook("a", hook.by_url(), json!({}))],
    )
    .await;
    post(&server, CONFIG_MAPS, json!({"metadata": {"name": "a"}}))
        .await
        .is_done();
    for kind in ["admit", "validate"] {
        let step = format!(
            "apiserver_admission_step_admission_duration_seconds_count{{operation=\"CREATE\",rejected=\"false\",type=\"{kind}\"}}"
        );
        // The create of the webhook's configuration also counts.
        assert_eq!(metric(&server, &step).await, Some(2.0));
    }
    let labels = "name=\"a.example.com\",operation=\"CREATE\",rejected=\"false\",type=\"validating\"";
    let time = format!("apiserver_admission_webhook_admission_duration_seconds_count{{{labels}}}");
    assert_eq!(metric(&server, &time).await, Some(1.0));
    let total = format!("apiserver_admission_webhook_request_total{{code=\"200\",{labels}}}");
    assert_eq!(metric(&server, &total).await, Some(1.0));
}

#[tokio::test]
async fn health_checks_have_names_and_can_be_excluded() {
    let server = ApiServer::builder().build().unwrap();
    for path in [
        "/healthz",
        "/livez/etcd",
        "/readyz/poststarthook/rbac/bootstrap-roles",
    ] {
        assert_eq!(text(&server, path).await, (200, "ok".to_owned()), "{path}");
    }
    for path in ["/readyz/nope", "/readyz/etcd", "/livez/etcd/x", "/livez/"] {
        assert_eq!(text(&server, path).await.0, 404, "{path}");
    }
    let (code, page) = text(&server, "/livez?verbose&exclude=etcd&exclude=nope").await;
    assert_eq!(code, 200);
    assert!(page.contains("[+]ping ok\n[+]log ok\n"), "{page}");
    assert!(page.contains("[+]etcd excluded: ok\n"), "{page}");
    let end = "warn: some health checks cannot be excluded: no matches for \"nope\"\nlivez check passed\n";
    assert!(page.ends_with(end), "{page}");
    let index = get(&server, "/").await.body;
    let paths = index["paths"].as_array().unwrap();
    for path in ["/readyz/shutdown", "/statusz", "/livez/etcd", "/apis/apps/v1"] {
        assert!(paths.contains(&json!(path)), "{path}");
    }
}

#[tokio::test]
async fn status_and_flags_of_the_server_are_shown() {
    let flags = [("secure-port".to_owned(), "1".to_owned())];
    let server = ApiServer::builder().flags(flags).build().unwrap();
    let (code, page) = text(&server, "/statusz").await;
    assert_eq!(code, 200);
    assert!(page.contains("\nBinary version  1.36.2\n"), "{page}");
    let (code, page) = text(&server, "/flagz").await;
    assert_eq!(code, 200);
    assert!(page.ends_with("\nsecure-port:1\n"), "{page}");
}
