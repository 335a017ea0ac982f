//! CustomResourceDefinitions that get in each other's way.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use operator_apiserver::ApiServer;
use operator_apiserver::client::{Client, DeleteOptions, Gvr};
use serde_json::{Value, json};

fn definitions() -> Gvr {
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

fn definition(plural: &str) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

/// The status and the reason of a condition.
async fn condition(client: &Client, name: &str, kind: &str) -> (String, String) {
    let crd = client.get(&definitions(), "", name).await.unwrap();
    let conditions = crd["status"]["conditions"].as_array().unwrap();
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .unwrap();
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    (text("status"), text("reason"))
}

#[tokio::test]
async fn names_are_free_again_when_their_definition_is_gone() {
    let server = ApiServer::builder().build().unwrap();
    let client = server.client();
    for plural in ["widgets", "gadgets"] {
        client
            .create(&definitions(), "", definition(plural))
            .await
            .unwrap();
    }
    let gadgets = "gadgets.example.com";
    let conflict = ("False".to_owned(), "ListKindConflict".to_owned());
    assert_eq!(condition(&client, gadgets, "NamesAccepted").await, conflict);

    // An instance with a finalizer holds the first definition up, and with it the names.
    let widgets = Gvr::new("example.com", "v1", "widgets");
    let held = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "finalizers": ["example.com/hold"]}});
    client.create(&widgets, "default", held).await.unwrap();
    client
        .delete(
            &definitions(),
            "",
            "widgets.example.com",
            DeleteOptions::default(),
        )
        .await
        .unwrap();
    assert_eq!(condition(&client, gadgets, "NamesAccepted").await, conflict);

    let mut free = (*client.get(&widgets, "default", "a").await.unwrap()).clone();
    free["metadata"]["finalizers"] = json!([]);
    client.update(&widgets, None, free).await.unwrap();
    let accepted = ("True".to_owned(), "NoConflicts".to_owned());
    assert_eq!(condition(&client, gadgets, "NamesAccepted").await, accepted);
    let gadgets = Gvr::new("example.com", "v1", "gadgets");
    assert!(client.list(&gadgets, "default", "").await.is_ok());
}
