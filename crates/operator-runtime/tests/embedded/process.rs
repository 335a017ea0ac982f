//! Operators in separate processes: signals, logs that cannot be written, and lost leases.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use operator_apiserver::ApiServer;
use operator_runtime::election::{LeaderElection, LeaderElectionOptions};
use operator_runtime::logging::Logging;
use operator_runtime::manager::ManagerOptions;
use operator_runtime::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::robustness::{Sizer, are_sized, impatient, install};
use crate::support::{Widget, WidgetSpec, in_time, parallel};
use crate::wire::{Fault, Received, Wire};

/// The variable with the settings of a process.
const SETTINGS: &str = "OPERATOR_RUNTIME_TEST_SETTINGS";

/// Sizes of widgets with a special reconcile.
const PENDING: i32 = -1;
const BLOCKED: i32 = -2;
const SLOW: i32 = -3;
const RESTLESS: i32 = -4;
const IDLE: i32 = -5;

/// The number of concurrent writers in a `RESTLESS` reconcile, and their period.
const WRITERS: usize = 8;
const PERIOD: Duration = Duration::from_millis(300);

#[derive(Serialize, Deserialize)]
struct Settings {
    name: String,
    kubeconfig: String,
    grace: Duration,
    elects: bool,
}

/// The program that these tests start as a separate process. Without settings it does nothing.
#[test]
fn operator() {
    let Ok(settings) = std::env::var(SETTINGS) else {
        return;
    };
    let settings: Settings = serde_json::from_str(&settings).unwrap();
    Logging::default().init();
    // As in `#[tokio::main]`.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let ended = runtime.block_on(settings.operate());
    drop(runtime);
    std::process::exit(if ended.is_ok() { 0 } else { 3 });
}

impl Settings {
    async fn operate(&self) -> Result<()> {
        let kubeconfig = kube::config::Kubeconfig::read_from(&self.kubeconfig)?;
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
        config
            .headers
            .push((http::header::USER_AGENT, self.name.parse()?));
        let client = kube::Client::try_from(config)?;
        let mut options = ManagerOptions {
            cache_options: impatient(),
            graceful_shutdown_timeout: Some(self.grace),
            ..ManagerOptions::from(client.clone())
        };
        if self.elects {
            // The Lease holds whole seconds.
            let of_lease = LeaderElectionOptions {
                lease_duration: Duration::from_secs(1),
                renew_deadline: Duration::from_millis(700),
                retry_period: Duration::from_millis(50),
                namespace: Some("default".to_owned()),
                identity: Some(self.name.clone()),
                ..LeaderElectionOptions::default()
            };
            options.election = Some(Box::new(LeaderElection::new(client, "tester", of_lease)?));
        }
        let manager = Manager::new(&self.name, options).await?;
        manager.add_controller(Controller::by_key(Watch::<Widget>::new(), Moody).options(parallel(2)))?;
        manager.run().await
    }
}

/// A [`Sizer`] that blocks, waits or never ends for some sizes.
struct Moody;

impl KeyReconciler for Moody {
    async fn reconcile(&self, request: Request, ctx: KeyContext) -> Result<Action> {
        tracing::info!("The log of an operator is never empty");
        let widget = ctx.get::<Widget>(&request).await?;
        let size = widget.as_ref().map_or(0, |widget| widget.spec.size);
        if size == IDLE {
            return Ok(Action::done());
        }
        if size < 0 {
            // It signals to the test that the reconcile has begun.
            ctx.apply(crate::support::config_map_in("default", request.name(), "begun"))
                .await?;
        }
        match size {
            PENDING => std::future::pending().await,
            BLOCKED => loop {
                std::thread::sleep(Duration::from_millis(10));
            },
            SLOW => tokio::time::sleep(Duration::from_millis(300)).await,
            RESTLESS => {
                let writers = (0..WRITERS).map(|number| {
                    write_for_ever(&ctx, format!("{}-{number}", request.name()), number % 2 == 0)
                });
                futures::future::try_join_all(writers).await?;
            }
            _ => {}
        }
        Sizer.reconcile(request, ctx).await
    }
}

/// Writes repeatedly with the client of the reconcile, or with its kube client.
async fn write_for_ever(ctx: &KeyContext, name: String, is_raw: bool) -> Result<()> {
    let configs: Api<ConfigMap> = Api::namespaced(ctx.kube().clone(), "default");
    loop {
        tokio::time::sleep(PERIOD).await;
        let now = format!("{:?}", std::time::Instant::now());
        let config = crate::support::config_map_in("default", &name, &now);
        if is_raw {
            let config = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": config.data});
            configs
                .patch(&name, &PatchParams::apply("raw").force(), &Patch::Apply(config))
                .await?;
        } else {
            ctx.apply(config).await?;
        }
    }
}

/// A server, and the directory of the kubeconfig.
struct Bench {
    wire: Wire,
    direct: kube::Client,
    directory: TempDir,
}

impl Bench {
    async fn new() -> Self {
        let (wire, server) = (Wire::new().await, ApiServer::builder().build().unwrap());
        let direct = kube::Client::new(server.clone(), "default");
        install(&direct).await;
        wire.up(server);
        let directory = tempfile::tempdir().unwrap();
        Self {
            wire,
            direct,
            directory,
        }
    }

    fn operator(&self, name: &str) -> Operator {
        Operator {
            settings: Settings {
                name: name.to_owned(),
                kubeconfig: self
                    .wire
                    .kubeconfig(self.directory.path())
                    .to_str()
                    .unwrap()
                    .to_owned(),
                grace: Duration::from_secs(10),
                elects: false,
            },
            log: Stdio::null(),
        }
    }

    /// Creates a widget, or changes its size.
    async fn want(&self, name: &str, size: i32) {
        let widgets: Api<Widget> = Api::default_namespaced(self.direct.clone());
        let patch = Patch::Apply(json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size},
        }));
        let params = PatchParams::apply("user").force();
        widgets.patch(name, &params, &patch).await.unwrap();
    }

    async fn get(&self, name: &str, size: i32) {
        are_sized(&self.direct, &[(name.to_owned(), size)].into()).await;
    }

    /// Waits until a reconcile with a special size has begun.
    async fn has_begun(&self, name: &str) {
        let path = format!("/configmaps/{name}");
        self.until(|received| received.is_write() && received.what.contains(&path))
            .await;
    }

    async fn until(&self, like: impl Fn(&Received) -> bool) {
        in_time(async {
            while self.wire.received(&like).is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }

    /// Returns the writes of an operator other than those of its lease.
    fn writes_of(&self, name: &str) -> Vec<Received> {
        let is_its = |received: &Received| {
            received.by == name && received.is_write() && !received.what.contains("/leases")
        };
        self.wire.received(is_its)
    }
}

/// A process before its start.
struct Operator {
    settings: Settings,
    log: Stdio,
}

impl Operator {
    fn start(self) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let command = command
            .args(["--exact", "process::operator", "--nocapture"])
            .env(SETTINGS, serde_json::to_string(&self.settings).unwrap())
            .env_remove("RUST_LOG")
            .stdout(Stdio::null())
            .stderr(self.log);
        Process(command.kill_on_drop(true).spawn().unwrap())
    }
}

struct Process(Child);

/// Returns the resident memory of a process in MiB.
#[cfg(target_os = "linux")]
impl Process {
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id().unwrap())).unwrap();
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        kilobytes / 1024
    }
}

impl Process {
    async fn signal(&self, signal: &str) {
        let id = self.0.id().unwrap().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().await.unwrap();
        assert!(sent.success());
    }

    async fn end(&mut self) -> ExitStatus {
        in_time(self.0.wait()).await.unwrap()
    }
}

#[tokio::test]
async fn sigterm_ends_the_process_after_the_running_reconcile() {
    let bench = Bench::new().await;
    let mut operator = bench.operator("slow").start();
    bench.want("w", SLOW).await;
    bench.has_begun("w").await;
    operator.signal("-TERM").await;
    assert_eq!(operator.end().await.code(), Some(0));
    bench.get("w", SLOW).await;
}

#[tokio::test]
async fn reconcile_that_does_not_end_is_aborted_after_the_grace_period_or_a_second_signal() {
    let bench = Bench::new().await;
    bench.want("w", PENDING).await;
    let mut short = bench.operator("short");
    short.settings.grace = Duration::from_millis(200);
    let mut short = short.start();
    bench.has_begun("w").await;
    short.signal("-TERM").await;
    assert_eq!(short.end().await.code(), Some(3), "run() returned an error");

    let mut long = bench.operator("long").start();
    bench
        .until(|received| received.by == "long" && received.what.contains("/widgets"))
        .await;
    bench.want("w2", PENDING).await;
    bench.has_begun("w2").await;
    long.signal("-INT").await;
    let early = tokio::time::timeout(Duration::from_millis(200), long.0.wait()).await;
    assert!(early.is_err(), "it does not wait");
    long.signal("-TERM").await;
    assert_eq!(long.end().await.code(), Some(1));
}

#[tokio::test]
async fn blocking_reconcile_does_not_prevent_the_end() {
    let bench = Bench::new().await;
    bench.want("blocked", BLOCKED).await;
    let mut operator = bench.operator("blocked");
    operator.settings.grace = Duration::from_millis(200);
    let mut operator = operator.start();
    bench.has_begun("blocked").await;
    operator.signal("-TERM").await;
    assert_eq!(operator.end().await.code(), Some(1), "the process is ended");
}

#[tokio::test]
async fn operator_continues_without_a_writable_log() {
    let bench = Bench::new().await;
    // The reader of the log exits after the first line.
    let mut operator = bench.operator("unread");
    operator.log = Stdio::piped();
    let mut operator = operator.start();
    let mut log = BufReader::new(operator.0.stderr.take().unwrap());
    in_time(log.read_line(&mut String::new())).await.unwrap();
    drop(log);
    for size in 1..4 {
        bench.want("w", size).await;
        bench.get("w", size).await;
    }
    operator.signal("-TERM").await;
    assert_eq!(operator.end().await.code(), Some(0));

    // The device is full.
    if Path::new("/dev/full").exists() {
        let mut operator = bench.operator("full");
        operator.log = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap()
            .into();
        let mut operator = operator.start();
        for size in 4..7 {
            bench.want("w", size).await;
            bench.get("w", size).await;
        }
        operator.signal("-TERM").await;
        assert_eq!(operator.end().await.code(), Some(0));
    }
}

#[tokio::test]
async fn killed_leader_is_replaced_and_paused_leader_writes_nothing() {
    let bench = Bench::new().await;
    let candidate = |name: &str| {
        let mut operator = bench.operator(name);
        operator.settings.elects = true;
        operator.start()
    };
    let mut first = candidate("first");
    bench.want("w", 1).await;
    bench.get("w", 1).await;
    let mut second = candidate("second");
    bench
        .until(|received| received.by == "second" && received.what.contains("/leases"))
        .await;
    first.signal("-KILL").await;
    assert_eq!(first.end().await.code(), None);
    bench.want("w", 2).await;
    bench.get("w", 2).await;
    assert!(!bench.writes_of("second").is_empty());

    // It writes repeatedly, and is suspended in between.
    bench.want("restless", RESTLESS).await;
    bench.has_begun("restless").await;
    let before = bench.writes_of("second").len();
    in_time(async {
        while bench.writes_of("second").len() < before + 2 * WRITERS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // Its writers sleep now, and would all write when it is resumed.
    tokio::time::sleep(PERIOD / 4).await;
    second.signal("-STOP").await;
    let mut third = candidate("third");
    bench.want("w", 3).await;
    bench.get("w", 3).await;
    let last = bench.writes_of("second");
    second.signal("-CONT").await;
    assert_eq!(
        second.end().await.code(),
        Some(3),
        "it is not the leader any more"
    );
    assert_eq!(bench.writes_of("second").len(), last.len());
    third.signal("-KILL").await;
    third.end().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn repeated_lists_do_not_increase_memory() {
    const OBJECTS: usize = 500;
    let bench = Bench::new().await;
    let widgets: Api<Widget> = Api::default_namespaced(bench.direct.clone());
    for number in 0..OBJECTS {
        let mut widget = Widget::new(&format!("w-{number}"), WidgetSpec { size: IDLE });
        let text = format!("{number} ").repeat(1000);
        widget.metadata.annotations = Some([("example.com/text".to_owned(), text)].into());
        widgets.create(&PostParams::default(), &widget).await.unwrap();
    }
    let is_watch =
        |received: &Received| received.what.contains("/widgets?") && received.what.contains("watch=true");
    let operator = bench.operator("patient").start();
    let watched = async |times: usize| {
        in_time(async {
            while bench.wire.count(is_watch) < times {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    };
    watched(1).await;
    let mut resident = Vec::new();
    for round in 0..12 {
        // The next watch gets 410, and the one after that follows the list.
        let before = bench.wire.count(is_watch);
        let mut is_first = true;
        bench.wire.fail(move |what| {
            let is_watch = what.contains("/widgets?") && what.contains("watch=true");
            (is_watch && std::mem::take(&mut is_first)).then_some(Fault::Gone)
        });
        bench.wire.cut();
        watched(before + 2).await;
        if round >= 2 {
            resident.push(operator.resident());
        }
    }
    let lists = |received: &Received| is_watch(received) && received.what.contains("sendInitialEvents=true");
    assert!(bench.wire.count(lists) >= 13, "each round lists everything");
    // Each list is more than 2 MiB.
    let growth = resident[resident.len() - 1].saturating_sub(resident[0]);
    assert!(growth < 6, "{resident:?} MiB");
}
