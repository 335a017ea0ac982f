//! Metrics about what is on the embedded API server, and who may read them.

use operator_runtime::metrics::{Metrics, MetricsServer};
use operator_runtime::prelude::*;
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, Widget, get, plain_teller, run};

#[tokio::test]
async fn custom_resources_show_while_they_exist() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    manager.metrics().custom_resources::<Widget>(manager.cache());
    manager.metrics().custom_resources::<Widget>(manager.cache());
    let (reconciler, mut told) = plain_teller();
    Controller::managed_by(&manager)
        .for_::<Widget>()
        .complete(reconciler)
        .unwrap();
    let running = run(&manager);
    bench.create("a", 1).await;
    told.until("a", Some(1)).await;
    let text = manager.metrics().to_text();
    assert_eq!(text.matches("# TYPE widget_info gauge\n").count(), 1);
    assert!(
        text.contains("widget_info{namespace=\"default\",widget=\"a\"} 1\n"),
        "{text}"
    );
    bench.delete("a").await;
    told.until("a", None).await;
    assert!(!manager.metrics().to_text().contains("widget_info{"));
    running.end().await.unwrap();
}

#[tokio::test]
async fn metrics_are_for_those_whom_the_server_knows() {
    let bench = Bench::without_widgets();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let server = MetricsServer::new(Metrics::new()).authorize(bench.client.clone());
    let serving = tokio::spawn(server.serve(listener, stop.clone()));
    assert_eq!(get(address, "/metrics").await.0, 401);
    stop.cancel();
    serving.await.unwrap().unwrap();
}
