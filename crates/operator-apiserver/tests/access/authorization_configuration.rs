//! Tests of the file of `--authorization-config`. The errors were recorded from kube-apiserver.

use operator_apiserver::{ApiServer, Authorization, AuthorizationConfiguration};
use serde_json::{Value, json};

use crate::hook::{Hook, Reply};
use crate::{access, kubeconfig};

const RECORDED: &str = include_str!("authorization-configurations.json");

#[test]
fn errors_are_those_of_the_real_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, "{}").unwrap();
    let path = path.to_str().unwrap();
    let recorded: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    assert!(recorded.len() > 30);
    let mut differ = Vec::new();
    for case in &recorded {
        let text = case["text"].as_str().unwrap().replace("KUBECONFIG", path);
        let error = AuthorizationConfiguration::parse(&text).err();
        let expected = case["error"]
            .as_str()
            .map(|error| error.replace("KUBECONFIG", path));
        if error != expected {
            differ.push(format!(
                "{}\n  found    {error:?}\n  expected {expected:?}",
                case["name"]
            ));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[tokio::test]
async fn a_file_configures_the_authorizers_in_order() {
    let hook = Hook::start(|review| {
        let mut answer = review.clone();
        answer["status"] = json!({"allowed": true, "reason": "hook"});
        Reply::Json(answer)
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig(&hook)).unwrap();
    let file = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": [
            {"type": "Webhook", "name": "w", "webhook": {
                "timeout": "3s", "subjectAccessReviewVersion": "v1", "failurePolicy": "Deny",
                "authorizedTTL": "10s", "cacheAuthorizedRequests": false,
                "matchConditionSubjectAccessReviewVersion": "v1",
                "matchConditions": [{"expression": "request.user == 'jane'"}],
                "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": path},
            }},
            {"type": "ABAC", "name": "a"},
            {"type": "AlwaysDeny", "name": "d"},
        ],
    });
    let configuration = AuthorizationConfiguration::parse(&file.to_string()).unwrap();
    assert!(configuration.needs_policies());
    assert_eq!(
        configuration.authorizers(None),
        Err("authorization-mode ABAC's authorization policy file not passed".to_owned())
    );
    let modes = configuration.authorizers(Some(&Default::default())).unwrap();
    let [
        Authorization::Webhook(webhook),
        Authorization::Abac(_),
        Authorization::AlwaysDeny,
    ] = modes.as_slice()
    else {
        panic!("three authorizers: {modes:?}");
    };
    assert!(webhook.denies_on_failure && webhook.authorized_ttl.is_zero());
    assert_eq!(
        (webhook.timeout.as_secs(), webhook.unauthorized_ttl.as_secs()),
        (3, 30)
    );
    let server = ApiServer::builder().authorizers(modes).build().unwrap();
    let pods = |user: &str| json!({"user": user, "resourceAttributes": {"verb": "get", "resource": "pods"}});
    for _ in 0..2 {
        assert_eq!(
            access(&server, pods("jane")).await,
            json!({"allowed": true, "reason": "hook"})
        );
    }
    assert_eq!(
        hook.received.lock().unwrap().len(),
        2,
        "requests that are allowed are not cached"
    );
    assert_eq!(
        access(&server, pods("joe")).await,
        json!({"allowed": false, "reason": "No policy matched.\nEverything is forbidden."})
    );
}
