//! Tests of webhook calls: URLs, redirects, time limits, versions of reviews, and the requests that webhooks receive.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;
mod hook;
#[path = "asking/policy.rs"]
mod policy;

use asking::{delete, get, merge, post};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hook::{Hook, Reply, allow, configure, webhook};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};

const HERE: &str = "/api/v1/namespaces/default";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn server() -> ApiServer {
    ApiServer::builder().build().unwrap()
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// Returns a server with a webhook for config maps, with more fields.
async fn configured(client: Value, more: Value) -> ApiServer {
    let server = server();
    configure(&server, "validating", vec![webhook("a", client, more)]).await;
    server
}

fn at(hook: &Hook, path: &str) -> Value {
    let url = format!("https://localhost:{}{path}", hook.address.port());
    json!({"url": url, "caBundle": hook.authority})
}

fn paths(hook: &Hook) -> Vec<String> {
    let asked = hook.received.lock().unwrap();
    asked.iter().map(|(path, _)| path.clone()).collect()
}

#[tokio::test]
async fn the_path_of_a_webhook_is_cleaned() {
    let hook = Hook::start(|_| allow()).await;
    for (given, called) in [("//failing", "/failing"), ("/a//b/../c/", "/a/c"), ("", "/")] {
        let server = configured(at(&hook, given), json!({})).await;
        post(&server, CONFIG_MAPS, named("a")).await.is_done();
        assert_eq!(paths(&hook).last().unwrap(), &format!("{called}?timeout=10s"));
    }
}

#[tokio::test]
async fn redirects_are_followed_as_by_the_real_client() {
    for (code, version, body) in [
        (307, "v1", true),
        (308, "v1", true),
        (301, "v1beta1", false),
        (302, "v1beta1", false),
    ] {
        let target = Hook::start(|review| {
            let uid = &review["request"]["uid"];
            Reply::Json(json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": uid, "allowed": true},
            }))
        })
        .await;
        let beta = Hook::start(|_| Reply::Json(json!({"response": {"allowed": true}}))).await;
        let target = if version == "v1" { target } else { beta };
        let location = format!("https://localhost:{}/target", target.address.port());
        let hook = Hook::start(move |_| Reply::Redirect(code, location.clone())).await;
        let mut client = hook.by_url();
        // Both certificates are self-signed.
        client["caBundle"] = both(&hook, &target).into();
        let server = configured(client, json!({"admissionReviewVersions": [version]})).await;
        post(&server, CONFIG_MAPS, named("a")).await.is_done();
        let asked = target.received.lock().unwrap();
        assert_eq!(asked[0].0, "/target");
        assert_eq!(asked[0].1.is_object(), body, "{code}");
    }
}

/// Returns the authorities of two webhooks.
fn both(first: &Hook, second: &Hook) -> String {
    let decode = |hook: &Hook| BASE64_STANDARD.decode(&hook.authority).unwrap();
    BASE64_STANDARD.encode([decode(first), decode(second)].concat())
}

#[tokio::test]
async fn an_endless_redirect_ends() {
    let hook = Hook::start(|_| Reply::Redirect(307, "/loop".to_owned())).await;
    let server = configured(hook.by_url(), json!({})).await;
    let refused = post(&server, CONFIG_MAPS, named("a")).await;
    refused.is_refused(
        500,
        "failed to call webhook: Post \"/loop\": stopped after 10 redirects",
    );
    assert_eq!(hook.requests().len(), 10);
}

#[tokio::test]
async fn an_answer_of_v1beta1_may_omit_its_type_and_uid() {
    let answer = json!({"response": {"allowed": true}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "response": {"allowed": true}});
    let v1beta1 = json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": {"allowed": true}});
    for (version, answer, refused) in [
        ("v1beta1", answer.clone(), None),
        ("v1beta1", v1beta1.clone(), None),
        (
            "v1beta1",
            pod.clone(),
            Some(
                "no kind \"Pod\" is registered for version \"v1\" in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:71\"",
            ),
        ),
        (
            "v1",
            v1beta1,
            Some(
                "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
            ),
        ),
        ("v1", answer, Some(", got \"\"")),
    ] {
        let hook = Hook::start(move |_| Reply::Json(answer.clone())).await;
        let versions = json!({"admissionReviewVersions": [version]});
        let server = configured(hook.by_url(), versions).await;
        let answered = post(&server, CONFIG_MAPS, named("a")).await;
        match refused {
            None => answered.is_done(),
            Some(why) => answered.is_refused(500, why),
        }
    }
}

#[tokio::test]
async fn an_answer_of_v1_needs_its_type() {
    let hook = Hook::start(|review| {
        Reply::Json(json!({"response": {"uid": review["request"]["uid"], "allowed": true}}))
    })
    .await;
    let server = configured(hook.by_url(), json!({})).await;
    let refused = post(&server, CONFIG_MAPS, named("a")).await;
    refused.is_refused(
        500,
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
    );
}

#[tokio::test]
async fn a_webhook_has_no_more_time_than_the_request() {
    let hook = Hook::start(|_| allow()).await;
    let server = configured(hook.by_url(), json!({"timeoutSeconds": 20})).await;
    for (query, told) in [
        ("?timeout=3s", 3),
        ("?timeout=1500ms", 2),
        ("?timeout=50s", 20),
        ("", 20),
    ] {
        let path = format!("{CONFIG_MAPS}{query}");
        post(&server, &path, json!({"metadata": {"generateName": "a"}}))
            .await
            .is_done();
        let wanted = format!("/hook?timeout={told}s");
        assert_eq!(paths(&hook).last(), Some(&wanted), "{query:?}");
    }
}

#[tokio::test]
async fn the_timeout_of_a_request_is_reported_instead_of_the_failure_of_its_webhook() {
    let hook = Hook::start(|_| Reply::Hang).await;
    for policy in ["Fail", "Ignore"] {
        let configuration = json!({"timeoutSeconds": 20, "failurePolicy": policy});
        let server = configured(hook.by_url(), configuration).await;
        let path = format!("{CONFIG_MAPS}?timeout=1s");
        post(&server, &path, json!({"metadata": {"name": "a"}}))
            .await
            .is_refused(
                504,
                "Timeout: request did not complete within the allotted timeout",
            );
        assert_eq!(get(&server, &format!("{CONFIG_MAPS}/a")).await.code, 404);
    }
}

/// Returns the last request of the webhook: operation, group and kind, group and resource, subresource, name, object.
fn seen(hook: &Hook) -> (String, Value) {
    let Some(request) = hook.requests().pop() else {
        return Default::default();
    };
    hook.received.lock().unwrap().clear();
    let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
    let parts = [
        "/operation",
        "/kind/group",
        "/kind/kind",
        "/resource/group",
        "/resource/resource",
        "/subResource",
        "/name",
        "/namespace",
    ];
    (parts.map(text).join(" "), request["object"].clone())
}

fn everything(hook: &Hook) -> Value {
    let rules =
        json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}]);
    webhook("a", hook.by_url(), json!({"rules": rules}))
}

/// Returns a server with a pod, a node and a service account.
async fn populated() -> ApiServer {
    let server = server();
    post(&server, &format!("{HERE}/serviceaccounts"), named("default"))
        .await
        .is_done();
    post(&server, "/api/v1/nodes", named("n")).await.is_done();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    post(&server, &format!("{HERE}/pods"), pod).await.is_done();
    server
}

#[tokio::test]
async fn webhooks_see_every_request_that_creates_or_connects() {
    let review = |group: &str, kind: &str, spec: Value| json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec});
    let authn = "authentication.k8s.io";
    let authz = "authorization.k8s.io";
    let get_pods = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let sar = json!({"user": "x", "resourceAttributes": get_pods});
    let cases = [
        (
            format!("{HERE}/bindings"),
            json!({"metadata": {"name": "p"}, "target": {"name": "n"}}),
            "CREATE  Binding  bindings - p default",
        ),
        (
            format!("{HERE}/pods/p/eviction?dryRun=All"),
            named("p"),
            "CREATE policy Eviction  pods eviction p default",
        ),
        (
            format!("{HERE}/serviceaccounts/default/token"),
            json!({"spec": {}}),
            "CREATE authentication.k8s.io TokenRequest  serviceaccounts token default default",
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews".to_owned(),
            review(authn, "SelfSubjectReview", Value::Null),
            "CREATE authentication.k8s.io SelfSubjectReview authentication.k8s.io selfsubjectreviews - - -",
        ),
        (
            "/apis/authentication.k8s.io/v1/tokenreviews".to_owned(),
            review(authn, "TokenReview", json!({"token": "x"})),
            "CREATE authentication.k8s.io TokenReview authentication.k8s.io tokenreviews - - -",
        ),
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(),
            review(authz, "SubjectAccessReview", sar.clone()),
            "CREATE authorization.k8s.io SubjectAccessReview authorization.k8s.io subjectaccessreviews - - -",
        ),
        (
            "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews".to_owned(),
            review(authz, "LocalSubjectAccessReview", sar),
            "CREATE authorization.k8s.io LocalSubjectAccessReview authorization.k8s.io localsubjectaccessreviews - - default",
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(),
            review(
                authz,
                "SelfSubjectAccessReview",
                json!({"resourceAttributes": get_pods}),
            ),
            "CREATE authorization.k8s.io SelfSubjectAccessReview authorization.k8s.io selfsubjectaccessreviews - - -",
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews".to_owned(),
            review(authz, "SelfSubjectRulesReview", json!({"namespace": "default"})),
            "CREATE authorization.k8s.io SelfSubjectRulesReview authorization.k8s.io selfsubjectrulesreviews - - -",
        ),
    ];
    for kind in ["validating", "mutating"] {
        let (server, hook) = (populated().await, Hook::start(|_| allow()).await);
        configure(&server, kind, vec![everything(&hook)]).await;
        hook.received.lock().unwrap().clear();
        for (path, body, wanted) in &cases {
            post(&server, path, body.clone()).await.is_done();
            let (saw, object) = seen(&hook);
            assert_eq!(&saw, wanted, "{kind} {path}");
            assert_eq!(object["kind"], saw.split(' ').nth(2).unwrap(), "{kind} {path}");
        }
        for (path, wanted) in [
            (
                "/api/v1/nodes/n/proxy/healthz",
                "CONNECT  NodeProxyOptions  nodes proxy n -",
            ),
            (
                "/api/v1/namespaces/default/pods/p:80/proxy/a",
                "CONNECT  PodProxyOptions  pods proxy p:80 default",
            ),
            (
                "/api/v1/namespaces/default/services/kubernetes/proxy",
                "CONNECT  ServiceProxyOptions  services proxy kubernetes default",
            ),
        ] {
            get(&server, path).await;
            assert_eq!(seen(&hook).0, wanted, "{kind} {path}");
        }
    }
}

#[tokio::test]
async fn an_invalid_review_or_binding_is_refused_before_it_is_validated_by_a_webhook() {
    let (server, hook) = (populated().await, Hook::start(|_| allow()).await);
    configure(&server, "validating", vec![everything(&hook)]).await;
    hook.received.lock().unwrap().clear();
    let sar = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(post(&server, path, sar).await.code, 422);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node"}});
    let refused = post(&server, &format!("{HERE}/bindings"), binding).await;
    refused.is_refused(500, "target.name: Required value");
    assert!(hook.requests().is_empty());
}

#[tokio::test]
async fn the_scale_of_a_custom_resource_is_a_scale_to_webhooks() {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": schema,
            "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        })
    };
    let definition = json!({
        "metadata": {"name": "crons.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "crons", "kind": "Cron"},
            "versions": [version("v1", true), version("v2", false)],
        },
    });
    for kind in ["validating", "mutating"] {
        let (server, hook) = (server(), Hook::start(|_| allow()).await);
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        post(&server, path, definition.clone()).await.is_done();
        let crons = "/apis/example.com/v1/namespaces/default/crons";
        let cron = json!({"apiVersion": "example.com/v1", "kind": "Cron", "metadata": {"name": "c"}, "spec": {"replicas": 1}});
        post(&server, crons, cron).await.is_done();
        let rules = json!([{"apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["crons/*"], "operations": ["*"]}]);
        configure(
            &server,
            kind,
            vec![webhook("a", hook.by_url(), json!({"rules": rules}))],
        )
        .await;
        let scale = json!({"spec": {"replicas": 3}});
        merge(&server, &format!("{crons}/c/scale"), scale).await.is_done();
        let (saw, object) = seen(&hook);
        assert_eq!(saw, "UPDATE autoscaling Scale example.com crons scale c default");
        assert_eq!(
            (&object["apiVersion"], &object["spec"]["replicas"]),
            (&json!("autoscaling/v1"), &json!(3))
        );
    }
}

const DENY: &str = "name=";

/// Creates a policy that rejects every request; the message contains the name of the object.
async fn refuse_all(server: &ApiServer) {
    let spec = json!({
        "matchConstraints": {"resourceRules": [
            {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]},
        ]},
        "validations": [{
            "expression": "false",
            "messageExpression": format!("'{DENY}' + (has(request.name) ? request.name : 'absent')"),
        }],
    });
    policy::post(server, spec).await.is_done();
    policy::bind(server, "b", json!({})).await;
}

#[tokio::test]
async fn a_collection_is_deleted_without_names() {
    let (server, hook) = (server(), Hook::start(|_| allow()).await);
    for name in ["a", "b"] {
        post(&server, CONFIG_MAPS, named(name)).await.is_done();
    }
    configure(
        &server,
        "validating",
        vec![webhook("a", hook.by_url(), json!({}))],
    )
    .await;
    delete(&server, &format!("{CONFIG_MAPS}/a")).await.is_done();
    assert_eq!(hook.requests()[0]["name"], "a");
    delete(&server, CONFIG_MAPS).await.is_done();
    assert_eq!(hook.requests()[1].get("name"), None);
    assert_eq!(hook.requests()[1]["oldObject"]["metadata"]["name"], "b");
    post(&server, CONFIG_MAPS, named("c")).await.is_done();
    refuse_all(&server).await;
    let refused = delete(&server, CONFIG_MAPS).await;
    assert_eq!(
        refused.message(),
        "configmaps \"Unknown\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: name=absent"
    );
}

#[tokio::test]
async fn policies_see_webhook_configurations_and_not_themselves() {
    let server = server();
    refuse_all(&server).await;
    let path = |resource: &str| format!("/apis/admissionregistration.k8s.io/v1/{resource}?dryRun=All");
    for resource in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
        let refused = post(&server, &path(resource), named("x")).await;
        refused.is_refused(422, "denied request: name=x");
    }
    let binding =
        json!({"metadata": {"name": "x"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    post(&server, &path("validatingadmissionpolicybindings"), binding)
        .await
        .is_done();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    post(
        &server,
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        review,
    )
    .await
    .is_done();
    let refused = post(
        &server,
        &format!("{HERE}/bindings"),
        json!({"metadata": {"name": "x"}, "target": {"name": "n"}}),
    )
    .await;
    assert!(
        refused.message().starts_with("bindings \"x\" is forbidden: "),
        "{}",
        refused.message()
    );
}

#[tokio::test]
async fn a_conversion_review_has_a_version_that_the_webhook_reads() {
    let hook = Hook::start(|review| {
        let objects = review["request"]["objects"].as_array().unwrap().iter();
        let converted: Vec<Value> = objects
            .map(|object| {
                let mut object = object.clone();
                object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
                object
            })
            .collect();
        // Without a type and a uid, which v1beta1 does not need.
        Reply::Json(json!({"response": {"convertedObjects": converted, "result": {"status": "Success"}}}))
    })
    .await;
    let server = server();
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
    let definition = json!({
        "metadata": {"name": "crons.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "crons", "kind": "Cron"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": hook.by_url(), "conversionReviewVersions": ["v1beta1"],
            }},
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&server, path, definition).await.is_done();
    let cron = json!({"apiVersion": "example.com/v1", "kind": "Cron", "metadata": {"name": "c"}});
    post(&server, "/apis/example.com/v1/namespaces/default/crons", cron)
        .await
        .is_done();
    let read = get(&server, "/apis/example.com/v2/namespaces/default/crons/c").await;
    assert_eq!(read.body["apiVersion"], "example.com/v2", "{}", read.body);
    assert_eq!(
        hook.received.lock().unwrap()[0].1["apiVersion"],
        "apiextensions.k8s.io/v1beta1"
    );
}
