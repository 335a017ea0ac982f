//! Leader elections of managers on the embedded API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use operator_apiserver::ApiServer;
use operator_runtime::cache::CacheOptions;
use operator_runtime::client::ClientError;
use operator_runtime::election::{Election, LeaderElection, LeaderElectionOptions, Leadership};
use operator_runtime::manager::{ManagerOptions, Runnable};
use operator_runtime::metrics::Metrics;
use operator_runtime::prelude::*;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, watch};

use crate::support::{
    Bench, Widget, config_map, config_map_in, in_time, key, observe_widgets, plain_teller, reconcile_widgets,
    run,
};
use crate::wire::{Fault, Wire};

/// The shortest durations that a Lease allows, because it stores whole seconds.
fn fast() -> LeaderElectionOptions {
    LeaderElectionOptions {
        namespace: Some("default".to_owned()),
        lease_duration: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(700),
        retry_period: Duration::from_millis(50),
        ..LeaderElectionOptions::default()
    }
}

fn election(client: &kube::Client, identity: &str) -> LeaderElection {
    let options = LeaderElectionOptions {
        identity: Some(identity.to_owned()),
        ..fast()
    };
    LeaderElection::new(client.clone(), "widget-lock", options).unwrap()
}

async fn manager(bench: &Bench, identity: &str) -> Manager {
    Manager::new(
        "tester",
        ManagerOptions {
            election: Some(Box::new(election(&bench.client, identity))),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn only_the_leader_reconciles_and_is_replaced_at_its_end() {
    let bench = Bench::new().await;
    let (first, second) = (manager(&bench, "first").await, manager(&bench, "second").await);
    let ((reconciler, mut told), (other, mut other_told)) = (plain_teller(), plain_teller());
    first
        .add_controller(Controller::by_key(Watch::<Widget>::new(), reconciler))
        .unwrap();
    second
        .add_controller(Controller::by_key(Watch::<Widget>::new(), other))
        .unwrap();

    let leader = run(&first);
    in_time(first.elected()).await;
    let standby = run(&second);
    bench.create("a", 1).await;
    assert_eq!(told.next().await, (key("a"), Some(1)));
    leader.end().await.unwrap();
    assert_eq!(
        other_told.unheard(),
        [],
        "the lease is released after the last reconcile"
    );

    in_time(second.elected()).await;
    assert_eq!(other_told.next().await, (key("a"), Some(1)));
    let leases: Api<Lease> = Api::default_namespaced(bench.client.clone());
    let spec = leases.get("widget-lock").await.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("second"));
    assert_eq!(spec.lease_transitions, Some(1));
    standby.end().await.unwrap();
}

/// Writes another holder into the lease.
async fn steal(bench: &Bench) -> Api<Lease> {
    let leases: Api<Lease> = Api::default_namespaced(bench.client.clone());
    let theft = Patch::Merge(json!({"spec": {"holderIdentity": "thief"}}));
    leases
        .patch("widget-lock", &PatchParams::default(), &theft)
        .await
        .unwrap();
    leases
}

#[tokio::test]
async fn manager_whose_lease_is_stolen_ends() {
    let bench = Bench::new().await;
    let manager = manager(&bench, "first").await;
    let running = run(&manager);
    in_time(manager.elected()).await;
    let leases = steal(&bench).await;
    let error = running.ended().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "leader election lost: another candidate has taken the lease"
    );
    let spec = leases.get("widget-lock").await.unwrap().spec.unwrap();
    assert_eq!(
        spec.holder_identity.as_deref(),
        Some("thief"),
        "the lease of another instance is not released"
    );
}

#[tokio::test]
async fn disconnected_manager_ends_before_another_leads() {
    let bench = Bench::new().await;
    let manager = manager(&bench, "first").await;
    let running = run(&manager);
    in_time(manager.elected()).await;
    bench
        .network
        .refuse(|request| request.contains("/leases").then_some(500));
    let error = running.ended().await.unwrap_err();
    bench.network.heal();
    assert!(error.to_string().starts_with("leader election lost"), "{error}");

    let mut other = election(&bench.client, "second");
    let leadership = other.leadership();
    in_time(other.acquire()).await.unwrap();
    assert!(matches!(
        *leadership.borrow(),
        Leadership::Leader { until: Some(_) }
    ));
    other.release().await;
}

#[tokio::test]
async fn options_of_the_manager_are_those_of_its_election() {
    let bench = Bench::without_widgets();
    let elsewhere = Bench::without_widgets();
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            leader_election: true,
            leader_election_id: Some("widget-lock".to_owned()),
            leader_election_options: LeaderElectionOptions {
                lease_duration: Duration::from_secs(7),
                renew_deadline: Duration::from_secs(3),
                labels: [("app".to_owned(), "tester".to_owned())].into(),
                release_on_cancel: false,
                ..fast()
            },
            leader_election_client: Some(elsewhere.client.clone()),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    let running = run(&manager);
    in_time(manager.elected()).await;
    let metrics = manager.metrics().to_text();
    for line in [
        "leader_election_master_status{name=\"widget-lock\"} 1\n",
        "rest_client_requests_total{code=\"201\",method=\"POST\",host=\"leader-election\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    running.end().await.unwrap();
    let leases: Api<Lease> = Api::default_namespaced(elsewhere.client.clone());
    let lease = leases.get("widget-lock").await.unwrap();
    assert_eq!(lease.metadata.labels.unwrap()["app"], "tester");
    let spec = lease.spec.unwrap();
    assert_eq!(spec.lease_duration_seconds, Some(7));
    assert!(
        spec.holder_identity.is_some_and(|holder| !holder.is_empty()),
        "the lease was released"
    );
    assert_eq!(bench.network.count(|request| request.contains("leases")), 0);
}

#[tokio::test]
async fn invalid_election_is_an_error_before_the_start() {
    let bench = Bench::without_widgets();
    let options = |leader_election_options| ManagerOptions {
        leader_election: true,
        leader_election_options,
        ..ManagerOptions::from(bench.client.clone())
    };
    let error = async |options: ManagerOptions| {
        Error::from(Manager::new("tester", options).await.unwrap_err()).to_string()
    };
    let durations = |lease, renew, retry| LeaderElectionOptions {
        lease_duration: Duration::from_secs(lease),
        renew_deadline: Duration::from_secs(renew),
        retry_period: Duration::from_secs(retry),
        ..fast()
    };
    for (election, text) in [
        (
            durations(10, 10, 2),
            "leaseDuration must be greater than renewDeadline",
        ),
        (
            durations(15, 12, 10),
            "renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
        (durations(15, 10, 0), "retryPeriod must be greater than zero"),
    ] {
        let error = error(options(election)).await;
        assert!(error.contains(text), "{error}");
    }
    let unnamed = error(ManagerOptions {
        leader_election_id: Some(String::new()),
        ..options(fast())
    })
    .await;
    assert!(
        unnamed.contains("LeaderElectionID must be configured"),
        "{unnamed}"
    );
    let homeless = error(options(LeaderElectionOptions::default())).await;
    assert!(
        homeless.contains(
            "unable to find leader election namespace: not running in-cluster, please specify LeaderElectionNamespace"
        ),
        "{homeless}"
    );
}

#[tokio::test]
async fn custom_election_uses_the_metrics_of_the_manager() {
    let (bench, metrics) = (Bench::without_widgets(), Metrics::default());
    let options = LeaderElectionOptions {
        metrics: metrics.leader("widget-lock"),
        ..fast()
    };
    let election = LeaderElection::new(bench.client.clone(), "widget-lock", options).unwrap();
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            metrics,
            election: Some(Box::new(election)),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    let running = run(&manager);
    in_time(manager.elected()).await;
    let text = manager.metrics().to_text();
    assert!(
        text.contains("leader_election_master_status{name=\"widget-lock\"} 1\n"),
        "{text}"
    );
    running.end().await.unwrap();
}

/// Records when it is dropped.
struct Guard(Arc<AtomicBool>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn running_reconcile_is_aborted_when_the_lease_is_lost() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = manager(&bench, "first").await;
    let aborted = Arc::<AtomicBool>::default();
    let at_work = aborted.clone();
    let mut told = reconcile_widgets(&manager, move |_, _| {
        let guard = Guard(at_work.clone());
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    let running = run(&manager);
    told.until("a", Some(1)).await;
    steal(&bench).await;
    // The grace period of 30 s applies only while this instance leads.
    let error = running.ended().await.unwrap_err();
    assert!(error.to_string().starts_with("leader election lost"), "{error}");
    assert!(aborted.load(Ordering::SeqCst));
}

#[tokio::test]
async fn killed_leader_is_replaced_when_its_lease_expires() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let (first, second) = (manager(&bench, "first").await, manager(&bench, "second").await);
    let leader = tokio::spawn(first.clone().run_until(std::future::pending()));
    in_time(first.elected()).await;
    let mut told = observe_widgets(&second);
    let standby = run(&second);
    // The lease is not released.
    leader.abort();
    assert!(in_time(leader).await.unwrap_err().is_cancelled());
    let early = tokio::time::timeout(Duration::from_millis(200), second.elected()).await;
    assert!(early.is_err(), "the lease has not run out");
    assert_eq!(told.next().await, (key("a"), Some(1)));
    let leases: Api<Lease> = Api::default_namespaced(bench.client.clone());
    let spec = leases.get("widget-lock").await.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("second"));
    standby.end().await.unwrap();
}

#[tokio::test]
async fn deleted_lease_is_created_again_by_its_leader() {
    let bench = Bench::new().await;
    let (first, second) = (manager(&bench, "first").await, manager(&bench, "second").await);
    let leader = run(&first);
    in_time(first.elected()).await;
    let standby = run(&second);
    let leases: Api<Lease> = Api::default_namespaced(bench.client.clone());
    let reads = |bench: &Bench| {
        bench
            .network
            .count(|request| request.starts_with("GET") && request.contains("/leases"))
    };
    // The other instance knows the leader.
    let before = reads(&bench);
    in_time(async {
        while reads(&bench) < before + 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for _ in 0..3 {
        leases
            .delete("widget-lock", &DeleteParams::default())
            .await
            .unwrap();
        let is_back = |lease: Option<&Lease>| lease.is_some();
        let lease = kube::runtime::wait::await_condition(leases.clone(), "widget-lock", is_back);
        let spec = in_time(lease).await.unwrap().unwrap().spec.unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("first"));
    }
    leader.end().await.unwrap();
    in_time(second.elected()).await;
    standby.end().await.unwrap();
}

/// An election that the test decides, without a published leadership.
struct Switch(watch::Receiver<bool>);

impl Election for Switch {
    fn acquire(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.0.wait_for(|leads| *leads).await?;
            Ok(())
        })
    }

    fn keep(&mut self) -> BoxFuture<'_, Error> {
        Box::pin(async {
            let _ = self.0.wait_for(|leads| !leads).await;
            Error::msg("switched off")
        })
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Tests for each client whether it can write: for those of the manager and of another cluster, and for the kube
/// clients in them.
async fn writers(clients: &[&operator_runtime::client::Client]) -> Vec<bool> {
    let mut written = Vec::new();
    for client in clients {
        let applied = client
            .with(|options| options.field_manager = "own".into())
            .apply(config_map_in("default", "own", &written.len().to_string()))
            .await;
        let refused = applied
            .as_ref()
            .err()
            .is_some_and(|error| matches!(error, ClientError::NotLeader { .. }));
        assert_eq!(applied.is_err(), refused, "{applied:?}");
        written.push(!refused);

        let raw: Api<ConfigMap> = Api::default_namespaced(client.kube().clone());
        let patch = Patch::Merge(json!({"data": {"raw": written.len().to_string()}}));
        let patched = raw.patch("raw", &PatchParams::default(), &patch).await;
        assert_eq!(
            patched.is_err(),
            matches!(patched, Err(kube::Error::Service(_))),
            "{patched:?}"
        );
        written.push(patched.is_ok());
        // Reads and reviews need no leadership.
        raw.get("raw").await.unwrap();
        let review = SelfSubjectReview::default();
        Api::all(client.kube().clone())
            .create(&PostParams::default(), &review)
            .await
            .unwrap();
    }
    written
}

#[tokio::test]
async fn every_client_of_the_leader_writes_only_while_it_leads() {
    for publishes in [true, false] {
        let (home, west) = (Bench::new().await, Bench::new().await);
        for bench in [&home, &west] {
            let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
            configs
                .create(&PostParams::default(), &config_map("raw", ""))
                .await
                .unwrap();
        }
        let (switch, leads) = watch::channel(false);
        let mut other = election(&home.client, "second");
        in_time(other.acquire()).await.unwrap();
        let mut options = ManagerOptions::from(home.client.clone());
        options.election = match publishes {
            true => Some(Box::new(election(&home.client, "first"))),
            false => Some(Box::new(Switch(leads))),
        };
        let manager = Manager::new("tester", options).await.unwrap();
        let cluster = manager
            .add_cluster("west", west.client.clone(), CacheOptions::default())
            .unwrap();
        let of_leader = [manager.client(), cluster.client()];
        let (here, there) = (
            manager.client_for_every_instance(),
            cluster.client_for_every_instance(),
        );
        let running = run(&manager);

        home.network.take_writes();
        assert_eq!(writers(&of_leader).await, [false; 4], "on standby");
        let writes = home.network.take_writes();
        assert!(
            !writes.iter().any(|write| write.contains("configmaps")),
            "{writes:?}"
        );
        assert_eq!(writers(&[&here, &there]).await, [true; 4]);

        switch.send_replace(true);
        other.release().await;
        in_time(manager.elected()).await;
        assert_eq!(writers(&of_leader).await, [true; 4], "as the leader");

        switch.send_replace(false);
        if publishes {
            steal(&home).await;
        }
        running.ended().await.unwrap_err();
        assert_eq!(writers(&of_leader).await, [false; 4], "after the loss");
        assert_eq!(writers(&[&here, &there]).await, [true; 4]);
    }
}

/// The server requests a retry, and the lease is lost before it.
#[tokio::test]
async fn request_is_not_repeated_after_the_lease_was_lost() {
    let (wire, server) = (Wire::new().await, ApiServer::builder().build().unwrap());
    let direct = kube::Client::new(server.clone(), "default");
    wire.up(server);
    let directory = tempfile::tempdir().unwrap();
    let options = ManagerOptions {
        election: Some(Box::new(election(&direct, "first"))),
        ..wire.operator(directory.path())
    };
    let manager = Manager::new("tester", options).await.unwrap();
    let running = run(&manager);
    in_time(manager.elected()).await;
    let is_write = |what: &str| what.contains("/configmaps");
    wire.fail(move |what| is_write(what).then_some(Fault::Busy));
    let client = manager.client().clone();
    let write = tokio::spawn(async move { client.create(config_map_in("default", "late", "1")).await });
    let attempts = || wire.count(|asked| is_write(&asked.what));
    in_time(async {
        while attempts() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let leases: Api<Lease> = Api::namespaced(direct, "default");
    let theft = Patch::Merge(json!({"spec": {"holderIdentity": "thief"}}));
    leases
        .patch("widget-lock", &PatchParams::default(), &theft)
        .await
        .unwrap();
    running.ended().await.unwrap_err();
    let error = in_time(write).await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::NotLeader { .. }), "{error}");
    assert_eq!(attempts(), 1);
}

#[tokio::test]
async fn lease_lost_during_the_stop_aborts_reconciles() {
    let bench = Bench::new().await;
    let manager = manager(&bench, "first").await;
    let (aborted, fail) = (Arc::<AtomicBool>::default(), Arc::<Notify>::default());
    let (guard, failing) = (Guard(aborted.clone()), fail.clone());
    let endless = Runnable::new("endless", |_| async move {
        let _guard = guard;
        std::future::pending().await
    });
    manager.add(endless).unwrap();
    let broken = Runnable::new("broken", |_| async move {
        failing.notified().await;
        Err(Error::msg("the network is down"))
    });
    manager.add(broken).unwrap();
    let running = run(&manager);
    in_time(manager.elected()).await;
    fail.notify_one();
    let is_stopping = || manager.add(Runnable::new("late", |_| async { Ok(()) })).is_err();
    in_time(async {
        while !is_stopping() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    steal(&bench).await;
    // The grace period is 30 s.
    let error = running.ended().await.unwrap_err();
    assert_eq!(error.to_string(), "the network is down");
    assert!(aborted.load(Ordering::SeqCst));
}

/// Records the release.
struct Noted(Arc<Mutex<Vec<&'static str>>>);

impl Election for Noted {
    fn acquire(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn keep(&mut self) -> BoxFuture<'_, Error> {
        Box::pin(std::future::pending())
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.0.lock().push("released") })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_is_released_after_the_reconciles_end() {
    let bench = Bench::without_widgets();
    let notes = Arc::<Mutex<Vec<_>>>::default();
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            election: Some(Box::new(Noted(notes.clone()))),
            graceful_shutdown_timeout: Duration::from_millis(10).into(),
            ..ManagerOptions::from(bench.client.clone())
        },
    )
    .await
    .unwrap();
    let ended = notes.clone();
    let slow = Runnable::new("slow", |stop| async move {
        stop.cancelled().await;
        // It does not await, so it cannot be aborted.
        std::thread::sleep(Duration::from_millis(300));
        ended.lock().push("ended");
        Ok(())
    });
    manager.add(slow).unwrap();
    let running = run(&manager);
    in_time(manager.elected()).await;
    running.end().await.unwrap_err();
    assert_eq!(*notes.lock(), ["ended", "released"]);
}

/// Panics in `acquire` or in `keep`.
struct Broken {
    at_once: bool,
    released: Arc<AtomicBool>,
}

impl Election for Broken {
    fn acquire(&mut self) -> BoxFuture<'_, Result<()>> {
        let at_once = self.at_once;
        Box::pin(async move {
            assert!(!at_once, "no quorum");
            Ok(())
        })
    }

    fn keep(&mut self) -> BoxFuture<'_, Error> {
        Box::pin(async { panic!("no quorum") })
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.released.store(true, Ordering::SeqCst) })
    }
}

#[tokio::test]
async fn panic_of_an_election_stops_the_manager() {
    for at_once in [true, false] {
        let bench = Bench::without_widgets();
        let released = Arc::<AtomicBool>::default();
        let election = Broken {
            at_once,
            released: released.clone(),
        };
        let manager = Manager::new(
            "tester",
            ManagerOptions {
                election: Some(Box::new(election)),
                ..ManagerOptions::from(bench.client.clone())
            },
        )
        .await
        .unwrap();
        let error = run(&manager).ended().await.unwrap_err();
        assert_eq!(error.to_string(), "leader election failed: panic: no quorum");
        assert_eq!(released.load(Ordering::SeqCst), !at_once);
    }
}
