//! Late, missing and invalid responses of a server or a proxy.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::api::{Api, Patch, PatchParams};
use operator_apiserver::ApiServer;
use operator_runtime::cache::{CacheOptions, WatchBackoff};
use operator_runtime::manager::ManagerOptions;
use operator_runtime::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use crate::robustness::{are_sized, impatient, install, operate};
use crate::support::{Running, Widget, in_time, run};
use crate::wire::{Fault, Wire};

/// An operator that connects through a wire, as it does when it is deployed.
struct Bench {
    wire: Wire,
    /// A client without the wire.
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

    /// Returns an operator with this silence timeout.
    async fn operator(&self, options: CacheOptions, silence: Option<Duration>) -> (Manager, Running) {
        let options = ManagerOptions {
            cache_options: options,
            silence_timeout: silence,
            ..self.wire.operator(self.directory.path())
        };
        let manager = Manager::new("tester", options).await.unwrap();
        operate(&manager, 4);
        let running = run(&manager);
        (manager, running)
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
}

const IS_LIST: fn(&str) -> bool =
    |what| what.starts_with("GET ") && what.contains("/widgets?") && !IS_WATCH(what);
const IS_WATCH: fn(&str) -> bool = |what| what.contains("/widgets?") && what.contains("watch=true");
const IS_WRITE: fn(&str) -> bool = |what| what.starts_with("PATCH ");

#[tokio::test]
async fn hanging_connections_are_closed_at_any_stage() {
    let bench = Bench::new().await;
    let (manager, running) = bench
        .operator(impatient(), Some(Duration::from_millis(300)))
        .await;
    bench.want("w", 1).await;
    bench.get("w", 1).await;
    // Watches without events are reopened without being reported as failed.
    let opened = || bench.wire.received(|received| IS_WATCH(&received.what)).len();
    let before = opened();
    in_time(async {
        while opened() < before + 2 {
            assert_eq!(manager.cache().unhealthy(), [""; 0]);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    // This affects the connections of the watches, and those that wait for the next request.
    bench.wire.freeze();
    bench.want("w", 2).await;
    bench.get("w", 2).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn unanswered_and_truncated_requests_are_retried() {
    let bench = Bench::new().await;
    for number in 0..20 {
        bench.want(&format!("w-{number}"), number).await;
    }
    // The first request of each kind gets no response, the second gets the beginning of a response.
    let mut seen = BTreeMap::new();
    let kinds = [IS_LIST, IS_WATCH, IS_WRITE];
    bench.wire.fail(move |what| {
        let kind = kinds.iter().position(|is_it| is_it(what))?;
        let number = seen.entry(kind).or_insert(0);
        *number += 1;
        match number {
            1 => Some(Fault::Silence),
            2 => Some(Fault::Stuck(50)),
            _ => None,
        }
    });
    let (_, running) = bench
        .operator(impatient(), Some(Duration::from_millis(300)))
        .await;
    let sizes = (0..20).map(|number| (format!("w-{number}"), number));
    are_sized(&bench.direct, &sizes.collect()).await;
    bench.want("w-0", 100).await;
    bench.get("w-0", 100).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn busy_server_is_retried_after_retry_after() {
    let bench = Bench::new().await;
    bench.want("w", 3).await;
    // The first request of each kind.
    let kinds = [IS_LIST, IS_WATCH, IS_WRITE];
    let mut seen = HashSet::new();
    bench.wire.fail(move |what| {
        let kind = kinds.iter().position(|is_it| is_it(what))?;
        seen.insert(kind).then_some(Fault::Busy)
    });
    // Lists in pages, so that there are list requests.
    let options = CacheOptions {
        streaming_lists: false,
        ..impatient()
    };
    let (manager, running) = bench.operator(options, None).await;
    bench.get("w", 3).await;
    // The watch is opened independently.
    in_time(async {
        while bench.wire.received(|received| IS_WATCH(&received.what)).len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    running.end().await.unwrap();
    for is_it in kinds {
        let received = bench.wire.received(|received| is_it(&received.what));
        let waited = received[1].at - received[0].at;
        assert_eq!(received[0].what, received[1].what);
        // A few milliseconds pass between sending and recording.
        assert!(
            waited > Duration::from_millis(950),
            "{waited:?} before {received:?}"
        );
    }
    let metrics = manager.metrics().to_text();
    let no_error = r#"controller_runtime_reconcile_errors_total{controller="widget"} 0"#;
    assert!(metrics.contains(no_error), "{metrics}");
}

#[tokio::test]
async fn invalid_responses_are_errors() {
    let bench = Bench::new().await;
    for number in 0..10 {
        bench.want(&format!("w-{number}"), number).await;
    }
    // Two of three requests of any kind fail.
    let faults = [
        Fault::Page(3),
        Fault::Moved,
        Fault::Short(40),
        Fault::Error,
        Fault::Garbled,
        Fault::Short(0),
    ];
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    bench.wire.fail(move |_| {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        (number < 120 && !number.is_multiple_of(3)).then(|| faults[number / 3 % faults.len()])
    });
    let (manager, running) = bench.operator(impatient(), None).await;
    let sizes = |of: i32| {
        (0..10)
            .map(move |number| (format!("w-{number}"), number + of))
            .collect()
    };
    are_sized(&bench.direct, &sizes(0)).await;
    for number in 0..10 {
        bench.want(&format!("w-{number}"), number + 100).await;
    }
    are_sized(&bench.direct, &sizes(100)).await;
    assert!(count.load(Ordering::SeqCst) > 20);
    let stored = manager.client().list::<Widget>().await.unwrap();
    assert_eq!(stored.len(), 10);
    running.end().await.unwrap();
}

#[tokio::test]
async fn unreadable_watch_event_causes_a_new_list() {
    let bench = Bench::new().await;
    let mut garbled = 0;
    bench.wire.fail(move |what| {
        garbled += usize::from(IS_WATCH(what));
        (IS_WATCH(what) && garbled <= 3).then_some(Fault::Garbled)
    });
    let (_, running) = bench.operator(impatient(), None).await;
    in_time(async {
        while bench
            .wire
            .received(|received| IS_WATCH(&received.what))
            .is_empty()
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // This event is not delivered.
    bench.want("w", 1).await;
    bench.get("w", 1).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn html_page_instead_of_a_watch_is_one_failure() {
    let bench = Bench::new().await;
    bench.want("w", 1).await;
    let mut watches = 0;
    bench.wire.fail(move |what| {
        watches += usize::from(IS_WATCH(what));
        (IS_WATCH(what) && watches == 1).then_some(Fault::Page(500))
    });
    let patient = CacheOptions {
        watch_backoff: WatchBackoff {
            min: Duration::from_millis(200),
            max: Duration::from_secs(1),
        },
        ..CacheOptions::default()
    };
    let (_, running) = bench.operator(patient, None).await;
    bench.get("w", 1).await;
    in_time(async {
        while bench.wire.count(|received| IS_WATCH(&received.what)) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    bench.want("w", 2).await;
    bench.get("w", 2).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn renewed_token_is_used_after_the_first_401() {
    let bench = Bench::new().await;
    let token = bench.directory.path().join("token");
    std::fs::write(&token, "first\n").unwrap();
    bench.wire.admit("first");
    let (manager, running) = bench.operator(impatient(), None).await;
    bench.want("w", 1).await;
    bench.get("w", 1).await;
    let refusals = || {
        let metrics = manager.metrics().to_text();
        let is_refusal = |line: &&str| line.contains(r#"code="401""#) && !line.contains("retries");
        let counts = metrics.lines().filter(is_refusal);
        counts
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
            .sum::<u64>()
    };
    let refused_again = async || {
        let before = refusals();
        in_time(async {
            while refusals() == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    };
    // The token has expired, and has not been renewed yet.
    bench.wire.admit("second");
    bench.want("w", 2).await;
    refused_again().await;
    std::fs::write(&token, "second\n").unwrap();
    bench.get("w", 2).await;
    // The last token is used while the file cannot be read.
    std::fs::remove_file(&token).unwrap();
    bench.wire.admit("third");
    bench.want("w", 3).await;
    refused_again().await;
    refused_again().await;
    bench.wire.admit("second");
    bench.get("w", 3).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn empty_token_file_is_an_error_of_the_manager() {
    let bench = Bench::new().await;
    std::fs::write(bench.directory.path().join("token"), "\n").unwrap();
    let error = Manager::new("tester", bench.wire.operator(bench.directory.path())).await;
    let error = error.map(drop).unwrap_err();
    assert!(
        error.to_string().starts_with("cannot read the token file "),
        "{error}"
    );
}
