//! Failures of server, network and process: acknowledged writes are not lost, and every key is reconciled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{CustomResourceExt, ResourceExt};
use operator_apiserver::ApiServer;
use operator_envtest::TestEnv;
use operator_runtime::cache::{CacheOptions, WatchBackoff};
use operator_runtime::controller::Backoff;
use operator_runtime::controller::ControllerOptions;
use operator_runtime::manager::ManagerOptions;
use operator_runtime::prelude::*;
use serde_json::json;
use tokio::sync::{Notify, mpsc};

use crate::support::{
    Bench, Widget, WidgetSpec, config_map, in_time, indexed, key, observe_widgets, parallel, plain_teller,
    reconcile_widgets, run,
};
use crate::wire::{Received, Wire, open};

/// Applies a ConfigMap with the size, and records it in the status.
pub(crate) struct Sizer;

impl KeyReconciler for Sizer {
    async fn reconcile(&self, request: Request, ctx: KeyContext) -> Result<Action> {
        let Some(widget) = ctx.get::<Widget>(&request).await? else {
            return Ok(Action::done());
        };
        let size = widget.spec.size;
        ctx.apply_owned(&*widget, config_map(request.name(), &size.to_string()))
            .await?;
        ctx.update_status(&widget, |status| status.size = Some(size))
            .await?;
        Ok(Action::done())
    }
}

/// Returns options with a short backoff, so that many failures in a row do not add up to minutes.
pub(crate) fn impatient() -> CacheOptions {
    CacheOptions {
        watch_backoff: WatchBackoff {
            min: Duration::from_millis(5),
            max: Duration::from_millis(20),
        },
        ..CacheOptions::default()
    }
}

/// Adds a [`Sizer`] with this number of workers.
pub(crate) fn operate(manager: &Manager, workers: usize) {
    let controller = Controller::by_key(Watch::<Widget>::new(), Sizer).owns::<ConfigMap>();
    let backoff = Backoff {
        base: Duration::from_millis(5),
        max: Duration::from_millis(100),
    };
    let controller = controller.options(ControllerOptions {
        rate_limit: Some(backoff.into()),
        ..parallel(workers)
    });
    manager.add_controller(controller).unwrap();
}

/// Returns a manager with short backoff and a [`Sizer`].
async fn sizer(client: kube::Client) -> Manager {
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            cache_options: impatient(),
            ..ManagerOptions::from(client)
        },
    )
    .await
    .unwrap();
    operate(&manager, 4);
    manager
}

fn server_with_widgets() -> ApiServer {
    ApiServer::builder().build().unwrap()
}

pub(crate) async fn install(client: &kube::Client) {
    let crds = Api::all(client.clone());
    crds.create(&PostParams::default(), &Widget::crd()).await.unwrap();
}

/// Waits until every widget and its ConfigMap are up to date.
pub(crate) async fn are_sized(client: &kube::Client, sizes: &BTreeMap<String, i32>) {
    let widgets: Api<Widget> = Api::default_namespaced(client.clone());
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let size_of = |widget: Widget| {
        let size = widget.status.as_ref().and_then(|status| status.size);
        (widget.name_any(), size)
    };
    let value_of = |config_map: ConfigMap| {
        let value = config_map
            .data
            .as_ref()
            .and_then(|data| data.get("value")?.parse().ok());
        (config_map.name_any(), value)
    };
    let wait = async {
        loop {
            let all = ListParams::default();
            let seen: BTreeMap<_, _> = widgets
                .list(&all)
                .await
                .unwrap()
                .into_iter()
                .map(size_of)
                .collect();
            let made: BTreeMap<_, _> = config_maps
                .list(&all)
                .await
                .unwrap()
                .into_iter()
                .map(value_of)
                .collect();
            let is_done = |(name, size): (&String, &i32)| {
                [&seen, &made]
                    .iter()
                    .all(|of| of.get(name).copied().flatten() == Some(*size))
            };
            if sizes.iter().all(is_done) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    in_time(wait).await;
}

/// Waits until the queues are empty.
async fn are_idle(manager: &Manager, reconciles: usize) {
    let is_idle = || {
        let metrics = manager.metrics().to_text();
        let sum = |name: &str| -> f64 {
            let lines = metrics.lines().filter(|line| line.starts_with(name));
            lines
                .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
                .sum()
        };
        let done = sum("controller_runtime_reconcile_total{") >= reconciles as f64;
        done && sum("workqueue_depth{") + sum("controller_runtime_active_workers{") == 0.0
    };
    in_time(async {
        while !is_idle() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn connections_cut_within_a_frame_lose_nothing() {
    let (wire, server) = (Wire::new().await, server_with_widgets());
    let direct = kube::Client::new(server.clone(), "default");
    install(&direct).await;
    wire.up(server);
    // Cut between the middle of the response head and several objects; every fifth connection is long enough for a
    // list.
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    wire.cut_after(move || match counted.fetch_add(1, Ordering::SeqCst) {
        number if number % 5 == 4 => 100_000,
        number => 100 + number * 7919 % 3000,
    });
    let running = run(&sizer(wire.client()).await);

    let widgets: Api<Widget> = Api::default_namespaced(direct.clone());
    let mut sizes = BTreeMap::new();
    for number in 0..25 {
        let widget = Widget::new(&format!("w-{number}"), WidgetSpec { size: 1 });
        widgets.create(&PostParams::default(), &widget).await.unwrap();
    }
    for number in 0..25 {
        let (name, size) = (format!("w-{number}"), 100 + number);
        let patch = Patch::Merge(json!({"spec": {"size": size}}));
        widgets
            .patch(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
        sizes.insert(name, size);
    }
    are_sized(&direct, &sizes).await;
    let connections = connections.load(Ordering::SeqCst);
    assert!(connections > 12, "{connections} connections: none was cut");
    in_time(running.stop()).await.unwrap().unwrap();
}

/// Retries as a user would until the server accepts the request.
async fn insist<T, R>(mut wish: impl FnMut() -> R)
where
    R: Future<Output = kube::Result<T>>,
{
    while let Err(error) = wish().await {
        match error {
            kube::Error::Api(status) if status.is_already_exists() || status.is_not_found() => return,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

#[tokio::test]
async fn everything_is_reconciled_after_server_restarts_under_load() {
    const WIDGETS: i32 = 240;
    let (wire, directory) = (Wire::new().await, tempfile::tempdir().unwrap());
    let data = directory.path().join("data");
    let server = open(&data).await;
    install(&kube::Client::new(server.clone(), "default")).await;
    wire.up(server);
    let operator = async || {
        let options = ManagerOptions {
            cache_options: impatient(),
            ..wire.operator(directory.path())
        };
        let manager = Manager::new("tester", options).await.unwrap();
        operate(&manager, 8);
        manager
    };
    let manager = operator().await;
    let running = run(&manager);

    let user = wire.client();
    let acknowledged = tokio::spawn(async move {
        let widgets: Api<Widget> = Api::default_namespaced(user);
        let (post, change, gone) = (
            PostParams::default(),
            PatchParams::default(),
            DeleteParams::default(),
        );
        let mut sizes = BTreeMap::new();
        for size in 0..WIDGETS {
            let name = format!("w-{size}");
            let widget = Widget::new(&name, WidgetSpec { size });
            insist(|| widgets.create(&post, &widget)).await;
            sizes.insert(name, size);
            // An older widget changes, and another is deleted.
            if size % 10 == 9 {
                let (name, other) = (format!("w-{}", size / 2), format!("w-{}", size / 3));
                let patch = Patch::Merge(json!({"spec": {"size": 1000 + size}}));
                if let Some(known) = sizes.get_mut(&name) {
                    insist(|| widgets.patch(&name, &change, &patch)).await;
                    *known = 1000 + size;
                }
                insist(|| widgets.delete(&other, &gone)).await;
                sizes.remove(&other);
            }
        }
        sizes
    });
    for restart in 1..=4 {
        let is_far = || {
            let created = |received: &Received| {
                received.what.starts_with("POST ") && received.what.contains("/widgets")
            };
            wire.count(created) >= restart * 50
        };
        in_time(async {
            while !is_far() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        wire.down();
        wire.up(open(&data).await);
    }
    let sizes = in_time(acknowledged).await.unwrap();
    are_sized(&kube::Client::new(wire.server(), "default"), &sizes).await;
    are_idle(&manager, sizes.len()).await;
    in_time(running.stop()).await.unwrap().unwrap();

    // Another instance has no work to do.
    let begun = Instant::now();
    let manager = operator().await;
    let running = run(&manager);
    are_idle(&manager, sizes.len()).await;
    in_time(running.stop()).await.unwrap().unwrap();
    let writes =
        wire.received(|received| received.by == "tester" && received.is_write() && received.at > begun);
    assert!(writes.is_empty(), "{writes:?}");
}

#[tokio::test]
async fn failed_writes_are_retried() {
    let bench = Bench::new().await;
    let codes = [500, 503, 429, 409, 403, 500, 504];
    let count = AtomicUsize::new(0);
    bench.network.refuse(move |request| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let is_write = request.starts_with("PATCH");
        (is_write && !number.is_multiple_of(3)).then(|| codes[number % codes.len()])
    });
    let manager = sizer(bench.client.clone()).await;
    let running = run(&manager);
    let mut sizes = BTreeMap::new();
    for number in 0..20 {
        let name = format!("w-{number}");
        bench.create(&name, number).await;
        sizes.insert(name, number);
    }
    are_sized(&bench.client, &sizes).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn failing_key_delays_no_others_and_recovers() {
    let bench = Bench::new().await;
    let (_, running, mut told) = bench
        .operator(|ctx: KeyContext, request: Request| async move {
            match ctx.get::<Widget>(&request).await? {
                Some(widget) if widget.spec.size == 0 => Err(Error::msg("it is too small")),
                _ => Ok(Action::done()),
            }
        })
        .await;
    bench.create("bad", 0).await;
    for _ in 0..5 {
        told.until("bad", Some(0)).await;
    }
    for number in 1..=20 {
        bench.create(&format!("good-{number}"), number).await;
        told.until(&format!("good-{number}"), Some(number)).await;
    }
    bench.resize("bad", 1).await;
    told.until("bad", Some(1)).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn events_of_one_object_are_one_key_in_the_queue() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let at_gate = gate.clone();
    let mut told = reconcile_widgets(&manager, move |_, _| {
        let gate = at_gate.clone();
        async move {
            gate.acquire().await?.forget();
            Ok(Action::done())
        }
    });
    let running = run(&manager);
    bench.create("w", 0).await;
    told.until("w", Some(0)).await;
    for size in 1..=1000 {
        let patch = Patch::Merge(json!({"spec": {"size": size}}));
        bench
            .widgets()
            .patch("w", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    in_time(async {
        let seen = async || manager.client().get::<Widget>(&key("w")).await.unwrap().unwrap();
        while seen().await.spec.size < 1000 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let depth = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("workqueue_depth{"));
        lines.map(str::to_owned).collect()
    };
    let metrics = manager.metrics().to_text();
    // It is queued once, after the running reconcile.
    let waiting: Vec<_> = depth(&metrics)
        .into_iter()
        .filter(|line| !line.ends_with(" 0"))
        .collect();
    assert!(waiting.len() == 1 && waiting[0].ends_with(" 1"), "{metrics}");
    gate.add_permits(2);
    assert_eq!(told.next().await, (key("w"), Some(1000)));
    are_idle(&manager, 2).await;
    assert_eq!(told.unheard(), []);
    running.end().await.unwrap();
}

#[tokio::test]
async fn maximum_requeue_delay_does_not_overflow() {
    let bench = Bench::new().await;
    let (manager, running, mut told) = bench
        .operator(|_, _| async { Ok(Action::requeue_after(Duration::MAX)) })
        .await;
    bench.create("w", 1).await;
    told.until("w", Some(1)).await;
    are_idle(&manager, 1).await;
    // An event ends the wait.
    bench.resize("w", 2).await;
    assert_eq!(told.next().await, (key("w"), Some(2)));
    running.end().await.unwrap();
    assert_eq!(told.unheard(), []);
}

#[tokio::test]
async fn panics_of_cache_functions_do_not_end_watches() {
    use operator_runtime::cache::Transforms;
    let bench = Bench::new().await;
    let transforms = Transforms::default().of::<Widget>(|widget| assert_ne!(widget.spec.size, 13));
    let manager = bench
        .manager_with(CacheOptions {
            transforms,
            ..CacheOptions::default()
        })
        .await;
    let by_size = |widget: &Widget| {
        assert_ne!(widget.spec.size, 14);
        vec![widget.spec.size.to_string()]
    };
    manager.cache().add_index("size", by_size).unwrap();
    let mut told = observe_widgets(&manager);
    let running = run(&manager);
    for size in 12..16 {
        bench.create(&format!("w-{size}"), size).await;
        told.until(&format!("w-{size}"), Some(size)).await;
    }
    bench.resize("w-14", 17).await;
    told.until("w-14", Some(17)).await;
    let with = indexed("size", "17");
    let listed = manager.client().list::<Widget>().options(with).await.unwrap();
    assert_eq!(listed.len(), 1);
    running.end().await.unwrap();
}

#[tokio::test]
async fn reinstalled_definition_is_reconciled_again() {
    let env = TestEnv::builder().crds([Widget::crd()]).start().await.unwrap();
    let manager = sizer(env.client()).await;
    let running = run(&manager);
    let widgets: Api<Widget> = Api::default_namespaced(env.client());
    let crds: Api<CustomResourceDefinition> = Api::all(env.client());
    let widget = |size| Widget::new("w", WidgetSpec { size });
    widgets.create(&PostParams::default(), &widget(1)).await.unwrap();
    are_sized(&env.client(), &[("w".to_owned(), 1)].into()).await;
    let name = Widget::crd().name_any();
    let gone = async || {
        crds.delete(&name, &Default::default()).await.unwrap();
        env.eventually_gone(&crds, &name).await.unwrap();
    };
    gone().await;
    // The kind is temporarily cluster-scoped, which must not harm the operator.
    let mut other = serde_json::to_value(Widget::crd()).unwrap();
    other["spec"]["scope"] = "Cluster".into();
    env.install_crds([other]).await.unwrap();
    let resource = ApiResource::erase::<Widget>(&());
    let cluster_wide = DynamicObject::new("w", &resource).data(json!({"spec": {"size": 2}}));
    let everywhere: Api<DynamicObject> = Api::all_with(env.client(), &resource);
    everywhere
        .create(&PostParams::default(), &cluster_wide)
        .await
        .unwrap();
    in_time(async {
        while manager.cache().unhealthy() != [""; 0] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    gone().await;
    // Finally the kind is stored in another version.
    let mut two = serde_json::to_value(Widget::crd()).unwrap();
    let mut second = two["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    two["spec"]["versions"][0]["storage"] = false.into();
    two["spec"]["versions"].as_array_mut().unwrap().push(second);
    env.install_crds([two]).await.unwrap();
    widgets.create(&PostParams::default(), &widget(3)).await.unwrap();
    are_sized(&env.client(), &[("w".to_owned(), 3)].into()).await;
    running.end().await.unwrap();
    env.stop().await;
}

#[tokio::test]
async fn kind_is_reconciled_when_its_role_is_granted() {
    let env = TestEnv::builder().crds([Widget::crd()]).start().await.unwrap();
    let grant = async |name: &str, rules: serde_json::Value| {
        let roles: Api<ClusterRole> = Api::all(env.client());
        let role = json!({"metadata": {"name": name}, "rules": rules});
        let role = serde_json::from_value(role).unwrap();
        roles.create(&PostParams::default(), &role).await.unwrap();
        let bindings: Api<ClusterRoleBinding> = Api::all(env.client());
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": "default"}],
        });
        let binding = serde_json::from_value(binding).unwrap();
        bindings.create(&PostParams::default(), &binding).await.unwrap();
    };
    let verbs = ["get", "list", "watch", "create", "patch"];
    grant(
        "configs",
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]),
    )
    .await;
    let user = env
        .client_as("system:serviceaccount:default:operator", &[])
        .unwrap();
    let manager = sizer(user).await;
    let (others, mut of_others) = mpsc::unbounded_channel();
    let other = Watch::new().map(move |config: &ConfigMap| {
        let _ = others.send(config.name_any());
        Vec::new()
    });
    manager
        .add_controller(Controller::without_primary("others", plain_teller().0).watches(other))
        .unwrap();
    let running = run(&manager);
    let widgets: Api<Widget> = Api::default_namespaced(env.client());
    let widget = Widget::new("w", WidgetSpec { size: 5 });
    widgets.create(&PostParams::default(), &widget).await.unwrap();
    let configs: Api<ConfigMap> = Api::default_namespaced(env.client());
    configs
        .create(&PostParams::default(), &config_map("other", "x"))
        .await
        .unwrap();
    while in_time(of_others.recv()).await.unwrap() != "other" {}
    in_time(async {
        let is_refused = |watch: &String| watch.contains("widgets") && watch.contains("forbidden");
        while !manager.cache().unhealthy().iter().any(is_refused) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    grant(
        "widgets",
        json!([{"apiGroups": ["example.com"], "resources": ["widgets", "widgets/status", "widgets/finalizers"], "verbs": verbs}]),
    )
    .await;
    are_sized(&env.client(), &[("w".to_owned(), 5)].into()).await;
    running.end().await.unwrap();
    env.stop().await;
}

#[tokio::test]
async fn deleted_namespace_leaves_no_keys() {
    let env = TestEnv::builder().crds([Widget::crd()]).start().await.unwrap();
    let manager = sizer(env.client()).await;
    let running = run(&manager);
    let namespaces: Api<Namespace> = Api::all(env.client());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "brief"}})).unwrap();
    let widgets: Api<Widget> = Api::namespaced(env.client(), "brief");
    for size in 1..=3 {
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        for number in 0..20 {
            let widget = Widget::new(&format!("w-{number}"), WidgetSpec { size });
            widgets.create(&PostParams::default(), &widget).await.unwrap();
        }
        // The namespaces are deleted during the reconciles.
        namespaces.delete("brief", &Default::default()).await.unwrap();
        env.eventually_gone(&namespaces, "brief").await.unwrap();
    }
    in_time(async {
        while !manager.client().list::<Widget>().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let default: Api<Widget> = Api::default_namespaced(env.client());
    let widget = Widget::new("w", WidgetSpec { size: 4 });
    default.create(&PostParams::default(), &widget).await.unwrap();
    are_sized(&env.client(), &[("w".to_owned(), 4)].into()).await;
    running.end().await.unwrap();
    env.stop().await;
}

#[tokio::test]
async fn late_definition_is_reconciled_without_a_restart() {
    let bench = Bench::without_widgets();
    let manager = sizer(bench.client.clone()).await;
    let running = run(&manager);
    let is_list = |request: &str| request.contains("/widgets?");
    in_time(async {
        while bench.network.count(is_list) < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    bench.install_widgets().await;
    bench.create("w", 4).await;
    are_sized(&bench.client, &[("w".to_owned(), 4)].into()).await;
    running.end().await.unwrap();
}

#[tokio::test]
async fn deleted_objects_leave_nothing_behind() {
    const ROUNDS: usize = 20;
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (reconciler, mut told) = plain_teller();
    let controller = Controller::by_key(Watch::<Widget>::new(), reconciler).options(parallel(4));
    manager.add_controller(controller).unwrap();
    let running = run(&manager);
    bench.create("first", 0).await;
    told.until("first", Some(0)).await;
    let before = manager.metrics().to_text().lines().count();
    for round in 0..ROUNDS {
        for number in 0..50 {
            bench.create(&format!("w-{round}-{number}"), number).await;
        }
        let all = ListParams::default().fields("metadata.name!=first");
        bench
            .widgets()
            .delete_collection(&Default::default(), &all)
            .await
            .unwrap();
    }
    // The last event.
    bench.resize("first", 1).await;
    told.until("first", Some(1)).await;
    let is_idle = || {
        let metrics = manager.metrics().to_text();
        let mut busy = metrics.lines().filter(|line| {
            line.starts_with("workqueue_depth{") || line.starts_with("controller_runtime_active_workers{")
        });
        busy.all(|line| line.ends_with(" 0"))
    };
    in_time(async {
        while !is_idle() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let left = manager.client().list::<Widget>().await.unwrap();
    assert_eq!(
        left.iter().map(|widget| widget.name_any()).collect::<Vec<_>>(),
        ["first"]
    );
    let priorities = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("workqueue_depth{"))
            .count()
    };
    let metrics = manager.metrics().to_text();
    // No metric has a series per object; the queue has one for each priority.
    assert!(
        metrics.lines().count() <= before + priorities(&metrics),
        "{metrics}"
    );
    running.end().await.unwrap();
}

/// Sends SIGTERM as a kubelet does. Only this test listens to it.
#[cfg(unix)]
#[tokio::test]
async fn sigterm_waits_for_the_running_reconcile() {
    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (entered, mut inside) = mpsc::unbounded_channel();
    let (open, finished) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let (gate, done) = (open.clone(), finished.clone());
    let _told = reconcile_widgets(&manager, move |_, _| {
        let (entered, gate, done) = (entered.clone(), gate.clone(), done.clone());
        async move {
            let _ = entered.send(());
            gate.notified().await;
            done.store(true, Ordering::SeqCst);
            Ok(Action::done())
        }
    });
    let mut running = tokio::spawn(manager.run());
    bench.create("w", 1).await;
    in_time(inside.recv()).await.unwrap();
    let own = std::process::id().to_string();
    let sent = tokio::process::Command::new("kill")
        .args(["-TERM", &own])
        .status()
        .await;
    assert!(sent.unwrap().success());
    // It waits for the reconcile.
    assert!(
        tokio::time::timeout(Duration::from_millis(50), &mut running)
            .await
            .is_err()
    );
    open.notify_one();
    in_time(running).await.unwrap().unwrap();
    assert!(finished.load(Ordering::SeqCst), "{}", key("w"));
}
