//! The log of the control plane.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of these tests fail as the tests do"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use operator_apiserver::ApiServer;
use operator_apiserver::client::{Client, DeleteOptions, Gvr};
use operator_controlplane::{ControlPlane, Options};
use serde_json::{Value, json};

const NOT_SETTLED: &str = "still wants to change objects after";

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Returns the number of lines with a text.
    fn count(&self, text: &str) -> usize {
        self.text().lines().filter(|line| line.contains(text)).count()
    }

    /// Waits until a line with a text is written.
    async fn until(&self, text: &str) {
        let reached = async {
            while self.count(text) == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_secs(20), reached).await;
        assert!(reached.is_ok(), "{text} is not in {}", self.text());
    }
}

/// Creates a policy that reverts each repair of the certificate authority in the namespace `default`.
async fn revert_repairs(client: &Client) {
    let group = "admissionregistration.k8s.io";
    let policy = json!({
        "metadata": {"name": "revert"},
        "spec": {
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"],
            }]},
            "matchConditions": [{"name": "one", "expression": "object.metadata.namespace == 'default'"}],
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{data: {'ca.crt': 'changed'}}"},
            }],
        },
    });
    let policies = Gvr::new(group, "v1", "mutatingadmissionpolicies");
    client.create(&policies, "", policy).await.unwrap();
    let binding = json!({"metadata": {"name": "revert"}, "spec": {"policyName": "revert"}});
    let bindings = Gvr::new(group, "v1", "mutatingadmissionpolicybindings");
    client.create(&bindings, "", binding).await.unwrap();
}

async fn until(client: &Client, pods: &Gvr, wanted: impl Fn(&[Arc<Value>]) -> bool) {
    let reached = async {
        while !wanted(&client.list(pods, "default", "").await.unwrap().items) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reached)
        .await
        .unwrap();
}

// One test, because the state of a log statement belongs to the whole process.
#[tokio::test]
async fn a_plan_that_never_settles_is_reported_once_and_others_are_not() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    let _log = tracing::subscriber::set_default(subscriber);
    let server = ApiServer::builder().build().unwrap();
    let client = server.client();
    let options = Options {
        root_ca: "PEM".to_owned(),
        ..Options::default()
    };
    let _control_plane = ControlPlane::start(&client, options);
    // A pod that starts and is deleted settles.
    let accounts = Gvr::new("", "v1", "serviceaccounts");
    until(&client, &accounts, |accounts| !accounts.is_empty()).await;
    let pods = Gvr::new("", "v1", "pods");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    client.create(&pods, "default", pod).await.unwrap();
    let is_running = |pods: &[Arc<Value>]| pods.iter().all(|pod| pod["status"]["phase"] == "Running");
    until(&client, &pods, is_running).await;
    let options = DeleteOptions::default();
    client.delete(&pods, "default", "p", options).await.unwrap();
    until(&client, &pods, <[_]>::is_empty).await;
    assert_eq!(log.count("WARN"), 0, "{}", log.text());
    revert_repairs(&client).await;
    let maps = Gvr::new("", "v1", "configmaps");
    let options = DeleteOptions::default();
    client
        .delete(&maps, "default", "kube-root-ca.crt", options)
        .await
        .unwrap();
    log.until(NOT_SETTLED).await;
    // Time for several retries.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(log.count(NOT_SETTLED), 1);
    assert_eq!(log.count("WARN"), 1, "{}", log.text());
}
