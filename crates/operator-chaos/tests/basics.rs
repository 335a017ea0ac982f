//! Small operators with known bugs, and their corrected versions.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use operator_chaos::{Action, Chaos, Oracle, Plan, Point, Report, Signature, Workload};
use serde_json::json;

/// A budget that no test uses up: the number of plans ends an exploration.
const NO_END: Duration = Duration::from_secs(3600);

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Returns the object that the user of these tests writes.
fn wanted(size: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wanted"}, "data": {"size": size}})
}

fn workload() -> Workload {
    Workload::new().apply(wanted("1")).apply(wanted("2"))
}

/// Calls `reconcile` every 2 s, and again after an error.
async fn poll<F, R>(client: Client, reconcile: F) -> Outcome
where
    F: Fn(Api<ConfigMap>, ConfigMap) -> R,
    R: Future<Output = Outcome>,
{
    let configs: Api<ConfigMap> = Api::default_namespaced(client);
    loop {
        if let Ok(Some(wanted)) = configs.get_opt("wanted").await {
            let _retried = reconcile(configs.clone(), wanted).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

fn child(wanted: &ConfigMap) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child"}, "data": wanted.data})
}

/// Annotates the object of the user, so that an operator can tell that it has handled it.
async fn mark_done(configs: &Api<ConfigMap>) -> Outcome {
    let done = json!({"metadata": {"annotations": {"done": "yes"}}});
    configs
        .patch("wanted", &PatchParams::default(), &Patch::Merge(done))
        .await?;
    Ok(())
}

/// Applies one child. It has no bug.
async fn careful(client: Client) -> Outcome {
    poll(client, |configs, wanted| async move {
        let apply = PatchParams::apply("test").force();
        let found = configs.get_opt("child").await?;
        if found.is_none_or(|found| found.data != wanted.data) {
            configs
                .patch("child", &apply, &Patch::Apply(child(&wanted)))
                .await?;
        }
        Ok(())
    })
    .await
}

#[test]
fn a_careful_operator_is_clean() {
    let report = Chaos::new(careful)
        .workload(workload())
        .plans(120)
        .budget(NO_END)
        .run();
    let report = report.unwrap();
    report.assert_clean();
    assert!(report.single_faults > 20, "{report}");
    assert_eq!(report.single_faults_run, report.single_faults, "{report}");
    assert_eq!(report.plans, 120);
    assert!(report.pruned > 0, "{report}");
}

#[test]
fn a_child_with_a_generated_name_is_created_twice_after_a_lost_answer() {
    let careless = |client| {
        poll(client, |configs: Api<ConfigMap>, wanted: ConfigMap| async move {
            if wanted.annotations().contains_key("done") {
                return Ok(());
            }
            let mut child = ConfigMap::default();
            child.metadata.generate_name = Some("child-".to_owned());
            configs.create(&PostParams::default(), &child).await?;
            mark_done(&configs).await
        })
    };
    let chaos = || Chaos::new(careless).workload(workload());
    let explore = |jobs| chaos().plans(16).budget(NO_END).jobs(jobs).run().unwrap();
    let report = explore(1);
    let finding = &report.findings[0];
    assert_eq!(finding.violations[0].oracle, Oracle::EndState, "{report}");
    assert_eq!(finding.violations[0].subject, "configmaps default/child-*");
    assert_eq!(finding.workload.steps.len(), 1, "one step is enough: {report}");
    assert_eq!(finding.nondeterminism, None);
    assert!(
        finding
            .text
            .contains("crash after the commit of the 1st `create configmaps default/child-*`")
    );
    let replayed = chaos()
        .workload(finding.workload.clone())
        .replay(&finding.plan)
        .unwrap();
    assert_eq!(replayed.findings[0].violations, finding.violations);
    assert_eq!(replayed.findings[0].id, finding.id);
    // The number of threads does not affect the result.
    let ids = |report: &Report| -> Vec<(String, usize)> {
        let findings = report.findings.iter();
        findings
            .map(|finding| (finding.id.clone(), finding.plans))
            .collect()
    };
    assert_eq!(ids(&explore(8)), ids(&report));
}

/// The child is missing after a crash between the two writes. At the end, it is absent with and without faults.
#[test]
fn a_child_that_is_missing_until_its_owner_is_deleted_is_found() {
    let careless = |client| {
        poll(client, |configs: Api<ConfigMap>, wanted: ConfigMap| async move {
            if wanted.annotations().contains_key("done") {
                return Ok(());
            }
            mark_done(&configs).await?;
            configs
                .create(&PostParams::default(), &owned_child(&wanted))
                .await?;
            Ok(())
        })
    };
    let workload = Workload::new().apply(wanted("1")).delete(wanted("1"));
    let chaos = Chaos::new(careless).workload(workload).plans(8).budget(NO_END);
    let report = chaos.run().unwrap();
    let violation = &report.findings[0].violations[0];
    assert_eq!(violation.oracle, Oracle::StepState, "{report}");
    assert_eq!(violation.subject, "configmaps default/child", "{report}");
    assert!(violation.message.contains("missing after step 1"), "{report}");
}

/// Returns a child that is deleted with the object of the user.
fn owned_child(wanted: &ConfigMap) -> ConfigMap {
    let mut child = ConfigMap {
        data: wanted.data.clone(),
        ..ConfigMap::default()
    };
    child.metadata.name = Some("child".to_owned());
    child.metadata.owner_references = wanted.owner_ref(&()).map(|owner| vec![owner]);
    child
}

/// A run that ends early has not reached the step that deletes the child: it is compared with the same steps.
#[test]
fn a_child_may_be_created_again_before_the_step_that_deletes_it() {
    let careful = |client| {
        poll(client, |configs: Api<ConfigMap>, wanted: ConfigMap| async move {
            if configs.get_opt("child").await?.is_none() {
                let child = owned_child(&wanted);
                configs.create(&PostParams::default(), &child).await?;
            }
            Ok(())
        })
    };
    let workload = Workload::new().apply(wanted("1")).delete(wanted("1"));
    let chaos = || Chaos::new(careful).workload(workload.clone()).budget(NO_END);
    let report = chaos().plans(200).run().unwrap();
    report.assert_clean();
    assert_eq!(report.single_faults_run, report.single_faults, "{report}");
    let object = "configmaps default/child".to_owned();
    let delete = Plan::single(1, Point::Step { step: 1 }, Action::DeleteChild { object });
    chaos().replay(&delete).unwrap().assert_clean();
}

#[test]
fn a_child_that_is_deleted_before_the_step_that_deletes_it_is_found() {
    let careless = |client| {
        poll(client, |configs: Api<ConfigMap>, wanted: ConfigMap| async move {
            let child = owned_child(&wanted);
            let created = configs.create(&PostParams::default(), &child).await;
            match created {
                Err(kube::Error::Api(status)) if status.code == 500 => {
                    let _gone = configs.delete("child", &DeleteParams::default()).await;
                    configs.create(&PostParams::default(), &child).await?;
                }
                _ => {}
            }
            Ok(())
        })
    };
    let workload = Workload::new().apply(wanted("1")).delete(wanted("1"));
    let chaos = Chaos::new(careless).workload(workload).plans(60).budget(NO_END);
    let report = chaos.run().unwrap();
    let mut violations = report.findings.iter().flat_map(|finding| &finding.violations);
    let deletion = violations.find(|violation| violation.oracle == Oracle::Deletion);
    assert_eq!(deletion.unwrap().subject, "configmaps default/child", "{report}");
}

#[test]
fn a_replace_without_a_version_loses_the_change_of_another_client() {
    let careless = |client| {
        poll(client, |configs: Api<ConfigMap>, wanted: ConfigMap| async move {
            let Some(mut found) = configs.get_opt("child").await? else {
                let child: ConfigMap = serde_json::from_value(child(&wanted))?;
                configs.create(&PostParams::default(), &child).await?;
                return Ok(());
            };
            if found.data != wanted.data {
                found.data = wanted.data;
                found.metadata.resource_version = None;
                configs.replace("child", &PostParams::default(), &found).await?;
            }
            Ok(())
        })
    };
    let report = Chaos::new(careless)
        .workload(workload())
        .plans(60)
        .budget(NO_END)
        .run();
    let report = report.unwrap();
    let oracles: Vec<Oracle> = report
        .findings
        .iter()
        .map(|finding| finding.violations[0].oracle)
        .collect();
    assert_eq!(oracles, [Oracle::LostUpdate], "{report}");
}

#[test]
fn panics_and_endless_writes_are_found_without_faults() {
    let panics = |_: Client| async {
        if true {
            panic!("as the test wants")
        } else {
            Outcome::Ok(())
        }
    };
    let report = Chaos::new(panics).run().unwrap();
    assert_eq!(report.findings[0].violations[0].oracle, Oracle::Panic, "{report}");

    let restless = |client| {
        poll(client, |configs: Api<ConfigMap>, wanted: ConfigMap| async move {
            let size = wanted.annotations().get("turn").map_or(0, String::len);
            let turn = json!({"metadata": {"annotations": {"turn": "x".repeat((size + 1) % 3)}}});
            configs
                .patch("wanted", &PatchParams::default(), &Patch::Merge(turn))
                .await?;
            Ok(())
        })
    };
    let report = Chaos::new(restless).workload(workload()).run().unwrap();
    let violation = &report.findings[0].violations[0];
    assert_eq!(violation.oracle, Oracle::Quiescence, "{report}");
    assert!(
        violation.message.contains("metadata.annotations.turn"),
        "{report}"
    );
}

#[test]
fn predicates_are_checked_in_every_state() {
    let report = Chaos::new(careful)
        .workload(workload())
        .never("child is of size 2", |cluster| {
            let child = cluster.get("configmaps", "default", "child");
            child.is_some_and(|child| child.pointer("/data/size") == Some(&json!("2")))
        })
        .always("few configmaps", |cluster| cluster.list("configmaps").len() < 20)
        .eventually("a pod", |cluster| !cluster.list("pods").is_empty())
        .run()
        .unwrap();
    let found: Vec<&str> = report.findings[0]
        .violations
        .iter()
        .map(|it| it.subject.as_str())
        .collect();
    assert_eq!(found, ["child is of size 2", "a pod"]);
}

#[test]
fn the_same_plan_leads_to_the_same_run() {
    let call = Signature::new("apply configmaps default/child");
    let plan = Plan::single(7, Point::Call { call, occurrence: 1 }, Action::CrashAfterCommit);
    let replay = || {
        Chaos::new(careful)
            .workload(workload())
            .never("child", |cluster| {
                cluster.get("configmaps", "default", "child").is_some()
            })
    };
    // A violated predicate becomes a finding of the run without faults, with its timeline.
    let [first, second] = [replay().replay(&plan).unwrap(), replay().replay(&plan).unwrap()];
    assert_eq!(first.findings[0].timeline, second.findings[0].timeline);
}

#[test]
fn random_names_of_events_are_no_difference_between_two_runs() {
    use std::hash::{BuildHasher, RandomState};

    let careless = |client: Client| async move {
        let events: Api<Event> = Api::default_namespaced(client.clone());
        let name = format!("wanted.{:016x}", RandomState::new().hash_one(0_u8));
        let event = json!({
            "metadata": {"name": name}, "reason": "Started", "type": "Normal", "involvedObject": {"namespace": "default"},
        });
        events
            .create(&PostParams::default(), &serde_json::from_value(event)?)
            .await?;
        let configs: Api<ConfigMap> = Api::default_namespaced(client);
        let mut child = ConfigMap::default();
        child.metadata.generate_name = Some("child-".to_owned());
        configs.create(&PostParams::default(), &child).await?;
        std::future::pending::<Outcome>().await
    };
    let explore = || {
        let chaos = Chaos::new(careless).without_idempotence_check();
        chaos.workload(workload()).plans(8).budget(NO_END).run().unwrap()
    };
    let (first, second) = (explore(), explore());
    let ids = |report: &Report| -> Vec<String> {
        assert!(!report.is_clean());
        for finding in &report.findings {
            assert_eq!(finding.nondeterminism, None, "{report}");
        }
        report.findings.iter().map(|finding| finding.id.clone()).collect()
    };
    assert_eq!(ids(&first), ids(&second));
    // The sequences of writes have the same hashes.
    assert_eq!((first.traces, first.states), (second.traces, second.states));
    let texts = first.findings.iter().map(|finding| finding.timeline.join("\n"));
    assert!(
        texts
            .collect::<String>()
            .contains("create events default/wanted.*")
    );
}
