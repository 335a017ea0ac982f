//! Sends hostile and ordinary requests to one API server for some time, and fails if the ordinary ones are affected.
//!
//! ```text
//! cargo run --profile dist -p operator-apiserver --example apiserver_soak -- --minutes 30
//! ```
//!
//! The server is a separate process, reached over TLS. Ordinary clients create, update, apply, list, watch and delete
//! objects, and check that no update and no watch event is lost. Hostile clients send large, deep, slow or malformed
//! requests. A probe requests `/readyz` every 50 ms. The run fails in each of these cases: a probe took longer than
//! `--health`; an ordinary request failed; the memory after the hostile clients disconnected exceeds the first
//! measurement under load by more than `--growth`.

#[path = "../tests/memory/mod.rs"]
mod memory;

use std::collections::BTreeMap;
use std::io::Read;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use futures::StreamExt;
use http::{Request, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::client::Body;
use kube::{Client, Config, ResourceExt};
use operator_apiserver::{ApiServer, ListenOptions};
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

type Fault = Box<dyn std::error::Error + Send + Sync>;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const JSON_PATCH: &str = "application/json-patch+json";

#[derive(Parser)]
struct Args {
    /// Duration of the run in minutes.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Number of ordinary clients.
    #[arg(long, default_value_t = 4)]
    ordinary: usize,
    /// Number of hostile clients.
    #[arg(long, default_value_t = 4)]
    hostile: usize,
    /// Upper bound of the time of a health check, in milliseconds.
    #[arg(long, default_value_t = 100)]
    health: u64,
    /// Upper bound of the growth of the server's memory, in percent.
    #[arg(long, default_value_t = 25)]
    growth: u64,
    #[command(subcommand)]
    step: Option<Step>,
}

#[derive(Clone, Copy, Subcommand)]
enum Step {
    /// Serves until the end of the standard input.
    Serve,
}

fn main() -> Result<(), Fault> {
    let args = Args::parse();
    match args.step {
        Some(Step::Serve) => tokio::runtime::Runtime::new()?.block_on(serve()),
        // Few threads, so that the clients do not compete with the server for the processors.
        None => tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .on_thread_start(|| {
                let _ = rustix::process::nice(10);
            })
            .build()?
            .block_on(run(&args)),
    }
}

async fn serve() -> Result<(), Fault> {
    let server = ApiServer::builder().build()?;
    let listener = server
        .listen(ListenOptions::at(([127, 0, 0, 1], 0).into()))
        .await?;
    println!("{}", json!(listener.kubeconfig()));
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    listener.shutdown().await;
    Ok(())
}

/// The counts of one run, shared by all clients.
#[derive(Default)]
struct Tally {
    stop: AtomicBool,
    /// Hostile requests by name and status. The status 0 is a closed connection, or a response that the client does not
    /// accept, such as one with more than 100 headers.
    hostile: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// Successful ordinary requests.
    ordinary: AtomicU64,
    /// Ordinary requests that failed because the server closed their idle connection at the same time.
    closed: AtomicU64,
    /// The first failures of ordinary clients.
    failures: Mutex<Vec<String>>,
    /// Times of all health checks in microseconds.
    health: Mutex<Vec<u64>>,
    /// The hostile requests that run, by client.
    running: Mutex<BTreeMap<u64, &'static str>>,
    /// The slowest health check, with the hostile requests that ran at its end.
    slowest: Mutex<(u64, String)>,
}

impl Tally {
    fn runs(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn fails(&self, failure: String) {
        let mut failures = self.failures.lock();
        if failures.len() < 20 {
            failures.push(failure);
        }
    }
}

async fn run(args: &Args) -> Result<(), Fault> {
    let mut child = tokio::process::Command::new(std::env::current_exe()?)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let pid = child.id().ok_or("the server ended")?;
    let stdout = child.stdout.take().ok_or("no standard output")?;
    let line = BufReader::new(stdout).lines().next_line().await?;
    let kubeconfig: String = serde_json::from_str(&line.ok_or("the server said nothing")?)?;
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
    config.read_timeout = None;
    let address = config.cluster_url.authority().ok_or("no address")?.to_string();
    let client = Client::try_from(config.clone())?;
    prepare(&client).await?;

    let tally = Arc::new(Tally::default());
    let started = Instant::now();
    let probe = {
        let tally = tally.clone();
        std::thread::spawn(move || probe(config, &tally))
    };
    let ordinary: Vec<_> = (0..args.ordinary)
        .map(|index| tokio::spawn(ordinary(client.clone(), index, tally.clone())))
        .collect();
    let mut hostile: Vec<_> = (0..args.hostile)
        .map(|index| tokio::spawn(hostile_requests(client.clone(), index as u64 + 1, tally.clone())))
        .collect();
    hostile.push(tokio::spawn(hostile_connections(address, tally.clone())));

    let total = Duration::from_secs_f64(args.minutes * 60.0);
    let mut first = 0;
    println!(
        "{:>8} {:>10} {:>10} {:>12} {:>10}",
        "seconds", "ordinary", "hostile", "health max", "memory"
    );
    for step in 1..=10 {
        tokio::time::sleep_until((started + total * step / 10).into()).await;
        let memory = resident(pid)?;
        if first == 0 {
            first = memory;
        }
        println!(
            "{:>8} {:>10} {:>10} {:>9.1} ms {:>7} MB",
            started.elapsed().as_secs(),
            tally.ordinary.load(Ordering::Relaxed),
            tally.hostile.lock().values().sum::<u64>(),
            tally.health.lock().iter().max().copied().unwrap_or_default() as f64 / 1000.0,
            memory / 1024,
        );
    }
    tally.stop.store(true, Ordering::Relaxed);
    for task in hostile.into_iter().chain(ordinary) {
        task.await?;
    }
    probe.join().map_err(|_| "the probe failed")??;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let last = resident(pid)?;
    println!("memory after the clients have left: {} MB", last / 1024);
    report(&tally);

    let slowest = tally.health.lock().iter().max().copied().unwrap_or_default() / 1000;
    let failures = tally.failures.lock();
    let mut verdict = failures.clone();
    if slowest > args.health {
        verdict.push(format!("a health check took {slowest} ms"));
    }
    if last > first + first * args.growth / 100 {
        verdict.push(format!("memory grew from {first} to {last} KB"));
    }
    match verdict.is_empty() {
        true => Ok(()),
        false => Err(verdict.join("\n").into()),
    }
}

fn report(tally: &Tally) {
    let mut times = tally.health.lock().clone();
    times.sort_unstable();
    let at =
        |share: usize| times.get(times.len() * share / 1000).copied().unwrap_or_default() as f64 / 1000.0;
    println!(
        "health checks: {}, median {:.1} ms, 99 % {:.1} ms, 99.9 % {:.1} ms",
        times.len(),
        at(500),
        at(990),
        at(999)
    );
    println!("the slowest health check ran beside: {}", tally.slowest.lock().1);
    println!(
        "requests on connections that were being closed: {}",
        tally.closed.load(Ordering::Relaxed)
    );
    for ((name, status), count) in &*tally.hostile.lock() {
        println!("{name:<40} {status:>5} {count:>8}");
    }
}

/// Returns the resident memory of a process in kB.
fn resident(pid: u32) -> Result<u64, Fault> {
    let bytes = memory::memory_of(&pid.to_string(), "VmRSS").ok_or("the server ended")?;
    Ok(bytes >> 10)
}

/// Creates the objects that hostile requests use: a kind with arbitrary fields, and an object to patch.
async fn prepare(client: &Client) -> Result<(), Fault> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let victim = json!({"metadata": {"name": "victim"}, "data": {"x": "y".repeat(10_000)}}).to_string();
    for (path, body) in [
        (DEFINITIONS, definition("widgets", &schema)),
        (CONFIG_MAPS, victim),
    ] {
        let (status, text) = send(client, "POST", path, JSON, body).await?;
        if status != StatusCode::CREATED {
            return Err(text.into());
        }
    }
    Ok(())
}

fn definition(plural: &str, schema: &serde_json::Value) -> String {
    let kind = format!("K{plural}");
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
    .to_string()
}

async fn send(
    client: &Client,
    method: &str,
    path: &str,
    media: &str,
    body: String,
) -> Result<(StatusCode, String), Fault> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(Body::from(body.into_bytes()))?;
    let response = client.send(request).await?;
    let status = response.status();
    let bytes = response.into_body().collect_bytes().await?;
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Measures health checks on a separate thread and connection.
fn probe(config: Config, tally: &Tally) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = Client::try_from(config)?;
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        while tally.runs() {
            ticks.tick().await;
            let started = Instant::now();
            match send(&client, "GET", "/readyz", JSON, String::new()).await {
                Ok((StatusCode::OK, _)) => {}
                Ok((status, text)) => tally.fails(format!("readyz: {status}: {text}")),
                Err(error) => tally.fails(format!("readyz: {error}")),
            }
            let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            tally.health.lock().push(micros);
            let mut slowest = tally.slowest.lock();
            if micros > slowest.0 {
                let running: Vec<_> = tally.running.lock().values().copied().collect();
                *slowest = (micros, running.join(", "));
            }
        }
        Ok(())
    })
}

// === ordinary clients ===

async fn ordinary(client: Client, index: usize, tally: Arc<Tally>) {
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let mut round = 0_u64;
    while tally.runs() {
        match cycle(&api, index, round, &tally).await {
            Err(error) if error.to_string().contains("(SendRequest)") => {
                tally.closed.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => tally.fails(format!("client {index}, round {round}: {error}")),
            Ok(()) => {}
        }
        round += 1;
    }
}

/// Creates an object, changes it ten times in two ways, and deletes it. A watch must report each of these changes.
async fn cycle(api: &Api<ConfigMap>, index: usize, round: u64, tally: &Tally) -> Result<(), Fault> {
    let name = format!("ordinary-{index}-{round}");
    let done = || tally.ordinary.fetch_add(1, Ordering::Relaxed);
    let object: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": name}, "data": {"count": "0"}}))?;
    let mut live = api.create(&PostParams::default(), &object).await?;
    done();
    let version = live.resource_version().ok_or("no resource version")?;
    let selected = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = api.watch(&selected, &version).await?.boxed();
    for count in 1..=10 {
        if count % 2 == 0 {
            let patch =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"count": count.to_string()}});
            let params = PatchParams::apply("soak").force();
            live = api.patch(&name, &params, &Patch::Apply(patch)).await?;
        } else {
            live.data
                .get_or_insert_default()
                .insert("count".to_owned(), count.to_string());
            live.metadata.managed_fields = None;
            live = api.replace(&name, &PostParams::default(), &live).await?;
        }
        done();
        let event = tokio::time::timeout(Duration::from_secs(30), events.next()).await?;
        let Some(Ok(WatchEvent::Modified(seen))) = event else {
            return Err(format!("change {count}: unexpected watch event {event:?}").into());
        };
        if seen.resource_version() != live.resource_version() {
            return Err(format!("change {count}: the watch reports {:?}", seen.resource_version()).into());
        }
    }
    api.delete(&name, &DeleteParams::default()).await?;
    done();
    let event = tokio::time::timeout(Duration::from_secs(30), events.next()).await?;
    match event {
        Some(Ok(WatchEvent::Deleted(_))) => Ok(()),
        other => Err(format!("deletion: unexpected watch event {other:?}").into()),
    }
}

// === hostile clients ===

/// A generator of pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

/// A hostile request: its name in the report, method, path, media type and body.
type Hostile = (&'static str, &'static str, String, &'static str, String);

fn hostile_request(random: &mut Random) -> Hostile {
    let size = usize::try_from(1 + random.below(20)).unwrap_or(1);
    let id = random.below(1_000_000);
    let widget = |fields: String| {
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"generateName":"w-"}},"spec":{fields}}}"#
        )
    };
    let dry = |path: &str| format!("{path}?dryRun=All");
    match random.below(16) {
        0 => (
            "deep JSON",
            "POST",
            dry(WIDGETS),
            JSON,
            widget("{\"a\":".repeat(5_000 * size) + "1"),
        ),
        1 => {
            let fields: Vec<String> = (0..5_000 * size)
                .map(|field| format!(r#""f{field}":{{"x":1}}"#))
                .collect();
            (
                "many fields",
                "POST",
                dry(WIDGETS),
                JSON,
                widget(format!("{{{}}}", fields.join(","))),
            )
        }
        2 => {
            let fields: Vec<String> = (0..2_000 * size)
                .map(|field| format!(r#""f{field}":1,"f{field}":2"#))
                .collect();
            let path = format!("{WIDGETS}?dryRun=All&fieldValidation=Strict");
            (
                "repeated fields",
                "POST",
                path,
                JSON,
                widget(format!("{{{}}}", fields.join(","))),
            )
        }
        3 => {
            let mut text = String::from(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx0: &x0 [a,a,a,a,a,a,a,a,a]\n",
            );
            for level in 1..=size {
                let last = level - 1;
                text +=
                    &format!("x{level}: &x{level} [*x{last},*x{last},*x{last},*x{last},*x{last},*x{last}]\n");
            }
            ("YAML aliases", "POST", dry(CONFIG_MAPS), YAML, text)
        }
        4 => {
            let copies = vec![r#"{"op":"copy","from":"/data","path":"/data/x"}"#; 50 * size];
            (
                "JSON patch copies",
                "PATCH",
                format!("{CONFIG_MAPS}/victim"),
                JSON_PATCH,
                format!("[{}]", copies.join(",")),
            )
        }
        5 => {
            let moves = vec![r#"{"op":"add","path":"/data/a~1b","value":"x"}"#; 1_000 * size];
            (
                "long JSON patch",
                "PATCH",
                format!("{CONFIG_MAPS}/victim"),
                JSON_PATCH,
                format!("[{}]", moves.join(",")),
            )
        }
        6 => (
            "body above the limit",
            "POST",
            CONFIG_MAPS.to_owned(),
            JSON,
            " ".repeat(200_000 * size),
        ),
        7 => {
            let data = "x".repeat(60_000 * size);
            let object = json!({"metadata": {"generateName": "big-"}, "data": {"x": data}}).to_string();
            ("large object, dry run", "POST", dry(CONFIG_MAPS), JSON, object)
        }
        8 => {
            let rule = format!("self.spec.items.all(x, {} > 0)", "+-".repeat(200 * size) + "1");
            let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
            (
                "deep CEL",
                "POST",
                dry(DEFINITIONS),
                JSON,
                definition("deeps", &schema),
            )
        }
        9 => {
            let pattern = format!("^[\\pL\\pN]{{1,{}}}$", 50 * size);
            let properties: serde_json::Map<_, _> = (0..20 * size)
                .map(|field| (format!("f{field}"), json!({"type": "string", "pattern": pattern})))
                .collect();
            let schema = json!({"type": "object", "properties": properties});
            (
                "large patterns",
                "POST",
                dry(DEFINITIONS),
                JSON,
                definition("patterns", &schema),
            )
        }
        10 => {
            let spec = json!({"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["configmaps"]}]},
                "validations": vec![json!({"expression": "object.data.all(k, object.data.all(l, k == l))"}); size]});
            let policy = json!({"metadata": {"name": "slow"}, "spec": spec}).to_string();
            ("policies", "POST", dry(POLICIES), JSON, policy)
        }
        11 => {
            let fields: String = (0..500 * size)
                .map(|field| format!(r#","a{field}":1,"a{field}":2"#))
                .collect();
            let body = format!(
                r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview"{fields}}}"#
            );
            (
                "access review with repeated fields",
                "POST",
                REVIEWS.to_owned(),
                JSON,
                body,
            )
        }
        12 => {
            let finalizers: Vec<String> = (0..1_000 * size)
                .map(|index| format!("example.com/f{index}"))
                .collect();
            let object =
                json!({"metadata": {"generateName": "final-", "finalizers": finalizers}}).to_string();
            ("many finalizers", "POST", dry(CONFIG_MAPS), JSON, object)
        }
        13 => {
            let selector = "a%20notin%20(b),".repeat(100 * size) + "a";
            (
                "long selector",
                "GET",
                format!("{CONFIG_MAPS}?labelSelector={selector}"),
                JSON,
                String::new(),
            )
        }
        14 => {
            let bytes: String = (0..1_000 * size)
                .map(|_| char::from(u8::try_from(random.below(128)).unwrap_or(0)))
                .collect();
            ("noise", "POST", CONFIG_MAPS.to_owned(), JSON, bytes)
        }
        _ => {
            let object = json!({"metadata": {"name": format!("churn-{}", id % 50)},
                "data": {"x": "y".repeat(10_000 * size)}})
            .to_string();
            let path = format!("{CONFIG_MAPS}/churn-{}", id % 50);
            match id % 3 {
                0 => ("churn", "POST", CONFIG_MAPS.to_owned(), JSON, object),
                1 => ("churn", "PUT", path, JSON, object),
                _ => ("churn", "DELETE", path, JSON, String::new()),
            }
        }
    }
}

async fn hostile_requests(client: Client, seed: u64, tally: Arc<Tally>) {
    let mut random = Random(seed);
    while tally.runs() {
        let (name, method, path, media, body) = hostile_request(&mut random);
        tally.running.lock().insert(seed, name);
        let status = match send(&client, method, &path, media, body).await {
            Ok((status, _)) => status.as_u16(),
            Err(_) => 0,
        };
        tally.running.lock().remove(&seed);
        *tally.hostile.lock().entry((name, status)).or_default() += 1;
    }
}

/// Opens connections that stop before, during or instead of the TLS handshake.
async fn hostile_connections(address: String, tally: Arc<Tally>) {
    let mut random = Random(99);
    let mut open = Vec::new();
    while tally.runs() {
        let sent: &[u8] = match random.below(3) {
            0 => b"",
            1 => b"GET /api HTTP/1.1\r\nhost: a\r\n\r\n",
            _ => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        };
        if let Ok(mut stream) = TcpStream::connect(&address).await {
            let _ = stream.write_all(sent).await;
            open.push(stream);
        }
        if open.len() > 200 {
            open.drain(..100);
        }
        *tally
            .hostile
            .lock()
            .entry(("half open connection", 0))
            .or_default() += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
