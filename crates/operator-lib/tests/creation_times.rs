//! The metric of creation times.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use operator_lib::creation_times::CreationTimes;
use operator_runtime::event::Event;
use operator_runtime::handler::EventHandler as _;
use operator_runtime::metrics::Metrics;
use serde_json::json;

#[test]
fn objects_have_a_series_while_they_exist() {
    let metrics = Metrics::default();
    let handler = CreationTimes::new(&metrics).handler::<ConfigMap>();
    let metadata = json!({"name": "a", "namespace": "default", "creationTimestamp": "2026-01-02T03:04:05Z"});
    let object: Arc<ConfigMap> = Arc::new(serde_json::from_value(json!({"metadata": metadata})).unwrap());
    let created = Event::Create {
        object: object.clone(),
        initial: true,
    };
    assert_eq!(handler.requests(&created), []);
    let labels = r#"name="a",namespace="default",group="",version="v1",kind="ConfigMap""#;
    let series = format!("resource_created_at_seconds{{{labels}}} 1.767323045e+09\n");
    let text = metrics.to_text();
    assert!(text.contains(&series), "{text}");

    let deleted = Event::Delete { object, stale: false };
    assert_eq!(handler.requests(&deleted), []);
    let text = metrics.to_text();
    assert!(!text.contains("resource_created_at_seconds{"), "{text}");
}
