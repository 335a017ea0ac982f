//! Tests of disabled built-in APIs and of feature gates, with the responses of a real API server (1.36).
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;

use asking::{get, post};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use operator_apiserver::{ApiServer, FeatureGates, RuntimeConfig};
use serde_json::json;
use tower::ServiceExt;

async fn text(server: &ApiServer, path: &str) -> (u16, String) {
    let request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn a_disabled_api_is_neither_served_nor_listed() {
    let off = [
        "apps/v1/deployments=false",
        "batch/v1=false",
        "autoscaling/v1=false",
    ];
    let config = RuntimeConfig::parse(off).unwrap();
    let server = ApiServer::builder().runtime_config(config).build().unwrap();
    let not_found = (404, "404 page not found\n".to_owned());
    for path in [
        "/apis/batch",
        "/apis/batch/v1",
        "/apis/batch/v1/jobs",
        "/apis/batch/v1/namespaces/default/jobs",
    ] {
        assert_eq!(text(&server, path).await, not_found, "{path}");
    }
    for path in [
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/autoscaling/v1/horizontalpodautoscalers",
    ] {
        let missing = get(&server, path).await;
        assert_eq!(
            (missing.code, missing.message()),
            (404, "the server could not find the requested resource")
        );
    }
    let group = get(&server, "/apis/autoscaling").await.body;
    let v2 = json!({"groupVersion": "autoscaling/v2", "version": "v2"});
    assert_eq!(
        (&group["versions"], &group["preferredVersion"]),
        (&json!([v2]), &v2)
    );
    let apps = get(&server, "/apis/apps/v1").await.body;
    let names = apps["resources"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|resource| resource["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"daemonsets") && !names.contains(&"deployments"),
        "{names:?}"
    );
    assert_eq!(text(&server, "/openapi/v3/apis/batch/v1").await.0, 404);
    for (name, code) in [
        ("v1.batch", 404),
        ("v1.autoscaling", 404),
        ("v2.autoscaling", 200),
        ("v1.apps", 200),
    ] {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
        assert_eq!(get(&server, &path).await.code, code, "{name}");
    }
    // The other APIs are served.
    let map = json!({"metadata": {"name": "a"}});
    post(&server, "/api/v1/namespaces/default/configmaps", map)
        .await
        .is_done();
}

#[tokio::test]
async fn the_core_group_is_not_below_the_path_of_groups() {
    let server = ApiServer::builder().build().unwrap();
    for path in [
        "/apis//v1",
        "/apis//v1/namespaces/default/pods",
        "/apis//v1/nodes/a",
    ] {
        let not_found = (404, "404 page not found\n".to_owned());
        assert_eq!(text(&server, path).await, not_found, "{path}");
    }
}

#[tokio::test]
async fn gates_change_what_they_stand_for() {
    let off = [
        "WatchList=false",
        "ComponentFlagz=false",
        "ComponentStatusz=false",
        "StorageVersionHash=false",
        "TokenRequestServiceAccountUIDValidation=false",
    ];
    let gates = FeatureGates::parse(off).unwrap();
    let server = ApiServer::builder().feature_gates(gates).build().unwrap();
    let usual = ApiServer::builder().build().unwrap();
    for path in ["/flagz", "/statusz"] {
        assert_eq!(
            text(&server, path).await,
            (404, "404 page not found\n".to_owned())
        );
        assert_eq!(text(&usual, path).await.0, 200);
        let listed = |index: String| index.contains(path);
        assert!(!listed(text(&server, "/").await.1) && listed(text(&usual, "/").await.1));
    }
    let watch = "/api/v1/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let refused = get(&server, watch).await;
    refused.is_refused(
        422,
        "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
    );
    let hash = "storageVersionHash";
    assert!(
        !text(&server, "/api/v1").await.1.contains(hash) && text(&usual, "/api/v1").await.1.contains(hash)
    );
    let account = json!({"metadata": {"name": "robot"}});
    let request = json!({"metadata": {"name": "robot", "uid": "other"}, "spec": {"audiences": ["a"]}});
    for (server, code) in [(&server, 201), (&usual, 409)] {
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        post(server, accounts, account.clone()).await.is_done();
        let answer = post(server, &format!("{accounts}/robot/token"), request.clone()).await;
        assert_eq!(answer.code, code, "{}", answer.body);
    }
}

#[tokio::test]
async fn beta_versions_with_the_types_of_v1_are_served_when_they_are_enabled() {
    let path = "/apis/networking.k8s.io/v1beta1/servicecidrs";
    let server = ApiServer::builder().build().unwrap();
    assert_eq!(get(&server, path).await.code, 404);
    let config = RuntimeConfig::parse(["api/beta=true", "storage.k8s.io/v1beta1=false"]).unwrap();
    let server = ApiServer::builder().runtime_config(config).build().unwrap();
    let cidr = json!({
        "apiVersion": "networking.k8s.io/v1beta1", "kind": "ServiceCIDR",
        "metadata": {"name": "a"}, "spec": {"cidrs": ["10.9.0.0/24"]},
    });
    let made = post(&server, path, cidr).await;
    made.is_done();
    assert_eq!(made.body["apiVersion"], "networking.k8s.io/v1beta1");
    let stable = "/apis/networking.k8s.io/v1/servicecidrs/a";
    assert_eq!(
        get(&server, stable).await.body["apiVersion"],
        "networking.k8s.io/v1"
    );
    // An apply in one version knows the fields that another one owns.
    for (version, code) in [("v1beta1", 200), ("v1", 200)] {
        let config = json!({
            "apiVersion": format!("networking.k8s.io/{version}"), "kind": "ServiceCIDR",
            "metadata": {"name": "a", "labels": {"a": version}},
        });
        let path = format!("/apis/networking.k8s.io/{version}/servicecidrs/a?fieldManager=me");
        let applied = asking::send(
            &server,
            http::Method::PATCH,
            &path,
            "application/apply-patch+yaml",
            &config,
        )
        .await;
        assert_eq!(applied.code, code, "{}", applied.body);
        assert_eq!(applied.body["metadata"]["labels"], json!({"a": version}));
    }
    let group = get(&server, "/apis/networking.k8s.io").await.body;
    let names: Vec<&str> = group["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| version["version"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["v1", "v1beta1"]);
    let service = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1";
    assert_eq!(
        get(&server, &format!("{service}.networking.k8s.io")).await.code,
        200
    );
    assert_eq!(get(&server, &format!("{service}.storage.k8s.io")).await.code, 404);
    // A policy of a beta version is in effect.
    let group = "/apis/admissionregistration.k8s.io/v1beta1";
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
        ]},
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {
            "expression": "Object{metadata: Object.metadata{labels: {'mutated': 'yes'}}}",
        }}],
    }});
    post(&server, &format!("{group}/mutatingadmissionpolicies"), policy)
        .await
        .is_done();
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p"}});
    post(
        &server,
        &format!("{group}/mutatingadmissionpolicybindings"),
        binding,
    )
    .await
    .is_done();
    let map = json!({"metadata": {"name": "a"}});
    let made = post(&server, "/api/v1/namespaces/default/configmaps", map).await;
    assert_eq!(made.body["metadata"]["labels"], json!({"mutated": "yes"}));
}

/// Returns a server with `resource.k8s.io/v1beta1` and `v1beta2`.
fn with_older_devices() -> ApiServer {
    let on = ["resource.k8s.io/v1beta1=true", "resource.k8s.io/v1beta2=true"];
    let config = RuntimeConfig::parse(on).unwrap();
    let table = kubernetes_descriptions::TABLE;
    let builder = ApiServer::builder()
        .runtime_config(config)
        .openapi_descriptions(table);
    builder.build().unwrap()
}

const CLAIMS: &str = "namespaces/default/resourceclaims";

#[tokio::test]
async fn requests_of_v1beta1_are_stored_as_those_of_v1() {
    let server = with_older_devices();
    let older = format!("/apis/resource.k8s.io/v1beta1/{CLAIMS}");
    let stable = format!("/apis/resource.k8s.io/v1/{CLAIMS}");
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "metadata": {"name": "a"},
        "spec": {"devices": {"requests": [
            {"name": "gpu", "deviceClassName": "gpu", "exactly": {}},
            {"name": "nic", "firstAvailable": [{"name": "fast", "deviceClassName": "fast"}]},
        ]}},
    });
    let strict = post(&server, &format!("{older}?fieldValidation=Strict"), claim.clone()).await;
    strict.is_refused(
        400,
        "ResourceClaim in version \"v1beta1\" cannot be handled as a ResourceClaim: strict decoding error: unknown field \"spec.devices.requests[0].exactly\"",
    );
    let made = post(&server, &older, claim).await;
    made.is_done();
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
    let alternative =
        json!({"name": "fast", "deviceClassName": "fast", "allocationMode": "ExactCount", "count": 1});
    let mut flat = exactly.clone();
    flat["name"] = "gpu".into();
    let requests = "/spec/devices/requests";
    let second = json!({"name": "nic", "firstAvailable": [alternative]});
    let mut flat_second = second.clone();
    flat_second["deviceClassName"] = "".into();
    let expected = json!([flat, flat_second]);
    assert_eq!(*made.body.pointer(requests).unwrap(), expected);
    let read = get(&server, &format!("{stable}/a")).await.body;
    assert_eq!(read["apiVersion"], "resource.k8s.io/v1");
    assert_eq!(
        *read.pointer(requests).unwrap(),
        json!([{"name": "gpu", "exactly": exactly}, second])
    );
    let read = get(&server, &format!("{older}/a")).await.body;
    assert_eq!(*read.pointer(requests).unwrap(), expected);

    // An empty list makes a request an exact one. Errors have the paths of the stored form, as in a real server.
    let invalid = json!({
        "metadata": {"name": "b"}, "spec": {"devices": {"requests": [{"name": "gpu", "selectors": []}]}},
    });
    let refused = post(&server, &older, invalid).await;
    refused.is_refused(
        422,
        "ResourceClaim.resource.k8s.io \"b\" is invalid: [spec.devices.requests[0].exactly.deviceClassName: Required value, spec.devices.requests[0].exactly.allocationMode: Unsupported value: \"\": supported values: \"All\", \"ExactCount\"]",
    );
}

#[tokio::test]
async fn an_apply_in_v1beta1_owns_the_fields_of_its_version() {
    let server = with_older_devices();
    let apply = async |version: &str, request: serde_json::Value, manager: &str| {
        let config = json!({
            "apiVersion": format!("resource.k8s.io/{version}"), "kind": "ResourceClaimTemplate",
            "metadata": {"name": "a"}, "spec": {"spec": {"devices": {"requests": [request]}}},
        });
        let templates = "namespaces/default/resourceclaimtemplates";
        let path = format!("/apis/resource.k8s.io/{version}/{templates}/a?fieldManager={manager}");
        let patch = "application/apply-patch+yaml";
        asking::send(&server, http::Method::PATCH, &path, patch, &config).await
    };
    let flat = json!({"name": "gpu", "deviceClassName": "gpu"});
    let first = apply("v1beta1", flat, "me").await;
    assert_eq!(first.code, 201, "{}", first.body);
    let managed = &first.body["metadata"]["managedFields"][0];
    assert_eq!(managed["apiVersion"], "resource.k8s.io/v1beta1");
    assert_eq!(
        managed["fieldsV1"]["f:spec"]["f:spec"]["f:devices"],
        json!({"f:requests": {}})
    );
    // The same content in another version changes nothing but the version of the manager.
    let nested = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}});
    let second = apply("v1", nested, "me").await;
    assert_eq!(second.code, 200, "{}", second.body);
    assert_eq!(
        second.body["metadata"]["managedFields"][0]["apiVersion"],
        "resource.k8s.io/v1"
    );
}

#[tokio::test]
async fn devices_of_v1beta1_are_stored_as_those_of_v1() {
    let server = with_older_devices();
    let slice = json!({
        "metadata": {"name": "a"},
        "spec": {
            "driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu", "basic": {
                "attributes": {"model": {"string": "x"}}, "capacity": {"memory": {"value": "1Gi"}},
                "taints": [{"key": "k", "effect": "NoSchedule"}],
            }}],
        },
    });
    let made = post(&server, "/apis/resource.k8s.io/v1beta1/resourceslices", slice).await;
    made.is_done();
    let basic = &made.body["spec"]["devices"][0]["basic"];
    assert!(basic["taints"][0]["timeAdded"].is_string(), "{basic}");
    let read = get(&server, "/apis/resource.k8s.io/v1/resourceslices/a")
        .await
        .body;
    let mut device = basic.clone();
    device["name"] = "gpu".into();
    assert_eq!(read["spec"]["devices"], json!([device]));
}

#[tokio::test]
async fn beta_versions_have_their_own_types_in_openapi_documents() {
    let server = with_older_devices();
    for (version, request) in [("v1beta1", "deviceClassName"), ("v1beta2", "exactly")] {
        let document = get(&server, &format!("/openapi/v3/apis/resource.k8s.io/{version}"))
            .await
            .body;
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let own = format!("io.k8s.api.resource.{version}");
        let request_schema = &schemas[&format!("{own}.DeviceRequest")];
        assert!(request_schema["properties"][request]["description"].is_string());
        let class = &schemas[&format!("{own}.DeviceClass")];
        assert_eq!(
            class["x-kubernetes-group-version-kind"],
            json!([{"group": "resource.k8s.io", "version": version, "kind": "DeviceClass"}])
        );
        assert!(
            !document.to_string().contains("io.k8s.api.resource.v1."),
            "{version}"
        );
    }
}
