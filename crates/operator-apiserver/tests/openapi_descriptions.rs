//! Tests of the descriptions in OpenAPI documents, which `kubectl explain` prints.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;

use asking::{get, post};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn server(table: &'static [u8]) -> ApiServer {
    let server = ApiServer::builder().openapi_descriptions(table).build().unwrap();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "description": "about it"}},
            }}}],
        },
    });
    post(&server, DEFINITIONS, definition).await.is_done();
    server
}

async fn schema(server: &ApiServer, document: &str, name: &str) -> Value {
    let answer = get(server, document).await;
    answer.is_done();
    let schemas = answer.body.pointer("/components/schemas");
    schemas.unwrap_or(&answer.body["definitions"])[name].clone()
}

/// Returns a description. The repository does not contain these texts, so the tests search for words in them.
fn about<'s>(schema: &'s Value, field: &str) -> &'s str {
    let found = if field.is_empty() {
        schema
    } else {
        &schema["properties"][field]
    };
    found["description"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn built_in_types_and_their_fields_are_described_in_all_documents() {
    let server = server(kubernetes_descriptions::TABLE).await;
    for document in ["/openapi/v3/api/v1", "/openapi/v2"] {
        let spec = schema(&server, document, "io.k8s.api.core.v1.PodSpec").await;
        assert!(about(&spec, "").starts_with("PodSpec "), "{document}");
        assert!(about(&spec, "containers").starts_with("List of containers "));
        for (name, field) in spec["properties"].as_object().unwrap() {
            assert!(field["description"].is_string(), "{name}");
        }
        let list = schema(&server, document, "io.k8s.api.core.v1.PodList").await;
        assert!(about(&list, "apiVersion").starts_with("APIVersion "));
        assert!(about(&list, "metadata").contains("list"));
    }
}

#[tokio::test]
async fn custom_resources_have_the_descriptions_of_every_object_and_keep_their_own() {
    let server = server(kubernetes_descriptions::TABLE).await;
    let document = "/openapi/v3/apis/example.com/v1";
    let widget = schema(&server, document, "com.example.v1.Widget").await;
    assert!(about(&widget, "apiVersion").starts_with("APIVersion "));
    assert!(about(&widget, "kind").starts_with("Kind "));
    assert!(about(&widget, "metadata").starts_with("Standard object's "));
    assert_eq!(about(&widget, "spec"), "about it");
    let list = schema(&server, document, "com.example.v1.WidgetList").await;
    assert_eq!(about(&list, ""), "WidgetList is a list of Widget");
    assert!(about(&list, "items").starts_with("List of widgets."));
    assert!(about(&list, "metadata").starts_with("Standard list "));
}

#[tokio::test]
async fn a_server_without_a_table_or_with_a_broken_one_serves_documents_without_descriptions() {
    for table in [&[][..], b"no zlib data"] {
        let server = server(table).await;
        let spec = schema(&server, "/openapi/v3/api/v1", "io.k8s.api.core.v1.PodSpec").await;
        assert_eq!(spec["properties"]["nodeName"]["type"], "string");
        assert_eq!(about(&spec, "nodeName"), "");
    }
}
