//! The memcached operator, complete: the types, the reconciler and the program that a scaffolded project has.

use std::collections::BTreeMap;

use clap::{Parser, Subcommand};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, Pod, PodSecurityContext, PodSpec, PodTemplateSpec,
    SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{CustomResource, CustomResourceExt, ResourceExt};
use operator_envtest::TestEnv;
use operator_runtime::manifests::Manifests;
use operator_runtime::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// === src/api/v1alpha1/memcached_types.rs ===

/// What a Memcached should be like.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    namespaced,
    status = "MemcachedStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedSpec {
    /// How many memcached instances run.
    #[schemars(range(min = 1, max = 5))]
    pub size: i32,
}

/// What a Memcached is like.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedStatus {
    /// Available, Progressing and Degraded.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,

    /// The names of the memcached pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

// === src/controller/memcached_controller.rs ===

const IMAGE: &str = "memcached:1.6.26-alpine3.19";

/// Keeps a Deployment of memcached for each Memcached.
#[derive(Clone)]
pub struct MemcachedReconciler;

#[rbac(
    groups = "cache.example.com",
    resources = "memcacheds",
    verbs = "get;list;watch;create;update;patch;delete"
)]
#[rbac(
    groups = "cache.example.com",
    resources = "memcacheds/status",
    verbs = "get;update;patch"
)]
#[rbac(
    groups = "cache.example.com",
    resources = "memcacheds/finalizers",
    verbs = "update"
)]
#[rbac(
    groups = "apps",
    resources = "deployments",
    verbs = "get;list;watch;create;update;patch;delete"
)]
#[rbac(groups = "core", resources = "pods", verbs = "get;list;watch")]
#[rbac(groups = "events.k8s.io", resources = "events", verbs = "create;patch")]
impl Reconciler for MemcachedReconciler {
    async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
        let Some(memcached) = ctx.get::<Memcached>(&request).await? else {
            // It was deleted, and Kubernetes deletes what it owned.
            return Ok(Action::done());
        };

        let existed = ctx.get::<Deployment>(&request).await?.is_some();
        let deployment = ctx.apply_owned(&*memcached, deployment_for(&memcached)).await?;
        if !existed {
            let note = format!("Created Deployment {}", deployment.name_any());
            ctx.event(&*memcached).normal("Created", note).await?;
        }

        let size = memcached.spec.size;
        let ready = deployment
            .status
            .as_ref()
            .and_then(|status| status.ready_replicas)
            .unwrap_or_default();
        let message = format!("{ready} of {size} replicas are ready");
        let (available, progressing) = if ready == size {
            (
                Condition::available(true, "AllReplicasReady", &message),
                Condition::progressing(false, "Done", &message),
            )
        } else {
            (
                Condition::available(false, "ReplicasMissing", &message),
                Condition::progressing(true, "Scaling", &message),
            )
        };
        let nodes = pods_of(&ctx, &memcached).await?;
        ctx.status(&*memcached)
            .condition(available)
            .condition(progressing)
            .condition(Condition::degraded(
                false,
                "AsExpected",
                "The Deployment is as it should be",
            ))
            .set("nodes", nodes)
            .patch()
            .await?;
        Ok(Action::done())
    }
}

/// The names of the pods of a Memcached, sorted.
async fn pods_of(ctx: &Context, memcached: &Memcached) -> Result<Vec<String>> {
    let labels = labels_for(memcached);
    let own = ListOptions::from(memcached.namespace().as_deref())
        .labels(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    let pods = ctx.list::<Pod>(own).await?;
    Ok(pods.iter().map(|pod| pod.name_any()).collect())
}

fn labels_for(memcached: &Memcached) -> BTreeMap<String, String> {
    [
        ("app.kubernetes.io/name", "memcached-operator".to_owned()),
        ("app.kubernetes.io/instance", memcached.name_any()),
        ("app.kubernetes.io/managed-by", "MemcachedController".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// The Deployment that a Memcached asks for. What it leaves out is up to Kubernetes, or to others.
fn deployment_for(memcached: &Memcached) -> Deployment {
    let labels = labels_for(memcached);
    let container = Container {
        name: "memcached".to_owned(),
        image: Some(IMAGE.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(
            ["memcached", "--memory-limit=64", "-o", "modern", "-v"]
                .map(str::to_owned)
                .into(),
        ),
        ports: Some(vec![ContainerPort {
            container_port: 11211,
            name: Some("memcached".to_owned()),
            ..ContainerPort::default()
        }]),
        security_context: Some(SecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(1001),
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    };
    Deployment {
        metadata: ObjectMeta {
            name: memcached.metadata.name.clone(),
            namespace: memcached.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        spec: DeploymentSpec {
            replicas: Some(memcached.spec.size),
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(PodSpec {
                    security_context: Some(PodSecurityContext {
                        run_as_non_root: Some(true),
                        seccomp_profile: Some(SeccompProfile {
                            type_: "RuntimeDefault".to_owned(),
                            ..SeccompProfile::default()
                        }),
                        ..PodSecurityContext::default()
                    }),
                    containers: vec![container],
                    ..PodSpec::default()
                }),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

// === src/lib.rs ===

/// What `operator-sdk generate manifests` asks the operator for.
pub fn manifests() -> Manifests {
    Manifests::new()
        .crd::<Memcached>()
        .rules(MemcachedReconciler::rules())
}

/// Adds the controllers to the manager.
pub fn add_controllers(manager: &Manager) -> Result<()> {
    Controller::managed_by(manager)
        .for_::<Memcached>()
        .owns::<Deployment>()
        .watches::<Pod>(operator_runtime::handler::map(memcached_of_pod))
        .complete(MemcachedReconciler)?;
    Ok(())
}

/// Pods belong to a ReplicaSet, not to the Memcached, so their label says whose they are.
fn memcached_of_pod(pod: &Pod) -> Vec<Request> {
    let (namespace, labels) = (pod.namespace().unwrap_or_default(), pod.labels());
    let is_ours = labels
        .get("app.kubernetes.io/managed-by")
        .is_some_and(|manager| manager == "MemcachedController");
    let name = labels.get("app.kubernetes.io/instance").filter(|_| is_ours);
    name.map(|name| Request::namespaced(&namespace, name))
        .into_iter()
        .collect()
}

// === src/main.rs ===

/// The memcached operator.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    manager: operator_runtime::manager::Args,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Prints the CRDs and RBAC rules of this operator as JSON.
    Manifests,
}

/// `#[tokio::main] async fn main() -> Result<()>` of the program.
async fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(Command::Manifests) = args.command {
        println!("{}", manifests().to_json());
        return Ok(());
    }
    args.manager.init_logging();
    let manager = Manager::builder("memcached-operator")
        .args(&args.manager)
        .build()
        .await?;
    add_controllers(&manager)?;
    manager.run().await
}

// === tests ===

#[test]
fn manifests_have_the_crd_and_every_rule() {
    let manifests: serde_json::Value = serde_json::from_str(&manifests().to_json()).unwrap();
    assert_eq!(
        manifests["crds"][0]["metadata"]["name"],
        "memcacheds.cache.example.com"
    );
    let schema = &manifests["crds"][0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    assert_eq!(
        schema["spec"]["properties"]["size"]["maximum"].as_f64(),
        Some(5.0)
    );
    assert_eq!(
        schema["status"]["properties"]["conditions"]["x-kubernetes-list-type"],
        "map"
    );
    let rules = manifests["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 6);
    assert_eq!(
        rules[4],
        serde_json::json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]})
    );
}

#[tokio::test]
async fn memcached_comes_up_is_scaled_and_goes() {
    let env = TestEnv::builder().crds([Memcached::crd()]).start().await.unwrap();
    let manager = Manager::builder("memcached-operator")
        .client(env.client())
        .build()
        .await
        .unwrap();
    add_controllers(&manager).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let operator = tokio::spawn(manager.run_until(async {
        let _ = stopped.await;
    }));

    let memcacheds: Api<Memcached> = Api::default_namespaced(env.client());
    let sample = Memcached::new("sample", MemcachedSpec { size: 3 });
    memcacheds.create(&PostParams::default(), &sample).await.unwrap();
    let memcached = env
        .eventually(&memcacheds, "sample", |memcached| is_available(memcached, 3))
        .await
        .unwrap();
    let status = memcached.status.unwrap();
    assert!(!status.conditions.is_true("Progressing") && !status.conditions.is_true("Degraded"));
    let deployments: Api<Deployment> = Api::default_namespaced(env.client());
    let deployment = deployments.get("sample").await.unwrap();
    assert_eq!(deployment.owner_references()[0].kind, "Memcached");

    let larger = Patch::Merge(serde_json::json!({"spec": {"size": 4}}));
    memcacheds
        .patch("sample", &PatchParams::default(), &larger)
        .await
        .unwrap();
    env.eventually(&memcacheds, "sample", |memcached| is_available(memcached, 4))
        .await
        .unwrap();

    let too_large = Patch::Merge(serde_json::json!({"spec": {"size": 6}}));
    let error = memcacheds
        .patch("sample", &PatchParams::default(), &too_large)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("spec.size"), "{error}");

    memcacheds
        .delete("sample", &DeleteParams::default())
        .await
        .unwrap();
    env.eventually_gone(&deployments, "sample").await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(env.client());
    env.eventually_list(&pods, &ListParams::default(), |pods| pods.is_empty())
        .await
        .unwrap();

    stop.send(()).unwrap();
    operator.await.unwrap().unwrap();
    env.stop().await;
}

/// Wherever the operator crashes, there are the pods that were asked for afterwards, and none when nobody asks any more.
#[tokio::test]
async fn crash_after_any_write_loses_nothing() {
    let operator = async |client: kube::Client| {
        let manager = Manager::builder("memcached-operator")
            .client(client)
            .build()
            .await?;
        add_controllers(&manager)?;
        manager.run_until(std::future::pending()).await
    };
    let walk = async |env: &TestEnv| {
        let memcacheds: Api<Memcached> = Api::default_namespaced(env.client());
        for (name, size) in [("stays", 2), ("goes", 1)] {
            let memcached = Memcached::new(name, MemcachedSpec { size });
            memcacheds.create(&PostParams::default(), &memcached).await?;
        }
        env.eventually(&memcacheds, "goes", |memcached| is_available(memcached, 1))
            .await?;
        memcacheds.delete("goes", &DeleteParams::default()).await?;
        let larger = Patch::Merge(serde_json::json!({"spec": {"size": 3}}));
        memcacheds
            .patch("stays", &PatchParams::default(), &larger)
            .await?;
        env.eventually(&memcacheds, "stays", |memcached| is_available(memcached, 3))
            .await?;
        let deployments: Api<Deployment> = Api::default_namespaced(env.client());
        env.eventually_gone(&deployments, "goes").await?;
        let pods: Api<Pod> = Api::default_namespaced(env.client());
        env.eventually_list(&pods, &ListParams::default(), |pods| pods.len() == 3)
            .await?;
        let left = deployments.list(&ListParams::default()).await?;
        let left = left.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(left)
    };
    let env = || TestEnv::builder().crds([Memcached::crd()]);
    let crashes = operator_envtest::crash_after_each_write(env, operator, walk)
        .await
        .unwrap();
    // At least an apply and a status of each, the event of each, and what became of the larger one.
    assert!(crashes.len() >= 6, "{crashes:?}");
}

/// Whether the status says that so many pods are there and ready, of the newest generation.
fn is_available(memcached: &Memcached, size: usize) -> bool {
    let Some(status) = &memcached.status else {
        return false;
    };
    let available = status.conditions.find("Available");
    let is_current =
        available.is_some_and(|condition| condition.observed_generation == memcached.metadata.generation);
    is_current && status.conditions.is_true("Available") && status.nodes.len() == size
}
