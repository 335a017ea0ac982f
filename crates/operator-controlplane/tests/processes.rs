//! Tests of pods that run as local processes: arguments, environment, credentials, logs, restarts and termination.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of these tests fail as the tests do"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use operator_apiserver::client::{Client, DeleteOptions, Gvr};
use operator_apiserver::{ApiServer, ListenOptions, Listener};
use operator_controlplane::{ControlPlane, Options, Processes, Program, register};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

const IMAGE: &str = "example.com/web:1";

struct Stage {
    server: ApiServer,
    client: Client,
    control_plane: ControlPlane,
    processes: Processes,
    directory: TempDir,
    _listener: Listener,
}

async fn stage() -> Stage {
    let server = ApiServer::builder().build().unwrap();
    let listener = server.listen(ListenOptions::default()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let processes = Processes::new(&server, &listener, directory.path());
    let options = Options {
        processes: Some(processes.clone()),
        ..Options::default()
    };
    Stage {
        client: server.client(),
        control_plane: ControlPlane::start(&server.client(), options),
        server,
        processes,
        directory,
        _listener: listener,
    }
}

fn pods() -> Gvr {
    Gvr::new("", "v1", "pods")
}

/// Writes an executable shell script.
fn script(directory: &Path, text: &str) -> PathBuf {
    let path = directory.join("program");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn pod(name: &str, container: &Value) -> Value {
    let mut all = json!({"name": "web", "image": IMAGE});
    all.as_object_mut()
        .unwrap()
        .extend(container.as_object().unwrap().clone());
    json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [all]},
    })
}

impl Stage {
    async fn create(&self, pod: Value) -> Arc<Value> {
        let accounts = Gvr::new("", "v1", "serviceaccounts");
        while self.client.get(&accounts, "default", "default").await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.client.create(&pods(), "default", pod).await.unwrap()
    }

    /// Waits until the pod satisfies a condition. A deleted pod is `Null`.
    async fn eventually(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        for attempt in 0.. {
            let found = self.client.get(&pods(), "default", name).await;
            let last = found.map(|pod| Value::clone(&pod)).unwrap_or_default();
            if wanted(&last) {
                return last;
            }
            assert!(attempt < 600, "the pod is still {last:#}");
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        Value::Null
    }

    async fn log(&self, name: &str, query: &str) -> String {
        let path = format!("/api/v1/namespaces/default/pods/{name}/log?{query}");
        let request = Request::get(path).body(String::new()).unwrap();
        let Ok(response) = self.server.clone().oneshot(request).await;
        let body = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    async fn eventually_logs(&self, name: &str, wanted: &str) -> String {
        for attempt in 0.. {
            let log = self.log(name, "").await;
            if log.contains(wanted) {
                return log;
            }
            assert!(attempt < 600, "{wanted:?} is not in {log:?}");
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        String::new()
    }
}

fn state<'a>(pod: &'a Value, pointer: &str) -> &'a Value {
    let path = format!("/status/containerStatuses/0{pointer}");
    pod.pointer(&path).unwrap_or(&Value::Null)
}

fn is_alive(process: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // A zombie process has ended.
    !status.is_empty() && !status.contains(") Z ")
}

#[tokio::test]
async fn a_pod_runs_a_program_with_its_arguments_environment_and_credentials() {
    let stage = stage().await;
    let text = r#"echo "args $*"; echo "ip $IP account $ACCOUNT"; cat "$KUBECONFIG"; echo; cat namespace; echo " end"; exec sleep 60"#;
    let path = script(stage.directory.path(), text);
    let program = Program::new(path).argument("--webhook-host=$(POD_IP)");
    stage.processes.add(IMAGE, program);
    let container = json!({
        "args": ["--health=:8081", "$(ACCOUNT)"],
        "env": [
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "ACCOUNT", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}},
        ],
    });
    let created = stage.create(pod("a", &container)).await;
    let running = stage
        .eventually("a", |pod| !state(pod, "/state/running").is_null())
        .await;
    assert_eq!(running["status"]["phase"], "Running");
    assert_eq!(state(&running, "/ready"), &json!(true));
    let address = running["status"]["podIP"].as_str().unwrap();
    let local = address.replacen("10.", "127.", 1);
    let log = stage.eventually_logs("a", " end\n").await;
    assert!(
        log.contains(&format!(
            "args --health={local}:8081 default --webhook-host={local}\n"
        )),
        "{log}"
    );
    assert!(log.contains(&format!("ip {local} account default\n")), "{log}");
    assert!(log.contains("\"current-context\":\"pod\""), "{log}");
    assert!(log.contains("default end\n"), "{log}");
    assert_eq!(stage.log("a", "tailLines=1").await, "default end\n");
    let private = stage
        .directory
        .path()
        .join("pods")
        .join(created["metadata"]["uid"].as_str().unwrap());
    let token = std::fs::read_to_string(private.join("token")).unwrap();
    assert_eq!(token.split('.').count(), 3, "{token}");
    let options = DeleteOptions::default();
    stage
        .client
        .delete(&pods(), "default", "a", options)
        .await
        .unwrap();
    stage.eventually("a", Value::is_null).await;
    assert!(!private.exists());
}

#[tokio::test]
async fn two_replicas_have_addresses_of_their_own() {
    let stage = stage().await;
    stage
        .processes
        .add(IMAGE, script(stage.directory.path(), "exec sleep 60"));
    stage.create(pod("a", &json!({}))).await;
    stage.create(pod("b", &json!({}))).await;
    let mut addresses = Vec::new();
    for name in ["a", "b"] {
        let running = stage
            .eventually(name, |pod| pod["status"]["phase"] == "Running")
            .await;
        addresses.push(running["status"]["podIP"].clone());
    }
    assert_ne!(addresses[0], addresses[1]);
}

#[tokio::test]
async fn a_program_that_fails_is_restarted_with_a_backoff_and_its_logs_are_kept() {
    let stage = stage().await;
    let path = script(stage.directory.path(), "echo sorry >&2; exit 3");
    stage.processes.add(IMAGE, path);
    stage.create(pod("a", &json!({}))).await;
    let waiting = stage
        .eventually("a", |pod| {
            state(pod, "/state/waiting/reason") == "CrashLoopBackOff"
        })
        .await;
    assert_eq!(state(&waiting, "/restartCount"), &json!(1));
    assert_eq!(state(&waiting, "/lastState/terminated/exitCode"), &json!(3));
    let message = state(&waiting, "/state/waiting/message").as_str().unwrap();
    assert!(
        message.starts_with("back-off 10s restarting failed container=web pod=a_default("),
        "{message}"
    );
    assert_eq!(waiting["status"]["phase"], "Running");
    assert_eq!(stage.log("a", "").await, "sorry\n");
    assert_eq!(stage.log("a", "previous=true").await, "sorry\n");
    let options = DeleteOptions::default();
    stage
        .client
        .delete(&pods(), "default", "a", options)
        .await
        .unwrap();
    stage.eventually("a", Value::is_null).await;
}

#[tokio::test]
async fn a_missing_program_is_reported_in_the_log() {
    let stage = stage().await;
    stage.processes.add(IMAGE, "/nonexistent/program");
    let mut once = pod("a", &json!({}));
    once["spec"]["restartPolicy"] = "Never".into();
    stage.create(once).await;
    let ended = stage
        .eventually("a", |pod| pod["status"]["phase"] == "Failed")
        .await;
    assert_eq!(state(&ended, "/state/terminated/reason"), "StartError");
    assert!(
        stage
            .log("a", "")
            .await
            .starts_with("cannot run /nonexistent/program: ")
    );
}

#[tokio::test]
async fn a_missing_secret_is_reported_and_waited_for() {
    let stage = stage().await;
    stage
        .processes
        .add(IMAGE, script(stage.directory.path(), "echo $KEY; exec sleep 60"));
    let from = json!({"secretKeyRef": {"name": "s", "key": "k"}});
    stage
        .create(pod("a", &json!({"env": [{"name": "KEY", "valueFrom": from}]})))
        .await;
    let waiting = stage
        .eventually("a", |pod| {
            state(pod, "/state/waiting/reason") == "CreateContainerConfigError"
        })
        .await;
    assert_eq!(
        state(&waiting, "/state/waiting/message"),
        "secret \"s\" not found"
    );
    assert_eq!(waiting["status"]["phase"], "Pending");
}

#[tokio::test]
async fn a_deleted_pod_gets_its_grace_period_and_nothing_of_it_stays() {
    let stage = stage().await;
    let text = "trap 'echo bye; exit 0' TERM; sleep 60 & echo pids $! $$; while :; do wait; done";
    stage.processes.add(IMAGE, script(stage.directory.path(), text));
    let mut held = pod("a", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    stage.create(held).await;
    let log = stage.eventually_logs("a", "pids").await;
    let processes: Vec<&str> = log.split_whitespace().skip(1).collect();
    assert!(processes.iter().all(|process| is_alive(process)), "{log}");
    let options = DeleteOptions::default();
    stage
        .client
        .delete(&pods(), "default", "a", options)
        .await
        .unwrap();
    let ended = stage
        .eventually("a", |pod| !state(pod, "/state/terminated").is_null())
        .await;
    assert_eq!(state(&ended, "/state/terminated/exitCode"), &json!(0));
    assert_eq!(ended["status"]["phase"], "Succeeded");
    assert!(!processes.iter().any(|process| is_alive(process)), "{log}");
}

#[tokio::test]
async fn processes_end_with_the_control_plane() {
    for is_orderly in [true, false] {
        let stage = stage().await;
        let path = script(stage.directory.path(), "sleep 60 & echo pids $! $$; wait");
        stage.processes.add(IMAGE, path);
        stage.create(pod("a", &json!({}))).await;
        let log = stage.eventually_logs("a", "pids").await;
        let processes: Vec<&str> = log.split_whitespace().skip(1).collect();
        if is_orderly {
            stage.control_plane.shutdown().await;
        } else {
            drop(stage.control_plane);
        }
        for _ in 0..200 {
            if !processes.iter().any(|process| is_alive(process)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        assert!(!processes.iter().any(|process| is_alive(process)), "{is_orderly}");
    }
}

#[tokio::test]
async fn a_program_runs_for_registered_images_alone() {
    let stage = stage().await;
    let mark = stage.directory.path().join("mark");
    let path = script(
        stage.directory.path(),
        &format!("touch {}; exec sleep 60", mark.display()),
    );
    let program = Program::new(path).in_namespace("default");
    register(stage.directory.path(), IMAGE, &program).unwrap();
    let mut other = pod("other", &json!({}));
    other["spec"]["containers"][0]["image"] = "example.com/other".into();
    stage.create(other).await;
    let simulated = stage
        .eventually("other", |pod| pod["status"]["phase"] == "Running")
        .await;
    assert!(
        state(&simulated, "/imageID")
            .as_str()
            .unwrap()
            .starts_with("simulated://")
    );
    assert!(!mark.exists());
    stage.create(pod("a", &json!({}))).await;
    let running = stage
        .eventually("a", |pod| pod["status"]["phase"] == "Running")
        .await;
    assert!(
        state(&running, "/imageID")
            .as_str()
            .unwrap()
            .starts_with("process://")
    );
}
