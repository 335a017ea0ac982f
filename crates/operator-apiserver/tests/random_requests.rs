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
async fn a_rejection_has_the_name_before_mutations() {
    let server = start().await;
    let rename = "{op: 'replace', path: '/metadata/name', value: 'z'}";
    let missing = "{op: 'remove', path: '/data/z'}";
    mutate(&server, "request.name == 'a'", &[rename, missing]).await;
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let refused = post(&server, &format!("{NAMESPACE}/configmaps"), map).await;
    assert_eq!(
        (refused.code, &refused.body["details"]["name"]),
        (403, &json!("a")),
        "{}",
        refused.body
    );
}

#[tokio::test]
async fn an_applied_configuration_fits_the_struct_of_its_kind() {
    let server = start().await;
    let mutation = json!({"patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{data: {'k': '!'}}"}});
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]});
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [rule]}, "mutations": [mutation], "reinvocationPolicy": "Never"}});
    post(&server, POLICIES, policy).await.is_done();
    let binding = json!({"metadata": {"name": "p"}, "spec": {"policyName": "p"}});
    post(&server, &POLICIES.replace("policies", "policybindings"), binding)
        .await
        .is_done();
    post(&server, &format!("{NAMESPACE}/secrets"), json!({"metadata": {"name": "a"}}))
        .await
        .is_refused(
            403,
            "denied request: unable to convert unstructured object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 0",
        );
}

#[tokio::test]
async fn a_policy_cannot_make_an_object_that_is_not_one_of_its_kind() {
    for (patch, why) in [
        (
            "{op: 'add', path: '/nope', value: 1}",
            "strict decoding error: unknown field \"nope\"",
        ),
        (
            "{op: 'add', path: '/data', value: 5}",
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string",
        ),
    ] {
        let server = start().await;
        mutate(&server, "true", &[patch]).await;
        let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
        post(&server, &format!("{NAMESPACE}/configmaps"), map)
            .await
            .is_refused(500, &format!("Internal error occurred: {why}"));
    }
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

#[tokio::test]
async fn unchanged_endpoints_are_not_checked_with_a_changed_address_type() {
    let server = start().await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let endpoint = |address: &str| json!([{"addresses": [address]}]);
    let slice = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": endpoint("192.0.2.1")});
    post(&server, slices, slice).await.is_done();
    let path = format!("{slices}/s");
    let refused = merge(&server, &path, json!({"addressType": "IPv6"})).await;
    refused.is_refused(
        422,
        "EndpointSlice.discovery.k8s.io \"s\" is invalid: addressType: Invalid value: \"IPv6\": field is immutable",
    );
    let changed = json!({"addressType": "IPv6", "endpoints": endpoint("192.0.2.2")});
    let refused = merge(&server, &path, changed).await;
    refused.is_refused(
        422,
        "is invalid: [endpoints[0].addresses: Invalid value: \"192.0.2.2\": must be an IPv6 address, addressType: Invalid value: \"IPv6\": field is immutable]",
    );
}

#[tokio::test]
async fn the_values_that_a_duplicate_replaces_are_decoded() {
    let server = start().await;
    let path = format!("{NAMESPACE}/pods?dryRun=All&fieldValidation=Strict");
    let cases = [
        (
            r#""containers": [{"name": "a", "image": "a", "xx": 1}], "containers": [{"name": "a", "image": "a"}]"#,
            r#"strict decoding error: unknown field "spec.containers[0].xx", duplicate field "spec.containers""#,
        ),
        (
            r#""containers": [{"name": "a", "image": "a", "xx": 1}, {"yy": 1}], "containers": [{"name": "a", "image": "a", "zz": 1}]"#,
            r#"strict decoding error: unknown field "spec.containers[0].xx", unknown field "spec.containers[1].yy", duplicate field "spec.containers", unknown field "spec.containers[0].zz""#,
        ),
        (
            r#""containers": [{"name": "a", "xx": 1}], "containers": null"#,
            r#"strict decoding error: unknown field "spec.containers[0].xx", duplicate field "spec.containers""#,
        ),
        (
            r#""containers": 5, "containers": [{"name": "a", "image": "a"}]"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            r#""nodeSelector": {"a": 5}, "nodeSelector": {"a": "b"}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeSelector of type string",
        ),
    ];
    for (spec, why) in cases {
        let body = format!(r#"{{"metadata": {{"name": "p"}}, "spec": {{{spec}}}}}"#);
        let request = http::Request::post(&path)
            .header("content-type", "application/json")
            .body(http_body_util::Full::new(bytes::Bytes::from(body)))
            .unwrap();
        let response = tower::ServiceExt::oneshot(server.clone(), request).await.unwrap();
        let body = http_body_util::BodyExt::collect(response.into_body());
        let bytes = body.await.unwrap().to_bytes();
        let status: Value = serde_json::from_slice(&bytes).unwrap();
        let message = status["message"].as_str().unwrap();
        assert!(message.ends_with(why), "{message} does not end with {why}");
    }
}

#[tokio::test]
async fn the_families_of_a_changed_service_are_checked_before_its_addresses() {
    let server = start().await;
    let services = format!("{NAMESPACE}/services");
    let ports = json!([{"port": 1}]);
    for (name, address) in [("a", Value::Null), ("headless", json!("None"))] {
        let service = json!({"metadata": {"name": name}, "spec": {"ports": ports, "clusterIP": address}});
        post(&server, &services, service).await.is_done();
    }
    let cases = [
        (
            "a",
            json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"], "ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            "a",
            json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"], "ipFamilies": null}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        ),
        (
            "a",
            json!({"clusterIP": "10.0.0.77", "clusterIPs": ["10.0.0.77", "fd00::1"]}),
            "[spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified, spec.clusterIPs[1]: Invalid value: [\"10.0.0.77\",\"fd00::1\"]: IPv6 is not configured on this cluster]",
        ),
        (
            "a",
            json!({"clusterIP": "10.0.0.77", "ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (
            "a",
            json!({"type": "NodePort", "clusterIP": "None"}),
            "[spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set, spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services]",
        ),
        (
            "headless",
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary IP family",
        ),
        (
            "headless",
            json!({"clusterIP": "10.0.0.77"}),
            "[spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services, spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured on this cluster]",
        ),
    ];
    for (name, spec, why) in cases {
        let refused = merge(&server, &format!("{services}/{name}"), json!({"spec": spec})).await;
        refused.is_refused(422, &format!("Service \"{name}\" is invalid: {why}"));
    }
}

#[tokio::test]
async fn empty_lists_and_maps_differ_from_missing_ones_where_a_real_server_compares_with_nil() {
    let server = start().await;
    let pods = format!("{NAMESPACE}/pods");
    let with = |field: &str, value: Value| {
        let mut pod = pod("p");
        pod["spec"][field] = value;
        pod
    };
    let claims = "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level";
    post(&server, &pods, with("resources", json!({"claims": []})))
        .await
        .is_refused(422, claims);
    post(&server, &pods, with("overhead", json!({})))
        .await
        .is_refused(
            403,
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        );
    let template = json!({
        "metadata": {"name": "t"},
        "spec": {
            "metadata": {"ownerReferences": [], "finalizers": []},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
        },
    });
    let templates = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
    post(&server, templates, template).await.is_refused(
        422,
        "[spec.metadata.ownerReferences: Forbidden: cannot be set, spec.metadata.finalizers: Forbidden: cannot be set]",
    );

    // In a container and in the template of a workload they are not stored.
    let mut stored = pod("stored");
    stored["spec"]["containers"][0]["resources"] = json!({"claims": []});
    let created = post(&server, &pods, stored).await;
    created.is_done();
    assert_eq!(created.body["spec"]["containers"][0]["resources"], json!({}));
    let changed = merge(
        &server,
        &format!("{pods}/stored"),
        json!({"spec": {"overhead": {}}}),
    )
    .await;
    changed.is_done();
    assert_eq!(changed.body["spec"]["overhead"], Value::Null);
    assert!(
        !changed.body["metadata"]["managedFields"]
            .to_string()
            .contains("f:overhead")
    );
}

#[tokio::test]
async fn empty_lists_and_maps_increment_the_generation_of_webhooks_and_network_policies() {
    let server = start().await;
    let webhook = json!({
        "name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1"},
        "rules": [{"apiGroups": ["x"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["xs"]}],
    });
    let mut empty = webhook.clone();
    empty["matchConditions"] = json!([]);
    empty["namespaceSelector"] = json!({"matchLabels": {}});
    for kind in ["validating", "mutating"] {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
        let made = json!({"metadata": {"name": "w"}, "webhooks": [webhook]});
        post(&server, &path, made).await.is_done();
        let path = format!("{path}/w");
        for (webhooks, generation) in [(&webhook, 1), (&empty, 2), (&empty, 3), (&webhook, 3)] {
            let changed = merge(&server, &path, json!({"webhooks": [webhooks]})).await.body;
            assert_eq!(changed["metadata"]["generation"], generation, "{changed}");
            let stored = &changed["webhooks"][0];
            assert_eq!(stored["matchConditions"], Value::Null);
            assert_eq!(stored["namespaceSelector"], json!({}));
        }
        let reset = merge(&server, &path, json!({"metadata": {"managedFields": []}})).await;
        assert_eq!(reset.body["metadata"]["managedFields"], Value::Null);
    }
    let policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let policy = json!({"metadata": {"name": "n"}, "spec": {"podSelector": {}}});
    post(&server, policies, policy).await.is_done();
    for (spec, generation) in [
        (json!({"ingress": []}), 2),
        (json!({"podSelector": {"matchLabels": {}}}), 3),
        (json!({"policyTypes": []}), 3),
        (json!({}), 3),
    ] {
        let changed = merge(&server, &format!("{policies}/n"), json!({"spec": spec}))
            .await
            .body;
        assert_eq!(changed["metadata"]["generation"], generation, "{changed}");
    }
}

#[tokio::test]
async fn a_quota_with_an_invalid_value_of_a_scope_is_an_error_of_the_server() {
    let server = start().await;
    for (scope, hard, path, object) in [
        ("PriorityClass", "pods", "pods", pod("p")),
        (
            "VolumeAttributesClass",
            "persistentvolumeclaims",
            "persistentvolumeclaims",
            json!({
                "metadata": {"name": "c"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
            }),
        ),
    ] {
        let quotas = format!("{NAMESPACE}/resourcequotas");
        let selector =
            json!({"matchExpressions": [{"scopeName": scope, "operator": "In", "values": ["ok", "_"]}]});
        let quota =
            json!({"metadata": {"name": "q"}, "spec": {"hard": {hard: "1"}, "scopeSelector": selector}});
        post(&server, &quotas, quota).await.is_done();
        let refused = post(&server, &format!("{NAMESPACE}/{path}"), object).await;
        assert_eq!(refused.code, 500, "{}", refused.body);
        let start = format!(
            "error matching scopes of quota q, err: error on matching scope {{{scope} In [ok _]}}: failed to parse and convert selector: values[1][{scope}]: Invalid value: \"_\": a valid label must be"
        );
        assert!(refused.message().starts_with(&start), "{}", refused.message());
        let deleted = asking::delete(&server, &format!("{quotas}/q")).await;
        deleted.is_done();
        post(
            &server,
            &format!("{NAMESPACE}/configmaps"),
            json!({"metadata": {"name": scope.to_lowercase()}}),
        )
        .await
        .is_done();
    }
}

#[tokio::test]
async fn the_type_checking_of_a_policy_is_validated() {
    let server = start().await;
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["xs"]});
    let policy = json!({
        "metadata": {"name": "p"},
        "spec": {"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [rule]}},
    });
    post(&server, policies, policy).await.is_done();
    let path = "status.typeChecking.expressionWarnings[0]";
    for (reference, why) in [
        ("", "fieldRef: Required value"),
        (
            "-a",
            "fieldRef: Invalid value: \"-a\": invalid JSONPath: cannot parse number -",
        ),
        (
            "a[",
            "fieldRef: Invalid value: \"a[\": invalid JSONPath: unterminated array",
        ),
        (
            "{.a}",
            "fieldRef: Invalid value: \"{.a}\": invalid JSONPath: unrecognized character in action: U+007B '{'",
        ),
    ] {
        let status =
            json!({"typeChecking": {"expressionWarnings": [{"fieldRef": reference, "warning": "w"}]}});
        let refused = merge(
            &server,
            &format!("{policies}/p/status"),
            json!({"status": status}),
        )
        .await;
        refused.is_refused(422, &format!("{path}.{why}"));
    }
    for reference in ["spec.validations[0].expression", "1.5", "a b", "kubernetes.io/x"] {
        let status =
            json!({"typeChecking": {"expressionWarnings": [{"fieldRef": reference, "warning": "w"}]}});
        let changed = merge(
            &server,
            &format!("{policies}/p/status"),
            json!({"status": status}),
        )
        .await;
        changed.is_done();
    }
}

#[tokio::test]
async fn an_applied_object_is_converted_before_its_duplicate_fields_are_reported() {
    let server = start().await;
    let path = "/api/v1/persistentvolumes/v?fieldManager=a&fieldValidation=Strict";
    let config = |amount: &str| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {{"name": "v"}}, "spec": {{"accessModes": ["ReadOnlyMany"], "capacity": {{"storage": "{amount}", "storage": "{amount}"}}, "nfs": {{"path": "/", "server": "s"}}}}}}"#
        )
    };
    for (amount, code, start) in [
        ("x", 500, "failed to convert new object"),
        ("1Gi", 400, "error strict decoding YAML"),
    ] {
        let request = http::Request::patch(path)
            .header("content-type", "application/apply-patch+yaml")
            .body(http_body_util::Full::new(bytes::Bytes::from(config(amount))))
            .unwrap();
        let response = tower::ServiceExt::oneshot(server.clone(), request).await.unwrap();
        assert_eq!(response.status(), code);
        let body = http_body_util::BodyExt::collect(response.into_body());
        let status: Value = serde_json::from_slice(&body.await.unwrap().to_bytes()).unwrap();
        let message = status["message"].as_str().unwrap();
        assert!(message.starts_with(start), "{message}");
    }
}

#[tokio::test]
async fn a_dry_run_shows_the_given_link() {
    let server = start().await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "selfLink": "x"}});
    for (query, link) in [("&dryRun=All", json!("x")), ("", Value::Null)] {
        let path = format!("{NAMESPACE}/configmaps/c?fieldManager=a{query}");
        let applied = send(
            &server,
            Method::PATCH,
            &path,
            "application/apply-patch+yaml",
            &config,
        )
        .await;
        applied.is_done();
        assert_eq!(applied.body["metadata"]["selfLink"], link, "{query}");
    }
    let link = json!({"metadata": {"selfLink": "y"}});
    for (query, wanted) in [("?dryRun=All", json!("y")), ("", Value::Null)] {
        let patched = merge(&server, &format!("{NAMESPACE}/configmaps/c{query}"), link.clone()).await;
        assert_eq!(patched.body["metadata"]["selfLink"], wanted, "{query}");
    }
}

#[tokio::test]
async fn a_new_pod_keeps_a_given_class_of_its_quality_of_service() {
    let server = start().await;
    let mut pod = pod("p");
    pod["status"] = json!({"qosClass": "Guaranteed", "phase": "Running"});
    let created = post(&server, &format!("{NAMESPACE}/pods"), pod).await;
    created.is_done();
    assert_eq!(
        created.body["status"],
        json!({"phase": "Pending", "qosClass": "Guaranteed"})
    );
}

#[tokio::test]
async fn the_resources_of_a_pod_determine_its_class_even_if_they_are_empty() {
    let server = start().await;
    let mut pod = pod("p");
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    pod["spec"]["resources"] = json!({});
    let created = post(&server, &format!("{NAMESPACE}/pods"), pod).await;
    created.is_done();
    assert_eq!(created.body["status"]["qosClass"], "BestEffort");
}

#[tokio::test]
async fn a_stop_signal_of_an_ephemeral_container_is_dropped() {
    let server = start().await;
    let pods = format!("{NAMESPACE}/pods");
    post(&server, &pods, pod("p")).await.is_done();
    let container = json!({
        "name": "e", "image": "i", "terminationMessagePolicy": "File", "lifecycle": {"stopSignal": "SIGUSR2"},
    });
    let containers = json!({"spec": {"ephemeralContainers": [container]}});
    let changed = merge(&server, &format!("{pods}/p/ephemeralcontainers"), containers).await;
    changed.is_done();
    assert_eq!(
        changed.body["spec"]["ephemeralContainers"][0]["lifecycle"],
        Value::Null
    );
}

#[tokio::test]
async fn an_unavailable_format_of_a_deprecated_kind_has_its_warning() {
    let server = start().await;
    for (accept, warns) in [
        ("application/json;as=Foo;v=v1;g=meta.k8s.io", true),
        ("application/xml", false),
    ] {
        let request = http::Request::get(format!("{NAMESPACE}/endpoints"))
            .header("accept", accept)
            .body(http_body_util::Full::new(bytes::Bytes::new()))
            .unwrap();
        let response = tower::ServiceExt::oneshot(server.clone(), request).await.unwrap();
        assert_eq!(response.status(), 406);
        assert_eq!(response.headers().contains_key("warning"), warns, "{accept}");
    }
}

#[tokio::test]
async fn the_attacher_of_a_changed_attachment_is_checked_before_its_source() {
    let server = start().await;
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let attachment = json!({
        "metadata": {"name": "a"},
        "spec": {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "p"}},
    });
    post(&server, attachments, attachment).await.is_done();
    let spec = json!({"attacher": "*", "source": {"persistentVolumeName": null}});
    let refused = merge(&server, &format!("{attachments}/a"), json!({"spec": spec})).await;
    let causes = refused.body["details"]["causes"].as_array().unwrap().iter();
    let fields: Vec<&str> = causes.map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["spec.attacher", "spec.source", "spec"]);
}

#[tokio::test]
async fn an_object_whose_type_is_not_a_string_is_not_recognized() {
    let server = start().await;
    let maps = format!("{NAMESPACE}/configmaps");
    let why = |field: &str| {
        format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .{field} of type string"
        )
    };
    for field in ["kind", "apiVersion"] {
        let body = json!({field: 5});
        for (path, kind) in [
            (maps.as_str(), "ConfigMap"),
            (
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                "SelfSubjectAccessReview",
            ),
            ("/api/v1/namespaces/default/pods/p/binding", "Binding"),
        ] {
            let refused = post(&server, path, body.clone()).await;
            let start = format!(
                "the object provided is unrecognized (must be of type {kind}): {}",
                why(field)
            );
            assert_eq!(refused.code, 400, "{path}: {}", refused.body);
            assert!(refused.message().starts_with(&start), "{}", refused.message());
        }
    }
    post(&server, &maps, json!({"metadata": {"name": "c"}}))
        .await
        .is_done();
    let refused = merge(&server, &format!("{maps}/c"), json!({"kind": 5})).await;
    refused.is_refused(422, &why("kind"));
}

#[tokio::test]
async fn errors_of_nested_types_name_the_embedded_struct() {
    let server = start().await;
    let cases = [
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            json!({"spec": {"volumeClaimTemplates": [{"kind": 5}]}}),
            "PersistentVolumeClaim.spec.volumeClaimTemplates.TypeMeta.kind of type string",
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            json!({"webhooks": [{"rules": [{"apiGroups": 5}]}]}),
            "RuleWithOperations.webhooks.rules.Rule.apiGroups of type []string",
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            json!({"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": 5}]}}}),
            "NamedRuleWithOperations.spec.matchConstraints.resourceRules.RuleWithOperations.Rule.apiGroups of type []string",
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            json!({"spec": {"rules": [{"http": {"paths": 5}}]}}),
            "HTTPIngressRuleValue.spec.rules.IngressRuleValue.http.paths of type []v1.HTTPIngressPath",
        ),
        (
            "/apis/resource.k8s.io/v1/deviceclasses",
            json!({"spec": {"config": [{"opaque": {"driver": 5}}]}}),
            "OpaqueDeviceConfiguration.spec.config.DeviceConfiguration.opaque.driver of type string",
        ),
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            json!({"spec": {"user": "u", "extra": {"k": 5}}}),
            "SubjectAccessReviewSpec.spec.extra of type v1.ExtraValue",
        ),
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            json!({"spec": {"user": "u", "extra": {"k": [5]}}}),
            "SubjectAccessReviewSpec.spec.extra of type string",
        ),
    ];
    for (path, body, field) in cases {
        let why = format!("json: cannot unmarshal number into Go struct field {field}");
        post(&server, path, body).await.is_refused(400, &why);
    }
}

#[tokio::test]
async fn names_of_init_containers_are_compared_with_those_of_containers() {
    let server = start().await;
    let pods = format!("{NAMESPACE}/pods");
    let named = |name: &str| json!({"name": name, "image": "i"});
    let fields = async |containers: Value, init: Value| {
        let spec = json!({"containers": containers, "initContainers": init});
        let refused = post(&server, &pods, json!({"metadata": {"name": "p"}, "spec": spec})).await;
        let causes = refused.body["details"]["causes"].as_array().unwrap().iter();
        let texts = causes.map(|cause| {
            let (field, reason) = (
                cause["field"].as_str().unwrap(),
                cause["reason"].as_str().unwrap(),
            );
            format!("{field} {reason}")
        });
        texts.collect::<Vec<String>>()
    };
    assert_eq!(
        fields(json!([named("")]), json!([named("")])).await,
        [
            "spec.containers[0].name FieldValueRequired",
            "spec.initContainers[0].name FieldValueRequired",
            "spec.initContainers[0].name FieldValueDuplicate",
        ]
    );
    assert_eq!(
        fields(json!([named("a")]), json!([named(""), named("")])).await,
        [
            "spec.initContainers[0].name FieldValueRequired",
            "spec.initContainers[1].name FieldValueRequired",
        ]
    );
}

#[tokio::test]
async fn a_resize_keeps_the_class_and_validates_the_whole_pod() {
    let server = start().await;
    let pods = format!("{NAMESPACE}/pods");
    post(&server, &pods, pod("p")).await.is_done();
    let containers = json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]);
    let refused = merge(
        &server,
        &format!("{pods}/p/resize"),
        json!({"spec": {"containers": containers}}),
    )
    .await;
    refused.is_refused(
        422,
        "spec: Invalid value: \"BestEffort\": Pod QOS Class may not change as a result of resizing",
    );
    let other = json!({"metadata": {"labels": {"a": "_"}}, "spec": {"initContainers": [{"name": "v"}]}});
    let refused = merge(&server, &format!("{pods}/p/resize"), other).await;
    let causes = refused.body["details"]["causes"].as_array().unwrap().iter();
    let labels = causes.filter(|cause| cause["field"] == "metadata.labels");
    assert_eq!(labels.count(), 4);
}

#[tokio::test]
async fn an_update_without_node_ports_keeps_them_only_if_they_are_allocated() {
    let server = start().await;
    let services = format!("{NAMESPACE}/services");
    let spec = |kind: &str, allocates: Value, port: Value| {
        let mut spec = json!({"type": kind, "ports": [{"port": 80, "nodePort": port}]});
        if kind == "LoadBalancer" {
            spec["allocateLoadBalancerNodePorts"] = allocates;
        }
        spec
    };
    let (manual, automatic) = (json!(false), json!(true));
    let cases = [
        (("LoadBalancer", &automatic), ("LoadBalancer", &automatic), true),
        (("LoadBalancer", &manual), ("LoadBalancer", &manual), false),
        (("LoadBalancer", &automatic), ("LoadBalancer", &manual), false),
        (("LoadBalancer", &manual), ("NodePort", &manual), false),
        (("NodePort", &manual), ("LoadBalancer", &automatic), true),
    ];
    for (index, ((kind, allocates), (new_kind, new_allocates), keeps)) in cases.into_iter().enumerate() {
        let (name, port) = (format!("s{index}"), json!(30500 + index));
        let service = |spec: Value| json!({"metadata": {"name": name}, "spec": spec});
        let made = service(spec(kind, allocates.clone(), port.clone()));
        post(&server, &services, made).await.is_done();
        let changed = service(spec(new_kind, new_allocates.clone(), Value::Null));
        let changed = put(&server, &format!("{services}/{name}"), changed).await;
        changed.is_done();
        assert_eq!(
            changed.body["spec"]["ports"][0]["nodePort"] == port,
            keeps,
            "{kind} {allocates} to {new_kind} {new_allocates}"
        );
    }
}

#[tokio::test]
async fn a_second_delete_of_a_pod_can_have_another_policy() {
    let server = start().await;
    let pods = format!("{NAMESPACE}/pods");
    let finalizers = |answer: &Answer| answer.body["metadata"]["finalizers"].clone();
    let delete = async |name: &str, options: Value| {
        let path = format!("{pods}/{name}");
        send(&server, Method::DELETE, &path, "application/json", &options).await
    };
    // The deletion of a pod without a node has no grace period.
    post(&server, &pods, pod("a")).await.is_done();
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let deleted = delete("a", json!({"propagationPolicy": policy})).await;
        assert_eq!(finalizers(&deleted), json!([finalizer]));
    }
    delete("a", json!({"propagationPolicy": "Background"}))
        .await
        .is_done();
    assert_eq!(get(&server, &format!("{pods}/a")).await.code, 404);

    let mut bound = pod("b");
    bound["spec"]["nodeName"] = json!("n");
    post(&server, &pods, bound).await.is_done();
    for (options, wanted) in [
        (
            json!({"propagationPolicy": "Foreground"}),
            json!(["foregroundDeletion"]),
        ),
        (
            json!({"propagationPolicy": "Background"}),
            json!(["foregroundDeletion"]),
        ),
        (
            json!({"propagationPolicy": "Background", "gracePeriodSeconds": 1}),
            Value::Null,
        ),
    ] {
        let deleted = delete("b", options.clone()).await;
        assert_eq!(finalizers(&deleted), wanted, "{options}");
    }
}

#[tokio::test]
async fn a_patch_of_an_older_autoscaler_does_not_change_its_status() {
    let server = start().await;
    let scalers = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let scaler = json!({
        "metadata": {"name": "s"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
    });
    post(&server, scalers, scaler).await.is_done();
    let status = json!({"status": {"currentCPUUtilizationPercentage": 50, "currentReplicas": 1, "desiredReplicas": 1}});
    let changed = merge(&server, &format!("{scalers}/s"), status.clone()).await;
    changed.is_done();
    assert_eq!(
        changed.body["metadata"]["annotations"],
        Value::Null,
        "{}",
        changed.body
    );
    assert_eq!(
        changed.body["status"]["currentCPUUtilizationPercentage"],
        Value::Null
    );
    let changed = merge(&server, &format!("{scalers}/s/status"), status).await;
    assert_eq!(changed.body["status"]["currentCPUUtilizationPercentage"], 50);
    let changed = merge(
        &server,
        &format!("{scalers}/s"),
        json!({"metadata": {"labels": {"a": "b"}}}),
    )
    .await;
    assert_eq!(changed.body["status"]["currentCPUUtilizationPercentage"], 50);
}

#[tokio::test]
async fn a_device_keeps_a_false_flag() {
    let server = start().await;
    let slice = json!({
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d.example.com", "nodeName": "n",
            "pool": {"generation": 1, "name": "p", "resourceSliceCount": 1},
            "devices": [{
                "name": "a", "bindsToNode": false, "allowMultipleAllocations": false,
                "nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "a"}},
            }],
        },
    });
    let path = "/apis/resource.k8s.io/v1/resourceslices";
    let made = post(&server, path, slice).await;
    made.is_done();
    assert_eq!(
        made.body["spec"]["devices"],
        json!([{"name": "a", "bindsToNode": false, "allowMultipleAllocations": false}])
    );
    let refused = get(&server, &format!("{path}?fieldSelector=nope=1")).await;
    refused.is_refused(
        400,
        "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: nope",
    );
}

#[tokio::test]
async fn a_projection_has_one_source() {
    let server = start().await;
    let pods = format!("{NAMESPACE}/pods?dryRun=All");
    let (map, token) = (json!({"name": "c"}), json!({"path": "x"}));
    for (source, wanted) in [
        (json!({"configMap": map, "serviceAccountToken": token}), 1),
        (json!({"configMap": map, "secret": map}), 1),
        (
            json!({"configMap": map, "secret": map, "serviceAccountToken": token}),
            2,
        ),
        (json!({"serviceAccountToken": token}), 0),
    ] {
        let mut pod = pod("p");
        pod["spec"]["volumes"] = json!([{"name": "v", "projected": {"sources": [source]}}]);
        let answer = post(&server, &pods, pod).await;
        let causes = answer.body["details"]["causes"].as_array().map_or(0, Vec::len);
        assert_eq!(causes, wanted, "{}", answer.body);
    }
}
