//! Tests of response formats: JSON, YAML, protobuf, tables and metadata, as kube-apiserver negotiates them.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const TABLE: &str = "as=Table;v=v1;g=meta.k8s.io";
const ACCEPTED: &str = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Valid objects of all built-in kinds.
const OBJECTS: &str = include_str!("../../operator-conformance/src/differential/bases.json");

struct Answer {
    code: u16,
    media: String,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn contains(&self, text: &str) -> bool {
        self.body.windows(text.len()).any(|part| part == text.as_bytes())
    }
}

async fn send(
    server: &ApiServer,
    (method, path): (&str, &str),
    (accept, content): (&str, &str),
    body: Bytes,
) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", accept)
        .header("content-type", content)
        .body(Full::new(body))
        .unwrap();
    let (parts, body) = server.clone().oneshot(request).await.unwrap().into_parts();
    let media = parts.headers.get("content-type");
    Answer {
        code: parts.status.as_u16(),
        media: media
            .map(|media| media.to_str().unwrap().to_owned())
            .unwrap_or_default(),
        body: body.collect().await.unwrap().to_bytes(),
    }
}

async fn get(server: &ApiServer, path: &str, accept: &str) -> Answer {
    send(server, ("GET", path), (accept, JSON), Bytes::new()).await
}

async fn post(server: &ApiServer, path: &str, accept: &str, body: Value) -> Answer {
    send(server, ("POST", path), (accept, JSON), body.to_string().into()).await
}

/// Returns the path of the collection of a resource such as `apps/v1/deployments`.
fn collection(resource: &str, namespaced: bool) -> String {
    let (version, plural) = resource.rsplit_once('/').unwrap();
    let root = if version == "v1" { "/api" } else { "/apis" };
    let namespace = if namespaced { "/namespaces/default" } else { "" };
    format!("{root}/{version}{namespace}/{plural}")
}

async fn is_namespaced(server: &ApiServer, resource: &str) -> bool {
    let (version, plural) = resource.rsplit_once('/').unwrap();
    let root = if version == "v1" { "/api" } else { "/apis" };
    let document = get(server, &format!("{root}/{version}"), JSON).await.json();
    let resources = document["resources"].as_array().unwrap();
    let found = resources.iter().find(|found| found["name"] == plural);
    found.unwrap()["namespaced"] == true
}

#[tokio::test]
async fn every_builtin_kind_is_the_same_object_in_protobuf() {
    let server = ApiServer::builder().build().unwrap();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    post(&server, accounts, JSON, json!({"metadata": {"name": "default"}})).await;
    let objects: Vec<Value> = serde_json::from_str(OBJECTS).unwrap();
    let mut compared = 0;
    for (index, line) in objects.into_iter().enumerate() {
        let resource = line["resource"].as_str().unwrap();
        if resource == "v1/bindings" || resource.ends_with("reviews") {
            // Reviews are not stored.
            continue;
        }
        let text = line["object"]
            .to_string()
            // A definition creates an APIService for its group, so each object gets its own number.
            .replace("${n}", &index.to_string())
            .replace("${ns}", "default");
        let mut object: Value = serde_json::from_str(&text).unwrap();
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = format!("o{index}").into();
        }
        let path = collection(resource, is_namespaced(&server, resource).await);
        let created = post(&server, &path, PROTOBUF, object.clone()).await;
        assert_eq!(
            created.code,
            201,
            "{resource}: {}",
            String::from_utf8_lossy(&created.body)
        );
        assert!(created.body.starts_with(b"k8s\0"), "{resource}");
        let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        let before = get(&server, &path, JSON).await;
        let read = get(&server, &path, PROTOBUF).await;
        assert_eq!((read.code, &*read.media), (200, PROTOBUF), "{resource}");
        // An object that is written back unchanged is an update without effect.
        let written = send(&server, ("PUT", &path), (JSON, PROTOBUF), read.body).await;
        assert_eq!(
            written.code,
            200,
            "{resource}: {}",
            String::from_utf8_lossy(&written.body)
        );
        assert_eq!(written.json(), before.json(), "{resource}");
        compared += 1;
    }
    assert!(compared > 60, "{compared}");
}

#[tokio::test]
async fn lists_and_errors_are_protobuf() {
    let server = ApiServer::builder().build().unwrap();
    let list = get(&server, "/api/v1/namespaces", PROTOBUF).await;
    assert_eq!((list.code, &*list.media), (200, PROTOBUF));
    assert!(
        list.body
            .starts_with(b"k8s\0\n\x13\n\x02v1\x12\rNamespaceList\x12")
    );
    assert!(list.contains("kube-system"));
    let both = get(
        &server,
        "/api/v1/namespaces",
        "application/vnd.kubernetes.protobuf,application/json",
    )
    .await;
    assert_eq!(both.media, PROTOBUF);
    let heavier = "application/vnd.kubernetes.protobuf;q=0.5,application/json";
    assert_eq!(get(&server, "/api/v1/namespaces", heavier).await.media, JSON);
    let missing = get(&server, "/api/v1/namespaces/nope", PROTOBUF).await;
    assert_eq!((missing.code, &*missing.media), (404, PROTOBUF));
    assert!(missing.contains("namespaces \"nope\" not found"));
    for path in ["/api", "/apis", "/apis/apps", "/apis/apps/v1"] {
        let document = get(&server, path, PROTOBUF).await;
        assert_eq!((document.code, &*document.media), (200, PROTOBUF), "{path}");
        assert!(document.contains("v1"), "{path}");
    }
}

#[tokio::test]
async fn watches_in_protobuf_have_frames_with_a_length() {
    let server = ApiServer::builder().build().unwrap();
    let path = "/api/v1/namespaces?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Ddefault";
    let watch = get(&server, path, PROTOBUF).await;
    assert_eq!(
        (watch.code, &*watch.media),
        (200, "application/vnd.kubernetes.protobuf;stream=watch")
    );
    let length = u32::from_be_bytes(watch.body[..4].try_into().unwrap()) as usize;
    assert_eq!(watch.body.len(), 4 + length);
    assert_eq!(&watch.body[4..11], b"\n\x05ADDED");
    assert!(watch.contains("k8s\0"));
    let yaml = get(&server, path, "application/yaml").await;
    assert_eq!((yaml.code, &*yaml.media), (406, "application/yaml"));
    assert!(yaml.contains("application/json;stream=watch"));
}

#[tokio::test]
async fn metadata_is_protobuf_and_tables_are_not() {
    let server = ApiServer::builder().build().unwrap();
    let path = "/api/v1/namespaces/default";
    let metadata = get(&server, path, &format!("{PROTOBUF};{METADATA}")).await;
    assert_eq!((metadata.code, &*metadata.media), (200, PROTOBUF));
    assert!(metadata.contains("PartialObjectMetadata"));
    for accept in [
        format!("{PROTOBUF};{TABLE}"),
        "application/json;g=meta.k8s.io;v=v1".to_owned(),
        "application/json;stream=nope".to_owned(),
    ] {
        let refused = get(&server, path, &accept).await;
        assert_eq!((refused.code, &*refused.media), (406, JSON), "{accept}");
        assert_eq!(refused.json()["message"], ACCEPTED);
    }
    let export = get(&server, "/api/v1/namespaces/default?export=true", JSON).await;
    assert_eq!(export.code, 400);
    assert_eq!(
        export.json()["message"],
        "the export parameter, deprecated since v1.14, is no longer supported"
    );
    assert_eq!(
        get(&server, "/api/v1/namespaces?export=true", JSON).await.code,
        200
    );
    assert_eq!(get(&server, "/openapi/v2", "text/plain").await.body.len(), 0);
}

#[tokio::test]
async fn reviews_have_no_table() {
    let server = ApiServer::builder().build().unwrap();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"resourceAttributes": {"verb": "get"}}});
    let table = post(&server, path, &format!("{JSON};{TABLE}"), review.clone()).await;
    assert_eq!((table.code, &table.json()["message"]), (406, &ACCEPTED.into()));
    let metadata = post(&server, path, &format!("{JSON};{METADATA}"), review).await;
    assert_eq!(
        (metadata.code, &metadata.json()["kind"]),
        (201, &"PartialObjectMetadata".into())
    );
}

#[tokio::test]
async fn a_scale_is_a_table_with_two_counts() {
    let server = ApiServer::builder().build().unwrap();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    let created = post(
        &server,
        path,
        JSON,
        json!({"metadata": {"name": "d"}, "spec": spec}),
    )
    .await;
    assert_eq!(created.code, 201);
    let table = get(&server, &format!("{path}/d/scale"), &format!("{JSON};{TABLE}"))
        .await
        .json();
    let names: Vec<&Value> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| &column["name"])
        .collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(
        table["rows"][0]["cells"].as_array().unwrap()[..3],
        [json!("d"), json!(2), json!(0)]
    );
}

#[tokio::test]
async fn empty_lists_have_their_items_in_each_format() {
    let server = ApiServer::builder().build().unwrap();
    let secrets = "/api/v1/namespaces/none/secrets";
    for (accept, items) in [
        (JSON.to_owned(), "\"items\":[]"),
        ("application/yaml".to_owned(), "items: []"),
        (format!("{JSON};{METADATA}"), "\"items\":null"),
        (format!("{JSON};{TABLE}"), "\"rows\":[]"),
    ] {
        let accept = accept.replace("PartialObjectMetadata;", "PartialObjectMetadataList;");
        let list = get(&server, secrets, &accept).await;
        assert_eq!(list.code, 200, "{accept}");
        assert!(list.contains(items), "{accept}: {:?}", list.body);
    }
    let pretty = get(&server, &format!("{secrets}?pretty=true"), JSON).await;
    assert_eq!(pretty.json()["items"], json!([]));
}

#[tokio::test]
async fn lists_have_a_maximum_size() {
    let server = ApiServer::builder().build().unwrap();
    let column = |index: usize| json!({"name": format!("c{index}"), "type": "string", "jsonPath": ".text"});
    let columns: Vec<Value> = (0..10_000).map(column).collect();
    let version = json!({"name": "v1", "served": true, "storage": true, "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"text": {"type": "string"}}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing"}, "versions": [version]}});
    let create = async |path: &str, object: Value| {
        let body = Bytes::from(object.to_string());
        assert_eq!(send(&server, ("POST", path), (JSON, JSON), body).await.code, 201);
    };
    create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition,
    )
    .await;
    let things = "/apis/example.com/v1/things";
    // Each row has 15 MB.
    for index in 0..36 {
        create(
            things,
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": format!("n{index}")},
                "text": "x".repeat(1_500)}),
        )
        .await;
    }
    let accept = format!("{JSON};{TABLE}");
    let large = get(&server, things, &accept).await;
    assert_eq!(large.code, 413);
    assert!(
        large.contains(
            "the list is larger than 536870912 bytes: request it in pages, with the parameter limit"
        )
    );
    let page = get(&server, &format!("{things}?limit=2"), &accept).await;
    assert_eq!(page.code, 200);
    assert!(page.body.len() > 30_000_000, "{}", page.body.len());
}
