//! Benchmarks of the cache and of event dispatch, and the memory use of a cached object.
#![expect(clippy::unwrap_used, reason = "a benchmark whose reads fail measures nothing")]

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher};
use futures::StreamExt as _;
use http::{Request as HttpRequest, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use operator_runtime::cache::{CacheOptions, KindOptions};
use operator_runtime::event::Event;
use operator_runtime::manager::ManagerOptions;
use operator_runtime::{Kind, ObjectKey, prelude::*};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const OBJECTS: usize = 10_000;
const NAMESPACES: usize = 100;

fn main() {
    divan::main();
}

/// Returns a ConfigMap as operators create them: with labels, an owner reference and applied fields.
fn object(index: usize, version: usize) -> Value {
    let owner = json!([{
        "apiVersion": "example.com/v1", "kind": "App", "name": format!("app-{index}"), "uid": uid(index),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let applied = json!({
        "f:data": {"f:size": {}, "f:text": {}},
        "f:metadata": {
            "f:labels": {"f:app": {}, "f:shard": {}},
            "f:ownerReferences": {format!(r#"k:{{"uid":"{}"}}"#, uid(index)): {}},
        },
    });
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("app-{index}"), "namespace": format!("team-{}", index % NAMESPACES),
            "uid": uid(index), "resourceVersion": version.to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "shard": (index / NAMESPACES).to_string()},
            "ownerReferences": owner,
            "managedFields": [{
                "manager": "bench", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": applied,
            }],
        },
        "data": {"size": index.to_string(), "text": "The quick brown fox jumps over the lazy dog"},
    })
}

fn uid(index: usize) -> String {
    format!("00000000-0000-4000-8000-{index:012}")
}

/// Returns a client of a fake server with these objects. It lists them in one response or as a stream of events; the
/// watch delivers `updates` updates of them.
fn server(updates: usize, go: Arc<Notify>) -> kube::Client {
    let items: Vec<_> = (0..OBJECTS).map(|index| object(index, 1 + index)).collect();
    let streamed = Bytes::from(items.iter().map(added).chain([end_of_list()]).collect::<String>());
    let metadata = json!({"resourceVersion": OBJECTS.to_string()});
    let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items});
    let list = Bytes::from(list.to_string());
    let events = (0..updates).map(|index| {
        let event = json!({"type": "MODIFIED", "object": object(index % OBJECTS, OBJECTS + 1 + index)});
        format!("{event}\n")
    });
    let events = Bytes::from(events.collect::<String>());
    let service = tower::service_fn(move |request: HttpRequest<kube::client::Body>| {
        let query = request.uri().query().unwrap_or_default();
        let first = if query.contains("sendInitialEvents=true") {
            streamed.clone()
        } else {
            Bytes::new()
        };
        let is_watch = query.contains("watch=true");
        let (list, events, go) = (list.clone(), events.clone(), go.clone());
        async move {
            let body = if is_watch {
                let first = futures::stream::once(async { Ok::<_, Infallible>(Frame::data(first)) });
                let events = futures::stream::once(async move {
                    go.notified().await;
                    Ok(Frame::data(events))
                });
                StreamBody::new(first.chain(events).chain(futures::stream::pending())).boxed_unsync()
            } else {
                Full::from(list).boxed_unsync()
            };
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    kube::Client::new(service, "default")
}

/// Returns the event of an object in a streamed list.
fn added(object: &Value) -> String {
    format!("{}\n", json!({"type": "ADDED", "object": object}))
}

/// Returns the bookmark at the end of a streamed list.
fn end_of_list() -> String {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    let metadata = json!({"resourceVersion": OBJECTS.to_string(), "annotations": annotations});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    format!("{}\n", json!({"type": "BOOKMARK", "object": object}))
}

/// A manager with the objects in its cache.
struct Bench {
    runtime: Runtime,
    manager: Manager,
}

impl Bench {
    fn new(updates: usize, go: Arc<Notify>) -> Self {
        Self::with(updates, go, CacheOptions::default())
    }

    fn with(updates: usize, go: Arc<Notify>, options: CacheOptions) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = {
            let _entered = runtime.enter();
            server(updates, go)
        };
        let options = CacheOptions {
            sync_period: None,
            ..options
        };
        let options = ManagerOptions {
            cache_options: options,
            ..ManagerOptions::from(client)
        };
        let manager = runtime.block_on(Manager::new("bench", options)).unwrap();
        Self { runtime, manager }
    }

    fn run(&self) {
        self.runtime
            .spawn(self.manager.clone().run_until(std::future::pending()));
    }

    fn filled() -> Self {
        Self::filled_with(false)
    }

    fn filled_unpacked() -> Self {
        Self::filled_with(true)
    }

    fn filled_with(unpacked: bool) -> Self {
        let bench = Self::with(0, Arc::default(), keeping(unpacked));
        let shard = |config: &ConfigMap| {
            let labels = config.metadata.labels.iter().flatten();
            labels
                .filter(|(key, _)| *key == "shard")
                .map(|(_, shard)| shard.clone())
                .collect()
        };
        bench
            .manager
            .cache()
            .add_index::<ConfigMap>("shard", shard)
            .unwrap();
        bench.run();
        assert_eq!(bench.list(ListOptions::default()), OBJECTS);
        bench
    }

    fn list(&self, options: ListOptions) -> usize {
        let client = self.manager.client();
        self.runtime
            .block_on(client.list::<ConfigMap>().options(options).into_future())
            .unwrap()
            .len()
    }
}

fn indexed(name: &str, value: &str) -> ListOptions {
    ListOptions {
        indexes: vec![(name.to_owned(), value.to_owned())],
        ..ListOptions::default()
    }
}

fn labelled() -> ListOptions {
    let labels = [("shard".to_owned(), "42".to_owned())];
    ListOptions {
        labels: labels.into_iter().collect(),
        ..ListOptions::default()
    }
}

fn keeping(unpacked: bool) -> CacheOptions {
    let options = KindOptions {
        unpacked,
        ..KindOptions::default()
    };
    CacheOptions {
        kinds: [(Kind::of::<ConfigMap>(), options)].into(),
        ..CacheOptions::default()
    }
}

mod cache {
    use super::*;

    /// Measures the read of a recently read object.
    #[divan::bench]
    fn get(bencher: Bencher<'_, '_>) {
        let bench = Bench::filled();
        let (client, key) = (
            bench.manager.client(),
            ObjectKey::namespaced("team-42", "app-4242"),
        );
        bencher.bench_local(|| {
            bench
                .runtime
                .block_on(client.get::<ConfigMap>(&key))
                .unwrap()
                .unwrap()
        });
    }

    fn get_one_after_the_other(bencher: Bencher<'_, '_>, bench: &Bench) {
        let key = |index: usize| {
            ObjectKey::namespaced(&format!("team-{}", index % NAMESPACES), &format!("app-{index}"))
        };
        let keys: Vec<_> = (0..OBJECTS).map(key).collect();
        let mut keys = keys.iter().cycle();
        let client = bench.manager.client();
        bencher.bench_local(|| {
            let object = client.get::<ConfigMap>(keys.next().unwrap());
            bench.runtime.block_on(object).unwrap().unwrap()
        });
    }

    /// Measures the read of an object that must be decoded.
    #[divan::bench]
    fn get_packed(bencher: Bencher<'_, '_>) {
        get_one_after_the_other(bencher, &Bench::filled());
    }

    #[divan::bench]
    fn get_unpacked(bencher: Bencher<'_, '_>) {
        get_one_after_the_other(bencher, &Bench::filled_unpacked());
    }

    #[divan::bench]
    fn list_10_000(bencher: Bencher<'_, '_>) {
        let bench = Bench::filled();
        bencher.bench_local(|| bench.list(ListOptions::default()));
    }

    #[divan::bench]
    fn list_10_000_unpacked(bencher: Bencher<'_, '_>) {
        let bench = Bench::filled_unpacked();
        bencher.bench_local(|| bench.list(ListOptions::default()));
    }

    #[divan::bench]
    fn list_100_by_label_unpacked(bencher: Bencher<'_, '_>) {
        let bench = Bench::filled_unpacked();
        bencher.bench_local(|| bench.list(labelled()));
    }

    #[divan::bench]
    fn list_100_of_a_namespace(bencher: Bencher<'_, '_>) {
        let bench = Bench::filled();
        assert_eq!(bench.list(ListOptions::from(Some("team-42"))), 100);
        bencher.bench_local(|| bench.list(ListOptions::from(Some("team-42"))));
    }

    #[divan::bench]
    fn list_100_by_label(bencher: Bencher<'_, '_>) {
        let bench = Bench::filled();
        bencher.bench_local(|| bench.list(labelled()));
    }

    #[divan::bench]
    fn list_100_by_index(bencher: Bencher<'_, '_>) {
        let bench = Bench::filled();
        assert_eq!(bench.list(indexed("shard", "42")), 100);
        bencher.bench_local(|| bench.list(indexed("shard", "42")));
    }

    /// Measures the read of the metadata of an object that is kept completely.
    #[divan::bench]
    fn get_metadata_of_typed(bencher: Bencher<'_, '_>) {
        let bench = Bench::filled();
        let (client, key) = (
            bench.manager.client(),
            ObjectKey::namespaced("team-42", "app-4242"),
        );
        bencher.bench_local(|| {
            let metadata = client.get::<PartialObjectMeta<ConfigMap>>(&key);
            bench.runtime.block_on(metadata).unwrap().unwrap()
        });
    }
}

mod events {
    use super::*;

    fn into_the_cache(bencher: Bencher<'_, '_>, options: impl Fn() -> CacheOptions) {
        bencher
            .counter(ItemsCount::new(OBJECTS))
            .with_inputs(|| Bench::with(0, Arc::default(), options()))
            .bench_local_values(|bench| {
                bench.run();
                assert_eq!(bench.list(ListOptions::default()), OBJECTS);
                bench
            });
    }

    /// Measures the time from the first byte of the first event until the last object is in the cache.
    #[divan::bench(sample_count = 10)]
    fn stream_of_10_000_into_the_cache(bencher: Bencher<'_, '_>) {
        into_the_cache(bencher, CacheOptions::default);
    }

    /// Measures the time from the first byte of a list in one response until the last object is in the cache.
    #[divan::bench(sample_count = 10)]
    fn list_of_10_000_into_the_cache(bencher: Bencher<'_, '_>) {
        into_the_cache(bencher, || CacheOptions {
            streaming_lists: false,
            ..CacheOptions::default()
        });
    }

    /// Notifies after a number of calls.
    struct Counting {
        left: std::sync::atomic::AtomicUsize,
        done: Arc<Notify>,
    }

    impl KeyReconciler for Counting {
        async fn reconcile(&self, _: Request, _: KeyContext) -> Result<Action> {
            if self.left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 1 {
                self.done.notify_one();
            }
            Ok(Action::done())
        }
    }

    /// Measures the time from the first byte of 10,000 updates until the last of 10,000 empty reconciles has ended.
    #[divan::bench(sample_count = 10)]
    fn dispatch_10_000_updates(bencher: Bencher<'_, '_>) {
        let prepare = || {
            let (go, listed, done) = (
                Arc::<Notify>::default(),
                Arc::<Notify>::default(),
                Arc::<Notify>::default(),
            );
            let bench = Bench::new(OBJECTS, go.clone());
            let counting = |done: &Arc<Notify>| Counting {
                left: OBJECTS.into(),
                done: done.clone(),
            };
            let changed = Watch::new().filter(|event: &Event<ConfigMap>| !event.is_initial());
            let changed = Controller::by_key(changed, counting(&done));
            bench.manager.add_controller(changed).unwrap();
            let initial = Watch::new().filter(|event: &Event<ConfigMap>| event.is_initial());
            let initial = Controller::by_key(initial, counting(&listed)).named("listed");
            bench.manager.add_controller(initial).unwrap();
            bench.run();
            bench.runtime.block_on(listed.notified());
            (bench, go, done)
        };
        bencher
            .counter(ItemsCount::new(OBJECTS))
            .with_inputs(prepare)
            .bench_local_values(|(bench, go, done)| {
                go.notify_one();
                bench.runtime.block_on(done.notified());
                bench
            });
    }
}

/// Measures the memory of 10,000 objects: `alloc` and `grow` minus `dealloc` and `shrink`.
mod memory {
    use super::*;

    fn decoded<K: serde::de::DeserializeOwned>() -> Vec<Arc<K>> {
        let decode = |index| {
            let mut object = object(index, 1 + index);
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("managedFields");
            Arc::new(serde_json::from_value(object).unwrap())
        };
        (0..OBJECTS).map(decode).collect()
    }

    /// Holds only the objects, for comparison.
    #[divan::bench(sample_count = 1, sample_size = 1)]
    fn objects_alone_typed() -> Vec<Arc<ConfigMap>> {
        decoded()
    }

    #[divan::bench(sample_count = 1, sample_size = 1)]
    fn objects_alone_dynamic() -> Vec<Arc<DynamicObject>> {
        decoded()
    }

    fn cache(bencher: Bencher<'_, '_>, read: &impl AsyncFn(&Manager)) {
        cache_with(bencher, false, read);
    }

    fn cache_with(bencher: Bencher<'_, '_>, unpacked: bool, read: &impl AsyncFn(&Manager)) {
        bencher
            .with_inputs(|| Bench::with(0, Arc::default(), keeping(unpacked)))
            .bench_local_values(|bench| {
                bench.run();
                bench.runtime.block_on(read(&bench.manager));
                bench
            });
    }

    #[divan::bench(sample_count = 1, sample_size = 1)]
    fn cache_typed(bencher: Bencher<'_, '_>) {
        cache(bencher, &async |manager: &Manager| {
            manager.client().list::<ConfigMap>().await.unwrap();
        });
    }

    #[divan::bench(sample_count = 1, sample_size = 1)]
    fn cache_unpacked(bencher: Bencher<'_, '_>) {
        let unpacked = true;
        cache_with(bencher, unpacked, &async |manager: &Manager| {
            manager.client().list::<ConfigMap>().await.unwrap();
        });
    }

    #[divan::bench(sample_count = 1, sample_size = 1)]
    fn cache_dynamic(bencher: Bencher<'_, '_>) {
        let kind = Kind::of::<ConfigMap>();
        cache(bencher, &async |manager: &Manager| {
            manager.client().list_kind::<DynamicObject>(&kind).await.unwrap();
        });
    }

    #[divan::bench(sample_count = 1, sample_size = 1)]
    fn cache_metadata(bencher: Bencher<'_, '_>) {
        cache(bencher, &async |manager: &Manager| {
            manager
                .client()
                .list::<PartialObjectMeta<ConfigMap>>()
                .await
                .unwrap();
        });
    }
}
