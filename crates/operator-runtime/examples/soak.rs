//! Changes custom resources a hundred thousand times under an operator and prints its memory use. Then prints the costs
//! of a resync and of a restart of the operator.
//!
//! ```text
//! cargo run --profile operator -p operator-runtime --example soak -- --events 100000
//! ```
//!
//! The API server is in this process, or is the one of `USE_EXISTING_CLUSTER`. The operator is a separate process that
//! connects over TLS. Objects are created, changed and deleted; at the end the status of each remaining object must be
//! correct.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{CustomResource, CustomResourceExt};
use operator_envtest::{Controllers, TestEnv};
use operator_runtime::cache::CacheOptions;
use operator_runtime::controller::ControllerOptions;
use operator_runtime::manager::ManagerOptions;
use operator_runtime::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

/// The interval of resyncs.
const SYNC_PERIOD: Duration = Duration::from_secs(5);

#[derive(Parser)]
struct Args {
    /// Number of changes
    #[arg(long, default_value_t = 100_000)]
    events: usize,
    /// Number of objects at a time
    #[arg(long, default_value_t = 1000)]
    objects: usize,
    #[command(flatten)]
    manager: operator_runtime::manager::Args,
    #[command(subcommand)]
    step: Option<Step>,
}

#[derive(Clone, Copy, Subcommand)]
enum Step {
    /// Run the operator until it is stopped
    Operate,
}

/// An object with a size.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "soak.example.com",
    version = "v1",
    kind = "Sponge",
    namespaced,
    status = "SpongeStatus"
)]
struct SpongeSpec {
    size: usize,
}

/// The state that its operator observed.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct SpongeStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<usize>,
}

async fn reconcile(sponge: Arc<Sponge>, ctx: Context<Sponge>) -> Result<Action> {
    ctx.update_status(|status| status.size = Some(sponge.spec.size))
        .await?;
    Ok(Action::done())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    args.manager.init_logging();
    match args.step {
        Some(Step::Operate) => operate(&args).await,
        None => soak(&args).await,
    }
}

/// Runs the operator, which prints the address of its metrics.
async fn operate(args: &Args) -> Result<()> {
    let manager = Manager::new(
        "soak",
        ManagerOptions {
            cache_options: CacheOptions {
                sync_period: Some(SYNC_PERIOD),
                ..CacheOptions::default()
            },
            metrics_bind_address: "127.0.0.1:0".to_owned(),
            metrics_secure: false,
            ..ManagerOptions::from(&args.manager)
        },
    )
    .await?;
    let options = ControllerOptions {
        max_concurrent_reconciles: Some(8),
        ..ControllerOptions::default()
    };
    manager.add_controller(Controller::new(reconcile).options(options))?;
    if let Some(address) = manager.metrics_address() {
        println!("{address}");
    }
    manager.run().await
}

async fn soak(args: &Args) -> Result<()> {
    let env = TestEnv::builder().controllers(Controllers::None).nodes(0);
    let env = env.crds([Sponge::crd()]).start().await?;
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, env.kubeconfig().await?)?;
    let sponges: Api<Sponge> = Api::default_namespaced(env.client());

    let operator = Operator::start(&kubeconfig).await?;
    operator.print("before", 0).await?;
    let begin = Instant::now();
    let mut made = 0;
    for share in [10, 50, 100] {
        let until = args.events * share / 100;
        let changes = (made..until).map(|number| change(&sponges, args.objects, number));
        stream::iter(changes)
            .buffer_unordered(16)
            .try_collect::<()>()
            .await?;
        made = until;
        operator.settle(0.0).await?;
        operator.print(&format!("{share} %"), made).await?;
    }
    println!(
        "{made} changes, all reconciled after {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    let live = are_up_to_date(&sponges).await?;
    println!("{live} objects are left, each with the status that it should have");

    let before = operator.figures().await?;
    let told_twice = before.reconciles() + 2.0 * live as f64;
    operator.settle(told_twice).await?;
    let after = operator.figures().await?;
    println!(
        "resync: {} reconciles, {} writes",
        after.reconciles() - before.reconciles(),
        after.writes() - before.writes()
    );
    operator.stop().await?;
    let operator = Operator::start(&kubeconfig).await?;
    operator.settle(live as f64).await?;
    operator.print("started again", made).await?;
    operator.stop().await?;
    env.stop().await;
    Ok(())
}

/// Makes the change with this number: creates, updates or deletes an object.
async fn change(sponges: &Api<Sponge>, objects: usize, number: usize) -> Result<()> {
    let (round, index) = (number / objects, number % objects);
    let name = format!("sponge-{index}");
    let outcome = match (round + index) % 4 {
        0 => {
            let sponge = Sponge::new(&name, SpongeSpec { size: number });
            sponges.create(&PostParams::default(), &sponge).await.map(drop)
        }
        3 => {
            let gone = sponges.delete(&name, &DeleteParams::default()).await;
            gone.map(drop)
        }
        _ => {
            let patch = Patch::Merge(json!({"spec": {"size": number}}));
            let changed = sponges.patch(&name, &PatchParams::default(), &patch).await;
            changed.map(drop)
        }
    };
    match outcome {
        // Changes are concurrent, so that one may overtake the change of the previous round.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_already_exists() => Ok(()),
        outcome => Ok(outcome?),
    }
}

/// Returns the number of objects, if the status of each is correct.
async fn are_up_to_date(sponges: &Api<Sponge>) -> Result<usize> {
    let list = sponges.list(&ListParams::default()).await?;
    for sponge in &list {
        let seen = sponge.status.as_ref().and_then(|status| status.size);
        if seen != Some(sponge.spec.size) {
            return Err(Error::msg(format!("{:?} was forgotten", sponge.metadata.name)));
        }
    }
    Ok(list.items.len())
}

/// An operator in a separate process.
struct Operator {
    process: Child,
    metrics: String,
}

/// The metrics of an operator.
struct Figures(BTreeMap<String, f64>);

// === impl Operator ===

impl Operator {
    async fn start(kubeconfig: &Path) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("--zap-devel=false")
            .arg("--zap-log-level=error")
            .arg("--health-probe-bind-address=0")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("operate")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = process
            .stdout
            .take()
            .ok_or_else(|| Error::msg("the operator has no standard output"))?;
        let mut metrics = String::new();
        BufReader::new(output).read_line(&mut metrics).await?;
        let metrics = metrics.trim().to_owned();
        Ok(Self { process, metrics })
    }

    async fn figures(&self) -> Result<Figures> {
        let mut stream = tokio::net::TcpStream::connect(&self.metrics).await?;
        let request = "GET /metrics HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.filter_map(|line| line.rsplit_once(' '));
        let samples = samples.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
        Ok(Figures(samples.collect()))
    }

    /// Waits until the operator has done at least this number of reconciles and has been idle for half a second.
    async fn settle(&self, reconciles: f64) -> Result<()> {
        let mut quiet = 0;
        while quiet < 10 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let figures = self.figures().await?;
            let is_idle = figures.busy() == 0.0 && figures.reconciles() >= reconciles;
            quiet = if is_idle { quiet + 1 } else { 0 };
        }
        Ok(())
    }

    async fn print(&self, when: &str, changes: usize) -> Result<()> {
        let figures = self.figures().await?;
        println!(
            "{when:>13}: {changes:>6} changes, {:>6} reconciles, {:>6} writes, {} errors, {:.1} MB, CPU {:.1} s",
            figures.reconciles(),
            figures.writes(),
            figures.sum("controller_runtime_reconcile_errors_total"),
            figures.sum("process_resident_memory_bytes") / 1024.0 / 1024.0,
            figures.sum("process_cpu_seconds_total"),
        );
        Ok(())
    }

    async fn stop(mut self) -> Result<()> {
        if let Some(id) = self.process.id() {
            Command::new("kill").arg(id.to_string()).status().await?;
        }
        let ended = self.process.wait().await?;
        match ended.success() {
            true => Ok(()),
            false => Err(Error::msg(format!("the operator ended with {ended}"))),
        }
    }
}

// === impl Figures ===

impl Figures {
    /// Returns the sum of all series with this prefix.
    fn sum(&self, prefix: &str) -> f64 {
        let series = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        // `sum` returns -0 for an empty iterator.
        series.fold(0.0, |sum, (_, value)| sum + value)
    }

    fn reconciles(&self) -> f64 {
        self.sum("controller_runtime_reconcile_total")
    }

    fn writes(&self) -> f64 {
        let requests = self.sum("rest_client_requests_total");
        let reads = self.0.iter().filter(|(name, _)| {
            name.starts_with("rest_client_requests_total") && name.contains("method=\"GET\"")
        });
        requests - reads.fold(0.0, |sum, (_, value)| sum + value)
    }

    fn busy(&self) -> f64 {
        self.sum("workqueue_depth") + self.sum("controller_runtime_active_workers")
    }
}
