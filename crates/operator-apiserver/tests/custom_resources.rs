//! Tests of the responses of a real API server (1.36) to custom resource requests with small errors.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;

use asking::{delete, get, merge, post};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt;

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn version(name: &str, more: &Value) -> Value {
    let mut version = json!({
        "name": name, "served": true, "storage": false,
        "subresources": {"status": {}, "scale": {
            "specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.sel",
        }},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 10}}},
            "status": {"type": "object", "properties": {"n": {"type": "integer"}, "sel": {"type": "string"}}},
        }}},
    });
    version
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    version
}

async fn server() -> ApiServer {
    let server = ApiServer::builder().build().unwrap();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                version("v1", &json!({"storage": true})),
                version("v1beta1", &json!({"deprecated": true})),
                version("v2alpha1", &json!({"deprecated": true})),
                version("v3", &json!({"deprecated": true})),
            ],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&server, definitions, definition).await.is_done();
    server
}

fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

async fn delete_with(server: &ApiServer, path: &str, options: &Value) -> (u16, Value) {
    let request = Request::delete(path)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(options.to_string())))
        .unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn a_body_without_a_version_and_kind_is_rejected() {
    let server = server().await;
    let unrecognized = "the object provided is unrecognized (must be of type Widget): ";
    for (body, why) in [
        (
            json!({}),
            format!("{unrecognized}Object 'Kind' is missing in '{{}}' ({{}})"),
        ),
        (
            json!({"kind": 1}),
            format!(
                "{unrecognized}couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string ({{\"kind\":1}})"
            ),
        ),
        (
            json!({"kind": "Widget", "metadata": {"name": "a"}}),
            "the API version in the data () does not match the expected API version (example.com/v1)"
                .to_owned(),
        ),
    ] {
        post(&server, WIDGETS, body).await.is_refused(400, &why);
    }
}

#[tokio::test]
async fn the_fields_of_a_scale_are_checked_whoever_writes_them() {
    let server = server().await;
    let refused = post(&server, WIDGETS, widget("a", &json!({"n": "x"}))).await;
    refused.is_refused(
        422,
        ".spec.n: Invalid value: 0: .spec.n accessor error: x is of the type string, expected int64]",
    );
    post(&server, WIDGETS, widget("a", &json!({"n": 1})))
        .await
        .is_done();
    let scale = format!("{WIDGETS}/a/scale");
    let refused = merge(&server, &scale, json!({"spec": {"replicas": -3}})).await;
    refused.is_refused(
        422,
        "[spec.n: Invalid value: -3: spec.n in body should be greater than or equal to 0, .spec.n: Invalid value: -3: should be a non-negative integer]",
    );
}

#[tokio::test]
async fn an_empty_list_of_managers_changes_nothing() {
    let server = server().await;
    post(&server, WIDGETS, widget("a", &json!({"n": 1})))
        .await
        .is_done();
    let path = format!("{WIDGETS}/a");
    merge(&server, &path, json!({"metadata": {"managedFields": []}}))
        .await
        .is_done();
    let found = get(&server, &path).await;
    assert_eq!(found.body["metadata"]["managedFields"][0]["manager"], "unknown");
    delete(&server, &path).await.is_done();
}

#[tokio::test]
async fn deprecated_versions_warn_with_a_replacement() {
    let server = server().await;
    for (version, expected) in [
        (
            "v1beta1",
            "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget",
        ),
        (
            "v2alpha1",
            "example.com/v2alpha1 Widget is deprecated; use example.com/v1 Widget",
        ),
        ("v3", "example.com/v3 Widget is deprecated"),
    ] {
        let path = format!("/apis/example.com/{version}/namespaces/default/widgets");
        let found = get(&server, &path).await;
        assert_eq!(found.warnings, [format!("299 - \"{expected}\"")]);
    }
}

#[tokio::test]
async fn self_decoding_parts_of_a_schema_drop_unknown_fields() {
    let server = server().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let schema = json!({"type": "object", "properties": {
        "l": {"type": "array", "items": {"type": "object", "description": "", "x-foo": 1}},
        "m": {"type": "object", "additionalProperties": {"type": "string", "title": "", "nope": {}}},
    }});
    let body = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let made = post(&server, path, body.clone()).await;
    made.is_done();
    let read = &made.body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    assert_eq!(
        read,
        &json!({
            "l": {"type": "array", "items": {"type": "object"}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
        })
    );
    assert!(made.warnings.is_empty());
    let mut wrong = body;
    wrong["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["m"]["additionalProperties"] =
        json!("x");
    post(&server, path, wrong)
        .await
        .is_refused(400, "boolean or JSON schema expected");
}

/// Creates the CRD of a kind with some properties.
async fn define_holders(server: &ApiServer, properties: &Value) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "holders.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "holders", "kind": "Holder"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(server, definitions, definition).await.is_done();
}

#[tokio::test]
async fn times_in_embedded_metadata_take_their_canonical_form() {
    let server = ApiServer::builder().build().unwrap();
    let holder = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    define_holders(&server, &json!({"held": holder})).await;
    let created = async |time: Value| {
        let held =
            json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "creationTimestamp": time}});
        let holder = json!({
            "apiVersion": "example.com/v1", "kind": "Holder", "metadata": {"generateName": "a"}, "held": held,
        });
        post(&server, "/apis/example.com/v1/namespaces/default/holders", holder).await
    };
    for (given, stored) in [
        (
            json!("2024-01-01T1:00:00.5+02:00"),
            json!({"name": "a", "creationTimestamp": "2023-12-31T23:00:00Z"}),
        ),
        (json!("0001-01-01T00:00:00Z"), json!({"name": "a"})),
        (Value::Null, json!({"name": "a"})),
    ] {
        assert_eq!(created(given).await.body["held"]["metadata"], stored);
    }
    for (given, why) in [
        (
            "2024-01-01",
            r#""2024-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
        ),
        (
            "2024-02-30T00:00:00Z",
            r#""2024-02-30T00:00:00Z": day out of range"#,
        ),
    ] {
        created(given.into())
            .await
            .is_refused(400, &format!("parsing time {why}"));
    }
}

#[tokio::test]
async fn expressions_see_null_in_maps_but_not_in_objects() {
    let server = ApiServer::builder().build().unwrap();
    let nullable = json!({"type": "string", "nullable": true});
    let rules = [
        "!has(self.text) && !self.?text.hasValue()",
        "!has(self.object.text) && self.object == self.object",
        "has(self.map.key) && 'key' in self.map && self.map.?key.hasValue()",
        "self.?text.orValue('none') == 'none'",
    ];
    let spec = json!({
        "type": "object",
        "properties": {
            "text": nullable,
            "object": {"type": "object", "properties": {"text": nullable}},
            "map": {"type": "object", "maxProperties": 3, "additionalProperties": nullable},
        },
        "x-kubernetes-validations": rules.map(|rule| json!({"rule": rule})),
    });
    define_holders(&server, &json!({"spec": spec})).await;
    let holder = json!({
        "apiVersion": "example.com/v1", "kind": "Holder", "metadata": {"name": "a"},
        "spec": {"text": null, "object": {"text": null}, "map": {"key": null}},
    });
    post(&server, "/apis/example.com/v1/namespaces/default/holders", holder)
        .await
        .is_done();
}

#[tokio::test]
async fn fields_that_no_scale_has_are_warned_about() {
    let server = server().await;
    post(&server, WIDGETS, widget("a", &json!({"n": 1})))
        .await
        .is_done();
    let scale = format!("{WIDGETS}/a/scale");
    let body = json!({"spec": {"replicas": 2, "zz": 1}});
    let changed = merge(&server, &scale, body.clone()).await;
    changed.is_done();
    assert_eq!(changed.warnings, [r#"299 - "unknown field \"spec.zz\"""#]);
    merge(&server, &format!("{scale}?fieldValidation=Strict"), body)
        .await
        .is_refused(422, r#"strict decoding error: unknown field "spec.zz""#);
}

#[tokio::test]
async fn the_options_of_a_delete_are_decoded_by_their_type() {
    let server = server().await;
    let mut held = widget("a", &json!({"n": 1}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    post(&server, WIDGETS, held).await.is_done();
    let path = format!("{WIDGETS}/a");
    for (options, why) in [
        (
            json!({"gracePeriodSeconds": "x"}),
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            json!({"apiVersion": "v1", "kind": "X"}),
            "no kind \"X\" is registered for version \"v1\" in scheme \"pkg/apis/meta/internalversion/scheme/register.go:27\"",
        ),
    ] {
        let (code, body) = delete_with(&server, &path, &options).await;
        assert_eq!((code, body["message"].as_str()), (400, Some(why)));
    }
    let (code, _) = delete_with(&server, &path, &json!({"orphanDependents": false})).await;
    assert_eq!(code, 202);
}

#[tokio::test]
async fn namespaces_and_definitions_have_their_own_preconditions() {
    let server = server().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    post(&server, "/api/v1/namespaces", namespace).await.is_done();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    for (path, subject) in [
        ("/api/v1/namespaces/a", "namespaces \"a\""),
        (
            definitions,
            "customresourcedefinitions.apiextensions.k8s.io \"widgets.example.com\"",
        ),
    ] {
        let live = get(&server, path).await.body;
        for (what, field) in [("UID", "uid"), ("ResourceVersion", "resourceVersion")] {
            let (code, refused) = delete_with(&server, path, &json!({"preconditions": {field: "x"}})).await;
            let found = live["metadata"][field].as_str().unwrap();
            let why = format!(
                "Operation cannot be fulfilled on {subject}: Precondition failed: {what} in precondition: x, {what} in object meta: {found}"
            );
            assert_eq!((code, refused["message"].as_str()), (409, Some(why.as_str())));
        }
    }
    let (_, deleted) = delete_with(
        &server,
        "/api/v1/namespaces/a",
        &json!({"orphanDependents": false}),
    )
    .await;
    assert_eq!(deleted["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}
