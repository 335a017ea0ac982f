//! The operator of the example `load`, with the same steps, on kube-rs' own `Controller`; for comparison.
//!
//! ```text
//! cargo build --profile operator -p operator-runtime --examples
//! KUBECONFIG=kubeconfig target/operator/examples/load --operator target/operator/examples/kube_rs_load
//! ```
//!
//! It follows kube-rs' documentation: owner references, server-side apply of the Deployment and of the status, and a
//! watch of owned objects. It uses only the metrics of the runtime.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use kube::client::ClientBuilder;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};
use operator_runtime::metrics::Metrics;
use operator_runtime::metrics::prometheus_client::metrics::{counter::Counter, family::Family};
use operator_runtime::{Condition, Conditions, Error, Result};
use serde_json::json;
use tower::util::MapRequestLayer;

#[path = "load/work.rs"]
mod work;

use work::{Args, Cached, Step, deployment_for};

/// Time without a reconcile after which all objects count as reconciled.
const QUIET: Duration = Duration::from_millis(300);

/// The error of kube-rs' controller and of the operator.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failure(Error);

async fn reconcile(cached: Arc<Cached>, client: Arc<kube::Client>) -> Result<Action, Failure> {
    apply(&cached, &client).await.map_err(Failure)?;
    Ok(Action::await_change())
}

async fn apply(cached: &Cached, client: &kube::Client) -> Result<()> {
    let (name, namespace) = (cached.name_any(), cached.namespace().unwrap_or_default());
    let mine = PatchParams::apply("load").force();
    let mut deployment = deployment_for(cached, &name);
    deployment.metadata.owner_references = cached.controller_owner_ref(&()).map(|owner| vec![owner]);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    deployments
        .patch(&name, &mine, &Patch::Apply(&deployment))
        .await?;
    let mut conditions = cached
        .status
        .as_ref()
        .map_or_else(Conditions::default, |status| status.conditions.clone());
    let applied = Condition::available(true, "Applied", "The Deployment is as it should be");
    conditions.set(applied);
    let status = json!({
        "apiVersion": Cached::api_version(&()), "kind": Cached::kind(&()),
        "status": {"conditions": conditions},
    });
    let cacheds: Api<Cached> = Api::namespaced(client.clone(), &namespace);
    cacheds.patch_status(&name, &mine, &Patch::Apply(&status)).await?;
    Ok(())
}

fn error_policy(_: Arc<Cached>, _: &Failure, _: Arc<kube::Client>) -> Action {
    Action::requeue(Duration::from_millis(5))
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    args.manager.init_logging();
    match args.step {
        Some(Step::Operate) => operate(&args).await,
        None => Err(Error::msg("start it from the example `load`, with --operator")),
    }
}

async fn operate(args: &Args) -> Result<()> {
    let begin = Instant::now();
    let metrics = Metrics::default();
    let config = kube::Config::infer().await?;
    let requests = Family::<[(&str, String); 1], Counter>::default();
    metrics.register(|registry| registry.register("requests", "Requests by method", requests.clone()));
    let count = MapRequestLayer::new(move |request: http::Request<_>| {
        let labels = [("method", request.method().to_string())];
        requests.get_or_create(&labels).inc();
        request
    });
    let client = ClientBuilder::try_from(config)?.with_layer(&count).build();

    let workers = u16::try_from(args.workers)?;
    let controller = Controller::new(
        Api::<Cached>::default_namespaced(client.clone()),
        watcher::Config::default(),
    )
    .owns(
        Api::<Deployment>::default_namespaced(client.clone()),
        watcher::Config::default(),
    )
    .with_config(Config::default().concurrency(workers));
    let mut outcomes = std::pin::pin!(controller.run(reconcile, error_policy, Arc::new(client)));

    let (mut successes, mut errors) = (0, 0);
    loop {
        let outcome = tokio::time::timeout(QUIET, outcomes.next()).await;
        match outcome {
            Ok(Some(outcome)) => match outcome {
                Ok(_) => successes += 1,
                Err(_) => errors += 1,
            },
            Ok(None) => return Err(Error::msg("the controller ended")),
            Err(_) if successes >= args.resources => break,
            Err(_) => {}
        }
    }
    work::print_settled(&metrics, args.resources, begin + QUIET);
    // It keeps watching while it is idle.
    let rest = outcomes.for_each(|_| std::future::ready(()));
    let _ = tokio::time::timeout(Duration::from_secs(args.rest), rest).await;
    println!("  {successes} reconciles succeeded, {errors} failed");
    work::print(&metrics);
    Ok(())
}
