//! Tests of expensive requests: they are rejected, or handled with work proportional to their size.
//!
//! The sizes are chosen so that quadratic work would take minutes.
#![expect(clippy::unwrap_used, reason = "a test may fail")]
#![expect(clippy::needless_pass_by_value, reason = "the cases are written as literals")]

mod memory;

use std::cell::Cell;
use std::fmt::Write as _;
use std::path::Path;
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Returns a server with a definition of widgets that may have any fields, and without the admission plug-in that
/// needs controllers to create pods.
async fn server() -> ApiServer {
    let server = ApiServer::builder()
        .disable_admission_plugins(["ServiceAccount"])
        .build()
        .unwrap();
    define_widgets(&server).await;
    server
}

async fn define_widgets(server: &ApiServer) {
    let version = json!({"name": "v1", "served": true, "storage": true,
        "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "widgets", "kind": "Widget"}}});
    let answer = ask(server, "POST", DEFINITIONS, JSON, &crd.to_string()).await;
    assert_eq!(answer.code, 201);
}

struct Answer {
    code: u16,
    /// The body; null if it is nested too deeply for the parser of the tests.
    body: Value,
    text: String,
    warnings: Vec<String>,
}

impl Answer {
    fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    #[track_caller]
    fn is(&self, code: u16) {
        let shown: String = self.body.to_string().chars().take(1000).collect();
        assert_eq!(self.code, code, "{shown}");
    }

    #[track_caller]
    fn is_refused(&self, code: u16, message: &str) {
        self.is(code);
        let shown: String = self.message().chars().take(1000).collect();
        assert!(self.message().contains(message), "{shown}");
    }
}

async fn ask(server: &ApiServer, method: &str, path: &str, media: &str, body: &str) -> Answer {
    ask_as(server, None, method, path, media, body).await
}

async fn ask_as(
    server: &ApiServer,
    user: Option<&str>,
    method: &str,
    path: &str,
    media: &str,
    body: &str,
) -> Answer {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media);
    if let Some(user) = user {
        request = request.header("impersonate-user", user);
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|text| text.to_str().unwrap().to_owned()).collect();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    Answer {
        code,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
        text: String::from_utf8(bytes.to_vec()).unwrap(),
        warnings,
    }
}

fn widget(name: &str, fields: Value) -> Value {
    let mut widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    widget
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    widget
}

fn pod(spec: Value) -> String {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let fields = spec.as_object().unwrap().clone();
    pod["spec"].as_object_mut().unwrap().extend(fields);
    pod.to_string()
}

/// Returns `{"a":{"a":…}}` with this number of levels.
fn nested(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

/// Returns `count` fields, each of them twice.
fn twice(count: usize) -> String {
    let mut fields = String::new();
    for index in 0..count {
        write!(fields, r#","a{index}":"x","a{index}":"y""#).unwrap();
    }
    fields
}

// === strict decoding ===

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn strict_errors_are_limited_in_the_order_of_the_body() {
    let server = server().await;
    let unknown: String = (0..150).map(|index| format!(r#","u{index}":1"#)).collect();
    let body = format!(
        r#"{{"kind":"ConfigMap","data":{{"k":"v"{}}},"metadata":{{"name":"z"}}{unknown}}}"#,
        twice(40)
    );
    let path = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    let answer = ask(&server, "POST", &path, JSON, &body).await;
    answer.is(400);
    let (_, faults) = answer.message().split_once("strict decoding error: ").unwrap();
    let duplicates = (0..40).map(|index| format!(r#"duplicate field "data.a{index}""#));
    let unknown = (0..60).map(|index| format!(r#"unknown field "u{index}""#));
    let expected: Vec<String> = duplicates.chain(unknown).collect();
    assert_eq!(faults, expected.join(", "));
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn repeated_and_unknown_fields_cost_time_proportional_to_their_length() {
    let server = server().await;
    let spec = format!(r#"{{"resourceAttributes":{{"verb":"get"}}{}}}"#, twice(60_000));
    let review = format!(
        r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{spec}}}"#
    );
    let answer = ask(
        &server,
        "POST",
        &format!("{REVIEWS}?fieldValidation=Strict"),
        JSON,
        &review,
    )
    .await;
    answer.is_refused(400, "strict decoding error");
    assert_eq!(answer.message().matches("field \"").count(), 100);
    ask(&server, "POST", REVIEWS, JSON, &review).await.is(201);

    let children: Vec<String> = (0..150_000).map(|index| format!(r#""a{index}":1"#)).collect();
    for data in ["data", &"k".repeat(1 << 20)] {
        let body = format!(
            r#"{{"metadata":{{"name":"z"}},"{data}":{{{}}}}}"#,
            children.join(",")
        );
        let answer = ask(&server, "POST", CONFIG_MAPS, JSON, &body).await;
        assert!(matches!(answer.code, 201 | 400), "{}", answer.code);
        let body = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget",{}"#,
            &body[1..]
        );
        let answer = ask(&server, "POST", &format!("{WIDGETS}?dryRun=All"), JSON, &body).await;
        answer.is(201);
    }
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn warnings_are_bounded_as_on_the_real_server() {
    let server = server().await;
    let unknown: String = (0..30)
        .map(|index| format!(r#","{index}{}":1"#, "u".repeat(1000)))
        .collect();
    let body = format!(r#"{{"metadata":{{"name":"z"}}{unknown}}}"#);
    let answer = ask(&server, "POST", CONFIG_MAPS, JSON, &body).await;
    answer.is(201);
    assert_eq!(answer.warnings.len(), 16);
    assert_eq!(answer.warnings.iter().map(String::len).sum::<usize>(), 4240);
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn aliases_of_yaml_are_charged_by_their_bytes() {
    let server = server().await;
    let aliases: String = (0..2_000).map(|index| format!(", k{index}: *a")).collect();
    let body = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: z}}\ndata: {{k: &a \"{}\"{aliases}}}\n",
        "x".repeat(1 << 20)
    );
    for (method, path, media) in [
        ("POST", CONFIG_MAPS.to_owned(), YAML),
        ("PATCH", format!("{CONFIG_MAPS}/z?fieldManager=m"), APPLY),
    ] {
        let answer = ask(&server, method, &path, media, &body).await;
        answer.is_refused(400, "yaml: document contains excessive aliasing");
    }
}

// === patches ===

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn copies_of_a_json_patch_are_limited() {
    let server = server().await;
    let path = format!("{WIDGETS}/w");
    let text = json!({"text": "x".repeat(1000), "spec": {"replicas": 1}});
    ask(&server, "POST", WIDGETS, JSON, &widget("w", text).to_string())
        .await
        .is(201);
    let double = |index: usize| json!({"op": "copy", "from": "", "path": format!("/b{index}")});
    let doubled = Value::from((0..40).map(double).collect::<Vec<_>>()).to_string();
    let nest = Value::from(vec![json!({"op": "copy", "from": "", "path": "/a"}); 7_200]).to_string();
    for patch in [&doubled, &nest] {
        for path in [path.clone(), format!("{path}/scale")] {
            let answer = ask(&server, "PATCH", &path, JSON_PATCH, patch).await;
            answer.is_refused(
                422,
                "the server rejected our request due to an error in our request",
            );
        }
    }
    let many = Value::from(vec![
        json!({"op": "test", "path": "/kind", "value": "Widget"});
        10_001
    ])
    .to_string();
    for path in [path.clone(), format!("{path}/scale")] {
        let answer = ask(&server, "PATCH", &path, JSON_PATCH, &many).await;
        answer.is_refused(
            413,
            "The allowed maximum operations in a JSON patch is 10000, got 10001",
        );
    }
    let copy = json!([{"op": "copy", "from": "/text", "path": "/more"}]).to_string();
    ask(&server, "PATCH", &path, JSON_PATCH, &copy).await.is(200);
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn an_object_cannot_be_nested_deeper_patch_by_patch() {
    let server = server().await;
    ask(
        &server,
        "POST",
        WIDGETS,
        JSON,
        &widget("w", json!({"y": {}})).to_string(),
    )
    .await
    .is(201);
    let path = format!("{WIDGETS}/w");
    let mut depth = 1;
    let refused = loop {
        let patch = format!(
            r#"[{{"op":"add","path":"/y{}","value":{}}}]"#,
            "/a".repeat(depth),
            nested(49).replacen('1', "{}", 1)
        );
        let answer = ask(&server, "PATCH", &path, JSON_PATCH, &patch).await;
        if answer.code != 200 {
            break answer;
        }
        depth += 50;
        assert!(depth < 300, "the object is nested {depth} levels deep");
    };
    refused.is(422);
    assert!(depth > 150, "{depth}");
    let merge = format!(r#"{{"z":{}}}"#, nested(254));
    ask(&server, "PATCH", &path, MERGE, &merge).await.is(200);
    let merge = format!(r#"{{"z":{}}}"#, nested(256));
    ask(&server, "PATCH", &path, MERGE, &merge).await.is(400);
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn long_lists_are_merged_in_time() {
    let server = server().await;
    let variable = |index: usize| json!({"name": format!("A{index}"), "value": "x"});
    let variables: Vec<Value> = (0..20_000).map(variable).collect();
    let body = pod(json!({"containers": [{"name": "c", "image": "i", "env": variables}]}));
    ask(&server, "POST", PODS, JSON, &body).await.is(201);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "env": variables}]}}}})
    .to_string();
    drop(variables);
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    ask(&server, "POST", deployments, JSON, &deployment).await.is(201);
    let reversed = || (0..20_000).rev().map(variable).collect::<Vec<Value>>();
    let order = || {
        (0..20_000)
            .rev()
            .map(|index| json!({"name": format!("A{index}")}))
            .collect::<Vec<Value>>()
    };
    let deleted = || {
        (0..10_000)
            .map(|index| json!({"$patch": "delete", "name": format!("A{index}")}))
            .collect::<Vec<Value>>()
    };
    let lists: [&dyn Fn() -> Value; 3] = [
        &|| json!({"name": "c", "env": reversed()}),
        &|| json!({"name": "c", "env": reversed(), "$setElementOrder/env": order()}),
        &|| json!({"name": "c", "env": deleted()}),
    ];
    for container in lists {
        let patch = json!({"spec": {"template": {"spec": {"containers": [container()]}}}}).to_string();
        let path = format!("{deployments}/d");
        ask(&server, "PATCH", &path, STRATEGIC, &patch).await.is(200);
    }
    let finalizers: Vec<String> = (0..20_000).map(|index| format!("example.com/f{index}")).collect();
    let patch = json!({"metadata": {"finalizers": finalizers}}).to_string();
    ask(&server, "PATCH", &format!("{deployments}/d"), STRATEGIC, &patch)
        .await
        .is(200);
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers}}).to_string();
    ask(&server, "PATCH", &format!("{deployments}/d"), STRATEGIC, &patch)
        .await
        .is(200);
}

// === validation ===

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn long_lists_are_validated_in_time() {
    let server = server().await;
    let owner = |index: usize, controller: bool| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "name": format!("n{index}"), "uid": format!("u{index}"), "controller": controller})
    };
    let owned = |controller: bool| {
        let owners: Vec<Value> = (0..12_000).map(|index| owner(index, controller)).collect();
        json!({"metadata": {"name": "o", "ownerReferences": owners}}).to_string()
    };
    ask(&server, "POST", CONFIG_MAPS, JSON, &owned(false))
        .await
        .is(201);
    let answer = ask(&server, "POST", CONFIG_MAPS, JSON, &owned(true)).await;
    answer.is_refused(422, "Only one reference can have Controller set to true");

    let entry = |index: usize| {
        json!({"manager": format!("m{index}"), "operation": "Update", "apiVersion": "v1",
        "time": "2024-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:k{index}"): {}}}})
    };
    let entries: Vec<Value> = (0..8_000).map(entry).collect();
    let data: serde_json::Map<String, Value> = (0..8_000)
        .map(|index| (format!("k{index}"), "x".into()))
        .collect();
    let body = json!({"metadata": {"name": "m", "managedFields": entries}, "data": data}).to_string();
    ask(&server, "POST", CONFIG_MAPS, JSON, &body).await.is(201);
    let answer = ask(&server, "PUT", &format!("{CONFIG_MAPS}/m"), JSON, &body).await;
    answer.is(200);
    let managed = answer.body["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managed.len(), 10);
    assert_eq!(managed[0]["manager"], "ancient-changes");
    assert_eq!(managed[0]["fieldsV1"]["f:data"].as_object().unwrap().len(), 7_991);

    let usages: Vec<String> = (0..20_000).map(|index| format!("u{index}")).collect();
    let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "c"}, "spec": {"request": "eA==", "signerName": "a.b/c", "usages": usages}});
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    ask(&server, "POST", requests, JSON, &request.to_string())
        .await
        .is(422);

    let variables: Vec<Value> = (0..40_000)
        .map(|index| json!({"name": format!("A{index}")}))
        .collect();
    let body = pod(json!({"containers": [{"name": "c", "image": "i", "env": variables}]}));
    ask(&server, "POST", &format!("{PODS}?dryRun=All"), JSON, &body)
        .await
        .is(201);
    let constraint = |index: usize| {
        json!({"maxSkew": 1, "topologyKey": format!("k{}", index / 2),
        "whenUnsatisfiable": "DoNotSchedule"})
    };
    let constraints: Vec<Value> = (0..20_000).map(constraint).collect();
    let answer = ask(
        &server,
        "POST",
        PODS,
        JSON,
        &pod(json!({"topologySpreadConstraints": constraints})),
    )
    .await;
    answer.is(422);
    let causes = answer.body["details"]["causes"].as_array().unwrap().len();
    assert!((10_000..20_000).contains(&causes), "{causes}");
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn errors_that_show_a_whole_list_are_bounded() {
    let server = server().await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let scopes: Vec<String> = (0..50_000).map(|index| format!("s{index}")).collect();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"scopes": scopes}}).to_string();
    let answer = ask(&server, "POST", quotas, JSON, &quota).await;
    answer.is_refused(422, "unsupported scope");
    assert!(answer.message().len() < 32 << 20, "{}", answer.message().len());
    let expression = |index: usize| json!({"scopeName": "Terminating", "operator": "Exists", "values": [format!("{index}")]});
    let expressions: Vec<Value> = (0..5_000).map(expression).collect();
    let hard: serde_json::Map<String, Value> = (0..50)
        .map(|index| (format!("count/a{index}.b"), "1".into()))
        .collect();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard, "scopeSelector": {"matchExpressions": expressions}}});
    ask(&server, "POST", quotas, JSON, &quota.to_string())
        .await
        .is(422);
    // The error of a claim lists all claims of the pod.
    let names = |prefix: &str| -> Vec<Value> {
        let named = |index: usize| json!({"name": format!("{prefix}{index}")});
        (0..20_000).map(named).collect()
    };
    let claims: Vec<Value> = names("c")
        .into_iter()
        .map(|mut claim| {
            claim["resourceClaimName"] = "x".into();
            claim
        })
        .collect();
    let container = json!({"name": "c", "image": "i", "resources": {"claims": names("d")}});
    let pod = pod(json!({"resourceClaims": claims, "containers": [container]}));
    let answer = ask(&server, "POST", PODS, JSON, &pod).await;
    answer.is_refused(422, "must be one of the names in pod.spec.resourceClaims");
    answer.is_refused(422, "there are too many errors: the others are not shown");
    assert!(answer.message().len() < 32 << 20, "{}", answer.message().len());
}

/// Returns a definition with a schema and a conversion.
fn definition(schema: Value, conversion: Value) -> String {
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"}, "versions": [version], "conversion": conversion}})
    .to_string()
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn errors_of_definitions_are_bounded() {
    let server = server().await;
    let map_list = |keys: Vec<String>| {
        let items = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}});
        let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            "items": items});
        definition(
            json!({"type": "object", "properties": {"list": list}}),
            Value::Null,
        )
    };
    let refused = async |body: &str, why: &str| {
        let answer = ask(&server, "POST", DEFINITIONS, JSON, body).await;
        answer.is_refused(422, why);
        let length = answer.body.to_string().len();
        assert!(length < 24 << 20, "{length}");
        answer.body["details"]["causes"].as_array().unwrap().len()
    };
    // Each key has an error that shows all keys.
    let few = refused(
        &map_list(vec!["k".to_owned(); 100]),
        "must not contain duplicate entries",
    )
    .await;
    assert_eq!(few, 99);
    let many = vec!["k".to_owned(); 100_000];
    refused(&map_list(many), "must not contain duplicate entries").await;
    let many = (0..50_000).map(|index| format!("k{index}")).collect();
    refused(&map_list(many), "entries must all be names of item properties").await;
    // The limit holds for all versions together.
    let mut versions: Value = serde_json::from_str(&map_list(vec!["k".to_owned(); 2_000])).unwrap();
    let one = versions["spec"]["versions"][0].clone();
    let named = |index: usize| {
        let mut version = one.clone();
        version["name"] = format!("v{index}").into();
        version["schema"]["openAPIV3Schema"]["description"] = index.to_string().into();
        version
    };
    versions["spec"]["versions"] = (0..60).map(named).collect();
    refused(&versions.to_string(), "must not contain duplicate entries").await;
    // Each field below a long key has an error that shows the key.
    let fields: serde_json::Map<String, Value> = (0..100_000)
        .map(|index| (format!("f{index}"), json!({})))
        .collect();
    let below = json!({"type": "object", "properties": {"x".repeat(1_000): {"type": "object", "properties": fields}}});
    refused(
        &definition(below, Value::Null),
        "must not be empty for specified object fields",
    )
    .await;
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn long_lists_of_definitions_are_validated_in_time() {
    let server = server().await;
    let create =
        async |body: String| ask(&server, "POST", &format!("{DEFINITIONS}?dryRun=All"), JSON, &body).await;
    let versions: Vec<String> = (0..180_000).map(|index| format!("v{index}")).collect();
    let webhook =
        json!({"clientConfig": {"url": "https://example.com/convert"}, "conversionReviewVersions": versions});
    let conversion = json!({"strategy": "Webhook", "webhook": webhook});
    create(definition(json!({"type": "object"}), conversion))
        .await
        .is(201);
    let names: Vec<String> = (0..25_000).map(|index| format!("f{index}")).collect();
    let fields: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| (name.clone(), json!({"type": "string"})))
        .collect();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
    let mut selectable: Value = serde_json::from_str(&definition(schema, Value::Null)).unwrap();
    selectable["spec"]["versions"][0]["selectableFields"] = names
        .iter()
        .map(|name| json!({"jsonPath": format!(".spec.{name}")}))
        .collect();
    let answer = create(selectable.to_string()).await;
    answer.is_refused(422, "must have at most 8 items");
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn large_roles_are_compared_without_their_combinations() {
    let server = server().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = |name: &str, rules: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": rules})
        .to_string()
    };
    let writer = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create"]}]);
    ask(&server, "POST", roles, JSON, &role("writer", writer))
        .await
        .is(201);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "joe"}, "subjects": [{"kind": "User", "name": "joe", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": "writer", "apiGroup": "rbac.authorization.k8s.io"}});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    ask(&server, "POST", bindings, JSON, &binding.to_string())
        .await
        .is(201);

    let numbered = |prefix: &str, count: usize| -> Vec<String> {
        (0..count).map(|index| format!("{prefix}{index}")).collect()
    };
    let large = json!([{"apiGroups": numbered("g", 300), "resources": numbered("r", 300), "verbs": numbered("v", 100)}]);
    let answer = ask_as(&server, Some("joe"), "POST", roles, JSON, &role("large", large)).await;
    answer.is_refused(403, "is attempting to grant RBAC permissions not currently held");
    assert!(answer.message().len() < 1 << 20, "{}", answer.message().len());
    // Each combination shows the group.
    let long = json!([{"apiGroups": ["g".repeat(500_000)], "resources": numbered("r", 100), "verbs": numbered("v", 100)}]);
    let answer = ask_as(&server, Some("joe"), "POST", roles, JSON, &role("long", long)).await;
    answer.is_refused(403, "is attempting to grant RBAC permissions not currently held");
    assert!(answer.message().len() < 8 << 20, "{}", answer.message().len());
    let held = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create"]}]);
    ask_as(&server, Some("joe"), "POST", roles, JSON, &role("held", held))
        .await
        .is(201);
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn values_of_limit_ranges_are_not_multiplied_without_limit() {
    let server = server().await;
    let quantities: serde_json::Map<String, Value> = (0..5_000)
        .map(|index| (format!("example.com/r{index}"), "1".into()))
        .collect();
    let ranges = "/api/v1/namespaces/default/limitranges";
    let range = |limit: Value| json!({"metadata": {"name": "r"}, "spec": {"limits": [limit]}}).to_string();
    let containers: Vec<Value> = (0..5_000)
        .map(|index| json!({"name": format!("c{index}"), "image": "i"}))
        .collect();
    let many = pod(json!({"containers": containers}));
    let why = "combinations, of which at most 100000 are checked";
    for field in ["defaultRequest", "min"] {
        let range = range(json!({"type": "Container", field: quantities}));
        ask(&server, "POST", ranges, JSON, &range).await.is(201);
        ask(&server, "POST", PODS, JSON, &many).await.is_refused(403, why);
        ask(&server, "DELETE", &format!("{ranges}/r"), JSON, "")
            .await
            .is(200);
    }
    // The bounds of a claim that has no requests are errors of their own.
    let bounds: serde_json::Map<String, Value> = (0..40_000)
        .map(|index| (format!("e.com/r{index}"), "1".into()))
        .collect();
    let range = range(json!({"type": "Pod", "min": bounds}));
    ask(&server, "POST", ranges, JSON, &range).await.is(201);
    let refused = ask(&server, "POST", PODS, JSON, &pod(json!({}))).await;
    refused.is_refused(
        403,
        "minimum e.com/r39999 usage per Pod is 1.  No request is specified",
    );
    // Tolerations of a runtime class are compared with those of the pod.
    let tolerations = |prefix: &str| -> Vec<Value> {
        let toleration = |index: usize| json!({"key": format!("{prefix}{index}"), "operator": "Exists"});
        (0..15_000).map(toleration).collect()
    };
    let class =
        json!({"metadata": {"name": "c"}, "handler": "h", "scheduling": {"tolerations": tolerations("a")}});
    let classes = "/apis/node.k8s.io/v1/runtimeclasses";
    ask(&server, "POST", classes, JSON, &class.to_string())
        .await
        .is(201);
    ask(&server, "DELETE", &format!("{ranges}/r"), JSON, "")
        .await
        .is(200);
    let tolerant = pod(json!({"runtimeClassName": "c", "tolerations": tolerations("b")}));
    ask(&server, "POST", PODS, JSON, &tolerant).await.is(201);
}

/// Reads a collection as a Table.
async fn table(server: &ApiServer, path: &str) -> (StatusCode, Bytes) {
    let request = Request::get(path).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status();
    (code, response.into_body().collect().await.unwrap().to_bytes())
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn columns_of_tables_are_bounded() {
    let server = server().await;
    let things = "/apis/example.com/v1/namespaces/default/things";
    let define = async |path: &str, columns: usize| {
        let column = |index: usize| json!({"name": format!("c{index}"), "type": "string", "jsonPath": path});
        let columns: Vec<Value> = (0..columns).map(column).collect();
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut thing: Value = serde_json::from_str(&definition(schema, Value::Null)).unwrap();
        thing["spec"]["versions"][0]["additionalPrinterColumns"] = columns.into();
        let _ = ask(
            &server,
            "DELETE",
            &format!("{DEFINITIONS}/things.example.com"),
            JSON,
            "",
        )
        .await;
        ask(&server, "POST", DEFINITIONS, JSON, &thing.to_string())
            .await
            .is(201);
    };
    let create = async |name: String, spec: Value| {
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec});
        ask(&server, "POST", things, JSON, &thing.to_string())
            .await
            .is(201);
    };
    let refused = async || {
        let (code, body) = table(&server, things).await;
        let body = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(code, 413, "{body}");
        assert!(body.contains("the columns of the table are too large"), "{body}");
    };
    // Each column shows the whole object.
    define(".spec", 10_000).await;
    create("a".to_owned(), json!({"x": "x".repeat(1_000_000)})).await;
    refused().await;
    // Each column visits the whole object.
    define("..x", 10_000).await;
    create("a".to_owned(), (0..20_000).collect()).await;
    refused().await;
    // Rows are written one after the other.
    define(".metadata.name", 5_000).await;
    for index in 0..400 {
        create(format!("n{index}"), json!({})).await;
    }
    let (code, body) = table(&server, things).await;
    assert_eq!(code, 200);
    assert!(body.len() > 400 * 5_000 * 4, "{}", body.len());
}

// === storage ===

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn objects_that_etcd_would_refuse_are_refused() {
    let server = server().await;
    let text = |length: usize| widget("b", json!({"k": "x".repeat(length)})).to_string();
    let create = |body: String| ask_body(&server, "POST", WIDGETS, JSON, body);
    create(text(1_573_000))
        .await
        .is_refused(500, "etcdserver: request is too large");
    create(text(2_000_000))
        .await
        .is_refused(500, "etcdserver: request is too large");
    let answer = create(text(2_200_000)).await;
    answer.is_refused(
        500,
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2200307 vs. 2097152)",
    );
    ask_body(
        &server,
        "POST",
        &format!("{WIDGETS}?dryRun=All"),
        JSON,
        text(2_000_000),
    )
    .await
    .is(201);
    // With its managed fields the object is just too large, so it is stored without them.
    let answer = create(text(1_572_543)).await;
    answer.is(201);
    assert_eq!(answer.body["metadata"].get("managedFields"), None);
    let path = format!("{WIDGETS}/b");
    let grow = json!({"k": "x", "l": "x".repeat(1_500_000)}).to_string();
    ask(&server, "PATCH", &path, MERGE, &grow).await.is(200);
    let grow = json!({"m": "x".repeat(100_000)}).to_string();
    ask(&server, "PATCH", &path, MERGE, &grow)
        .await
        .is_refused(500, "etcdserver: request is too large");
    let grow = json!({"m": "x".repeat(1_000_000)}).to_string();
    ask(&server, "PATCH", &path, MERGE, &grow)
        .await
        .is_refused(500, "trying to send message larger than max");
    let apply = text(1_700_000).replace("\"b\"", "\"c\"");
    let answer = ask(
        &server,
        "PATCH",
        &format!("{WIDGETS}/c?fieldManager=m"),
        APPLY,
        &apply,
    )
    .await;
    answer.is_refused(500, "etcdserver: request is too large");

    let secret = |length: usize| {
        json!({"metadata": {"name": "s"}, "stringData": {"k": "\n".repeat(length)}}).to_string()
    };
    let secrets = "/api/v1/namespaces/default/secrets";
    ask(&server, "POST", secrets, JSON, &secret(1_000_000))
        .await
        .is(201);
    let arguments = |length: usize| {
        pod(json!({"containers": [{"name": "c", "image": "i", "args": ["x".repeat(length)]}]}))
    };
    ask(&server, "POST", PODS, JSON, &arguments(1_600_000))
        .await
        .is_refused(500, "etcdserver: request is too large");
    ask(&server, "POST", PODS, JSON, &arguments(2_200_000))
        .await
        .is_refused(500, "trying to send message larger");
}

async fn ask_body(server: &ApiServer, method: &str, path: &str, media: &str, body: String) -> Answer {
    ask(server, method, path, media, &body).await
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn deep_objects_can_be_read_after_a_restart_and_written_back() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        ApiServer::builder()
            .data_directory(directory.path())
            .build()
            .unwrap()
    };
    let server = open();
    define_widgets(&server).await;
    let body = |levels: usize| {
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"d{levels}"}},"x":{}}}"#,
            nested(levels)
        )
    };
    for levels in 245..=255 {
        ask(&server, "POST", WIDGETS, JSON, &body(levels)).await.is(201);
    }
    ask(&server, "POST", WIDGETS, JSON, &body(256))
        .await
        .is_refused(400, "exceeded max depth");
    let applied = format!("{WIDGETS}/d254?fieldManager=m&force=true");
    ask(&server, "PATCH", &applied, APPLY, &body(254))
        .await
        .is_refused(400, "nested deeper than 256 levels");
    drop(server);

    let server = open();
    for levels in 245..=255 {
        let path = format!("{WIDGETS}/d{levels}");
        let found = ask(&server, "GET", &path, JSON, "").await;
        found.is(200);
        ask(&server, "PUT", &path, JSON, &found.text).await.is(200);
    }
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn the_history_is_bounded_by_the_memory_of_its_objects() {
    let server = ApiServer::builder().history_bytes(4 << 20).build().unwrap();
    let body = |round: usize| {
        json!({"metadata": {"name": "c"}, "data": {"k": "x".repeat(900_000 + round)}}).to_string()
    };
    let created = ask(&server, "POST", CONFIG_MAPS, JSON, &body(0)).await;
    created.is(201);
    let revision = created.body["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    let watch = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion={revision}");
    for round in 1..10 {
        ask(&server, "PUT", &format!("{CONFIG_MAPS}/c"), JSON, &body(round))
            .await
            .is(200);
    }
    let answer = ask(&server, "GET", &watch, JSON, "").await;
    let said = answer.body["object"]["reason"]
        .as_str()
        .or(answer.body["reason"].as_str());
    assert_eq!(said, Some("Expired"), "{}", answer.code);
}

// === requests side by side ===

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn a_health_check_does_not_wait_for_a_large_request() {
    let server = server().await;
    let children: Vec<String> = (0..100_000)
        .map(|index| format!(r#""a{index}":{{"b":1}}"#))
        .collect();
    let large = format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"large"}},"spec":{{{}}}}}"#,
        children.join(",")
    );
    let path = format!("{WIDGETS}?dryRun=All");
    let finished = Cell::new(0);
    let order = |answer: u16| {
        finished.set(finished.get() + 1);
        (answer, finished.get())
    };
    // The large request starts first, on the only thread of this runtime.
    let (large, health) = tokio::join!(
        async { order(ask(&server, "POST", &path, JSON, &large).await.code) },
        async { order(ask(&server, "GET", "/readyz", JSON, "").await.code) },
    );
    assert_eq!((large, health), ((201, 2), (200, 1)));
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn short_requests_with_much_work_run_on_other_threads() {
    let server = server().await;
    let object = |name: &str, entries: usize| {
        let entries = (0..entries).map(|index| (format!("k{index}"), Value::from("x")));
        let data: serde_json::Map<_, _> = entries.collect();
        json!({"metadata": {"name": name}, "data": data}).to_string()
    };
    // Responses are rendered once, so the requests below read different objects.
    const SYSTEM: &str = "/api/v1/namespaces/kube-system/configmaps";
    for namespace in [CONFIG_MAPS, SYSTEM] {
        let large = object("large", 20_000);
        ask(&server, "POST", namespace, JSON, &large).await.is(201);
    }
    let mut aliases = String::from("kind: ConfigMap\nmetadata: {name: a}\nx0: &x0 [a,a,a,a,a,a]\n");
    for level in 1..=5 {
        let last = level - 1;
        writeln!(
            aliases,
            "x{level}: &x{level} [*x{last},*x{last},*x{last},*x{last},*x{last}]"
        )
        .unwrap();
    }
    let copies = vec![r#"{"op":"copy","from":"/data","path":"/data/x"}"#; 50].join(",");
    let (large, small) = (format!("{CONFIG_MAPS}/large"), format!("{CONFIG_MAPS}/small"));
    for (method, path, media, body, runs_here) in [
        ("POST", CONFIG_MAPS, JSON, object("small", 10), true),
        ("GET", small.as_str(), JSON, String::new(), true),
        ("POST", CONFIG_MAPS, YAML, aliases, false),
        ("PATCH", large.as_str(), JSON_PATCH, format!("[{copies}]"), false),
        ("PATCH", small.as_str(), JSON_PATCH, format!("[{copies}]"), false),
        ("GET", SYSTEM, JSON, String::new(), false),
        ("GET", large.as_str(), JSON, String::new(), false),
        ("GET", "/openapi/v2", JSON, String::new(), false),
    ] {
        let mut request = pin!(ask(&server, method, path, media, &body));
        let is_ready = futures::poll!(request.as_mut()).is_ready();
        assert_eq!(is_ready, runs_here, "{method} {path} {media}");
        if !is_ready {
            request.await;
        }
    }
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn a_request_that_is_not_allowed_is_refused_before_its_body_is_read() {
    let server = ApiServer::builder().build().unwrap();
    let body = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, std::io::Error>>());
    let request = Request::post(CONFIG_MAPS)
        .header("impersonate-user", "nobody")
        .body(body)
        .unwrap();
    assert_eq!(server.clone().oneshot(request).await.unwrap().status(), 403);
    // A watch does not read its body.
    let body = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, std::io::Error>>());
    let request = Request::get(format!("{CONFIG_MAPS}?watch=1")).body(body).unwrap();
    assert_eq!(server.oneshot(request).await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn an_address_is_allocated_once_to_concurrent_requests() {
    let server = server().await;
    let services = "/api/v1/namespaces/default/services";
    for round in 0..30 {
        let service = |name: String| {
            json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "clusterIP": format!("10.0.0.{}", 100 + round),
                "ports": [{"port": 80, "nodePort": 31_000 + round}]}})
        };
        let creates = (0..8).map(|index| {
            let (server, body) = (server.clone(), service(format!("s{round}-{index}")).to_string());
            tokio::spawn(async move { ask(&server, "POST", services, JSON, &body).await.code })
        });
        let mut codes: Vec<u16> = Vec::new();
        for create in creates.collect::<Vec<_>>() {
            codes.push(create.await.unwrap());
        }
        codes.sort_unstable();
        assert_eq!(codes, [201, 422, 422, 422, 422, 422, 422, 422], "round {round}");
    }
}

/// Returns the largest memory of this process since it was last reset, in bytes.
fn peak_memory() -> usize {
    usize::try_from(memory::memory_of("self", "VmHWM").unwrap()).unwrap()
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn the_documents_of_many_resources_take_little_memory() {
    const KINDS: usize = 300;
    let server = ApiServer::builder().build().unwrap();
    for number in 0..KINDS {
        let (plural, kind) = (format!("kind{number}s"), format!("Kind{number}"));
        let version = json!({"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {"group": "example.com", "scope": "Namespaced", "versions": [version],
                "names": {"plural": plural, "kind": kind}}});
        ask(&server, "POST", DEFINITIONS, JSON, &crd.to_string())
            .await
            .is(201);
    }
    for (path, accepted) in [
        ("/openapi/v3/apis/example.com/v1", JSON),
        ("/openapi/v2", JSON),
        (
            "/openapi/v2",
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        ),
    ] {
        let request = Request::get(path).header("accept", accepted);
        let request = request.body(Full::new(Bytes::new())).unwrap();
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = peak_memory();
        let response = server.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200, "{path} {accepted}");
        let text = response.into_body().collect().await.unwrap().to_bytes();
        // The text itself, its parts, and the trees of a few kinds. The tree of all kinds takes 19 times its text.
        let grown = peak_memory() - before;
        assert!(
            grown < 12 * text.len(),
            "{path} {accepted}: {grown} for {}",
            text.len()
        );
        let last = format!("patchExampleComV1NamespacedKind{}", KINDS - 1);
        assert!(
            text.windows(last.len()).any(|part| part == last.as_bytes()),
            "{path} {accepted}"
        );
    }
}

/// Runs each test of this file in its own process with 512 MiB of memory, two at a time.
#[test]
fn requests_are_answered_with_little_memory() {
    let program = std::env::current_exe().unwrap();
    let list = Command::new(&program)
        .args(["--list", "--ignored"])
        .output()
        .unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let names: Vec<&str> = list
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .collect();
    assert!(names.len() > 10, "{list}");
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run_limited(&program, name);
                }
            });
        }
    });
}

fn run_limited(program: &Path, name: &str) {
    let limited = "ulimit -v 524288; exec \"$0\" --exact --ignored --test-threads=1 \"$@\"";
    let run = Command::new("sh")
        .args(["-c", limited])
        .arg(program)
        .arg(name)
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&run.stdout);
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{name}:\n{stdout}{stderr}");
    assert!(stdout.contains("1 passed"), "{name}:\n{stdout}");
}

/// Returns 20,000 fields below 100 long keys, whose paths together are 2 GB.
fn below_long_keys(value: &Value) -> Value {
    let fields: serde_json::Map<String, Value> = (0..20_000)
        .map(|index| (format!("f{index}"), value.clone()))
        .collect();
    (0..100).fold(fields.into(), |below, _| json!({"x".repeat(1_000): below}))
}

/// Returns the schema of [`below_long_keys`] with maps of integers.
fn nested_maps() -> Value {
    (0..=100).fold(
        json!({"type": "integer"}),
        |below, _| json!({"type": "object", "additionalProperties": below}),
    )
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn errors_of_applied_fields_below_long_keys_are_bounded() {
    let server = server().await;
    let schema = json!({"type": "object", "properties": {
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "maps": nested_maps(),
    }});
    let thing = definition(schema, Value::Null);
    ask(&server, "POST", DEFINITIONS, JSON, &thing).await.is(201);
    let apply = async |manager: &str, field: &str, value: Value| {
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"},
            field: below_long_keys(&value)});
        let path = format!("/apis/example.com/v1/namespaces/default/things/a?fieldManager={manager}");
        ask(&server, "PATCH", &path, APPLY, &thing.to_string()).await
    };
    let created = apply("m", "free", json!(1)).await;
    created.is(201);
    let conflicts = apply("n", "free", json!(2)).await;
    conflicts.is(409);
    let start = "Apply failed with 20000 conflicts: conflicts with \"m\":\n- .free.x";
    assert!(conflicts.message().starts_with(start));
    let causes = conflicts.body["details"]["causes"].as_array().unwrap().len();
    let rest = format!("\nand {} more", 20_000 - causes);
    assert!(causes > 10 && conflicts.message().ends_with(&rest), "{causes}");
    assert!(conflicts.body.to_string().len() < 24 << 20);
    let mistyped = apply("m", "maps", json!("a")).await;
    mistyped.is_refused(500, "expected numeric (int or float), got string");
    mistyped.is_refused(500, "there are too many errors: the others are not shown");
    assert!(mistyped.message().len() < 8 << 20);
}

#[tokio::test]
#[ignore = "run by requests_are_answered_with_little_memory"]
async fn long_lists_are_applied_in_time() {
    let server = server().await;
    let applied = |from: usize| {
        let variable = |index: usize| json!({"name": format!("A{index}"), "value": "x"});
        let variables: Vec<Value> = (from..from + 8_000).map(variable).collect();
        let finalizers: Vec<String> = (from..from + 8_000)
            .map(|index| format!("example.com/f{index}"))
            .collect();
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "finalizers": finalizers},
            "spec": {"containers": [{"name": "c", "image": "i", "env": variables}]}})
        .to_string()
    };
    for manager in ["m", "n", "m"] {
        let path = format!("{PODS}/a?fieldManager={manager}&force=true");
        let answer = ask(&server, "PATCH", &path, APPLY, &applied(0)).await;
        assert!(matches!(answer.code, 200 | 201), "{}", answer.message());
    }
    // Each of these fields is owned by another manager, so there is one conflict for each.
    let other = applied(0).replace("\"x\"", "\"y\"");
    let path = format!("{PODS}/a?fieldManager=o");
    ask(&server, "PATCH", &path, APPLY, &other).await.is(409);
}
