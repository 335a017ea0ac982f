//! The progress of a campaign, its early end, and operators in separate processes.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Config};
use operator_chaos::{Action, Chaos, Cluster, Phase, Plan, Point, Progress, Signature, Workload};
use serde_json::json;

/// The variable that makes `an_operator_process` an operator.
const OPERATOR: &str = "TEST_CHAOS_OPERATOR";

/// Always restores a ConfigMap.
async fn operator(client: Client) -> Result<(), kube::Error> {
    let configs = Api::<ConfigMap>::default_namespaced(client);
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}});
    let apply = PatchParams::apply("example").force();
    loop {
        let _retried = configs.patch("made", &apply, &Patch::Apply(&config)).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

#[test]
fn the_progress_goes_through_the_phases() {
    let seen: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let sink = seen.clone();
    let chaos = Chaos::new(operator).workload(Workload::new()).plans(20);
    let report = chaos
        .on_progress(move |progress| sink.lock().unwrap().push(progress.clone()))
        .run()
        .unwrap();
    let seen = seen.lock().unwrap();
    let mut phases: Vec<Phase> = seen.iter().map(|progress| progress.phase).collect();
    phases.dedup();
    assert_eq!(phases, [Phase::Reference, Phase::Plans, Phase::Done]);
    let last = seen.last().unwrap();
    assert_eq!((last.plans, last.plans_max, last.findings), (20, 20, 0));
    assert_eq!(last.single_faults, report.single_faults);
    assert!(!report.stopped, "{report}");
}

#[test]
fn a_campaign_that_is_stopped_reports_what_it_has() {
    let calls = AtomicUsize::new(0);
    let chaos = Chaos::new(operator).workload(Workload::new());
    let chaos = chaos.budget(Duration::from_secs(3600)).jobs(1);
    let stop = move || calls.fetch_add(1, Ordering::Relaxed) > 30;
    let report = chaos.stop_when(stop).run().unwrap();
    assert!(report.stopped && report.plans > 0, "{report}");
    assert!(
        report
            .to_string()
            .contains("The campaign was stopped before its end."),
        "{report}"
    );
}

/// Records the hour at which it started.
async fn dated(client: Client) -> Result<(), kube::Error> {
    let configs = Api::<ConfigMap>::default_namespaced(client);
    let seconds = operator_chaos::now().duration_since(SystemTime::UNIX_EPOCH);
    let hours = seconds.unwrap_or_default().as_secs() / 3600;
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dated"}, "data": {"hours": hours.to_string()},
    });
    let apply = PatchParams::apply("example").force();
    loop {
        let _retried = configs.patch("dated", &apply, &Patch::Apply(&config)).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

#[test]
fn the_simulated_time_starts_where_it_is_set() {
    let hours = |cluster: &Cluster<'_>| {
        let dated = cluster.get("configmaps", "default", "dated")?;
        dated.pointer("/data/hours").cloned()
    };
    let report = Chaos::new(dated)
        .starts_at(SystemTime::UNIX_EPOCH + Duration::from_secs(3600 * 24 * 365 * 60))
        .workload(Workload::new())
        .plans(4)
        .eventually("the date is that of the test", move |cluster| {
            hours(cluster) == Some(json!((24 * 365 * 60).to_string()))
        })
        .run();
    report.unwrap().assert_clean();
    assert!(operator_chaos::now() >= SystemTime::now() - Duration::from_secs(60));
}

/// Not a test by itself: the process of the tests below.
#[tokio::test]
async fn an_operator_process() {
    if std::env::var_os(OPERATOR).is_none() {
        return;
    }
    let config = Config::infer().await.unwrap();
    operator(Client::try_from(config).unwrap()).await.unwrap();
}

fn process() -> Chaos {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    let words = ["env", &format!("{OPERATOR}=1"), program];
    let command = [&words[..], &["--exact", "an_operator_process", "--nocapture"]].concat();
    let chaos = Chaos::command(command.into_iter().map(str::to_owned)).unwrap();
    chaos.workload(Workload::new())
}

/// The second life of the operator shows that the first one ended between the commit and the response.
#[test]
fn a_process_is_killed_while_its_response_is_held() {
    let call: Signature = serde_json::from_value(json!("patch configmaps default/made")).unwrap();
    let at = Point::Call { call, occurrence: 1 };
    let plan = Plan::single(0, at, Action::CrashAfterCommit);
    let report = process().replay(&plan).unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.plans, 1);
}

#[test]
fn a_plan_with_a_process_is_interrupted() {
    let seen: Arc<Mutex<Phase>> = Arc::default();
    let (sink, stop) = (seen.clone(), seen);
    let chaos = process().budget(Duration::from_secs(3600)).jobs(4);
    let report = chaos
        .on_progress(move |progress| *sink.lock().unwrap() = progress.phase)
        .stop_when(move || *stop.lock().unwrap() == Phase::Plans)
        .run()
        .unwrap();
    assert!(report.stopped, "{report}");
    assert_eq!(report.plans, 0, "the first plans are interrupted");
}

#[test]
fn a_program_that_ends_at_once_is_named_with_its_last_lines() {
    let chaos = Chaos::command(["sh", "-c", "echo no configuration >&2; exit 3"]).unwrap();
    let report = chaos.workload(Workload::new()).run().unwrap();
    let text = report.to_string();
    assert!(text.contains("exit status: 3: no configuration"), "{text}");
}
