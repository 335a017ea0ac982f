//! Tests of ResourceQuota.

use operator_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::asking::{get, merge, post};
use crate::{HERE, named, pod, server};

const QUOTA: &str = "/api/v1/namespaces/default/resourcequotas/q";

/// Creates a quota, and sets its status to no usage, as a controller would.
async fn quota(server: &ApiServer, name: &str, mut spec: Value, hard: Value) {
    let used: Value = hard
        .as_object()
        .unwrap()
        .keys()
        .map(|name| (name.clone(), json!("0")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    spec["hard"] = hard.clone();
    let made = json!({"metadata": {"name": name}, "spec": spec});
    post(server, &format!("{HERE}/resourcequotas"), made)
        .await
        .is_done();
    let status = json!({"status": {"hard": hard, "used": used}});
    merge(server, &format!("{HERE}/resourcequotas/{name}/status"), status)
        .await
        .is_done();
}

async fn used(server: &ApiServer) -> Value {
    get(server, QUOTA).await.body["status"]["used"].clone()
}

#[tokio::test]
async fn a_quota_is_charged_with_the_write_and_rejects_excess() {
    let server = server().await;
    quota(&server, "q", json!({}), json!({"configmaps": "1"})).await;
    let maps = format!("{HERE}/configmaps");
    post(&server, &format!("{maps}?dryRun=All"), named("dry"))
        .await
        .is_done();
    assert_eq!(used(&server).await, json!({"configmaps": "0"}));
    post(&server, &maps, named("a")).await.is_done();
    let charged = get(&server, QUOTA).await.body;
    assert_eq!(charged["status"]["used"], json!({"configmaps": "1"}));
    let managers = charged["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managers
            .iter()
            .any(|entry| entry["manager"] == "kube-apiserver" && entry["subresource"] == "status")
    );
    let refused = post(&server, &maps, named("b")).await;
    refused.is_refused(
        403,
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1",
    );
    assert_eq!(
        refused.body["details"],
        json!({"name": "b", "kind": "configmaps"})
    );
    let refused = post(&server, &format!("{maps}?dryRun=All"), named("b")).await;
    refused.is_refused(403, "limited: configmaps=1");
    assert_eq!(get(&server, &format!("{maps}/b")).await.code, 404);
    // The quota rejects the request before the conflict with the existing object is detected.
    post(&server, &maps, named("a"))
        .await
        .is_refused(403, "limited: configmaps=1");
}

#[tokio::test]
async fn a_write_that_fails_is_not_charged() {
    let server = server().await;
    quota(&server, "q", json!({}), json!({"configmaps": "5"})).await;
    let maps = format!("{HERE}/configmaps");
    post(&server, &maps, named("a")).await.is_done();
    post(&server, &maps, named("a"))
        .await
        .is_refused(409, "configmaps \"a\" already exists");
    assert_eq!(used(&server).await, json!({"configmaps": "1"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_stay_within_the_quota() {
    let server = server().await;
    quota(&server, "q", json!({}), json!({"count/configmaps": "10"})).await;
    let maps = format!("{HERE}/configmaps");
    let all = (0..40).map(|number| {
        let (server, maps) = (server.clone(), maps.clone());
        tokio::spawn(async move { post(&server, &maps, named(&format!("m{number}"))).await.code })
    });
    let mut created = 0;
    for one in all.collect::<Vec<_>>() {
        created += usize::from(one.await.unwrap() == 201);
    }
    assert_eq!(created, 10);
    assert_eq!(used(&server).await, json!({"count/configmaps": "10"}));
}

#[tokio::test]
async fn custom_resources_are_counted_by_plural_and_group() {
    let server = server().await;
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    post(
        &server,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition,
    )
    .await
    .is_done();
    quota(&server, "q", json!({}), json!({"count/widgets.example.com": "0"})).await;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"generateName": "w-"}});
    let refused = post(&server, "/apis/example.com/v1/namespaces/default/widgets", widget).await;
    refused.is_refused(
        403,
        "exceeded quota: q, requested: count/widgets.example.com=1, used: count/widgets.example.com=0, limited: count/widgets.example.com=0",
    );
}

#[tokio::test]
async fn every_quota_that_is_about_a_pod_is_charged() {
    let server = server().await;
    quota(&server, "q", json!({}), json!({"pods": "5"})).await;
    quota(
        &server,
        "r",
        json!({"scopes": ["BestEffort"]}),
        json!({"pods": "1"}),
    )
    .await;
    let pods = format!("{HERE}/pods");
    post(&server, &pods, pod("a", &json!({}))).await.is_done();
    post(&server, &pods, pod("b", &json!({}))).await.is_refused(
        403,
        "exceeded quota: r, requested: pods=1, used: pods=1, limited: pods=1",
    );
    assert_eq!(used(&server).await, json!({"pods": "1"}));
    let modest = pod("c", &json!({"requests": {"cpu": "1"}}));
    post(&server, &pods, modest).await.is_done();
    assert_eq!(used(&server).await, json!({"pods": "2"}));
}

#[tokio::test]
async fn a_pod_must_set_the_counted_resources() {
    let server = server().await;
    quota(
        &server,
        "q",
        json!({}),
        json!({"limits.cpu": "2", "requests.memory": "1Gi"}),
    )
    .await;
    let pods = format!("{HERE}/pods");
    post(&server, &pods, pod("a", &json!({}))).await.is_refused(
        403,
        "pods \"a\" is forbidden: failed quota: q: must specify limits.cpu for: c; requests.memory for: c",
    );
    let enough = json!({"requests": {"memory": "512Mi"}, "limits": {"cpu": "500m"}});
    post(&server, &pods, pod("a", &enough)).await.is_done();
    assert_eq!(
        used(&server).await,
        json!({"limits.cpu": "500m", "requests.memory": "512Mi"})
    );
}

#[tokio::test]
async fn a_service_that_takes_more_ports_is_charged_for_them() {
    let server = server().await;
    quota(
        &server,
        "q",
        json!({}),
        json!({"services": "3", "services.nodeports": "1"}),
    )
    .await;
    let service = |kind: &str, ports: &[u16]| {
        let ports: Vec<Value> = ports
            .iter()
            .map(|port| json!({"name": format!("p{port}"), "port": port}))
            .collect();
        json!({"metadata": {"name": "s"}, "spec": {"type": kind, "ports": ports}})
    };
    let path = format!("{HERE}/services");
    post(&server, &path, service("ClusterIP", &[1])).await.is_done();
    let path = format!("{path}/s");
    merge(&server, &path, service("NodePort", &[1])).await.is_done();
    assert_eq!(
        used(&server).await,
        json!({"services": "1", "services.nodeports": "1"})
    );
    let refused = merge(&server, &path, service("NodePort", &[1, 2])).await;
    refused.is_refused(
        403,
        "exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1",
    );
}

#[tokio::test]
async fn a_quota_without_a_status_limits_nothing() {
    let server = server().await;
    let made = json!({"metadata": {"name": "q"}, "spec": {"hard": {"secrets": "0"}}});
    post(&server, &format!("{HERE}/resourcequotas"), made)
        .await
        .is_done();
    post(&server, &format!("{HERE}/secrets"), named("s"))
        .await
        .is_done();
}

#[tokio::test]
async fn the_plug_in_can_be_switched_off() {
    let builder = ApiServer::builder().disable_admission_plugins(["ResourceQuota", "LimitRanger"]);
    let server = builder.build().unwrap();
    quota(&server, "q", json!({}), json!({"secrets": "0"})).await;
    post(&server, &format!("{HERE}/secrets"), named("s"))
        .await
        .is_done();
}

#[tokio::test]
async fn quotas_are_validated() {
    let server = server().await;
    let quotas = format!("{HERE}/resourcequotas");
    let cases = [
        (
            json!({"hard": {"foo": "1"}}),
            "[spec.hard[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified, spec.hard[foo]: Invalid value: \"foo\": must be a standard resource for quota]",
        ),
        (
            json!({"hard": {"pods": "1500m"}}),
            "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
        ),
        (
            json!({"hard": {"example.com/gpu": "500m"}}),
            "spec.hard[example.com/gpu]: Invalid value: \"500m\": must be an integer",
        ),
        (
            json!({"hard": {"cpu": "1"}, "scopeSelector": {"matchExpressions": [{"scopeName": "BestEffort", "operator": "In", "values": ["a"]}]}}),
            "[spec.scopeSelector.matchExpressions: Invalid value: {\"MatchExpressions\":[{\"ScopeName\":\"BestEffort\",\"Operator\":\"In\",\"Values\":[\"a\"]}]}: unsupported scope applied to resource, spec.scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity]",
        ),
        (
            json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}),
            "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        ),
    ];
    for (spec, why) in cases {
        let made = json!({"metadata": {"name": "bad"}, "spec": spec});
        let refused = post(&server, &quotas, made).await;
        refused.is_refused(422, &format!("ResourceQuota \"bad\" is invalid: {why}"));
    }
    quota(
        &server,
        "q",
        json!({"scopes": ["BestEffort"]}),
        json!({"pods": "1"}),
    )
    .await;
    let refused = merge(&server, QUOTA, json!({"spec": {"scopes": ["NotBestEffort"]}})).await;
    refused.is_refused(
        422,
        "spec.scopes: Invalid value: [\"NotBestEffort\"]: field is immutable",
    );
    let refused = merge(
        &server,
        &format!("{QUOTA}/status"),
        json!({"status": {"used": {"pods": "-1"}}}),
    )
    .await;
    refused.is_refused(
        422,
        "status.used[pods]: Invalid value: \"-1\": must be greater than or equal to 0",
    );
}
