//! Requests of the cache's watches, and the handling of the responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Bench, Widget, config_map, in_time, key, labelled, run};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use operator_runtime::cache::{CacheOptions, WatchErrorHandler, WatchOptions};
use operator_runtime::prelude::*;
use parking_lot::Mutex;

fn is_of_widgets(request: &str) -> bool {
    request.starts_with("GET") && request.contains("/widgets?")
}

fn is_streamed(request: &str) -> bool {
    is_of_widgets(request) && request.contains("sendInitialEvents=true")
}

fn is_resumed(request: &str) -> bool {
    is_of_widgets(request) && request.contains("watch=true") && !request.contains("sendInitialEvents")
}

/// Returns a parameter of a request.
fn parameter(request: &str, name: &str) -> Option<String> {
    let (_, query) = request.split_once('?')?;
    let pair = query
        .split('&')
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    pair.map(str::to_owned)
}

async fn until_there(client: &operator_runtime::Client, name: &str) {
    in_time(async {
        while client.get::<Widget>(&key(name)).await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn first_list_is_streamed_and_the_watch_continues_from_it() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    bench.network.take_writes();
    let running = run(&manager);
    let widget = manager.client().get::<Widget>(&key("a")).await.unwrap();
    assert_eq!(widget.unwrap().spec.size, 1);
    bench.create("b", 1).await;
    until_there(manager.client(), "b").await;
    let asked = bench.network.requests(is_of_widgets);
    assert_eq!(asked.len(), 1, "{asked:?}");
    let said = |name| parameter(&asked[0], name);
    for (name, value) in [
        ("watch", "true"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("allowWatchBookmarks", "true"),
        ("resourceVersion", ""),
    ] {
        assert_eq!(said(name).as_deref(), Some(value), "{name}");
    }
    let seconds: u32 = said("timeoutSeconds").unwrap().parse().unwrap();
    assert!((300..=600).contains(&seconds), "{seconds}");
    running.end().await.unwrap();
}

#[tokio::test]
async fn lists_are_paged_without_streaming_support() {
    let bench = Bench::new().await;
    for name in ["a", "b", "c"] {
        bench.create(name, 1).await;
    }
    bench
        .network
        .refuse(|request| is_streamed(request).then_some(422));
    let page_size = 2;
    let manager = bench
        .manager_with(CacheOptions {
            page_size,
            ..CacheOptions::default()
        })
        .await;
    let running = run(&manager);
    assert_eq!(manager.client().list::<Widget>().await.unwrap().len(), 3);
    bench.create("d", 1).await;
    until_there(manager.client(), "d").await;
    assert_eq!(manager.cache().unhealthy(), [""; 0]);
    let asked = bench.network.requests(is_of_widgets);
    let limits: Vec<_> = asked.iter().map(|request| parameter(request, "limit")).collect();
    let page = || Some("2".to_owned());
    assert_eq!(limits, [None, page(), page(), None], "{asked:?}");
    running.end().await.unwrap();
}

#[tokio::test]
async fn kind_without_bookmarks_is_listed_in_pages() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let quiet = WatchOptions {
        bookmarks: Some(false),
        ..WatchOptions::default()
    };
    let kinds = [(Kind::of::<Widget>(), quiet.into())].into();
    let manager = bench
        .manager_with(CacheOptions {
            kinds,
            ..CacheOptions::default()
        })
        .await;
    let running = run(&manager);
    assert_eq!(manager.client().list::<Widget>().await.unwrap().len(), 1);
    bench.create("b", 1).await;
    until_there(manager.client(), "b").await;
    let asked = bench.network.requests(is_of_widgets);
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(!asked[1].contains("allowWatchBookmarks"), "{asked:?}");
    assert_eq!(parameter(&asked[0], "limit").as_deref(), Some("100"));
    running.end().await.unwrap();
}

#[tokio::test]
async fn cut_watch_is_resumed_after_its_last_event() {
    let bench = Bench::new().await;
    let first = bench.create("a", 1).await;
    // Writes of other kinds advance the revision, which the bookmark after the list contains.
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    let config = configs
        .create(&PostParams::default(), &config_map("c", "1"))
        .await
        .unwrap();
    let manager = bench.manager().await;
    let running = run(&manager);
    manager.client().list::<Widget>().await.unwrap();
    let resumed_from = async |count: usize| {
        in_time(async {
            loop {
                let resumed = bench.network.requests(is_resumed);
                match resumed.get(count) {
                    Some(request) => break parameter(request, "resourceVersion").unwrap(),
                    None => tokio::task::yield_now().await,
                }
            }
        })
        .await
    };
    bench.network.cut_watches();
    let version = |version: Option<String>| version.unwrap().parse::<u64>().unwrap();
    let bookmark: u64 = resumed_from(0).await.parse().unwrap();
    assert!(bookmark > version(first.metadata.resource_version), "{bookmark}");
    assert_eq!(bookmark, version(config.metadata.resource_version));
    let second = bench.create("b", 1).await;
    until_there(manager.client(), "b").await;
    bench.network.cut_watches();
    assert_eq!(Some(resumed_from(1).await), second.metadata.resource_version);
    assert_eq!(bench.network.count(is_streamed), 1);
    running.end().await.unwrap();
}

#[tokio::test]
async fn expired_watch_is_listed_again_as_a_stream() {
    let bench = Bench::new().await;
    for name in ["kept", "gone"] {
        bench.create(name, 1).await;
    }
    let (manager, running, mut told) = bench.operator(|_, _| async { Ok(Action::done()) }).await;
    for _ in 0..2 {
        told.next().await;
    }
    let expired = AtomicUsize::new(0);
    bench.network.refuse(move |request| {
        (is_resumed(request) && expired.fetch_add(1, Ordering::SeqCst) == 0).then_some(410)
    });
    bench.network.hold_watches(true);
    bench.delete("gone").await;
    bench.network.cut_watches();
    bench.network.hold_watches(false);
    assert_eq!(told.next().await, (key("gone"), None));
    assert_eq!(
        (bench.network.count(is_resumed), bench.network.count(is_streamed)),
        (1, 2)
    );
    bench.resize("kept", 7).await;
    told.until("kept", Some(7)).await;
    assert_eq!(manager.cache().unhealthy(), [""; 0]);
    running.end().await.unwrap();
}

#[tokio::test]
async fn busy_server_does_not_end_streaming() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let busy = AtomicUsize::new(0);
    bench.network.refuse(move |request| {
        (is_streamed(request) && busy.fetch_add(1, Ordering::SeqCst) < 2).then_some(429)
    });
    let manager = bench.manager().await;
    let running = run(&manager);
    assert_eq!(manager.client().list::<Widget>().await.unwrap().len(), 1);
    let asked = bench.network.requests(is_of_widgets);
    assert!(asked.iter().all(|request| is_streamed(request)), "{asked:?}");
    assert_eq!(asked.len(), 3);
    running.end().await.unwrap();
}

#[tokio::test]
async fn watch_failures_reach_the_handler() {
    let bench = Bench::new().await;
    bench
        .network
        .refuse(|request| is_of_widgets(request).then_some(403));
    let told = Arc::new(Mutex::new(Vec::new()));
    let hear = told.clone();
    let watch_errors = WatchErrorHandler::new(move |failure| {
        let kind = failure.kind.to_string();
        hear.lock().push((
            kind,
            failure.namespace.map(str::to_owned),
            failure.message.to_owned(),
        ));
    });
    let manager = bench
        .manager_with(CacheOptions {
            watch_errors,
            namespaces: ["default"].into(),
            ..CacheOptions::default()
        })
        .await;
    manager.cache().watch::<Widget>(&Kind::of::<Widget>());
    let running = run(&manager);
    in_time(async {
        while told.lock().len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (kind, namespace, message) = told.lock()[1].clone();
    assert_eq!(
        (kind.as_str(), namespace.as_deref()),
        ("Widget.example.com", Some("default"))
    );
    assert!(
        message.contains("needs get, list and watch on widgets"),
        "{message}"
    );
    running.end().await.unwrap();
}

/// Reads return own writes or newer states, regardless of when the watch delivers events.
#[tokio::test]
async fn reads_never_go_back_behind_own_writes_while_watches_lag() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let running = run(&manager);
    let client = manager.client();
    client.list::<ConfigMap>().await.unwrap();
    let foreign: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    let mut choices = Choices(0x9E37_79B9_7F4A_7C15);
    let mut written = 0;
    for round in 0..400 {
        let name = ["a", "b"][choices.below(2)];
        let mut config = config_map(name, &round.to_string());
        config.metadata.namespace = Some("default".to_owned());
        match choices.below(8) {
            0 => bench.network.hold_watches(true),
            1 => bench.network.hold_watches(false),
            2 => bench.network.cut_watches(),
            3 => {
                // Another client deletes it. Later reads must not be older than that.
                let _ = foreign.delete(name, &Default::default()).await;
            }
            4 => {
                if let Some(known) = client.get::<ConfigMap>(&key(name)).await.unwrap()
                    && client.delete(known.as_ref()).await.is_ok()
                {
                    let read = client.get::<ConfigMap>(&key(name)).await.unwrap();
                    assert!(
                        read.is_none_or(|read| read.metadata.uid != known.metadata.uid),
                        "{name} was deleted in round {round}"
                    );
                }
            }
            _ => {
                let applied = client.apply(config).await.unwrap();
                written += 1;
                let at = version(&applied);
                let read = client.get::<ConfigMap>(&key(name)).await.unwrap();
                let read = read.unwrap_or_else(|| panic!("{name} is not there in round {round}"));
                assert!(version(&read) >= at, "{name} went back in round {round}");
                let listed = client.list::<ConfigMap>().await.unwrap();
                let listed = listed
                    .iter()
                    .find(|config| config.metadata.name.as_deref() == Some(name));
                assert!(
                    version(listed.unwrap()) >= at,
                    "the list went back in round {round}"
                );
            }
        }
        tokio::task::yield_now().await;
    }
    assert!(written > 100, "{written}");
    bench.network.hold_watches(false);
    running.end().await.unwrap();
}

#[tokio::test]
async fn list_decides_about_an_own_write_without_an_event() {
    let bench = Bench::new().await;
    let kinds = [(Kind::of::<ConfigMap>(), labelled("tier=front"))].into();
    let manager = bench
        .manager_with(CacheOptions {
            kinds,
            ..CacheOptions::default()
        })
        .await;
    let running = run(&manager);
    let client = manager.client();
    client.list::<ConfigMap>().await.unwrap();
    let mut config = config_map("a", "1");
    config.metadata.namespace = Some("default".to_owned());
    client.create(config).await.unwrap();
    assert!(client.get::<ConfigMap>(&key("a")).await.unwrap().is_some());
    // An object that is not selected is not visible to the operator.
    in_time(async {
        while client.get::<ConfigMap>(&key("a")).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    running.end().await.unwrap();
}

fn version(config: &ConfigMap) -> u64 {
    config
        .metadata
        .resource_version
        .as_ref()
        .unwrap()
        .parse()
        .unwrap()
}

/// The same random numbers in every run (xorshift).
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}
