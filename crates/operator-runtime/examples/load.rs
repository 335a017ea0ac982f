//! Measures an operator: creates custom resources on the cluster of the kubeconfig, runs an operator that applies a
//! Deployment and writes a status for each, and prints the costs.
//!
//! ```text
//! operator-sdk cluster up --controllers none --kubeconfig kubeconfig &
//! KUBECONFIG=kubeconfig cargo run --profile operator --example load -- --resources 1000 --workers 8
//! ```
//!
//! The resources are created before the operator starts. Then it is stopped and started again, which should need no
//! write. Each operator is a separate process, so that CPU time and memory are those of an operator. The measuring code
//! reads other kinds as `DynamicObject`, to keep the program small. At the end all created objects are deleted.
//!
//! With `--operator target/operator/examples/kube_rs_load`, it measures an operator on kube-rs' own `Controller`
//! instead.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use operator_runtime::metrics::Metrics;
use operator_runtime::{ControllerOptions, Object, prelude::*};

#[path = "load/work.rs"]
mod work;

use work::{Args, Cached, CachedSpec, Step, deployment_for};

async fn reconcile(cached: Arc<Cached>, ctx: Context<Cached>) -> Result<Action> {
    ctx.apply_owned(deployment_for(&cached, ctx.key().name())).await?;
    ctx.update_status(|status| {
        let applied = Condition::available(true, "Applied", "The Deployment is as it should be");
        status.conditions.set(applied);
    })
    .await?;
    Ok(Action::done())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    args.manager.init_logging();
    match args.step {
        Some(Step::Operate) => operate(&args).await,
        None => measure(&args).await,
    }
}

/// Creates the resources, runs the operator twice, and checks the result.
async fn measure(args: &Args) -> Result<()> {
    let client = kube::Client::try_default().await?;
    let crds = Api::all_with(client.clone(), &resource::<CustomResourceDefinition>());
    let crd: DynamicObject = serde_json::from_value(serde_json::to_value(Cached::crd())?)?;
    // The definition may already exist.
    let _ = crds.create(&PostParams::default(), &crd).await;
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
        let operator = match &args.operator {
            Some(operator) => operator.clone(),
            None => std::env::current_exe()?,
        };
        let operator = Command::new(operator)
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
        let deployments: Api<DynamicObject> = Api::default_namespaced_with(client, &resource::<Deployment>());
        let ours = all.labels("app=memcached");
        deployments.delete_collection(&delete, &ours).await?;
    }
    Ok(())
}

fn resource<K: Object>() -> ApiResource {
    ApiResource::erase::<K>(&K::DynamicType::default())
}

/// Reads from the API server instead of the operator's cache.
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

/// Runs the operator until every resource is reconciled, and then leaves it idle.
async fn operate(args: &Args) -> Result<()> {
    let begin = Instant::now();
    let manager = Manager::new("load", &args.manager).await?;
    let controller = Controller::new(reconcile).owns::<Deployment>();
    let options = ControllerOptions {
        max_concurrent_reconciles: Some(args.workers),
        ..ControllerOptions::default()
    };
    manager.add_controller(controller.options(options))?;
    let metrics = manager.metrics().clone();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(manager.run_until(async {
        let _ = stopped.await;
    }));
    // Reading the metrics also costs CPU time of the operator.
    while !is_settled(&metrics, args.resources) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    work::print_settled(&metrics, args.resources, begin);
    tokio::time::sleep(Duration::from_secs(args.rest)).await;
    work::print(&metrics);
    let _ = stop.send(());
    running.await?
}

/// Returns true if every resource was reconciled and the queue is empty.
fn is_settled(metrics: &Metrics, resources: usize) -> bool {
    let text = metrics.to_text();
    let counted = work::counted(&text);
    let sum = |prefix: &str| -> f64 {
        let samples = counted.iter().filter(|(name, _)| name.starts_with(prefix));
        samples.map(|(_, value)| value).sum()
    };
    let successes = sum("controller_runtime_reconcile_total{controller=\"cached\",result=\"success\"}");
    let busy = sum("workqueue_depth") + sum("controller_runtime_active_workers");
    successes >= resources as f64 && busy == 0.0
}
