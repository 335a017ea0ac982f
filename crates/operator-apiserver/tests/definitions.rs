//! Tests of CustomResourceDefinitions with conflicting names.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use operator_apiserver::ApiServer;
use operator_apiserver::client::{Client, DeleteOptions, Gvr};
use serde_json::{Value, json};
use tower::ServiceExt;

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

/// Returns the status and the reason of a condition.
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

    // An instance with a finalizer delays the deletion of the first definition, which keeps its names.
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

/// Returns the URL of a group's OpenAPI document, which contains its hash.
async fn document_url(server: &ApiServer, group: &str) -> Option<String> {
    let request = Request::get("/openapi/v3")
        .body(Full::<Bytes>::default())
        .unwrap();
    let Ok(response) = server.clone().oneshot(request).await;
    let body = response.into_body().collect().await.ok()?.to_bytes();
    let index: Value = serde_json::from_slice(&body).unwrap();
    let url = &index["paths"][format!("apis/{group}/v1")]["serverRelativeURL"];
    url.as_str().map(str::to_owned)
}

#[tokio::test]
async fn the_hash_of_a_document_changes_with_its_definitions_alone() {
    let server = ApiServer::builder().build().unwrap();
    let client = server.client();
    let named = |group: &str, plural: &str, fields: &Value| {
        let mut definition = definition(plural);
        definition["metadata"]["name"] = format!("{plural}.{group}").into();
        definition["spec"]["group"] = group.into();
        definition["spec"]["names"]["kind"] = format!("Kind{plural}").into();
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = fields.clone();
        definition
    };
    for group in ["a.example.com", "b.example.com"] {
        let definition = named(group, "widgets", &json!({}));
        client.create(&definitions(), "", definition).await.unwrap();
    }
    let (a, b) = (
        document_url(&server, "a.example.com").await.unwrap(),
        document_url(&server, "b.example.com").await.unwrap(),
    );
    assert_ne!(a, b);
    let more = named("a.example.com", "gadgets", &json!({}));
    client.create(&definitions(), "", more).await.unwrap();
    let with_more = document_url(&server, "a.example.com").await.unwrap();
    assert_ne!(with_more, a);
    assert_eq!(document_url(&server, "b.example.com").await.unwrap(), b);

    let live = client
        .get(&definitions(), "", "widgets.b.example.com")
        .await
        .unwrap();
    let mut changed = Value::clone(&live);
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] =
        json!({"spec": {"type": "string"}});
    client.update(&definitions(), None, changed).await.unwrap();
    assert_ne!(document_url(&server, "b.example.com").await.unwrap(), b);
    assert_eq!(document_url(&server, "a.example.com").await.unwrap(), with_more);

    let gone = DeleteOptions::default();
    client
        .delete(&definitions(), "", "widgets.b.example.com", gone)
        .await
        .unwrap();
    assert_eq!(document_url(&server, "b.example.com").await, None);
}

#[tokio::test]
async fn names_are_found_among_many_definitions() {
    let server = ApiServer::builder().build().unwrap();
    let client = server.client();
    for number in 0..600 {
        let mut definition = definition(&format!("kind{number}s"));
        definition["spec"]["names"]["kind"] = format!("Kind{number}").into();
        client.create(&definitions(), "", definition).await.unwrap();
    }
    // This definition uses the kind of another one.
    let mut late = definition("lates");
    late["spec"]["names"]["kind"] = "Kind333".into();
    client.create(&definitions(), "", late).await.unwrap();
    let name = "lates.example.com";
    let refused = ("False".to_owned(), "ListKindConflict".to_owned());
    assert_eq!(condition(&client, name, "NamesAccepted").await, refused);
    for number in [0, 333, 599] {
        let kind = Gvr::new("example.com", "v1", &format!("kind{number}s"));
        assert!(client.list(&kind, "default", "").await.is_ok());
        let name = format!("kind{number}s.example.com");
        client
            .delete(&definitions(), "", &name, DeleteOptions::default())
            .await
            .unwrap();
        assert!(client.list(&kind, "default", "").await.is_err());
    }
    let accepted = ("True".to_owned(), "NoConflicts".to_owned());
    assert_eq!(condition(&client, name, "NamesAccepted").await, accepted);
    let lates = Gvr::new("example.com", "v1", "lates");
    assert!(client.list(&lates, "default", "").await.is_ok());
}
