//! Measures an operator with many objects in its cache: the time until all are reconciled for the first time, the
//! memory when idle, the cost of a resync, and the longest time for which the operator blocks other tasks, such as
//! health probes.
//!
//! ```text
//! operator-sdk cluster up --controllers none --kubeconfig kubeconfig &
//! KUBECONFIG=kubeconfig cargo run --profile operator --example large_cache -- --objects 100000
//! ```
//!
//! The operator is a separate process with one thread. Its longest turn is the most CPU time between two polls of a
//! task that is always ready: every other ready task may be polled once between them. Built with `RUSTFLAGS="--cfg
//! tokio_unstable"` it also prints the longest step, which is one poll of one task, and the place where the task was
//! spawned.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(tokio_unstable)]
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::{CustomResource, CustomResourceExt};
use operator_runtime::cache::CacheOptions;
use operator_runtime::controller::ControllerOptions;
use operator_runtime::controller::Watch;
use operator_runtime::manager::ManagerOptions;
use operator_runtime::prelude::*;
use operator_runtime::{Kind, predicate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Interval at which every object is reconciled again.
const RESYNC: Duration = Duration::from_secs(60);

#[derive(Parser)]
struct Args {
    /// Number of objects.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    #[command(flatten)]
    manager: operator_runtime::manager::Args,
    #[command(subcommand)]
    step: Option<Step>,
}

#[derive(Clone, Copy, Subcommand)]
enum Step {
    /// Runs the operator alone.
    Operate,
}

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "load.example.com",
    version = "v1",
    kind = "Item",
    namespaced,
    status = "ItemStatus"
)]
struct ItemSpec {
    size: i32,
    note: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct ItemStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    conditions: Conditions,
}

/// Writes a status, which costs a request only once.
async fn reconcile(_: Arc<Item>, ctx: Context<Item>) -> Result<Action> {
    ctx.update_status(|status| {
        status
            .conditions
            .set(Condition::available(true, "Seen", "The item was seen"));
    })
    .await?;
    Ok(Action::done())
}

/// Does nothing.
async fn idle(_: Request, _: KeyContext) -> Result<Action> {
    Ok(Action::done())
}

fn main() -> Result<()> {
    let args = Args::parse();
    args.manager.init_logging();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // Timers are checked after each poll, so that a step is one poll of one task.
    runtime.event_interval(1);
    let steps = Steps::default();
    #[cfg(tokio_unstable)]
    steps.measure(&mut runtime);
    runtime.enable_all().build()?.block_on(async move {
        // Spawned, so that its polls are measured too.
        let run = tokio::spawn(async move {
            match args.step {
                Some(Step::Operate) => operate(&args, steps).await,
                None => measure(&args).await,
            }
        });
        run.await?
    })
}

async fn measure(args: &Args) -> Result<()> {
    let client = kube::Client::try_default().await?;
    let crds: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &kube::api::ApiResource::from(&Kind::in_cluster(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
        )),
    );
    let crd: DynamicObject = serde_json::from_value(serde_json::to_value(Item::crd())?)?;
    // The definition may already exist.
    let _ = crds.create(&PostParams::default(), &crd).await;
    let items: Api<Item> = Api::default_namespaced(client);
    while items.list(&ListParams::default().limit(1)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stream::iter((0..args.objects).map(|number| create(&items, number)))
        .buffer_unordered(16)
        .try_collect::<()>()
        .await?;
    let operator = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .arg("operate")
        .status()?;
    items
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    match operator.success() {
        true => Ok(()),
        false => Err(Error::msg("the operator failed")),
    }
}

async fn create(items: &Api<Item>, number: usize) -> Result<()> {
    let spec = ItemSpec {
        size: 1,
        note: format!("This is item {number}, one of many."),
    };
    let item = Item::new(&format!("item-{number}"), spec);
    items.create(&PostParams::default(), &item).await?;
    Ok(())
}

async fn operate(args: &Args, steps: Steps) -> Result<()> {
    let options = CacheOptions {
        sync_period: Some(RESYNC),
        page_size: 500,
        read_timeout: Duration::from_secs(300),
        ..CacheOptions::default()
    };
    let manager = Manager::new(
        "large-cache",
        ManagerOptions {
            cache_options: options,
            ..ManagerOptions::from(&args.manager)
        },
    )
    .await?;
    let options = ControllerOptions {
        max_concurrent_reconciles: Some(8),
        ..ControllerOptions::default()
    };
    manager.add_controller(Controller::new(reconcile).options(options))?;
    watch_turns(&steps);
    let mut phase = Phase::begin(&steps);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(manager.clone().run_until(async {
        let _ = stopped.await;
    }));
    until_reconciled(&manager, "item", args.objects).await;
    phase.end("first reconcile of all");
    tokio::time::sleep(Duration::from_secs(5)).await;
    phase.end("5 s at rest");
    println!("  memory at rest {:.1} MB", memory());

    // Late controllers and indexes get the existing objects.
    manager.add_controller(
        Controller::without_primary("late", idle).watches(
            Watch::<Item>::new()
                .filter(predicate::generation_changed())
                .handler(operator_runtime::handler::for_object()),
        ),
    )?;
    until_reconciled(&manager, "late", args.objects).await;
    phase.end("controller that is added");
    manager
        .cache()
        .add_index::<Item>("size", |item| vec![item.spec.size.to_string()])?;
    let of_size = indexed("size", "0");
    manager.client().list::<Item>().options(of_size).await?;
    phase.end("index that is added");
    let of_size = ListOptions {
        limit: Some(1),
        ..indexed("size", "1")
    };
    manager.client().list::<Item>().options(of_size).await?;
    phase.end("list of the first one that an index has, of all");
    let listed = manager.client().list::<Item>().await?;
    phase.end("list of all");
    // Dropping this many objects takes a while. Here it counts as a poll of the measured task.
    for object in listed {
        drop(object);
        tokio::task::yield_now().await;
    }
    phase.end("dropping the list");
    let before = reconciled(&manager, "item");
    until_reconciled(&manager, "item", before + args.objects).await;
    phase.end("resync, and the wait for it");
    manager
        .client()
        .list_kind::<DynamicObject>(&Kind::of::<Item>())
        .await?;
    phase.end("list of all as DynamicObject, for which the kind is listed again");
    println!("  memory {:.1} MB", memory());
    let metrics = manager.metrics().to_text();
    for line in metrics.lines() {
        let prefixes = ["rest_client_requests_total", "operator_runtime_writes_skipped"];
        if prefixes.iter().any(|prefix| line.starts_with(prefix)) {
            println!("  {line}");
        }
    }
    let _ = stop.send(());
    running.await?
}

async fn until_reconciled(manager: &Manager, controller: &str, times: usize) {
    while reconciled(manager, controller) < times {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the number of successful reconciles of a controller.
fn reconciled(manager: &Manager, controller: &str) -> usize {
    let prefix =
        format!("controller_runtime_reconcile_total{{controller=\"{controller}\",result=\"success\"}} ");
    let metrics = manager.metrics().to_text();
    let count = metrics.lines().find_map(|line| line.strip_prefix(&prefix));
    count.and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// The longest turn and step since the end of the last phase, in nanoseconds.
#[derive(Clone, Default)]
struct Steps {
    turn: Arc<AtomicU64>,
    #[cfg(tokio_unstable)]
    poll: Arc<Mutex<(u64, String)>>,
}

// === impl Steps ===

impl Steps {
    #[cfg(tokio_unstable)]
    fn measure(&self, runtime: &mut tokio::runtime::Builder) {
        let begin = Arc::new(AtomicU64::new(0));
        let (began, longest) = (begin.clone(), self.poll.clone());
        runtime.on_before_task_poll(move |_| began.store(cpu_of_thread(), Ordering::Relaxed));
        runtime.on_after_task_poll(move |task| {
            let step = cpu_of_thread() - begin.load(Ordering::Relaxed);
            let mut longest = longest.lock().unwrap_or_else(PoisonError::into_inner);
            if step > longest.0 {
                *longest = (step, task.spawned_at().to_string());
            }
        });
    }

    /// Describes and resets them.
    fn take(&self) -> String {
        let turn = milliseconds(self.turn.swap(0, Ordering::Relaxed));
        #[cfg(tokio_unstable)]
        {
            let mut longest = self.poll.lock().unwrap_or_else(PoisonError::into_inner);
            let (step, place) = std::mem::take(&mut *longest);
            format!("longest turn {turn}, step {} of {place}", milliseconds(step))
        }
        #[cfg(not(tokio_unstable))]
        format!("longest turn {turn}")
    }
}

fn milliseconds(nanoseconds: u64) -> String {
    format!(
        "{:.1} ms",
        Duration::from_nanos(nanoseconds).as_secs_f64() * 1000.0
    )
}

fn watch_turns(steps: &Steps) {
    let longest = steps.turn.clone();
    tokio::spawn(async move {
        let mut before = cpu_of_thread();
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let now = cpu_of_thread();
            longest.fetch_max(now.saturating_sub(before), Ordering::Relaxed);
            before = now;
        }
    });
}

/// Returns the CPU time of this thread in nanoseconds.
fn cpu_of_thread() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or_default()
}

fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = resident.and_then(|resident| resident.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}

/// One part of the measurement.
struct Phase<'a> {
    steps: &'a Steps,
    begin: Instant,
    cpu: u64,
}

impl<'a> Phase<'a> {
    fn begin(steps: &'a Steps) -> Self {
        let (begin, cpu) = (Instant::now(), cpu_of_thread());
        Self { steps, begin, cpu }
    }

    /// Prints the result of the phase, and begins the next one.
    fn end(&mut self, name: &str) {
        println!(
            "  {name}: {:.2} s, CPU {:.2} s, {}",
            self.begin.elapsed().as_secs_f64(),
            Duration::from_nanos(cpu_of_thread() - self.cpu).as_secs_f64(),
            self.steps.take(),
        );
        *self = Self::begin(self.steps);
    }
}

/// Selects the objects with a value in an index.
fn indexed(name: &str, value: &str) -> ListOptions {
    ListOptions {
        indexes: vec![(name.to_owned(), value.to_owned())],
        ..ListOptions::default()
    }
}
