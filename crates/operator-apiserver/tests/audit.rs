//! Tests of the audit log: the recorded requests, and their levels.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;
mod hook;
#[path = "asking/policy.rs"]
mod policy;

use std::path::{Path, PathBuf};

use asking::{delete, get, merge, post};
use bytes::Bytes;
use hook::{Hook, Reply};
use http::Request;
use http_body_util::{BodyExt, Full};
use operator_apiserver::{
    ApiServer, AuditLog, AuditMode, AuditOptions, AuditTruncation, AuditWebhook, Error,
};
use serde_json::{Value, json};
use tower::ServiceExt;

const HERE: &str = "/api/v1/namespaces/default";

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: None, nonResourceURLs: ["/readyz"]}
- {level: Metadata, resources: [{group: "", resources: [secrets]}]}
- {level: RequestResponse, omitManagedFields: true, verbs: [create, patch, delete, deletecollection]}
- {level: Request, resources: [{group: "", resources: [configmaps]}]}
- {level: Metadata, omitStages: [RequestReceived]}
"#;

struct Recorded {
    server: ApiServer,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Recorded {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs/audit.log");
        let mut options = AuditOptions::new(POLICY);
        options.log = Some(AuditLog::new(&path));
        let server = ApiServer::builder().audit(options).build().unwrap();
        Self {
            server,
            path,
            _directory: directory,
        }
    }

    /// Returns the events since the last call, without times and ids.
    fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        std::fs::write(&self.path, "").unwrap();
        text.lines()
            .map(|line| {
                let mut event: Value = serde_json::from_str(line).unwrap();
                for field in ["auditID", "requestReceivedTimestamp", "stageTimestamp"] {
                    let removed = event.as_object_mut().unwrap().remove(field);
                    assert!(removed.is_some_and(|value| value.is_string()), "{field}");
                }
                event
            })
            .collect()
    }
}

#[tokio::test]
async fn a_create_is_recorded_with_its_objects_at_its_stages() {
    let audited = Recorded::new();
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    post(&audited.server, &format!("{HERE}/configmaps"), map)
        .await
        .is_done();
    let events = audited.events();
    let common = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse",
        "requestURI": "/api/v1/namespaces/default/configmaps", "verb": "create",
        "user": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "objectRef": {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"},
    });
    let mut received = common.clone();
    received["stage"] = "RequestReceived".into();
    assert_eq!(events[0], received);
    let mut complete = events[1].clone();
    let metadata = complete["responseObject"]["metadata"].as_object_mut().unwrap();
    assert!(!metadata.contains_key("managedFields"));
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(field);
    }
    let mut wanted = common;
    wanted["stage"] = "ResponseComplete".into();
    wanted["objectRef"]["name"] = "a".into();
    wanted["responseStatus"] = json!({"metadata": {}, "code": 201});
    wanted["requestObject"] =
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}});
    wanted["responseObject"] = json!({
        "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "default"}, "data": {"k": "v"},
    });
    wanted["annotations"] =
        json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""});
    assert_eq!(complete, wanted);
    assert_eq!(events.len(), 2);
}

#[tokio::test]
async fn the_level_determines_the_content_of_an_event() {
    let audited = Recorded::new();
    let server = &audited.server;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}});
    post(server, &format!("{HERE}/secrets"), secret).await.is_done();
    let last = audited.events().pop().unwrap();
    assert_eq!(
        (&last["level"], &last["requestObject"]),
        (&json!("Metadata"), &Value::Null)
    );
    get(server, &format!("{HERE}/configmaps/missing")).await;
    let last = audited.events().pop().unwrap();
    assert_eq!(
        last["responseStatus"],
        json!({
            "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404,
            "message": "configmaps \"missing\" not found", "details": {"name": "missing", "kind": "configmaps"},
        })
    );
    assert_eq!(last["responseObject"], Value::Null);
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    merge(server, HERE, patch.clone()).await.is_done();
    let last = audited.events().pop().unwrap();
    assert_eq!(last["requestObject"], patch);
    delete(server, &format!("{HERE}/secrets/s")).await.is_done();
    audited.events();
    // No rule records it, or only in its last stage.
    let ready = Request::get("/readyz").body(Full::new(Bytes::new())).unwrap();
    server.clone().oneshot(ready).await.unwrap();
    assert_eq!(audited.events(), Vec::<Value>::new());
    get(server, "/version").await;
    let events = audited.events();
    assert_eq!(
        (events.len(), &events[0]["stage"]),
        (1, &json!("ResponseComplete"))
    );
}

#[tokio::test]
async fn refusals_impersonation_and_watches_are_recorded() {
    let audited = Recorded::new();
    let path = format!("{HERE}/configmaps");
    let request = Request::get(&path)
        .header("impersonate-user", "jane")
        .header("audit-id", "my-id")
        .body(Full::new(Bytes::new()))
        .unwrap();
    let response = audited.server.clone().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["audit-id"], "my-id");
    let last = audited.events().pop().unwrap();
    assert_eq!(last["user"]["username"], "admin");
    assert_eq!(last["impersonatedUser"]["username"], "jane");
    assert_eq!(last["annotations"]["authorization.k8s.io/decision"], "forbid");
    let request = Request::get(format!("{path}?watch=1"));
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let watch = audited.server.clone().oneshot(request).await.unwrap();
    let stages = |events: &[Value]| {
        let stages = events
            .iter()
            .map(|event| event["stage"].as_str().unwrap().to_owned());
        stages.collect::<Vec<_>>()
    };
    assert_eq!(stages(&audited.events()), ["RequestReceived", "ResponseStarted"]);
    audited.server.shutdown();
    watch.into_body().collect().await.unwrap();
    assert_eq!(stages(&audited.events()), ["ResponseComplete"]);
}

#[tokio::test]
async fn violations_of_pod_security_are_recorded() {
    let audited = Recorded::new();
    let server = &audited.server;
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/audit": "restricted"}}});
    merge(server, HERE, labels).await.is_done();
    post(
        server,
        &format!("{HERE}/serviceaccounts"),
        json!({"metadata": {"name": "default"}}),
    )
    .await
    .is_done();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = post(server, &format!("{HERE}/pods"), pod).await;
    assert_eq!(made.warnings, Vec::<String>::new());
    let annotations = audited.events().pop().unwrap()["annotations"].clone();
    assert_eq!(
        annotations["pod-security.kubernetes.io/enforce-policy"],
        "privileged:latest"
    );
    let violations = annotations["pod-security.kubernetes.io/audit-violations"].as_str();
    let begin = "would violate PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false";
    assert!(
        violations.is_some_and(|text| text.starts_with(begin)),
        "{annotations}"
    );
}

#[tokio::test]
async fn an_unwritable_log_does_not_block_requests() {
    let mut options = AuditOptions::new(POLICY);
    options.log = Some(AuditLog::new(Path::new("/dev/full")));
    let server = ApiServer::builder().audit(options).build().unwrap();
    let made = post(
        &server,
        &format!("{HERE}/configmaps"),
        json!({"metadata": {"name": "a"}}),
    )
    .await;
    made.is_done();
}

#[test]
fn invalid_audit_settings_are_errors_at_the_start() {
    let refused = |options: AuditOptions| match ApiServer::builder().audit(options).build() {
        Err(Error::Audit(why)) => why,
        other => format!("{other:?}"),
    };
    assert_eq!(
        refused(AuditOptions::new("rules: []")),
        "the audit policy: it must be a Policy of audit.k8s.io/v1, but is a \"\" of \"\""
    );
    let mut options = AuditOptions::new(POLICY);
    options.log = Some(AuditLog::new("/dev/null/x"));
    assert!(refused(options).starts_with("the audit log /dev/null/x: "));
    let mut options = AuditOptions::new(POLICY);
    options.webhook = Some(AuditWebhook::new("{}"));
    assert_eq!(refused(options), "the audit webhook: it names no cluster");
}

#[tokio::test]
async fn events_are_sent_in_batches_until_they_arrive() {
    let (told, mut sent) = tokio::sync::mpsc::unbounded_channel();
    let tries = std::sync::atomic::AtomicU32::new(0);
    let hook = Hook::start(move |events| {
        // The first attempt fails and is retried.
        if tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
            return Reply::Text(503, "not yet");
        }
        told.send(events.clone()).unwrap();
        Reply::Json(json!({}))
    })
    .await;
    let mut options = AuditOptions::new(POLICY);
    let kubeconfig = json!({
        "clusters": [{"name": "c", "cluster": {
            "server": format!("https://localhost:{}/events", hook.address.port()),
            "certificate-authority-data": hook.authority,
        }}],
    });
    let mut webhook = AuditWebhook::new(kubeconfig.to_string());
    webhook.max_size = 2;
    webhook.initial_backoff = std::time::Duration::from_millis(1);
    options.webhook = Some(webhook);
    let server = ApiServer::builder().audit(options).build().unwrap();
    post(
        &server,
        &format!("{HERE}/configmaps"),
        json!({"metadata": {"name": "a"}}),
    )
    .await
    .is_done();
    let list: Value = sent.recv().await.unwrap();
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("EventList"), &json!("audit.k8s.io/v1"))
    );
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    assert_eq!(hook.received.lock().unwrap()[0].0, "/events");
}

fn kubeconfig(hook: &Hook) -> String {
    let cluster = json!({
        "server": format!("https://localhost:{}/events", hook.address.port()),
        "certificate-authority-data": hook.authority,
    });
    json!({"clusters": [{"name": "c", "cluster": cluster}]}).to_string()
}

fn with_webhook(hook: &Hook, mode: AuditMode) -> ApiServer {
    let mut webhook = AuditWebhook::new(kubeconfig(hook));
    webhook.mode = mode;
    webhook.initial_backoff = std::time::Duration::from_millis(1);
    let mut options = AuditOptions::new(POLICY);
    options.webhook = Some(webhook);
    ApiServer::builder().audit(options).build().unwrap()
}

#[tokio::test]
async fn a_blocking_webhook_has_all_events_before_the_answer() {
    let hook = Hook::start(|_| Reply::Json(json!({}))).await;
    let server = with_webhook(&hook, AuditMode::Blocking);
    let map = json!({"metadata": {"name": "a"}});
    post(&server, &format!("{HERE}/configmaps"), map).await.is_done();
    let received = hook.received.lock().unwrap();
    let stages: Vec<&Value> = received
        .iter()
        .map(|(_, list)| &list["items"][0]["stage"])
        .collect();
    assert_eq!(stages, ["RequestReceived", "ResponseComplete"]);
}

#[tokio::test]
async fn only_a_strict_webhook_refuses_requests_that_it_does_not_take() {
    let hook = Hook::start(|_| Reply::Text(400, "no")).await;
    for (mode, code, count) in [(AuditMode::Blocking, 200, 2), (AuditMode::BlockingStrict, 500, 1)] {
        let server = with_webhook(&hook, mode);
        hook.received.lock().unwrap().clear();
        let request = Request::get(format!("{HERE}/configmaps"));
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let response = server.oneshot(request).await.unwrap();
        assert_eq!(response.status(), code);
        let text = response.into_body().collect().await.unwrap().to_bytes();
        let refusal =
            "Internal Server Error: \"/api/v1/namespaces/default/configmaps\": failed to store audit event\n";
        assert_eq!(text == refusal, code == 500, "{text:?}");
        assert_eq!(hook.received.lock().unwrap().len(), count);
    }
}

#[tokio::test]
async fn a_strict_log_refuses_requests_that_it_cannot_record() {
    let mut options = AuditOptions::new(POLICY);
    let mut log = AuditLog::new(Path::new("/dev/full"));
    log.mode = AuditMode::BlockingStrict;
    options.log = Some(log);
    let server = ApiServer::builder().audit(options).build().unwrap();
    for (path, code) in [("/api/v1/namespaces/default/configmaps", 500), ("/readyz", 200)] {
        let request = Request::get(path).body(Full::new(Bytes::new())).unwrap();
        assert_eq!(
            server.clone().oneshot(request).await.unwrap().status(),
            code,
            "{path}"
        );
    }
}

#[tokio::test]
async fn large_events_are_truncated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let mut options = AuditOptions::new(POLICY);
    let mut log = AuditLog::new(&path);
    let mut limits = AuditTruncation::default();
    limits.max_event_size = 2000;
    log.truncation = Some(limits);
    options.log = Some(log);
    let server = ApiServer::builder().audit(options).build().unwrap();
    let maps = format!("{HERE}/configmaps");
    let large = json!({"metadata": {"name": "a"}, "data": {"k": "v".repeat(3000)}});
    post(&server, &maps, large).await.is_done();
    let uri = format!("{maps}/a?x={}", "y".repeat(2500));
    get(&server, &uri).await.is_done();
    let text = std::fs::read_to_string(&path).unwrap();
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Events with the long address are too large.
    assert_eq!(events.len(), 2, "{text}");
    assert_eq!(events[1]["annotations"]["audit.k8s.io/truncated"], "true");
    assert_eq!(events[1]["objectRef"]["name"], "a");
    for object in ["requestObject", "responseObject"] {
        assert!(events[1].get(object).is_none(), "{text}");
    }
}

#[tokio::test]
async fn policies_annotate_events() {
    let audited = Recorded::new();
    let spec = json!({
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]},
        ]},
        "validations": [{"expression": "true"}, {"expression": "false", "message": "no"}],
        "auditAnnotations": [{"key": "name", "valueExpression": "'is ' + object.metadata.name"}],
    });
    policy::post(&audited.server, spec).await.is_done();
    policy::bind(&audited.server, "b", json!({"validationActions": ["Audit"]})).await;
    let path = format!("{HERE}/configmaps");
    post(&audited.server, &path, json!({"metadata": {"name": "a"}}))
        .await
        .is_done();
    let annotations = audited.events().pop().unwrap()["annotations"].clone();
    assert_eq!(annotations["p/name"], "is a");
    let failures = annotations["validation.policy.admission.k8s.io/validation_failure"].as_str();
    let failures: Value = serde_json::from_str(failures.unwrap()).unwrap();
    assert_eq!(
        failures,
        json!([{
            "message": "no", "policy": "p", "binding": "b", "expressionIndex": 1, "validationActions": ["Audit"],
        }])
    );
}
