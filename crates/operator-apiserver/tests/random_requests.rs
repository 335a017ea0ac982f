//! Requests that a comparison with random requests found to be answered differently by a real kube-apiserver.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;

use asking::{Answer, get, merge, post, send};
use http::Method;
use operator_apiserver::ApiServer;
use serde_json::{Value, json};

const NAMESPACE: &str = "/api/v1/namespaces/default";

async fn start() -> ApiServer {
    let server = ApiServer::builder().build().unwrap();
    let account = json!({"metadata": {"name": "default"}});
    post(&server, &format!("{NAMESPACE}/serviceaccounts"), account)
        .await
        .is_done();
    server
}

async fn put(server: &ApiServer, path: &str, body: Value) -> Answer {
    send(server, Method::PUT, path, "application/json", &body).await
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn a_json_patch_is_decoded_twice_if_its_fields_are_validated() {
    let server = start().await;
    let maps = format!("{NAMESPACE}/configmaps");
    post(&server, &maps, json!({"metadata": {"name": "c"}}))
        .await
        .is_done();
    let cases = [
        (
            "Warn",
            json!(["x"]),
            "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp",
        ),
        (
            "Ignore",
            json!(["x"]),
            "json: cannot unmarshal string into Go value of type jsonpatch.Operation",
        ),
        (
            "Ignore",
            json!({"a": 1}),
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
        (
            "Strict",
            json!([{"op": 1}]),
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
    ];
    let ask = async |validation: &str, patch: &Value| {
        let path = format!("{maps}/c?fieldValidation={validation}");
        send(
            &server,
            Method::PATCH,
            &path,
            "application/json-patch+json",
            patch,
        )
        .await
    };
    for (validation, patch, why) in cases {
        let answer = ask(validation, &patch).await;
        assert_eq!((answer.code, answer.message()), (400, why));
    }
    for patch in [json!([null]), json!([{"op": "add"}])] {
        assert_eq!(ask("Warn", &patch).await.code, 422);
    }
}

#[tokio::test]
async fn a_gated_pod_shows_why_it_is_not_scheduled() {
    let server = start().await;
    let mut gated = pod("p");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    let made = post(&server, &format!("{NAMESPACE}/pods"), gated).await;
    let condition = &made.body["status"]["conditions"][0];
    assert_eq!(condition["type"], "PodScheduled");
    assert_eq!(condition["status"], "False");
    assert_eq!(condition["reason"], "SchedulingGated");
    assert!(condition["lastTransitionTime"].is_string(), "{condition}");
}

#[tokio::test]
async fn a_resize_checks_the_metadata_that_it_gets() {
    let server = start().await;
    post(&server, &format!("{NAMESPACE}/pods"), pod("p"))
        .await
        .is_done();
    let grace = json!({"metadata": {"deletionGracePeriodSeconds": -1}});
    for subresource in ["resize", "ephemeralcontainers"] {
        let path = format!("{NAMESPACE}/pods/p/{subresource}");
        let why = "metadata.deletionGracePeriodSeconds: Invalid value: -1: field is immutable";
        merge(&server, &path, grace.clone()).await.is_refused(422, why);
    }
    let mut other = pod("p");
    other["metadata"]["finalizers"] = json!(["0"]);
    other["spec"]["containers"] = json!([]);
    put(&server, &format!("{NAMESPACE}/pods/p/resize"), other)
        .await
        .is_refused(
            422,
            "[metadata.finalizers[0]: Invalid value: \"0\": name is neither a standard finalizer name nor is it fully qualified, spec.containers: Required value, spec.containers: Forbidden: containers may not be added or removed on resize]",
        );
}

#[tokio::test]
async fn the_data_of_a_revision_is_an_object_that_is_not_decoded() {
    let server = start().await;
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    for data in [json!([1]), json!("x"), json!(1)] {
        let revision = json!({"metadata": {"name": "a"}, "revision": 1, "data": data});
        post(&server, revisions, revision)
            .await
            .is_refused(422, "data: Required value: data must be a valid JSON object");
    }
    let request = http::Request::post(format!("{revisions}?fieldValidation=Strict"))
        .header("content-type", "application/json")
        .body(http_body_util::Full::new(bytes::Bytes::from_static(
            br#"{"metadata": {"name": "a"}, "revision": 1, "data": {"x": 1, "x": 2}}"#,
        )))
        .unwrap();
    let response = tower::ServiceExt::oneshot(server.clone(), request).await.unwrap();
    assert_eq!(response.status(), 201);
}

#[tokio::test]
async fn a_token_is_bound_to_an_object_with_a_name() {
    let server = start().await;
    for kind in ["Pod", "Secret", "Node"] {
        let reference = json!({"kind": kind, "apiVersion": "v1", "name": ""});
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": reference},
        });
        post(
            &server,
            &format!("{NAMESPACE}/serviceaccounts/default/token"),
            request,
        )
        .await
        .is_refused(400, "Name parameter required.");
    }
}

#[tokio::test]
async fn prefixes_of_names_have_the_rules_of_their_kinds() {
    let server = start().await;
    let service = json!({
        "metadata": {"name": "v1.x.example.com", "generateName": "a-"},
        "spec": {"group": "x.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
    });
    post(&server, "/apis/apiregistration.k8s.io/v1/apiservices", service)
        .await
        .is_refused(
            422,
            "metadata.generateName: Invalid value: \"a-\": must be `spec.version+\".\"+spec.group`: \"v1.x.example.com\"",
        );
    let class = json!({"metadata": {"name": "a", "generateName": "A_"}, "spec": {}});
    post(&server, "/apis/resource.k8s.io/v1/deviceclasses", class)
        .await
        .is_done();
}

#[tokio::test]
async fn an_applied_list_of_managers_has_the_type_of_one() {
    let server = start().await;
    for (managers, why) in [
        (json!("x"), ".metadata.managedFields: expected list, got &{x}"),
        (json!({}), ".metadata.managedFields: expected list, got &{map[]}"),
        (json!([1]), ".metadata.managedFields[0]: expected map, got &{1}"),
    ] {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": managers}});
        let path = format!("{NAMESPACE}/configmaps/a?fieldManager=me&fieldValidation=Ignore");
        send(
            &server,
            Method::PATCH,
            &path,
            "application/apply-patch+yaml",
            &config,
        )
        .await
        .is_refused(500, why);
    }
}

#[tokio::test]
async fn node_ports_are_allocated_up_to_the_first_that_is_not_available() {
    let server = start().await;
    let services = format!("{NAMESPACE}/services");
    let service = |ports: [i64; 2]| {
        let [a, b] = ports;
        json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [
            {"name": "a", "port": 80, "nodePort": a}, {"name": "b", "port": 81, "nodePort": b},
        ]}})
    };
    let why = "is invalid: spec.ports[0].nodePort: Invalid value: 1: provided port is not in the valid range. The range of valid ports is 30000-32767";
    post(&server, &services, service([1, 2]))
        .await
        .is_refused(422, why);
    post(&server, &services, service([30501, 30502])).await.is_done();
    put(&server, &format!("{services}/s"), service([30503, 30503]))
        .await
        .is_refused(500, "duplicate nodePort: {TCP 30503}");
}

#[tokio::test]
async fn a_port_of_health_checks_is_in_the_range_of_node_ports() {
    let server = start().await;
    let service = json!({"metadata": {"name": "s"}, "spec": {
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 100, "ports": [{"port": 80}],
    }});
    post(&server, &format!("{NAMESPACE}/services"), service)
        .await
        .is_refused(
            500,
            "failed to allocate requested HealthCheck NodePort 100: provided port is not in the valid range. The range of valid ports is 30000-32767",
        );
}

#[tokio::test]
async fn huge_pages_are_not_counted_in_parts_of_bytes() {
    let server = start().await;
    let mut pod = pod("p");
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1", "hugepages-2Mi": "1.5"}, "limits": {"cpu": "1", "hugepages-2Mi": "1.5"}});
    let answer = post(&server, &format!("{NAMESPACE}/pods"), pod).await;
    assert_eq!(answer.code, 422);
    let why = "Invalid value: \"1500m\": 1500m is not positive integer multiple of hugepages-2Mi";
    assert!(answer.message().contains(why), "{}", answer.message());
}

#[tokio::test]
async fn slices_with_host_names_are_deprecated() {
    let server = start().await;
    let slice = json!({"metadata": {"name": "a"}, "addressType": "FQDN", "endpoints": [{"addresses": ["a.example.com"]}]});
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let made = post(&server, slices, slice).await;
    made.is_done();
    let warning = "299 - \"spec.addressType: FQDN endpoints are deprecated\"";
    assert_eq!(made.warnings, [warning]);
}

#[tokio::test]
async fn a_slice_without_devices_omits_them() {
    let server = start().await;
    for devices in [Value::Null, json!([])] {
        let slice = json!({"metadata": {"generateName": "a-"}, "spec": {
            "driver": "d.example.com", "nodeName": "n", "devices": devices,
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        }});
        let made = post(&server, "/apis/resource.k8s.io/v1/resourceslices", slice).await;
        made.is_done();
        assert_eq!(made.body["spec"].get("devices"), None, "{}", made.body);
    }
}

#[tokio::test]
async fn a_warning_of_a_version_that_is_not_deprecated_has_one_error() {
    let server = start().await;
    let definition = json!({
        "metadata": {"name": "ws.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "ws", "kind": "W"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "deprecationWarning": "",
            "schema": {"openAPIV3Schema": {"type": "object"}},
        }]},
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&server, definitions, definition).await.is_refused(
        422,
        "is invalid: spec.versions[0].deprecationWarning: Invalid value: \"\": can only be set for deprecated versions",
    );
}

#[tokio::test]
async fn the_bookmark_of_a_workload_has_its_replicas() {
    let server = start().await;
    let watch = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    for resource in ["deployments", "replicasets", "statefulsets"] {
        let event = get(&server, &format!("/apis/apps/v1/{resource}?{watch}"))
            .await
            .body;
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(event["object"]["spec"]["replicas"], 0, "{event}");
    }
}

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";

/// Creates a mutating policy for ConfigMaps of the namespace `default`.
async fn mutate(server: &ApiServer, condition: &str, patches: &[&str]) {
    let mutations: Vec<Value> = patches
        .iter()
        .map(|patch| {
            let expression = format!("[JSONPatch{patch}]");
            json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
        })
        .collect();
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
        ]},
        "matchConditions": [{"name": "c", "expression": condition}],
        "mutations": mutations, "reinvocationPolicy": "Never",
    }});
    post(server, POLICIES, policy).await.is_done();
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p"}});
    post(
        server,
        "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
        binding,
    )
    .await
    .is_done();
}

#[tokio::test]
async fn match_conditions_are_evaluated_before_each_mutation() {
    let server = start().await;
    let remove = "{op: 'remove', path: '/data/k'}";
    mutate(&server, "object.data.k == 'v'", &[remove, remove]).await;
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v", "l": "w"}});
    post(&server, &format!("{NAMESPACE}/configmaps"), map)
        .await
        .is_refused(
            403,
            "denied request: expression 'object.data.k == 'v'' resulted in error: no such key: k",
        );
}

#[tokio::test]
async fn json_patches_of_policies_fail_with_the_texts_of_their_library() {
    for (patch, why) in [
        (
            "{op: 'test', path: '/x/k', value: 'v'}",
            "test operation does not apply: is missing path: /x/k: missing value",
        ),
        (
            "{op: 'remove', path: '/data/z'}",
            "error in remove for path: '/data/z': Unable to remove nonexistent key: z: missing value",
        ),
        (
            "{op: 'add', path: '/x/z', value: 'v'}",
            "add operation does not apply: doc is missing path: \"/x/z\": missing value",
        ),
        (
            "{op: 'move', from: '/data/z', path: '/data/a'}",
            "error in move for path: 'z': Unable to remove nonexistent key: z: missing value",
        ),
        (
            "{op: 'copy', from: '/data/k', path: '/x/a'}",
            "copy operation does not apply: doc is missing destination path: /x/a: missing value",
        ),
        (
            "{op: 'add', path: '/metadata/finalizers/7', value: 'v'}",
            "error in add for path: '/metadata/finalizers/7': Unable to access invalid index: 7: invalid index referenced",
        ),
    ] {
        let server = start().await;
        mutate(&server, "true", &[patch]).await;
        let map = json!({"metadata": {"name": "a", "finalizers": ["a.b/c"]}, "data": {"k": "v"}});
        post(&server, &format!("{NAMESPACE}/configmaps"), map)
            .await
            .is_refused(403, &format!("denied request: JSON Patch: {why}"));
    }
}
