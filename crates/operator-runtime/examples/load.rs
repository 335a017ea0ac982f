//! Measures an operator: creates custom resources on the cluster of the kubeconfig, runs an operator that applies a
//! Deployment and writes a status for each, and prints what that cost.
//!
//! ```text
//! operator-sdk cluster up --controllers none --kubeconfig kubeconfig &
//! KUBECONFIG=kubeconfig cargo run --release --example load -- --resources 1000 --workers 8
//! ```
//!
//! The resources are created before the operator starts, as on a restart. Afterwards the operator is stopped and
//! started once more, which should cost no write.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Parser;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{CustomResource, CustomResourceExt};
use operator_runtime::metrics::Metrics;
use operator_runtime::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Parser)]
struct Args {
    /// How many custom resources are created.
    #[arg(long, default_value_t = 1000)]
    resources: usize,
    /// How many are reconciled at the same time.
    #[arg(long, default_value_t = 8)]
    workers: usize,
    #[command(flatten)]
    manager: operator_runtime::manager::Args,
}

/// Runs memcached, in so many instances.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "load.example.com",
    version = "v1",
    kind = "Cached",
    plural = "cacheds",
    namespaced,
    status = "CachedStatus"
)]
struct CachedSpec {
    size: i32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct CachedStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    conditions: Conditions,
}

struct CachedReconciler;

impl Reconciler for CachedReconciler {
    async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
        let Some(cached) = ctx.get::<Cached>(&request).await? else {
            return Ok(Action::done());
        };
        ctx.apply_owned(&*cached, deployment_for(&cached, request.name())?)
            .await?;
        let applied = Condition::available(true, "Applied", "The Deployment is as it should be");
        ctx.status(&*cached).condition(applied).patch().await?;
        Ok(Action::done())
    }
}

fn deployment_for(cached: &Cached, name: &str) -> Result<Deployment> {
    let labels = json!({"app": "memcached", "instance": name});
    let container = json!({
        "name": "memcached",
        "image": "memcached:1.6.26-alpine3.19",
        "command": ["memcached", "--memory-limit=64", "-o", "modern", "-v"],
        "ports": [{"name": "memcached", "containerPort": 11211}],
        "securityContext": {
            "runAsNonRoot": true, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        },
    });
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": cached.spec.size,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [container],
                },
            },
        },
    }))?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    args.manager.init_logging();
    let client = kube::Client::try_default().await?;
    let crds = Api::all(client.clone());
    // An answer that it exists already is as good.
    let _ = crds.create(&PostParams::default(), &Cached::crd()).await;
    let cacheds: Api<Cached> = Api::default_namespaced(client.clone());
    served(&cacheds).await?;
    let creations = (0..args.resources).map(|number| create(&cacheds, number));
    stream::iter(creations)
        .buffer_unordered(16)
        .try_collect::<()>()
        .await?;

    let first = operate(&args, &cacheds).await?;
    println!(
        "all {} resources available after {:.2} s",
        args.resources,
        first.took.as_secs_f64()
    );
    first.print();
    let again = operate(&args, &cacheds).await?;
    println!(
        "started again at rest, all seen after {:.2} s",
        again.took.as_secs_f64()
    );
    again.print();

    cacheds
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    Ok(())
}

async fn served(cacheds: &Api<Cached>) -> Result<()> {
    for _ in 0..100 {
        if cacheds.list(&ListParams::default().limit(1)).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Error::msg("the CRD is not served"))
}

async fn create(cacheds: &Api<Cached>, number: usize) -> Result<()> {
    let cached = Cached::new(&format!("cached-{number}"), CachedSpec { size: 1 });
    match cacheds.create(&PostParams::default(), &cached).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => Ok(created.map(drop)?),
    }
}

/// What a run of the operator cost.
struct Cost {
    took: Duration,
    cpu: f64,
    metrics: Metrics,
}

/// Runs the operator until every resource is available and its queue is empty.
async fn operate(args: &Args, cacheds: &Api<Cached>) -> Result<Cost> {
    let (cpu, begin) = (cpu_seconds(), Instant::now());
    let manager = Manager::builder("load").args(&args.manager).build().await?;
    let controller = Controller::managed_by(&manager)
        .for_::<Cached>()
        .owns::<Deployment>();
    controller
        .max_concurrent_reconciles(args.workers)
        .complete(CachedReconciler)?;
    let metrics = manager.metrics().clone();
    let operator = manager.clone();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(operator.run_until(async {
        let _ = stopped.await;
    }));
    while !is_settled(&manager, args.resources).await? {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let took = begin.elapsed();
    let cpu = cpu_seconds() - cpu;
    let _ = stop.send(());
    running.await??;
    let left = cacheds.list(&ListParams::default()).await?;
    let available = left.iter().filter(|cached| {
        cached
            .status
            .as_ref()
            .is_some_and(|status| status.conditions.is_true("Available"))
    });
    if available.count() < args.resources {
        return Err(Error::msg(
            "the API server disagrees: not all resources are available",
        ));
    }
    Ok(Cost { took, cpu, metrics })
}

async fn is_settled(manager: &Manager, resources: usize) -> Result<bool> {
    let cacheds = manager.client().list::<Cached>(None).await?;
    let available = |cached: &Cached| {
        cached
            .status
            .as_ref()
            .is_some_and(|status| status.conditions.is_true("Available"))
    };
    let metrics = manager.metrics().to_text();
    let counted = counted(&metrics);
    let reconciled =
        counted.get(r#"controller_runtime_reconcile_total{controller="cached",result="success"}"#);
    Ok(
        cacheds.iter().filter(|cached| available(cached)).count() >= resources
            && reconciled.is_some_and(|reconciled| *reconciled >= resources as f64),
    )
}

/// The samples of the text format, by name and labels.
fn counted(text: &str) -> BTreeMap<&str, f64> {
    let samples = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '));
    samples
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect()
}

fn cpu_seconds() -> f64 {
    process_metric("process_cpu_seconds_total")
}

fn process_metric(name: &str) -> f64 {
    counted(&Metrics::new().to_text())
        .get(name)
        .copied()
        .unwrap_or_default()
}

/// The peak of the resident memory, in MB; 0 where there is no /proc.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}

impl Cost {
    fn print(&self) {
        let text = self.metrics.to_text();
        let interesting = [
            "rest_client_requests_total",
            "controller_runtime_reconcile_total",
            "operator_runtime_",
        ];
        for (name, value) in counted(&text) {
            if value > 0.0 && interesting.iter().any(|prefix| name.starts_with(prefix)) {
                println!("  {name} {value}");
            }
        }
        let resident = process_metric("process_resident_memory_bytes") / 1024.0 / 1024.0;
        println!(
            "  CPU {:.2} s, memory {resident:.1} MB, peak {:.1} MB",
            self.cpu,
            peak_memory()
        );
    }
}
