//! Behaviour of a real kube-apiserver that suites of other people's tests rely on.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;

use asking::{delete, get, merge, post, send};
use http::Method;
use operator_apiserver::ApiServer;
use serde_json::{Value, json};

const NAMESPACE: &str = "/api/v1/namespaces/default";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(group: &str) -> Value {
    json!({
        "metadata": {"name": format!("ws.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "ws", "kind": "W"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
        }]},
    })
}

/// Returns the status, the reason and the message of a condition.
async fn condition(server: &ApiServer, name: &str, kind: &str) -> Vec<String> {
    let definition = get(server, &format!("{DEFINITIONS}/{name}")).await.body;
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    let fields = ["status", "reason", "message"].iter();
    let texts = fields.filter_map(|field| Some(found?[*field].as_str()?.to_owned()));
    texts.collect()
}

#[tokio::test]
async fn a_definition_of_a_protected_group_shows_its_approval() {
    let server = ApiServer::builder().build().unwrap();
    for (group, annotation, expected) in [
        (
            "a.k8s.io",
            "https://example.com/1",
            ["True", "ApprovedAnnotation", "approved in https://example.com/1"],
        ),
        (
            "b.k8s.io",
            "unapproved, a test",
            [
                "False",
                "UnapprovedAnnotation",
                "not approved: \"unapproved, a test\"",
            ],
        ),
    ] {
        let mut definition = definition(group);
        definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": annotation});
        post(&server, DEFINITIONS, definition).await.is_done();
        let kind = "KubernetesAPIApprovalPolicyConformant";
        assert_eq!(condition(&server, &format!("ws.{group}"), kind).await, expected);
    }
    post(&server, DEFINITIONS, definition("c.example.com"))
        .await
        .is_done();
    let kind = "KubernetesAPIApprovalPolicyConformant";
    assert!(condition(&server, "ws.c.example.com", kind).await.is_empty());
}

#[tokio::test]
async fn a_definition_whose_webhook_has_an_unusable_bundle_is_not_established() {
    let server = ApiServer::builder().build().unwrap();
    let mut definition = definition("example.com");
    let client = json!({"url": "https://localhost/x", "caBundle": "Y2EK"});
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}});
    post(&server, DEFINITIONS, definition).await.is_done();
    assert_eq!(
        condition(&server, "ws.example.com", "Established").await,
        [
            "False",
            "InvalidCABundle",
            "The conversion webhook CABundle is invalid"
        ]
    );
    let resources = "/apis/example.com/v1/namespaces/default/ws";
    assert_eq!(code(&server, resources).await, 404);
    let none = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}});
    merge(&server, &format!("{DEFINITIONS}/ws.example.com"), none)
        .await
        .is_done();
    assert_eq!(
        condition(&server, "ws.example.com", "Established").await[0],
        "True"
    );
    assert_eq!(code(&server, resources).await, 200);
}

async fn code(server: &ApiServer, path: &str) -> u16 {
    let request = http::Request::get(path)
        .body(http_body_util::Full::new(bytes::Bytes::new()))
        .unwrap();
    let response = tower::ServiceExt::oneshot(server.clone(), request).await.unwrap();
    response.status().as_u16()
}

#[tokio::test]
async fn finalizers_of_custom_resources_without_a_domain_have_a_warning() {
    let server = ApiServer::builder().build().unwrap();
    post(&server, DEFINITIONS, definition("example.com"))
        .await
        .is_done();
    let resources = "/apis/example.com/v1/namespaces/default/ws";
    let resource = json!({
        "apiVersion": "example.com/v1", "kind": "W", "metadata": {"name": "a", "finalizers": ["x", "example.com/y"]},
    });
    let warning = |name: &str| {
        format!(
            "299 - \"metadata.finalizers: \\\"{name}\\\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers\""
        )
    };
    let made = post(&server, resources, resource).await;
    assert_eq!(made.warnings, [warning("x")]);
    let more = json!({"metadata": {"finalizers": ["x", "z"]}});
    let changed = merge(&server, &format!("{resources}/a"), more).await;
    assert_eq!(changed.warnings, [warning("z")]);
}

#[tokio::test]
async fn node_ports_stay_when_no_more_are_allocated() {
    let server = ApiServer::builder().build().unwrap();
    let service = json!({"metadata": {"name": "s"}, "spec": {
        "type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30777}],
    }});
    post(&server, &format!("{NAMESPACE}/services"), service)
        .await
        .is_done();
    let manual = json!({"spec": {"allocateLoadBalancerNodePorts": false}});
    let changed = merge(&server, &format!("{NAMESPACE}/services/s"), manual).await;
    assert_eq!(changed.body["spec"]["ports"][0]["nodePort"], 30777);
}

#[tokio::test]
async fn a_namespace_with_a_generated_name_has_it_as_a_label() {
    let server = ApiServer::builder().build().unwrap();
    let namespace = json!({"metadata": {"generateName": "test-"}});
    let made = post(&server, "/api/v1/namespaces", namespace).await.body;
    let metadata = &made["metadata"];
    assert_eq!(
        metadata["labels"]["kubernetes.io/metadata.name"],
        metadata["name"]
    );
}

#[tokio::test]
async fn a_resize_changes_only_cpu_and_memory() {
    let server = ApiServer::builder().build().unwrap();
    let account = json!({"metadata": {"name": "default"}});
    post(&server, &format!("{NAMESPACE}/serviceaccounts"), account)
        .await
        .is_done();
    let requests = json!({"cpu": "1", "ephemeral-storage": "1Gi"});
    let containers = json!([{"name": "c", "image": "i", "resources": {"requests": requests}}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    post(&server, &format!("{NAMESPACE}/pods"), pod).await.is_done();
    let resize = async |requests: Value| {
        let containers = json!([{"name": "c", "image": "i", "resources": {"requests": requests}}]);
        let path = format!("{NAMESPACE}/pods/p/resize");
        merge(&server, &path, json!({"spec": {"containers": containers}})).await
    };
    resize(json!({"cpu": "2", "ephemeral-storage": "1Gi"}))
        .await
        .is_done();
    resize(json!({"cpu": "2", "ephemeral-storage": "2Gi"}))
        .await
        .is_refused(422, "spec: Forbidden: only cpu and memory resources are mutable");
    resize(json!({"cpu": "2"})).await.is_refused(
        422,
        "[spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed, spec: Forbidden: only cpu and memory resources are mutable]",
    );
}

#[tokio::test]
async fn the_version_of_the_core_group_may_have_a_slash() {
    let server = ApiServer::builder().build().unwrap();
    let map = json!({"apiVersion": "/v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let made = post(&server, &format!("{NAMESPACE}/configmaps"), map).await;
    made.is_done();
    assert_eq!(made.body["apiVersion"], "v1");
}

#[tokio::test]
async fn paths_with_empty_segments_are_not_found() {
    let server = ApiServer::builder().build().unwrap();
    for path in [
        "/api//v1/namespaces",
        "/api/v1//namespaces",
        "/apis/apps//v1/deployments",
        "/api/v1/namespaces/default//pods",
    ] {
        get(&server, path)
            .await
            .is_refused(404, "the server could not find the requested resource");
    }
    assert_eq!(get(&server, "/api/v1/namespaces/").await.code, 200);
}

#[tokio::test]
async fn storage_versions_have_the_hashes_of_a_real_server() {
    let server = ApiServer::builder().build().unwrap();
    for (group, resource, hash) in [
        (
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "jfWCUB31mvA=",
        ),
        (
            "admissionregistration.k8s.io",
            "mutatingadmissionpolicies",
            "LYmCf+UMVdg=",
        ),
        (
            "admissionregistration.k8s.io",
            "mutatingadmissionpolicybindings",
            "90V5FRZZ3Zg=",
        ),
        (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicies",
            "6OxvlMmQ6is=",
        ),
    ] {
        let list = get(&server, &format!("/apis/{group}/v1")).await.body;
        let resources = list["resources"].as_array().unwrap();
        let found = resources.iter().find(|known| known["name"] == resource);
        assert_eq!(found.unwrap()["storageVersionHash"], hash, "{resource}");
    }
}

#[tokio::test]
async fn a_gated_pod_gets_its_first_node_affinity() {
    let server = ApiServer::builder().build().unwrap();
    let account = json!({"metadata": {"name": "default"}});
    post(&server, &format!("{NAMESPACE}/serviceaccounts"), account)
        .await
        .is_done();
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "schedulingGates": [{"name": "a"}], "containers": [{"name": "c", "image": "i"}],
    }});
    post(&server, &format!("{NAMESPACE}/pods"), pod).await.is_done();
    let expression = |key: &str| json!({"key": key, "operator": "Exists"});
    let set = async |expressions: Value| {
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        let path = format!("{NAMESPACE}/pods/p");
        merge(&server, &path, json!({"spec": {"affinity": affinity}})).await
    };
    set(json!([expression("a")])).await.is_done();
    set(json!([expression("a"), expression("b")])).await.is_done();
    let refused = set(json!([expression("b")])).await;
    let why = "only additions are allowed (no mutations or deletions)";
    assert!(refused.message().ends_with(why), "{}", refused.message());
}

#[tokio::test]
async fn selectable_fields_are_in_openapi() {
    let server = ApiServer::builder().build().unwrap();
    let mut definition = definition("example.com");
    definition["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.a"}]);
    definition["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string"}}},
    }}});
    post(&server, DEFINITIONS, definition).await.is_done();
    let document = get(&server, "/openapi/v3/apis/example.com/v1").await.body;
    let schemas = &document["components"]["schemas"];
    let expected = json!([{"fieldPath": "spec.a"}]);
    for name in ["com.example.v1.W", "com.example.v1.WList"] {
        assert_eq!(schemas[name]["x-kubernetes-selectable-fields"], expected);
    }
}

#[tokio::test]
async fn the_strategy_of_a_stateful_set_is_shown_as_its_struct() {
    let server = ApiServer::builder().build().unwrap();
    let set = json!({"metadata": {"name": "a"}, "spec": {
        "serviceName": "s", "selector": {"matchLabels": {"a": "b"}},
        "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    post(&server, "/apis/apps/v1/namespaces/default/statefulsets", set)
        .await
        .is_refused(
            422,
            "Invalid value: {\"Partition\":1,\"MaxUnavailable\":null}: only allowed for updateStrategy 'RollingUpdate'",
        );
}

/// Deletes an object with a propagation policy.
async fn delete_with(server: &ApiServer, path: &str, policy: &str, dry_run: bool) -> Value {
    let dry_run: &[&str] = if dry_run { &["All"] } else { &[] };
    let options = json!({"propagationPolicy": policy, "dryRun": dry_run});
    let answer = send(server, Method::DELETE, path, "application/json", &options).await;
    answer.is_done();
    answer.body
}

#[tokio::test]
async fn a_dry_run_returns_an_empty_object_if_the_policy_removes_the_last_finalizer() {
    let server = ApiServer::builder().build().unwrap();
    post(&server, DEFINITIONS, definition("example.com"))
        .await
        .is_done();
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let no_template = json!({"metadata": {}, "spec": {"containers": null}});
    for (path, object, expected) in [
        (
            "/api/v1/namespaces/default/configmaps",
            json!({}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
        ),
        (
            "/apis/example.com/v1/namespaces/default/ws",
            json!({"apiVersion": "example.com/v1", "kind": "W"}),
            json!({"apiVersion": "example.com/v1", "kind": "W"}),
        ),
        (
            "/apis/apps/v1/namespaces/default/replicasets",
            json!({"spec": spec}),
            json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {},
                "spec": {"replicas": 0, "selector": null, "template": no_template}, "status": {"replicas": 0},
            }),
        ),
        (
            "/apis/apps/v1/namespaces/default/daemonsets",
            json!({"spec": spec}),
            json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": {"annotations": {"deprecated.daemonset.template.generation": "0"}},
                "spec": {"selector": null, "template": no_template, "updateStrategy": {}},
                "status": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
            }),
        ),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": "a", "finalizers": ["orphan"]});
        post(&server, path, object).await.is_done();
        let path = format!("{path}/a");
        assert_eq!(delete_with(&server, &path, "Background", true).await, expected);
        let kept = delete_with(&server, &path, "Orphan", true).await;
        assert_eq!(kept["metadata"]["finalizers"], json!(["orphan"]));
    }
}

#[tokio::test]
async fn the_first_delete_of_a_definition_ignores_the_policy() {
    let server = ApiServer::builder().build().unwrap();
    for policy in ["Foreground", "Orphan", "Background"] {
        post(&server, DEFINITIONS, definition("example.com"))
            .await
            .is_done();
        let path = format!("{DEFINITIONS}/ws.example.com");
        let marked = delete_with(&server, &path, policy, false).await;
        let cleanup = json!(["customresourcecleanup.apiextensions.k8s.io"]);
        assert_eq!(marked["metadata"]["finalizers"], cleanup);
        assert_eq!(get(&server, &path).await.code, 404, "{policy}");
    }

    let mut held = definition("example.com");
    held["metadata"]["finalizers"] = json!(["orphan"]);
    post(&server, DEFINITIONS, held).await.is_done();
    let path = format!("{DEFINITIONS}/ws.example.com");
    delete_with(&server, &path, "Background", false).await;
    let waiting = get(&server, &path).await.body;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["orphan"]));
    assert_eq!(waiting["metadata"].get("deletionGracePeriodSeconds"), None);
    assert_eq!(
        condition(&server, "ws.example.com", "Terminating").await,
        ["False", "InstanceDeletionCompleted", "removed all instances"]
    );
    let instance = json!({"apiVersion": "example.com/v1", "kind": "W", "metadata": {"name": "a"}});
    let instances = "/apis/example.com/v1/namespaces/default/ws";
    post(&server, instances, instance).await.is_done();
    assert_eq!(get(&server, &format!("{instances}/a")).await.code, 200);

    let again = delete_with(&server, &path, "Foreground", false).await;
    assert_eq!(again["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(again["metadata"]["deletionGracePeriodSeconds"], 0);
    let last = delete_with(&server, &path, "Background", false).await;
    assert_eq!(last["kind"], "Status");
    delete(&server, &path)
        .await
        .is_refused(404, "\"ws.example.com\" not found");
}
