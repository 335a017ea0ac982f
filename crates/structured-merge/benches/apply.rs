//! Benchmarks of server-side apply without a server.
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark whose writes fail measures nothing"
)]

use divan::Bencher;
use serde_json::{Value, json};
use structured_merge::{FieldManager, FieldSet};

const NOW: &str = "2026-01-01T00:00:00Z";

fn main() {
    divan::main();
}

fn container(index: usize) -> Value {
    json!({
        "name": format!("container-{index}"),
        "image": "registry.example.com/app:1",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"containerPort": 8000 + index, "protocol": "TCP", "name": format!("p{index}")}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    })
}

fn deployment(containers: usize) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "app", "namespace": "default", "labels": {"app": "app", "tier": "backend"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "app"}},
            "template": {
                "metadata": {"labels": {"app": "app"}},
                "spec": {
                    "containers": (0..containers).map(container).collect::<Vec<_>>(),
                    "volumes": [{"name": "data", "emptyDir": {}}],
                    "serviceAccountName": "app",
                },
            },
        },
    })
}

/// Returns the object as a server stores it: with defaults, and with the status of another manager.
fn stored(manager: &FieldManager, config: &Value) -> Value {
    let mut live = manager.apply(None, config, "operator", false, NOW).unwrap();
    for container in live["spec"]["template"]["spec"]["containers"]
        .as_array_mut()
        .unwrap()
    {
        container["imagePullPolicy"] = "IfNotPresent".into();
        container["terminationMessagePath"] = "/dev/termination-log".into();
        container["terminationMessagePolicy"] = "File".into();
    }
    let spec = &mut live["spec"];
    spec["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    spec["progressDeadlineSeconds"] = 600.into();
    spec["template"]["spec"]["dnsPolicy"] = "ClusterFirst".into();
    live["metadata"]["uid"] = "b5a1e3a0-0000-4000-8000-000000000000".into();
    let mut updated = live.clone();
    updated["status"] = json!({
        "replicas": 3, "readyReplicas": 3, "observedGeneration": 1,
        "conditions": [{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True"}],
    });
    manager.update(Some(&live), updated, "kube-controller-manager", NOW)
}

fn deployments() -> FieldManager {
    FieldManager::builtin("apps", "v1", "Deployment").unwrap()
}

#[divan::bench(args = [1, 2, 100])]
fn no_op_apply_of_a_deployment(bencher: Bencher<'_, '_>, containers: usize) {
    let (manager, config) = (deployments(), deployment(containers));
    let live = stored(&manager, &config);
    bencher.bench(|| manager.apply(Some(&live), &config, "operator", true, NOW));
}

#[divan::bench(args = [1, 100])]
fn apply_that_changes_an_image(bencher: Bencher<'_, '_>, containers: usize) {
    let (manager, config) = (deployments(), deployment(containers));
    let live = stored(&manager, &config);
    let mut changed = config;
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/app:2".into();
    bencher.bench(|| manager.apply(Some(&live), &changed, "operator", true, NOW));
}

#[divan::bench(args = [1, 100])]
fn apply_that_drops_a_variable(bencher: Bencher<'_, '_>, containers: usize) {
    let (manager, config) = (deployments(), deployment(containers));
    let live = stored(&manager, &config);
    let mut changed = config;
    changed["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]);
    bencher.bench(|| manager.apply(Some(&live), &changed, "operator", true, NOW));
}

#[divan::bench(args = [1, 100])]
fn update_that_changes_replicas(bencher: Bencher<'_, '_>, containers: usize) {
    let (manager, config) = (deployments(), deployment(containers));
    let live = stored(&manager, &config);
    let mut changed = live.clone();
    changed["spec"]["replicas"] = 4.into();
    bencher
        .with_inputs(|| changed.clone())
        .bench_values(|changed| manager.update(Some(&live), changed, "operator", NOW));
}

/// Returns a Service with a long map list: `ports` items with two keys each.
fn service(ports: usize, target: usize) -> Value {
    let port = |port: usize| json!({"port": port, "protocol": "TCP", "name": format!("p{port}"), "targetPort": target});
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "app"},
        "spec": {"ports": (1..=ports).map(port).collect::<Vec<_>>()},
    })
}

#[divan::bench(args = [1_000])]
fn apply_to_a_map_list(bencher: Bencher<'_, '_>, items: usize) {
    let manager = FieldManager::builtin("", "v1", "Service").unwrap();
    let live = manager
        .apply(None, &service(items, 1), "operator", false, NOW)
        .unwrap();
    let changed = service(items, 2);
    bencher.bench(|| manager.apply(Some(&live), &changed, "operator", true, NOW));
}

#[divan::bench(args = [1_000])]
fn field_set_from_text_and_back(bencher: Bencher<'_, '_>, items: usize) {
    let manager = FieldManager::builtin("", "v1", "Service").unwrap();
    let live = manager
        .apply(None, &service(items, 1), "operator", false, NOW)
        .unwrap();
    let fields = live["metadata"]["managedFields"][0]["fieldsV1"].clone();
    bencher.bench(|| FieldSet::from_value(&fields).unwrap().to_value());
}

#[divan::bench]
fn would_change_of_a_deployment(bencher: Bencher<'_, '_>) {
    let (manager, config) = (deployments(), deployment(2));
    let live = stored(&manager, &config);
    bencher.bench(|| manager.would_change(&live, &config, "operator"));
}
