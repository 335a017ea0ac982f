//! The configurations of admission plug-ins and their effect. Expected texts are those of kube-apiserver 1.36.

use std::path::Path;

use operator_apiserver::{AdmissionConfiguration, ApiServer, Builder};
use serde_json::{Value, json};

use crate::asking::{merge, post};
use crate::hook::{Hook, Reply, allow, configure, webhook};
use crate::kubeconfig;

fn configuration(plugin: &str, configuration: &Value) -> String {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [{"name": plugin, "configuration": configuration}],
    })
    .to_string()
}

fn builder(plugin: &str, content: &Value) -> Builder {
    let parsed = AdmissionConfiguration::parse(&configuration(plugin, content), Path::new("/"));
    ApiServer::builder()
        .admission(parsed.unwrap())
        .enable_admission_plugins([plugin])
}

fn error(plugin: &str, content: &Value) -> String {
    AdmissionConfiguration::parse(&configuration(plugin, content), Path::new("/")).unwrap_err()
}

/// Writes a kubeconfig into a directory and returns its path.
fn file(directory: &tempfile::TempDir, text: &str) -> String {
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const NAMESPACE: &str = "/api/v1/namespaces/default";

fn limited(resources: Value) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration",
        "limitedResources": resources,
    })
}

#[tokio::test]
async fn limited_resources_need_a_quota_that_covers_them() {
    let scope = json!({"scopeName": "PriorityClass", "operator": "In", "values": ["cluster-services"]});
    let content = limited(json!([
        {"resource": "pods", "matchScopes": [scope]},
        {"resource": "configmaps", "matchContains": ["count/configmaps"]},
        {"apiGroup": "apps", "resource": "deployments", "matchContains": ["count/"]},
        {"resource": "persistentvolumeclaims", "matchContains": [".storageclass.storage.k8s.io/requests.storage"]},
    ]));
    let server = builder("ResourceQuota", &content).build().unwrap();
    let (maps, pods) = (format!("{NAMESPACE}/configmaps"), format!("{NAMESPACE}/pods"));
    let class = json!({"metadata": {"name": "cluster-services"}, "value": 5});
    post(&server, "/apis/scheduling.k8s.io/v1/priorityclasses", class)
        .await
        .is_done();
    let account = json!({"metadata": {"name": "default"}});
    post(&server, &format!("{NAMESPACE}/serviceaccounts"), account)
        .await
        .is_done();
    let map = || json!({"metadata": {"name": "a"}});
    let why = "configmaps \"a\" is forbidden: insufficient quota to consume: count/configmaps";
    post(&server, &maps, map()).await.is_refused(403, why);
    let claim = |class: Option<&str>| {
        json!({"metadata": {"generateName": "a-"}, "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }})
    };
    let claims = format!("{NAMESPACE}/persistentvolumeclaims");
    let why = "insufficient quota to consume: gold.storageclass.storage.k8s.io/requests.storage";
    post(&server, &claims, claim(Some("gold")))
        .await
        .is_refused(403, why);
    post(&server, &claims, claim(None)).await.is_done();
    let pod = |name: &str, class: &str| {
        let containers = json!([{"name": "c", "image": "i"}]);
        json!({"metadata": {"name": name}, "spec": {"priorityClassName": class, "containers": containers}})
    };
    let why = "insufficient quota to match these scopes: [{PriorityClass In [cluster-services]}]";
    post(&server, &pods, pod("a", "cluster-services"))
        .await
        .is_refused(500, why);
    post(&server, &pods, pod("b", "")).await.is_done();
    for (name, hard, more) in [
        ("maps", "count/configmaps", json!({})),
        (
            "pods",
            "pods",
            json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["cluster-services"]},
            ]}}),
        ),
    ] {
        let mut quota = json!({"metadata": {"name": name}, "spec": more});
        quota["spec"]["hard"] = json!({hard: "5"});
        let quotas = format!("{NAMESPACE}/resourcequotas");
        post(&server, &quotas, quota).await.is_done();
        let status = json!({"status": {"hard": {hard: "5"}, "used": {hard: "0"}}});
        merge(&server, &format!("{quotas}/{name}/status"), status)
            .await
            .is_done();
    }
    post(&server, &maps, map()).await.is_done();
    post(&server, &pods, pod("a", "cluster-services")).await.is_done();
    assert_eq!(
        error("ResourceQuota", &limited(json!([{"apiGroup": "apps"}]))),
        "couldn't init admission plugin \"ResourceQuota\": limitedResources[0].resource: Required value"
    );
}

fn limits(limits: Value) -> Value {
    json!({
        "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration", "limits": limits,
    })
}

fn event(name: &str, object: &str) -> Value {
    json!({
        "metadata": {"name": name}, "reason": "r", "source": {"component": "c"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": object},
    })
}

#[tokio::test]
async fn events_are_limited_by_namespace_and_by_object() {
    let events = format!("{NAMESPACE}/events");
    let content = limits(json!([{"type": "Namespace", "qps": 1, "burst": 2, "cacheSize": 10}]));
    let server = builder("EventRateLimit", &content).build().unwrap();
    for name in ["a", "b"] {
        post(&server, &events, event(name, name)).await.is_done();
    }
    let dry = format!("{events}?dryRun=All");
    post(&server, &dry, event("c", "c")).await.is_done();
    let refused = post(&server, &events, event("c", "c")).await;
    let why = "Too many requests: limit reached on type Namespace for key default";
    assert_eq!((refused.code, refused.message()), (429, why));
    assert_eq!(refused.body["reason"], "TooManyRequests");
    let content = limits(json!([{"type": "SourceAndObject", "qps": 1, "burst": 1}]));
    let server = builder("EventRateLimit", &content).build().unwrap();
    post(&server, &events, event("a", "same")).await.is_done();
    post(&server, &events, event("b", "same")).await.is_refused(
        429,
        "limit reached on type SourceAndObject for key cPoddefaultsame",
    );
    post(&server, &events, event("b", "other")).await.is_done();
    assert!(error("EventRateLimit", &limits(json!([]))).ends_with("must provide at least one limit"));
}

#[tokio::test]
async fn a_webhook_reviews_the_images_of_pods() {
    let hook = Hook::start(|review| {
        let image = review["spec"]["containers"][0]["image"]
            .as_str()
            .unwrap_or_default();
        let status = match image {
            "good" => json!({"allowed": true}),
            "silent" => json!({"allowed": false}),
            "broken" => return Reply::Text(400, "broken"),
            _ => json!({"allowed": false, "reason": "bad image"}),
        };
        let mut answer = review.clone();
        answer["status"] = status;
        Reply::Json(answer)
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let path = file(&directory, &kubeconfig(&hook));
    for default_allow in [false, true] {
        let policy = json!({"imagePolicy": {"kubeConfigFile": path, "defaultAllow": default_allow, "retryBackoff": 500}});
        let server = builder("ImagePolicyWebhook", &policy).build().unwrap();
        let account = json!({"metadata": {"name": "default"}});
        post(&server, &format!("{NAMESPACE}/serviceaccounts"), account)
            .await
            .is_done();
        let ask = async |image: &str| {
            let pod = json!({
                "metadata": {"generateName": "p-", "annotations": {"a.image-policy.k8s.io/ticket": "1", "b": "2"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            });
            post(&server, &format!("{NAMESPACE}/pods"), pod).await
        };
        ask("good").await.is_done();
        ask("bad").await.is_refused(
            403,
            "is forbidden: image policy webhook backend denied one or more images: bad image",
        );
        ask("silent")
            .await
            .is_refused(403, "one or more images rejected by webhook backend");
        assert_eq!(ask("broken").await.code, if default_allow { 201 } else { 403 });
    }
    let received = hook.received.lock().unwrap();
    let (_, review) = received.first().unwrap();
    assert_eq!(
        review["spec"],
        json!({
            "containers": [{"image": "good"}], "namespace": "default",
            "annotations": {"a.image-policy.k8s.io/ticket": "1"},
        })
    );
}

#[tokio::test]
async fn webhooks_get_the_credentials_of_their_host() {
    let hook = Hook::start(|_| allow()).await;
    let directory = tempfile::tempdir().unwrap();
    let user = |name: String, token: &str| json!({"name": name, "user": {"token": token}});
    let content = |path: &str| {
        json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": path,
        })
    };
    let url_host = format!("localhost:{}", hook.address.port());
    for (users, expected) in [
        (
            json!([
                user(url_host.clone(), "url"),
                user("hook.default.svc".to_owned(), "service")
            ]),
            ["Bearer url", "Bearer service"],
        ),
        (
            json!([
                user("*.default.svc".to_owned(), "domain"),
                user("*".to_owned(), "all")
            ]),
            ["Bearer all", "Bearer domain"],
        ),
    ] {
        let users = json!({"apiVersion": "v1", "kind": "Config", "users": users});
        let path = file(&directory, &users.to_string());
        let server = builder("ValidatingAdmissionWebhook", &content(&path))
            .build()
            .unwrap();
        server.route_service("default", "hook", hook.address);
        hook.authorizations.lock().unwrap().clear();
        let hooks = vec![
            webhook("url", hook.by_url(), json!({})),
            webhook("service", hook.by_service(), json!({})),
        ];
        configure(&server, "validating", hooks).await;
        let map = json!({"metadata": {"name": "a"}});
        post(&server, &format!("{NAMESPACE}/configmaps"), map)
            .await
            .is_done();
        let mut found = hook.authorizations.lock().unwrap().clone();
        let mut expected = expected.map(str::to_owned).to_vec();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
    assert!(
        error("MutatingAdmissionWebhook", &content("relative"))
            .ends_with("kubeConfigFile: Invalid value: \"relative\": must be an absolute file path")
    );
}
