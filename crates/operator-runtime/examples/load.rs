//! Measures an operator: creates custom resources on the cluster of the kubeconfig, runs an operator that applies a
//! Deployment and writes a status for each, and prints what that cost.
//!
//! ```text
//! operator-sdk cluster up --controllers none --kubeconfig kubeconfig &
//! KUBECONFIG=kubeconfig cargo run --release --example load -- --resources 1000 --workers 8
//! ```
//!
//! The resources are created before the operator starts, as on a restart. Afterwards the operator is stopped and
//! started once more, which should cost no write. Each operator is a process of its own, which does nothing else, so
//! that CPU time and memory are those of an operator. At the end all that was made is deleted.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
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
    /// How many seconds the operator rests before its memory is measured.
    #[arg(long, default_value_t = 5)]
    rest: u64,
    /// Leave what was made on the cluster.
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    manager: operator_runtime::manager::Args,
    #[command(subcommand)]
    step: Option<Step>,
}

/// What a process of its own does.
#[derive(Clone, Copy, Subcommand)]
enum Step {
    /// Runs the operator until everything is reconciled and it has rested, and prints what that cost.
    Operate,
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
        "metadata": {"name": name, "labels": labels},
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
    match args.step {
        Some(Step::Operate) => operate(&args).await,
        None => measure(&args).await,
    }
}

/// Creates the resources, lets the operator run twice, and looks whether it did its work.
async fn measure(args: &Args) -> Result<()> {
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

    for title in ["first run", "started again at rest"] {
        println!("{title}:");
        let itself = std::env::args_os();
        let operator = Command::new(std::env::current_exe()?)
            .args(itself.skip(1))
            .arg("operate")
            .status()?;
        if !operator.success() {
            return Err(Error::msg("the operator failed"));
        }
        are_available(&cacheds, args.resources).await?;
    }
    if !args.keep {
        let (delete, all) = (DeleteParams::default(), ListParams::default());
        cacheds.delete_collection(&delete, &all).await?;
        let deployments: Api<Deployment> = Api::default_namespaced(client);
        let ours = all.labels("app=memcached");
        deployments.delete_collection(&delete, &ours).await?;
    }
    Ok(())
}

/// What the API server says, not the operator's cache.
async fn are_available(cacheds: &Api<Cached>, resources: usize) -> Result<()> {
    let list = cacheds.list(&ListParams::default()).await?;
    let is_available = |cached: &&Cached| {
        let status = cached.status.as_ref();
        status.is_some_and(|status| status.conditions.is_true("Available"))
    };
    match list.iter().filter(is_available).count() {
        available if available >= resources => Ok(()),
        available => Err(Error::msg(format!("only {available} resources are available"))),
    }
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

/// Runs the operator until every resource was reconciled, and a while longer.
async fn operate(args: &Args) -> Result<()> {
    let begin = Instant::now();
    let manager = Manager::builder("load").args(&args.manager).build().await?;
    let controller = Controller::managed_by(&manager)
        .for_::<Cached>()
        .owns::<Deployment>();
    controller
        .max_concurrent_reconciles(args.workers)
        .complete(CachedReconciler)?;
    let metrics = manager.metrics().clone();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(manager.run_until(async {
        let _ = stopped.await;
    }));
    while !is_settled(&metrics, args.resources) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!(
        "  all {} resources reconciled after {:.2} s, CPU {:.2} s",
        args.resources,
        begin.elapsed().as_secs_f64(),
        process_metric(&metrics, "process_cpu_seconds_total"),
    );
    tokio::time::sleep(Duration::from_secs(args.rest)).await;
    print(&metrics);
    let _ = stop.send(());
    running.await?
}

/// Whether every resource was reconciled once, and nothing waits.
fn is_settled(metrics: &Metrics, resources: usize) -> bool {
    let text = metrics.to_text();
    let counted = counted(&text);
    let sum = |prefix: &str| -> f64 {
        let samples = counted.iter().filter(|(name, _)| name.starts_with(prefix));
        samples.map(|(_, value)| value).sum()
    };
    let successes = sum("controller_runtime_reconcile_total{controller=\"cached\",result=\"success\"}");
    let busy = sum("workqueue_depth") + sum("controller_runtime_active_workers");
    successes >= resources as f64 && busy == 0.0
}

fn print(metrics: &Metrics) {
    let text = metrics.to_text();
    let interesting = [
        "rest_client_requests_total",
        "controller_runtime_reconcile_total",
        "operator_runtime_",
    ];
    for (name, value) in counted(&text) {
        let is_bucket = name.contains("_bucket");
        if value > 0.0 && !is_bucket && interesting.iter().any(|prefix| name.starts_with(prefix)) {
            println!("  {name} {value}");
        }
    }
    println!(
        "  memory at rest {:.1} MB, peak {:.1} MB, CPU in all {:.2} s",
        process_metric(metrics, "process_resident_memory_bytes") / 1024.0 / 1024.0,
        peak_memory(),
        process_metric(metrics, "process_cpu_seconds_total"),
    );
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

fn process_metric(metrics: &Metrics, name: &str) -> f64 {
    counted(&metrics.to_text()).get(name).copied().unwrap_or_default()
}

/// The peak of the resident memory, in MB; 0 where there is no /proc.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}
