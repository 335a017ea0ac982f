//! Tests of the client that controllers in the same process use.

use operator_apiserver::ApiServer;
use operator_apiserver::client::{DeleteOptions, EventType, Gvr, Patch};
use serde_json::json;

fn config_maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

#[tokio::test]
async fn a_watch_reports_every_commit_once_and_in_order() {
    let server = ApiServer::builder().build().unwrap();
    let client = server.client();
    let (revision, objects) = client.snapshot();
    assert!(
        objects
            .iter()
            .any(|(_, object)| object["metadata"]["name"] == "default")
    );
    let mut watch = client.watch(revision);
    let gvr = config_maps();
    client
        .create(&gvr, "default", json!({"metadata": {"name": "a"}}))
        .await
        .unwrap();
    client
        .patch(
            &gvr,
            "default",
            "a",
            None,
            Patch::Merge(json!({"data": {"k": "v"}})),
        )
        .await
        .unwrap();
    client
        .delete(&gvr, "default", "a", DeleteOptions::default())
        .await
        .unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let event = watch.next().await.unwrap();
        assert_eq!(*event.gvr, gvr);
        seen.push((event.kind, event.revision));
    }
    assert_eq!(
        seen,
        [
            (EventType::Added, revision + 1),
            (EventType::Modified, revision + 2),
            (EventType::Deleted, revision + 3),
        ]
    );
    server.shutdown();
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn a_reader_behind_the_history_gets_an_error() {
    let server = ApiServer::builder().history_events(2).build().unwrap();
    let client = server.client();
    let (revision, _) = client.snapshot();
    for name in ["a", "b", "c"] {
        let object = json!({"metadata": {"name": name}});
        client.create(&config_maps(), "default", object).await.unwrap();
    }
    assert!(client.watch(revision).next().await.is_none());
    assert!(client.watch(revision + 1).next().await.is_some());
}

#[tokio::test]
async fn lists_select_by_label() {
    let server = ApiServer::builder().build().unwrap();
    let client = server.client();
    for (name, app) in [("a", "x"), ("b", "y")] {
        let object = json!({"metadata": {"name": name, "labels": {"app": app}}});
        client.create(&config_maps(), "default", object).await.unwrap();
    }
    let list = client.list(&config_maps(), "", "app=y").await.unwrap();
    assert_eq!(list.items.len(), 1);
    assert_eq!(list.items[0]["metadata"]["name"], "b");
}
