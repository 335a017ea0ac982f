//! Events on the embedded API server.

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};

use crate::support::{Bench, run};

#[tokio::test]
async fn same_event_again_makes_one_object_and_a_series() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let widget = bench.create("a", 1).await;
    let running = run(&manager);
    for _ in 0..5 {
        manager.recorder().event(&widget).normal("Resized", "to 1");
    }
    manager.recorder().event(&widget).warning("TooSmall", "it is 1");
    let named = manager.recorder().named("widget-controller");
    named.event(&widget).normal("Noticed", "it is there");
    running.end().await.unwrap();

    let events: Api<Event> = Api::default_namespaced(bench.client.clone());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let find = |reason: &str| {
        let mut found = events
            .iter()
            .filter(|event| event.reason.as_deref() == Some(reason));
        (found.next().unwrap().clone(), found.count())
    };
    let (resized, more) = find("Resized");
    assert_eq!((resized.series.unwrap().count, more), (5, 0));
    assert_eq!(resized.reporting_controller.as_deref(), Some("tester"));
    assert_eq!(resized.regarding.unwrap().uid, widget.metadata.uid);
    let (small, more) = find("TooSmall");
    assert_eq!(
        (small.type_.as_deref(), small.series, more),
        (Some("Warning"), None, 0)
    );
    let (noticed, _) = find("Noticed");
    assert_eq!(noticed.reporting_controller.as_deref(), Some("widget-controller"));
    // Creations of three objects, the update that turns one into a series, and the count at the end.
    let writes = |request: &str| request.contains("/events") && !request.starts_with("GET");
    assert_eq!(bench.network.count(writes), 5);
}
