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

/// Returns a description. Most of these texts come from another crate, so the tests search for words in them.
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
async fn enumerations_have_their_values_in_the_description_and_in_the_schema() {
    let server = server(kubernetes_descriptions::TABLE).await;
    for document in ["/openapi/v3/api/v1", "/openapi/v2"] {
        let spec = schema(&server, document, "io.k8s.api.core.v1.PodSpec").await;
        assert!(about(&spec, "restartPolicy").contains("\n\nPossible enum values:\n - `\"Always\"`"));
        let values = json!(["Always", "Never", "OnFailure"]);
        assert_eq!(spec["properties"]["restartPolicy"]["enum"], values, "{document}");
    }
}

#[tokio::test]
async fn operations_and_parameters_are_described() {
    let server = server(kubernetes_descriptions::TABLE).await;
    let document = get(&server, "/openapi/v3/api/v1").await.body;
    let cases = [
        ("/api/v1/", "get", "get available resources"),
        (
            "/api/v1/namespaces/{namespace}/pods",
            "get",
            "list or watch objects of kind Pod",
        ),
        ("/api/v1/namespaces/{namespace}/pods", "post", "create a Pod"),
        (
            "/api/v1/namespaces/{namespace}/pods",
            "delete",
            "delete collection of Pod",
        ),
        (
            "/api/v1/namespaces/{namespace}/endpoints",
            "post",
            "create Endpoints",
        ),
        (
            "/api/v1/namespaces/{namespace}/events/{name}",
            "delete",
            "delete an Event",
        ),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}/binding",
            "post",
            "create binding of a Pod",
        ),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}/exec",
            "post",
            "connect POST requests to exec of Pod",
        ),
        (
            "/api/v1/nodes/{name}/proxy/{path}",
            "head",
            "connect HEAD requests to proxy of Node",
        ),
        (
            "/api/v1/componentstatuses",
            "get",
            "list objects of kind ComponentStatus",
        ),
        (
            "/api/v1/nodes/{name}/status",
            "patch",
            "partially update status of the specified Node",
        ),
    ];
    for (path, method, text) in cases {
        assert_eq!(
            document["paths"][path][method]["description"], text,
            "{method} {path}"
        );
    }
    let parameters = |path: &str, pointer: &str| {
        let found = document["paths"][path].pointer(pointer).and_then(Value::as_array);
        let names = found.into_iter().flatten().map(|parameter| {
            assert!(parameter["description"].is_string(), "{parameter}");
            parameter["name"].as_str().unwrap().to_owned()
        });
        names.collect::<Vec<String>>()
    };
    let pods = "/api/v1/namespaces/{namespace}/pods";
    assert_eq!(parameters(pods, "/parameters"), ["namespace", "pretty"]);
    assert_eq!(
        parameters(pods, "/post/parameters"),
        ["dryRun", "fieldManager", "fieldValidation"]
    );
    // The parameters of the only operation of a path belong to the path.
    let exec = format!("{pods}/{{name}}/exec");
    assert_eq!(
        parameters(&exec, "/parameters"),
        [
            "command",
            "container",
            "name",
            "namespace",
            "stderr",
            "stdin",
            "stdout",
            "tty"
        ]
    );
    assert_eq!(parameters(&exec, "/get/parameters"), Vec::<String>::new());
    let apps = get(&server, "/openapi/v3/apis/apps/v1").await.body;
    let scale = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale";
    assert_eq!(
        apps["paths"][scale]["parameters"][0]["description"],
        "name of the Scale"
    );
}

#[tokio::test]
async fn the_document_of_version_2_shares_its_parameters() {
    let server = server(kubernetes_descriptions::TABLE).await;
    let document = get(&server, "/openapi/v2").await.body;
    let widgets = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets"];
    assert_eq!(
        widgets["get"]["consumes"],
        json!(["application/json", "application/yaml"])
    );
    assert_eq!(widgets["get"]["schemes"], json!(["https"]));
    let mut shared = 0;
    for parameter in widgets["get"]["parameters"].as_array().unwrap() {
        let reference = parameter["$ref"].as_str().unwrap();
        let found = document.pointer(reference.trim_start_matches('#')).unwrap();
        assert!(reference.starts_with(&format!("#/parameters/{}-", found["name"].as_str().unwrap())));
        shared += 1;
    }
    assert_eq!(shared, 11);
    // kubectl searches for these in the operation.
    let create = widgets["post"]["parameters"].as_array().unwrap();
    let own: Vec<&Value> = create
        .iter()
        .filter_map(|parameter| parameter.get("name"))
        .collect();
    assert_eq!(own, ["body", "dryRun", "fieldValidation"]);
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
    let server = server(&[]).await;
    let document = get(&server, "/openapi/v3/api/v1").await.body;
    let nodes = &document["paths"]["/api/v1/nodes"];
    assert!(nodes["get"].is_object() && nodes["get"]["description"].is_null());
    assert!(nodes["parameters"][0]["description"].is_null());
}
