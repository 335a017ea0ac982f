//! Steps of workloads other than writes, changes of the spec, and checks of several versions and instances.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use operator_chaos::{Action, Chaos, Error, Oracle, Plan, Point, Report, Signature, Upgrade, Workload};
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const NO_END: Duration = Duration::from_secs(3600);

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer", "minimum": 1, "maximum": 4},
                        "mode": {"type": "string", "enum": ["fast", "safe"]},
                    }},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}

fn widget(spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

fn widgets(client: &Client) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    Api::default_namespaced_with(client.clone(), &resource)
}

/// Waits 2 s, and returns the widget and its ConfigMap. `None` if there is no widget, or a request fails.
async fn observed(client: &Client) -> Option<(DynamicObject, Option<ConfigMap>)> {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let widget = widgets(client).get_opt("w").await.ok()??;
    let configs: Api<ConfigMap> = Api::default_namespaced(client.clone());
    Some((widget, configs.get_opt("w").await.ok()?))
}

/// Writes the data of a ConfigMap for each widget every 2 s, and the status. `data` computes the data from the spec and
/// the previous data.
async fn mirror(client: Client, data: fn(&Value, &Value) -> Value) -> Outcome {
    let configs: Api<ConfigMap> = Api::default_namespaced(client.clone());
    loop {
        let Some((widget, before)) = observed(&client).await else {
            continue;
        };
        let before = serde_json::to_value(before)?;
        let data = data(&widget.data["spec"], &before["data"]);
        if before["data"] != data {
            let config =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "w"}, "data": data});
            let apply = PatchParams::apply("test").force();
            let _retried = configs.patch("w", &apply, &Patch::Apply(&config)).await;
            continue;
        }
        if widget.data["status"]["data"] != data {
            // A merge patch keeps the keys that it does not contain.
            let keys = ["mode", "size", "version"].map(|key| (key.to_owned(), data[key].clone()));
            let all: Value = serde_json::Map::from_iter(keys).into();
            let status = Patch::Merge(json!({"status": {"data": all}}));
            let _retried = widgets(&client)
                .patch_status("w", &PatchParams::default(), &status)
                .await;
        }
    }
}

fn text(spec: &Value, field: &str) -> Value {
    match &spec[field] {
        Value::Null => Value::Null,
        Value::String(text) => json!(text),
        other => json!(other.to_string()),
    }
}

/// The data is a function of the spec only.
fn honest(spec: &Value, _: &Value) -> Value {
    let fields = ["size", "mode"]
        .into_iter()
        .filter(|field| !spec[*field].is_null());
    fields
        .map(|field| (field.to_owned(), text(spec, field)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn chaos(data: fn(&Value, &Value) -> Value) -> Chaos {
    let chaos = Chaos::new(move |client| mirror(client, data));
    chaos.objects([definition()]).budget(NO_END)
}

fn only_oracle(report: &Report) -> Oracle {
    assert_eq!(report.findings.len(), 1, "{report}");
    report.findings[0].violations[0].oracle
}

#[test]
fn a_step_waits_for_a_state_of_an_object() {
    let workload = Workload::from_yaml(
        "
steps:
- apply: {apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 2}}
  wait: false
- wait: {apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, for: 'jsonpath={.status.data.size}=2'}
- wait: {apiVersion: v1, kind: ConfigMap, metadata: {name: w}, for: create}
",
    );
    chaos(honest)
        .workload(workload.unwrap())
        .plans(0)
        .run()
        .unwrap()
        .assert_clean();
    let never = Workload::new()
        .apply(widget(&json!({"size": 2})))
        .wait_for(widget(&Value::Null), "condition=Ready");
    let report = chaos(honest).workload(never).plans(0).run().unwrap();
    assert_eq!(only_oracle(&report), Oracle::Workload);
    let message = &report.findings[0].violations[0].message;
    assert_eq!(
        message,
        "step 2 (wait for Widget w condition=Ready): the state is not reached within 300 s"
    );
}

/// Writes the data of a ConfigMap for each widget every 2 s. If the first try to create it fails, it does not update the
/// ConfigMap any more until it is restarted.
async fn sulking(client: Client) -> Outcome {
    let configs: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut has_failed = false;
    loop {
        let Some((widget, before)) = observed(&client).await else {
            continue;
        };
        let data = honest(&widget.data["spec"], &Value::Null);
        let is_done = serde_json::to_value(&before)?["data"] == data;
        if is_done || (has_failed && before.is_some()) {
            continue;
        }
        let config =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "w"}, "data": data});
        let apply = PatchParams::apply("test").force();
        let written = configs.patch("w", &apply, &Patch::Apply(&config)).await;
        has_failed |= before.is_none() && written.is_err();
    }
}

/// The first runs of single faults end after the step of the fault, where the state of the cluster is as usual.
#[test]
fn a_bug_that_survives_a_step_in_memory_is_found() {
    let workload = Workload::new()
        .apply(widget(&json!({"size": 1})))
        .patch(widget(&json!({"size": 2})));
    let chaos = Chaos::new(sulking).objects([definition()]).workload(workload);
    let report = chaos.budget(NO_END).plans(150).run().unwrap();
    let finding = report.findings.first().unwrap();
    let actions: Vec<&Action> = finding.plan.faults.iter().map(|fault| &fault.action).collect();
    assert!(
        matches!(
            actions[..],
            [Action::Fail(_)
                | Action::Reset
                | Action::FailAfterCommit(_)
                | Action::ResetAfterCommit
                | Action::Outage { .. }]
        ),
        "{report}"
    );
    let is_of_config = |it: &operator_chaos::Violation| it.subject.starts_with("configmaps");
    assert!(finding.violations.iter().any(is_of_config), "{report}");
    assert_eq!(finding.workload.steps.len(), 2, "{report}");
    assert!(report.pruned > 0, "{report}");
}

#[test]
fn an_upgrade_replaces_the_operator_and_the_definitions() {
    /// The second version writes another key, which the first version does not know.
    fn second(spec: &Value, before: &Value) -> Value {
        let mut data = honest(spec, before);
        data["version"] = json!("2");
        data
    }
    /// A second version that keeps the data of the first version.
    fn lazy(spec: &Value, before: &Value) -> Value {
        match before.is_object() {
            true => before.clone(),
            false => second(spec, before),
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("crd.yaml");
    let text = definition().to_string().replace("\"maximum\":4", "\"maximum\":9");
    std::fs::write(&path, text).unwrap();
    let workload = Workload::new()
        .apply(widget(&json!({"size": 3})))
        .upgrade(Upgrade {
            crds: Some(path.clone()),
            operator: Some("second".to_owned()),
            command: Vec::new(),
        });
    let upgrade = |data: fn(&Value, &Value) -> Value| {
        let chaos = chaos(honest).version("second", move |client| mirror(client, data));
        chaos.workload(workload.clone()).plans(0)
    };
    upgrade(second).run().unwrap().assert_clean();
    let larger = workload.clone().apply(widget(&json!({"size": 9})));
    upgrade(second).workload(larger).run().unwrap().assert_clean();
    let report = upgrade(lazy).run().unwrap();
    assert_eq!(only_oracle(&report), Oracle::FreshDeploy, "{report}");
    assert!(
        report.findings[0].violations[0].message.contains("data.version"),
        "{report}"
    );
    // The finding can be replayed.
    let replayed = upgrade(lazy).replay(&Plan::default()).unwrap();
    assert_eq!(replayed.findings[0].violations, report.findings[0].violations);

    let unknown = chaos(honest).workload(workload.clone()).run();
    assert!(matches!(unknown, Err(Error::Version { name }) if name == "second"));
    let missing = Workload::new().upgrade(Upgrade {
        crds: Some("/nonexistent/crds".into()),
        ..Upgrade::default()
    });
    assert!(matches!(
        chaos(honest).workload(missing).run(),
        Err(Error::Read { .. })
    ));
}

#[test]
fn changes_of_the_spec_are_taken_from_the_schema_and_compared_with_a_fresh_deployment() {
    let workload = || Workload::new().apply(widget(&json!({"size": 2, "mode": "fast"})));
    let report = chaos(honest).workload(workload()).plans(56).run().unwrap();
    report.assert_clean();
    // 1, 4, 3 and no value for the size; safe and no value for the mode. The server accepts all of them.
    assert_eq!(report.mutations, 6, "{report}");

    /// The size only grows.
    fn growing(spec: &Value, before: &Value) -> Value {
        let mut data = honest(spec, before);
        let size = |value: &Value| value["size"].as_str().and_then(|text| text.parse::<i64>().ok());
        if size(before) > size(&data) {
            data["size"] = before["size"].clone();
        }
        data
    }
    let explore = || chaos(growing).workload(workload()).plans(56);
    let report = explore().stop_at_first_finding().run().unwrap();
    let finding = &report.findings[0];
    assert_eq!(finding.violations[0].oracle, Oracle::FreshDeploy, "{report}");
    assert_eq!(finding.violations[0].subject, "configmaps default/w", "{report}");
    let replayed = explore()
        .workload(finding.workload.clone())
        .replay(&finding.plan)
        .unwrap();
    assert_eq!(replayed.findings[0].violations, finding.violations);
}

#[test]
fn expressions_of_a_workload_are_checked() {
    let yaml = "
steps:
- apply: {apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 2}}
- patch: {apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 3}}
always:
  small: objects['configmaps'].all(it, it.metadata.name != 'w' || it.data.size != '3')
eventually:
  pods: objects['pods'].size() > 0
";
    let workload = Workload::from_yaml(yaml).unwrap();
    let report = chaos(honest)
        .workload(workload)
        .never_cel("none", "false")
        .run()
        .unwrap();
    let found: Vec<&str> = report.findings[0]
        .violations
        .iter()
        .map(|it| it.subject.as_str())
        .collect();
    assert_eq!(found, ["small", "pods"], "{report}");
    let wrong = chaos(honest).always_cel("wrong", "objects[").run();
    assert!(matches!(wrong, Err(Error::Predicate { name, .. }) if name == "wrong"));
}

/// Holds a lease of 15 s, and writes an object every second. With `checks`, it stops when it cannot renew the lease.
async fn leader(client: Client, checks: bool) -> Outcome {
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let configs: Api<ConfigMap> = Api::default_namespaced(client);
    let identity = format!("instance-{:?}", tokio::time::Instant::now());
    let mut renewed = None;
    let mut observed: (Option<String>, tokio::time::Instant) = (None, tokio::time::Instant::now());
    let mut count = 0;
    let mut written = None;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Ok(lease) = leases.get_opt("lock").await {
            let spec = lease.as_ref().and_then(|lease| lease.spec.as_ref());
            let holder = spec.and_then(|spec| spec.holder_identity.clone());
            let version = lease
                .as_ref()
                .and_then(|lease| lease.metadata.resource_version.clone());
            if observed.0 != version {
                observed = (version.clone(), tokio::time::Instant::now());
            }
            let is_free = holder.is_none() || observed.1.elapsed() > Duration::from_secs(15);
            if is_free || holder.as_ref() == Some(&identity) {
                count += 1;
                let lease = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                    "metadata": {"name": "lock", "resourceVersion": version},
                    "spec": {"holderIdentity": identity, "leaseTransitions": count},
                });
                let apply = PatchParams::apply("test").force();
                if leases.patch("lock", &apply, &Patch::Apply(&lease)).await.is_ok() {
                    renewed = Some(tokio::time::Instant::now());
                }
            }
        }
        let Some(since) = renewed else { continue };
        if checks && since.elapsed() > Duration::from_secs(10) {
            return Err("the lease is lost".into());
        }
        let Ok(Some(wanted)) = configs.get_opt("wanted").await else {
            continue;
        };
        if written != wanted.data {
            let made = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": wanted.data});
            let apply = PatchParams::apply("test").force();
            if configs.patch("made", &apply, &Patch::Apply(&made)).await.is_ok() {
                written = wanted.data;
            }
        }
    }
}

#[test]
fn an_instance_that_writes_without_its_lease_is_found() {
    let wanted = |size: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wanted"}, "data": {"size": size}});
    let workload = || {
        let workload = Workload::new().apply(wanted("1")).apply(wanted("2"));
        let sleep = Workload::from_yaml("steps: [{sleep: 40}]").unwrap().steps;
        let mut workload = workload.apply(wanted("3")).apply(wanted("4"));
        workload.steps.splice(1..1, sleep);
        workload
    };
    let plan = Plan::single(1, Point::Step { step: 1 }, Action::LoseLease { seconds: 60 });
    let replay = |checks| {
        let chaos = Chaos::new(move |client| leader(client, checks)).workload(workload());
        chaos.without_idempotence_check().replay(&plan).unwrap()
    };
    replay(true).assert_clean();
    let report = replay(false);
    assert_eq!(only_oracle(&report), Oracle::Leadership, "{report}");
    assert!(
        report.findings[0].violations[0]
            .message
            .contains("while instance 2 holds the lease"),
        "{report}"
    );
}

/// Creates a StatefulSet for the widget, and repairs its size if `is_careful` is true.
async fn deployer(client: Client, is_careful: bool) -> Outcome {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "StatefulSet"));
    let sets: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
    let mut applied: Option<Value> = None;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let Ok(Some(widget)) = widgets(&client).get_opt("w").await else {
            continue;
        };
        let size = widget.data["spec"]["size"].clone();
        let found = sets.get_opt("w").await;
        let is_current = match (&found, is_careful) {
            (Ok(Some(found)), true) => found.data["spec"]["replicas"] == size,
            (Ok(None), true) | (Err(_), _) => false,
            (Ok(_), false) => applied.as_ref() == Some(&size),
        };
        if is_current {
            continue;
        }
        let labels = json!({"app": "w"});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "w"},
            "spec": {
                "replicas": size, "serviceName": "w", "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
                },
            },
        });
        let apply = PatchParams::apply("test").force();
        if sets.patch("w", &apply, &Patch::Apply(&set)).await.is_ok() {
            applied = Some(size);
        }
    }
}

/// Returns facts about pods and nodes that are true only after disturbances, and the number of created pods.
fn facts(cluster: &operator_chaos::Cluster<'_>) -> Vec<String> {
    let text = |object: &Value, pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let seconds = |text: String| {
        text.parse::<jiff::Timestamp>()
            .map_or(0, jiff::Timestamp::as_second)
    };
    let mut found = Vec::new();
    for pod in cluster.list("pods") {
        found.push(format!("pod {}", text(pod, "/metadata/uid")));
        found.push(text(pod, "/status/containerStatuses/0/state/waiting/reason"));
        let started = seconds(text(pod, "/status/containerStatuses/0/state/running/startedAt"));
        if started > seconds(text(pod, "/metadata/creationTimestamp")) + 20 {
            found.push("slow".to_owned());
        }
    }
    for node in cluster.list("nodes") {
        let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
        let ready = conditions.into_iter().flatten().find(|it| it["type"] == "Ready");
        found.extend(ready.map(|it| format!("node {}", text(it, "/status"))));
    }
    found
}

#[test]
fn the_environment_recovers_and_users_are_corrected() {
    let workload = || {
        let step = |size: i32| widget(&json!({"size": size}));
        Workload::new().apply(step(2)).apply(step(3))
    };
    let chaos = |is_careful| {
        let chaos = Chaos::new(move |client| deployer(client, is_careful));
        chaos.objects([definition()]).workload(workload())
    };
    let set = "statefulsets.apps default/w".to_owned();
    // The name of a pod of a set is generated, so that it is canonicalized for the comparison of runs.
    let pod = "pods default/w-*".to_owned();
    let seconds = 30;
    let lose_node = Action::LoseNode {
        node: "node-1".to_owned(),
        seconds: 400,
    };
    let edit = Action::EditChild {
        object: set.clone(),
        patch: r#"{"spec":{"replicas":2}}"#.to_owned(),
    };
    let crash = Action::CrashPod {
        object: pod.clone(),
        seconds,
    };
    let delete = Action::DeleteChild { object: set };
    // Each run without faults creates three pods, and two such runs precede the run of the plan.
    let actions = [
        (0, Action::HoldPods { seconds }, "slow", 9),
        (1, lose_node, "node Unknown", 11),
        (1, Action::ClockJump { seconds: -600 }, "node True", 9),
        (1, Action::ClockJump { seconds: 600 }, "node True", 9),
        (1, Action::EvictPod { object: pod }, "node True", 10),
        (1, crash, "CrashLoopBackOff", 9),
        (1, delete.clone(), "node True", 11),
        (2, edit, "node True", 10),
    ];
    for (step, action, fact, pods) in actions {
        let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let shared = seen.clone();
        let plan = Plan::single(1, Point::Step { step }, action.clone());
        let watched = chaos(true).always("facts", move |cluster| {
            shared.lock().unwrap().extend(facts(cluster));
            true
        });
        watched.replay(&plan).unwrap().assert_clean();
        let seen = seen.lock().unwrap();
        assert!(seen.contains(fact), "{action:?}: {seen:?}");
        let found = seen.iter().filter(|fact| fact.starts_with("pod ")).count();
        assert_eq!(found, pods, "{action:?}: {seen:?}");
    }
    // An operator that reacts only to changes of its widget does not undo the changes of users.
    let deletion = Plan::single(1, Point::Step { step: 2 }, delete);
    let report = chaos(false).replay(&deletion).unwrap();
    let violations = report.findings[0].violations.iter();
    let of_set = violations.filter(|it| it.subject == "statefulsets.apps default/w");
    assert_eq!(
        of_set.map(|it| it.oracle).collect::<Vec<_>>(),
        [Oracle::EndState],
        "{report}"
    );
}

#[test]
fn claims_stay_pending_while_volumes_are_held_back() {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let bound = claim.clone();
    let workload = |limit: &str| {
        let wait = format!(
            "steps: [{{wait: {{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: c}}, \
             for: 'jsonpath={{.status.phase}}=Bound', timeout: {limit}}}}}]"
        );
        let mut workload = Workload::new().apply(&bound).and_at_once();
        workload.steps.extend(Workload::from_yaml(&wait).unwrap().steps);
        workload
    };
    let plan = Plan::single(1, Point::Step { step: 0 }, Action::HoldVolumes { seconds: 30 });
    let replay = |limit| chaos(honest).workload(workload(limit)).replay(&plan).unwrap();
    replay("60").assert_clean();
    assert_eq!(only_oracle(&replay("10")), Oracle::Workload);
}

#[test]
fn a_request_meets_an_object_that_a_user_has_deleted() {
    let call = Signature::new("apply configmaps default/w");
    let plan = Plan::single(1, Point::Call { call, occurrence: 2 }, Action::ThirdPartyDelete);
    let workload = Workload::new()
        .apply(widget(&json!({"size": 2})))
        .apply(widget(&json!({"size": 3})));
    chaos(honest)
        .workload(workload)
        .replay(&plan)
        .unwrap()
        .assert_clean();
}
