//! Published bugs of operators, reproduced in small operators, each with its bug and its correction.
//!
//! Sieve (OSDI 2022) found these bugs in the operators of RabbitMQ, Cassandra, ZooKeeper and NiFi. The tests explore the
//! operators with the bugs until the first finding, and replay those plans on the corrected operators. The ignored tests print the
//! table of docs/book/src/guides/chaos.md, and explore all corrected operators:
//! `cargo test -p operator-chaos --test published -- --ignored --nocapture`. `CASE=casskop` selects the cases with this name.

use std::future::pending;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::GroupVersionKind;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use operator_chaos::{Chaos, Delays, Oracle, Violation, Workload};
use serde_json::{Value, json};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Outcome = Result<(), BoxError>;

/// The number of plans of a campaign: the single faults, and some pairs.
const PLANS: usize = 600;
/// The number of plans for a corrected operator. The classes of faults alternate.
const CORRECTED_PLANS: usize = 128;
/// The operators with the bug of K8SSAND-559.
const SAME_PATTERN: [&str; 3] = ["cassandra-operator 402", "casskop 316", "zookeeper-operator 312"];
const FINALIZER: &str = "proof.example.com/cleanup";

/// A bug, and the workload that provokes it.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    reconcile: Reconcile,
    workload: fn() -> Workload,
    /// The resource in the finding.
    resource: &'static str,
}

type Reconcile = fn(Context, Value, bool) -> futures::future::BoxFuture<'static, Outcome>;

/// The connection of a small operator, and its caches, whose lists accept any version, like those of client-go.
#[derive(Clone)]
struct Context {
    client: Client,
    clusters: Store<DynamicObject>,
    pods: Store<DynamicObject>,
}

fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "Cluster" => ("proof.example.com", "v1"),
        "StatefulSet" => ("apps", "v1"),
        _ => ("", "v1"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

impl Context {
    fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::default_namespaced_with(self.client.clone(), &resource(kind))
    }

    async fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, BoxError> {
        let found = self.api(kind).get_opt(name).await?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    async fn create(&self, kind: &str, object: Value) -> Outcome {
        let object = serde_json::from_value(object)?;
        match self.api(kind).create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            created => Ok(created.map(drop)?),
        }
    }

    async fn patch(&self, kind: &str, name: &str, patch: Value) -> Outcome {
        let patch = Patch::Merge(patch);
        self.api(kind)
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn delete(&self, kind: &str, name: &str) -> Outcome {
        self.delete_with(kind, name, &DeleteParams::default()).await
    }

    async fn delete_with(&self, kind: &str, name: &str, params: &DeleteParams) -> Outcome {
        match self.api(kind).delete(name, params).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            deleted => Ok(deleted.map(drop)?),
        }
    }

    async fn list(&self, kind: &str) -> Result<Vec<Value>, BoxError> {
        let all = self.api(kind).list(&Default::default()).await?;
        all.items
            .into_iter()
            .map(|object| Ok(serde_json::to_value(object)?))
            .collect()
    }

    /// Creates the StatefulSet of a cluster unless it exists, and returns it.
    async fn stateful_set(&self, cluster: &Value, capacity: &Value) -> Result<Value, BoxError> {
        let name = name_of(cluster);
        if let Some(found) = self.get("StatefulSet", name).await? {
            return Ok(found);
        }
        let labels = json!({"cluster": name});
        let object = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {
                "name": name, "labels": labels, "annotations": {"capacity": capacity.to_string()},
                "ownerReferences": [owner(cluster)],
            },
            "spec": {
                "serviceName": name, "replicas": cluster["spec"]["replicas"].as_i64().unwrap_or(1),
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
                },
            },
        });
        self.create("StatefulSet", object.clone()).await?;
        Ok(object)
    }

    /// Creates the claim of an instance unless it exists.
    async fn claim(&self, cluster: &Value, number: i64) -> Outcome {
        let name = name_of(cluster);
        let claim = format!("data-{name}-{number}");
        if self.get("PersistentVolumeClaim", &claim).await?.is_some() {
            return Ok(());
        }
        let object = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": claim, "labels": {"cluster": name, "uid": cluster["metadata"]["uid"]},
                "annotations": {"size": cluster["spec"]["size"].to_string()},
            },
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        self.create("PersistentVolumeClaim", object).await
    }

    async fn set_finalizers(&self, cluster: &Value, finalizers: &[&str]) -> Outcome {
        let patch = json!({"metadata": {"finalizers": finalizers, "uid": cluster["metadata"]["uid"]}});
        self.patch("Cluster", name_of(cluster), patch).await
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn owner(cluster: &Value) -> Value {
    json!({
        "apiVersion": "proof.example.com/v1", "kind": "Cluster", "name": name_of(cluster),
        "uid": cluster["metadata"]["uid"], "controller": true,
    })
}

fn is_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn replicas(object: &Value) -> i64 {
    object["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// Returns the number at the end of a name.
fn ordinal(object: &Value) -> i64 {
    name_of(object)
        .rsplit('-')
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

fn new_store(kind: &str) -> (Store<DynamicObject>, Writer<DynamicObject>) {
    let writer = Writer::new(resource(kind));
    (writer.as_reader(), writer)
}

/// Reconciles every cluster of the cache each second.
async fn operate(client: Client, reconcile: Reconcile, is_fixed: bool) -> Outcome {
    let (clusters, clusters_writer) = new_store("Cluster");
    let (pods, pods_writer) = new_store("Pod");
    let context = Context {
        client: client.clone(),
        clusters,
        pods,
    };
    let follow = |kind: &str, writer| {
        let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource(kind));
        // With a page size, kube requests the newest state.
        let config = watcher::Config {
            page_size: None,
            ..watcher::Config::default().any_semantic()
        };
        reflector(writer, watcher(api, config).default_backoff()).for_each(|_| std::future::ready(()))
    };
    let work = async {
        context.clusters.wait_until_ready().await?;
        context.pods.wait_until_ready().await?;
        loop {
            for cluster in context.clusters.state() {
                let cluster = serde_json::to_value(&*cluster)?;
                // The next round tries again.
                let _error = reconcile(context.clone(), cluster, is_fixed).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        ended = work => ended,
        () = follow("Cluster", clusters_writer) => pending().await,
        () = follow("Pod", pods_writer) => pending().await,
    }
}

/// K8SSAND-559, cassandra-operator 402, casskop 316, zookeeper-operator 312: because of a cached deletion timestamp of
/// an earlier cluster with the same name, the operator deletes the claims of the current one. Corrected: claims are
/// selected by the UID.
fn stale_deletion(
    context: Context,
    cluster: Value,
    is_fixed: bool,
) -> futures::future::BoxFuture<'static, Outcome> {
    async move {
        if is_deleted(&cluster) {
            for claim in context.list("PersistentVolumeClaim").await? {
                let labels = &claim["metadata"]["labels"];
                let is_own = match is_fixed {
                    true => labels["uid"] == cluster["metadata"]["uid"],
                    false => labels["cluster"] == cluster["metadata"]["name"],
                };
                if is_own {
                    context.delete("PersistentVolumeClaim", name_of(&claim)).await?;
                }
            }
            return context.set_finalizers(&cluster, &[]).await;
        }
        if cluster["metadata"]["finalizers"].is_null() {
            context.set_finalizers(&cluster, &[FINALIZER]).await?;
        }
        for number in 0..replicas(&cluster) {
            context.claim(&cluster, number).await?;
        }
        Ok(())
    }
    .boxed()
}

/// zookeeper-operator 314: because of a stale cached size, the operator deletes claims that are in use. Corrected: it
/// reads the size from the API server before it deletes.
fn stale_size(
    context: Context,
    cluster: Value,
    is_fixed: bool,
) -> futures::future::BoxFuture<'static, Outcome> {
    async move {
        let mut wanted = replicas(&cluster);
        for number in 0..wanted {
            context.claim(&cluster, number).await?;
        }
        for claim in context.list("PersistentVolumeClaim").await? {
            if ordinal(&claim) >= wanted {
                if is_fixed {
                    let newest = context.get("Cluster", name_of(&cluster)).await?;
                    wanted = newest.as_ref().map_or(wanted, replicas);
                }
                if ordinal(&claim) >= wanted {
                    context.delete("PersistentVolumeClaim", name_of(&claim)).await?;
                }
            }
        }
        Ok(())
    }
    .boxed()
}

/// Sets the size of the StatefulSet, and creates a claim for each of its pods.
async fn scale(context: &Context, cluster: &Value) -> Outcome {
    let set = context.stateful_set(cluster, &Value::Null).await?;
    if replicas(&set) != replicas(cluster) {
        let patch = json!({"spec": {"replicas": replicas(cluster)}});
        context.patch("StatefulSet", name_of(&set), patch).await?;
    }
    for number in 0..replicas(cluster) {
        context.claim(cluster, number).await?;
    }
    Ok(())
}

/// cassandra-operator 407: because of a stale cached pod that was being deleted, the operator deletes the claim of the
/// current pod. Corrected: it checks with the API server that the same pod still exists, or no pod at all.
fn stale_pod(
    context: Context,
    cluster: Value,
    is_fixed: bool,
) -> futures::future::BoxFuture<'static, Outcome> {
    async move {
        let newest = context
            .get("Cluster", name_of(&cluster))
            .await?
            .unwrap_or(cluster);
        scale(&context, &newest).await?;
        for pod in context.pods.state() {
            let pod = serde_json::to_value(&*pod)?;
            if !is_deleted(&pod) || (is_fixed && ordinal(&pod) < replicas(&newest)) {
                continue;
            }
            let claim = format!("data-{}", name_of(&pod));
            context.delete("PersistentVolumeClaim", &claim).await?;
        }
        Ok(())
    }
    .boxed()
}

/// cassandra-operator 398: the operator deletes a claim only if it sees that the pod is being deleted. Corrected: it
/// deletes every claim beyond the size that no pod uses.
fn unobserved_pod(
    context: Context,
    cluster: Value,
    is_fixed: bool,
) -> futures::future::BoxFuture<'static, Outcome> {
    async move {
        if !is_fixed {
            scale(&context, &cluster).await?;
            for pod in context.pods.state() {
                let pod = serde_json::to_value(&*pod)?;
                if is_deleted(&pod) {
                    let claim = format!("data-{}", name_of(&pod));
                    context.delete("PersistentVolumeClaim", &claim).await?;
                }
            }
            return Ok(());
        }
        let newest = context
            .get("Cluster", name_of(&cluster))
            .await?
            .unwrap_or(cluster);
        scale(&context, &newest).await?;
        for claim in context.list("PersistentVolumeClaim").await? {
            if ordinal(&claim) >= replicas(&newest) && !is_deleted(&claim) {
                context.delete("PersistentVolumeClaim", name_of(&claim)).await?;
            }
        }
        Ok(())
    }
    .boxed()
}

/// rabbitmq-operator 648: because of a cached deletion timestamp of an earlier cluster, the operator deletes the
/// StatefulSet of the current one. Corrected: it deletes only the StatefulSet of the same cluster.
fn stale_deletion_of_set(
    context: Context,
    cluster: Value,
    is_fixed: bool,
) -> futures::future::BoxFuture<'static, Outcome> {
    async move {
        if is_deleted(&cluster) {
            if let Some(set) = context.get("StatefulSet", name_of(&cluster)).await? {
                let is_own = set["metadata"]["ownerReferences"][0]["uid"] == cluster["metadata"]["uid"];
                if is_own || !is_fixed {
                    let uid = set["metadata"]["uid"].as_str().map(str::to_owned);
                    let preconditions = Preconditions {
                        uid,
                        resource_version: None,
                    };
                    let params = DeleteParams::default().preconditions(preconditions);
                    context.delete_with("StatefulSet", name_of(&set), &params).await?;
                }
            }
            return context.set_finalizers(&cluster, &[]).await;
        }
        if cluster["metadata"]["finalizers"].is_null() {
            context.set_finalizers(&cluster, &[FINALIZER]).await?;
        }
        // The garbage collector would delete the StatefulSet of a deleted cluster.
        let newest = context.get("Cluster", name_of(&cluster)).await?;
        if newest.is_none_or(|newest| newest["metadata"]["uid"] != cluster["metadata"]["uid"]) {
            return Ok(());
        }
        context.stateful_set(&cluster, &Value::Null).await.map(drop)
    }
    .boxed()
}

/// Deletes the StatefulSet but not its pods.
async fn orphan(context: &Context, set: &Value) -> Outcome {
    let params = DeleteParams::orphan();
    context.delete_with("StatefulSet", name_of(set), &params).await
}

fn capacity_of(set: &Value) -> i64 {
    let text = set["metadata"]["annotations"]["capacity"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// rabbitmq-operator 653: because of a stale cached capacity, the operator deletes the StatefulSet in order to resize
/// it. Corrected: a capacity only grows.
fn stale_capacity(
    context: Context,
    cluster: Value,
    is_fixed: bool,
) -> futures::future::BoxFuture<'static, Outcome> {
    async move {
        let wanted = &cluster["spec"]["size"];
        let set = context.stateful_set(&cluster, wanted).await?;
        let (current, wanted) = (capacity_of(&set), wanted.as_i64().unwrap_or(0));
        if current == wanted || (is_fixed && wanted < current) {
            return Ok(());
        }
        orphan(&context, &set).await
    }
    .boxed()
}

/// rabbitmq-operator 782: after a crash between the deletion of the StatefulSet and the change of the claim, the claim
/// is never changed. Corrected: the claim is compared with the cluster in each reconcile, before the StatefulSet.
fn interrupted_resize(
    context: Context,
    cluster: Value,
    is_fixed: bool,
) -> futures::future::BoxFuture<'static, Outcome> {
    async move {
        let wanted = &cluster["spec"]["size"];
        let size = wanted.as_i64().unwrap_or(0);
        context.claim(&cluster, 0).await?;
        let claim = format!("data-{}-0", name_of(&cluster));
        let resize = json!({"metadata": {"annotations": {"size": wanted.to_string()}}});
        if is_fixed {
            let found = context.get("PersistentVolumeClaim", &claim).await?;
            let current = found.as_ref().and_then(|found| {
                found["metadata"]["annotations"]["size"]
                    .as_str()?
                    .parse::<i64>()
                    .ok()
            });
            if current.is_some_and(|current| current < size) {
                context
                    .patch("PersistentVolumeClaim", &claim, resize.clone())
                    .await?;
            }
        }
        let set = context.stateful_set(&cluster, wanted).await?;
        if capacity_of(&set) >= size {
            return Ok(());
        }
        orphan(&context, &set).await?;
        if !is_fixed {
            context.patch("PersistentVolumeClaim", &claim, resize).await?;
        }
        Ok(())
    }
    .boxed()
}

/// rabbitmq-operator 758: the operator refuses to scale down, so the end state depends on whether it saw the larger
/// size. Corrected: it scales down.
fn unobserved_size(
    context: Context,
    cluster: Value,
    is_fixed: bool,
) -> futures::future::BoxFuture<'static, Outcome> {
    async move {
        let set = context.stateful_set(&cluster, &Value::Null).await?;
        let (current, wanted) = (replicas(&set), replicas(&cluster));
        if wanted > current || (is_fixed && wanted != current) {
            let patch = json!({"spec": {"replicas": wanted}});
            context.patch("StatefulSet", name_of(&set), patch).await?;
        }
        Ok(())
    }
    .boxed()
}

/// casskop 342: the operator refuses size 0 and keeps the last size that it saw. Corrected: 0 means the minimum size.
fn unobserved_minimum(
    context: Context,
    cluster: Value,
    is_fixed: bool,
) -> futures::future::BoxFuture<'static, Outcome> {
    async move {
        let wanted = match (replicas(&cluster), is_fixed) {
            (0, false) => return Ok(()),
            (wanted, _) => wanted.max(1),
        };
        let set = context.stateful_set(&cluster, &Value::Null).await?;
        if replicas(&set) != wanted {
            let patch = json!({"spec": {"replicas": wanted}});
            context.patch("StatefulSet", name_of(&set), patch).await?;
        }
        Ok(())
    }
    .boxed()
}

/// casskop 370: the operator scales down and then records that a claim must be deleted. After a crash between the two,
/// the claim remains. Corrected: each reconcile at the wanted size deletes the claims of no replica.
fn interrupted_scale_down(
    context: Context,
    cluster: Value,
    is_fixed: bool,
) -> futures::future::BoxFuture<'static, Outcome> {
    async move {
        let name = name_of(&cluster).to_owned();
        // A stale size would create claims that are then deleted.
        let cluster = match is_fixed {
            true => context.get("Cluster", &name).await?.unwrap_or(cluster),
            false => cluster,
        };
        for number in 0..replicas(&cluster) {
            context.claim(&cluster, number).await?;
        }
        let set = context.stateful_set(&cluster, &Value::Null).await?;
        let note = |note: Value| json!({"metadata": {"annotations": {"cleanup": note}}});
        if replicas(&set) > replicas(&cluster) {
            let patch = json!({"spec": {"replicas": replicas(&cluster)}});
            context.patch("StatefulSet", &name, patch).await?;
            if !is_fixed {
                context.patch("StatefulSet", &name, note(json!("todo"))).await?;
            }
        } else if is_fixed || set["metadata"]["annotations"]["cleanup"] == "todo" {
            let newest = context.get("Cluster", &name).await?.unwrap_or(cluster);
            for claim in context.list("PersistentVolumeClaim").await? {
                if ordinal(&claim) >= replicas(&newest) {
                    context.delete("PersistentVolumeClaim", name_of(&claim)).await?;
                }
            }
            if !is_fixed {
                context.patch("StatefulSet", &name, note(Value::Null)).await?;
            }
        }
        Ok(())
    }
    .boxed()
}

/// nifikop 49: the operator restarts the pods in the same reconcile in which it changes the configuration. After a
/// crash between the two, the old configuration stays in use. Corrected: the pods are annotated with the configuration
/// that they use.
fn interrupted_restart(
    context: Context,
    cluster: Value,
    is_fixed: bool,
) -> futures::future::BoxFuture<'static, Outcome> {
    async move {
        let name = name_of(&cluster);
        let wanted = cluster["spec"]["size"].to_string();
        let config = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"size": wanted},
        });
        let used =
            |wanted: &str| json!({"spec": {"template": {"metadata": {"annotations": {"config": wanted}}}}});
        let set = context.stateful_set(&cluster, &Value::Null).await?;
        let found = context.get("ConfigMap", name).await?;
        let is_changed = found
            .as_ref()
            .is_none_or(|found| found["data"]["size"] != wanted.as_str());
        match found {
            None => context.create("ConfigMap", config).await?,
            Some(_) if is_changed => context.patch("ConfigMap", name, config).await?,
            Some(_) => {}
        }
        let is_old = set["spec"]["template"]["metadata"]["annotations"]["config"] != wanted.as_str();
        if is_changed || (is_fixed && is_old) {
            context.patch("StatefulSet", name, used(&wanted)).await?;
        }
        Ok(())
    }
    .boxed()
}

fn cluster(spec: &Value) -> Value {
    json!({
        "apiVersion": "proof.example.com/v1", "kind": "Cluster", "metadata": {"name": "db"}, "spec": spec,
    })
}

fn recreate() -> Workload {
    let cluster = cluster(&json!({"replicas": 2}));
    Workload::new().apply(&cluster).delete(&cluster).apply(&cluster)
}

fn sizes(sizes: &[i64]) -> Workload {
    let workload = Workload::new();
    sizes.iter().fold(workload, |workload, size| {
        workload.apply(cluster(&json!({"replicas": size})))
    })
}

fn capacities() -> Workload {
    let workload = Workload::new();
    workload
        .apply(cluster(&json!({"size": 10})))
        .apply(cluster(&json!({"size": 15})))
}

const CLAIMS: &str = "persistentvolumeclaims";
const SETS: &str = "statefulsets.apps";

const CASES: [Case; 14] = [
    Case {
        name: "K8SSAND-559",
        reconcile: stale_deletion,
        workload: recreate,
        resource: CLAIMS,
    },
    Case {
        name: "cassandra-operator 402",
        reconcile: stale_deletion,
        workload: recreate,
        resource: CLAIMS,
    },
    Case {
        name: "casskop 316",
        reconcile: stale_deletion,
        workload: recreate,
        resource: CLAIMS,
    },
    Case {
        name: "zookeeper-operator 312",
        reconcile: stale_deletion,
        workload: recreate,
        resource: CLAIMS,
    },
    Case {
        name: "zookeeper-operator 314",
        reconcile: stale_size,
        workload: || sizes(&[2, 1, 2]),
        resource: CLAIMS,
    },
    Case {
        name: "cassandra-operator 407",
        reconcile: stale_pod,
        workload: || sizes(&[2, 1, 2]),
        resource: CLAIMS,
    },
    Case {
        name: "cassandra-operator 398",
        reconcile: unobserved_pod,
        workload: || sizes(&[2, 1]),
        resource: CLAIMS,
    },
    Case {
        name: "rabbitmq-operator 648",
        reconcile: stale_deletion_of_set,
        workload: recreate,
        resource: SETS,
    },
    Case {
        name: "rabbitmq-operator 653",
        reconcile: stale_capacity,
        workload: capacities,
        resource: SETS,
    },
    Case {
        name: "rabbitmq-operator 782",
        reconcile: interrupted_resize,
        workload: capacities,
        resource: CLAIMS,
    },
    Case {
        name: "rabbitmq-operator 758",
        reconcile: unobserved_size,
        workload: || sizes(&[1, 2, 1]),
        resource: SETS,
    },
    Case {
        name: "casskop 342",
        reconcile: unobserved_minimum,
        workload: || sizes(&[2, 1, 0]),
        resource: SETS,
    },
    Case {
        name: "casskop 370",
        reconcile: interrupted_scale_down,
        workload: || sizes(&[2, 1]),
        resource: CLAIMS,
    },
    Case {
        name: "nifikop 49",
        reconcile: interrupted_restart,
        workload: capacities,
        resource: SETS,
    },
];

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusters.proof.example.com"},
        "spec": {
            "group": "proof.example.com", "scope": "Namespaced",
            "names": {"kind": "Cluster", "plural": "clusters"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

fn chaos(case: &Case, is_fixed: bool) -> Chaos {
    let reconcile = case.reconcile;
    Chaos::new(move |client| operate(client, reconcile, is_fixed))
        .objects([definition()])
        .workload((case.workload)())
        .delays(Delays {
            stop: Duration::from_secs(2),
            ..Delays::default()
        })
        // The number of plans limits a campaign, so that the result does not depend on the machine.
        .budget(Duration::from_secs(3600))
}

/// Finds the bug of a case, and checks that the same plan has no finding with the corrected operator. Returns a row of
/// the table.
fn prove(case: &Case) -> Result<String, String> {
    let report = chaos(case, false)
        .stop_at_first_finding()
        .plans(PLANS)
        .run()
        .map_err(|error| format!("{}: {error}", case.name))?;
    let finding = report
        .findings
        .first()
        .ok_or_else(|| format!("{}: {report}", case.name))?;
    let is_it = |it: &&Violation| it.subject.starts_with(case.resource);
    let Some(violation) = finding.violations.iter().find(is_it) else {
        return Err(format!("{}: {report}", case.name));
    };
    // Without a fault, only the comparison with a fresh deployment reveals a bug.
    if finding.plan.faults.is_empty() && violation.oracle != Oracle::FreshDeploy {
        return Err(format!("{}: {report}", case.name));
    }
    let corrected = chaos(case, true).workload(finding.workload.clone());
    let replayed = corrected
        .replay(&finding.plan)
        .map_err(|error| format!("{}, corrected: {error}", case.name))?;
    if !replayed.is_clean() {
        return Err(format!("{}, corrected: {replayed}", case.name));
    }
    Ok(format!(
        "| {} | {} | {:.1} s | {:.1} s | {} | {:?} of `{}` |",
        case.name,
        finding.found_after,
        Duration::from_millis(report.elapsed_ms).as_secs_f64(),
        Duration::from_millis(finding.shrink_ms).as_secs_f64(),
        finding.text,
        violation.oracle,
        violation.subject,
    ))
}

/// Returns true if another case has the bug, the operator and the workload of `case`.
fn is_in_pattern(case: &Case, other: &Case) -> bool {
    case.name == "K8SSAND-559" && SAME_PATTERN.contains(&other.name)
}

/// Returns one case of each pattern: all, or those whose name contains the value of `CASE`.
fn cases() -> impl Iterator<Item = &'static Case> {
    let part = std::env::var("CASE").unwrap_or_default();
    CASES
        .iter()
        .filter(move |case| !SAME_PATTERN.contains(&case.name) && case.name.contains(&part))
}

#[test]
#[ignore = "explores every operator with its bug: takes minutes"]
fn published_bugs_are_found_and_their_corrections_withstand_the_same_plan() {
    let mut wrong = Vec::new();
    for case in cases() {
        match prove(case) {
            Ok(row) => {
                println!("{row}");
                let is_same = |other: &&Case| is_in_pattern(case, other);
                for other in CASES.iter().filter(is_same) {
                    println!("{}", row.replacen(case.name, other.name, 1));
                }
            }
            Err(error) => wrong.push(error),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "explores every corrected operator: takes minutes"]
fn corrected_operators_are_clean() {
    let mut wrong = Vec::new();
    for case in cases() {
        let report = chaos(case, true).plans(CORRECTED_PLANS).run().unwrap();
        println!(
            "{}: {}",
            case.name,
            report.to_string().lines().next().unwrap_or_default()
        );
        if !report.is_clean() {
            wrong.push(format!("{}: {report}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
