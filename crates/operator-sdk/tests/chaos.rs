//! Tests of `chaos run` and `chaos replay`. The programs that they explore are the program of this test.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::io::{BufRead, BufReader};
use std::pin::pin;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{Dir, sdk};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, Config};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// The variable that selects the operator of `an_operator_process`.
const OPERATOR: &str = "TEST_CHAOS_OPERATOR";

const WORKLOAD: &str = "\
steps:
- apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: wanted}}
";

/// Not a test by itself: the process of the tests below.
#[tokio::test]
async fn an_operator_process() {
    let Ok(kind) = std::env::var(OPERATOR) else {
        return;
    };
    let client = Client::try_from(Config::infer().await.unwrap()).unwrap();
    let configs: Api<ConfigMap> = Api::default_namespaced(client);
    loop {
        // An idle operator sends no requests, because it waits for events.
        if let Ok(events) = configs.watch(&WatchParams::default(), "0").await {
            let mut events = pin!(events);
            while let Some(Ok(event)) = events.next().await {
                if matches!(event, WatchEvent::Bookmark(_) | WatchEvent::Error(_)) {
                    continue;
                }
                let mut outcome = reconcile(&kind, &configs).await;
                while outcome.is_err() {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    outcome = reconcile(&kind, &configs).await;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn reconcile(kind: &str, configs: &Api<ConfigMap>) -> Result<(), kube::Error> {
    match kind {
        "careful" => careful(configs).await,
        _ => careless(configs).await,
    }
}

fn config(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

async fn careful(configs: &Api<ConfigMap>) -> Result<(), kube::Error> {
    if configs.get_opt("wanted").await?.is_some() {
        let apply = PatchParams::apply("test").force();
        let child = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child"}});
        configs.patch("child", &apply, &Patch::Apply(child)).await?;
    }
    Ok(())
}

/// Creates the child only immediately after a mark, so that after a crash between the two the child is never created.
async fn careless(configs: &Api<ConfigMap>) -> Result<(), kube::Error> {
    if configs.get_opt("wanted").await?.is_some() && configs.get_opt("mark").await?.is_none() {
        configs.create(&PostParams::default(), &config("mark")).await?;
        configs.create(&PostParams::default(), &config("child")).await?;
    }
    Ok(())
}

/// Returns a command that runs one of these operators.
fn command(dir: &Dir, operator: &str, arguments: &[&str]) -> Command {
    let mut command = sdk();
    command
        .args(arguments)
        .arg("--cmd")
        .arg(std::env::current_exe().unwrap())
        .args(["--", "--exact", "an_operator_process", "--nocapture"])
        .env(OPERATOR, operator)
        .current_dir(&dir.path);
    command
}

#[track_caller]
fn ended(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{errors}");
    (out, errors)
}

#[test]
fn wrong_use_exits_with_2_and_says_what_to_do() {
    let dir = Dir::named("chaos");
    dir.write("workload.yaml", WORKLOAD);
    dir.write("broken.yaml", "steps: [{apply: {kind: ConfigMap}}]\n");
    dir.write("plain.txt", "not a program\n");
    let program = |rest: &[&str]| {
        let words = [&["chaos", "run"], rest].concat();
        ended(&dir.run(&words), 2).1
    };
    let cases: [(&[&str], &str, &str); 9] = [
        (
            &["--cmd", "/bin/cat"],
            "no workload",
            "give a file with `--workload`",
        ),
        (
            &["--cmd", "./missing", "--workload", "workload.yaml"],
            "cannot run ./missing: no such file",
            "its arguments after `--`",
        ),
        (
            &["--cmd", "no-such-program-here", "--workload", "workload.yaml"],
            "it is not in the directories of PATH",
            "the path of an executable program",
        ),
        (
            &["--cmd", "./plain.txt", "--workload", "workload.yaml"],
            "it is not an executable file",
            "hint:",
        ),
        (
            &["--cmd", "/bin/cat", "--workload", "none.yaml"],
            "cannot read none.yaml",
            "hint:",
        ),
        (
            &["--cmd", "/bin/cat", "--workload", "broken.yaml"],
            "broken.yaml: invalid workload: step 1: apiVersion is missing",
            "hint:",
        ),
        (
            &[
                "--cmd",
                "/bin/cat",
                "--workload",
                "workload.yaml",
                "--crds",
                "gone",
            ],
            "cannot read gone",
            "hint:",
        ),
        (&["--budget", "soon"], "invalid duration", "90s"),
        (&[], "PROJECT", "hint:"),
    ];
    for (arguments, problem, hint) in cases {
        let errors = program(arguments);
        assert!(errors.contains(problem), "{arguments:?}: {errors}");
        assert!(errors.contains(hint), "{arguments:?}: {errors}");
    }
    let (_, errors) = ended(&dir.run(&["chaos", "replay", "0123456789ab"]), 2);
    assert!(
        errors.contains("cannot find the finding 0123456789ab"),
        "{errors}"
    );
}

#[test]
fn a_project_without_a_chaos_test_is_named() {
    let dir = Dir::project();
    let (_, errors) = ended(&dir.run(&["chaos", "run"]), 2);
    assert!(errors.contains("tests/chaos.rs does not exist"), "{errors}");
}

#[test]
fn a_program_that_ends_at_once_and_a_kind_that_is_not_served_are_errors() {
    let dir = Dir::named("chaos");
    dir.write("workload.yaml", WORKLOAD);
    let run = ["chaos", "run", "--workload", "workload.yaml"];
    let end = [
        &run[..],
        &["--cmd", "sh", "--", "-c", "echo no rights >&2; exit 3"],
    ]
    .concat();
    let (_, errors) = ended(&dir.run(&end), 2);
    assert!(errors.contains("exit status: 3: no rights"), "{errors}");
    dir.write(
        "workload.yaml",
        "steps: [{apply: {apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}}]\n",
    );
    let output = command(&dir, "careful", &run).output().unwrap();
    let (_, errors) = ended(&output, 2);
    assert!(
        errors.contains("no resource is served for apiVersion example.com/v1"),
        "{errors}"
    );
    assert!(
        errors.contains("add the CustomResourceDefinitions with `--crds`"),
        "{errors}"
    );
}

#[test]
#[ignore = "slow: explores processes in real time"]
fn a_careful_program_is_clean_and_a_careless_one_has_a_finding_that_can_be_replayed() {
    let dir = Dir::named("chaos");
    dir.write("workload.yaml", WORKLOAD);
    let run = ["chaos", "run", "--workload", "workload.yaml", "--jobs", "8"];
    let clean = [&run[..], &["--plans", "8", "--report", "clean.json"]].concat();
    let output = command(&dir, "careful", &clean).output().unwrap();
    let (out, errors) = ended(&output, 0);
    assert!(out.contains("8 plans") && out.contains(": 0 findings"), "{out}");
    assert!(errors.contains("running the workload without faults"), "{errors}");
    let report: Value = serde_json::from_str(&dir.read("clean.json")).unwrap();
    assert_eq!(report["findings"], json!([]));
    assert!(!dir.path.join("target").exists());

    let files = ["found.json", "found.xml", "found.html", "found.txt"];
    let mut careless = run.to_vec();
    careless.extend(["--plans", "16"]);
    careless.extend(files.iter().flat_map(|file| ["--report", file]));
    let output = command(&dir, "careless", &careless).output().unwrap();
    let (out, _) = ended(&output, 1);
    let report: Value = serde_json::from_str(&dir.read("found.json")).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let between = |finding: &&Value| {
        finding["text"]
            .as_str()
            .unwrap()
            .starts_with("crash after the commit")
    };
    let finding = findings.iter().find(between).unwrap();
    let id = finding["id"].as_str().unwrap();
    assert!(out.contains(&format!("operator-sdk chaos replay {id}")), "{out}");
    for file in files {
        assert!(dir.read(file).contains(id), "{file}");
    }

    // The finding contains the command of the operator.
    let mut replay = sdk();
    replay.args(["chaos", "replay", id]).current_dir(&dir.path);
    let (out, _) = ended(&replay.env(OPERATOR, "careless").output().unwrap(), 1);
    assert!(out.contains("configmaps default/child"), "{out}");
    let (out, _) = ended(&replay.env(OPERATOR, "careful").output().unwrap(), 0);
    assert!(out.contains("1 plans"), "{out}");
}

#[test]
#[ignore = "slow: explores processes in real time"]
fn ctrl_c_ends_an_exploration_with_its_results() {
    let dir = Dir::named("chaos");
    dir.write("workload.yaml", WORKLOAD);
    let run = ["chaos", "run", "--workload", "workload.yaml", "--budget", "1h"];
    let mut command = command(&dir, "careful", &run);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = errors.find(|line| line.as_ref().is_ok_and(|line| line.contains(" single faults")));
    assert!(line.is_some(), "no progress");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let rest: Vec<String> = errors.map_while(Result::ok).collect();
    let (out, _) = ended(&child.wait_with_output().unwrap(), 0);
    assert!(rest.iter().any(|line| line.starts_with("Stopping")), "{rest:?}");
    assert!(out.contains("The campaign was stopped before its end."), "{out}");
}

/// Creates a child after the status, and only for an object without a status. After a crash between the two, the child
/// is never created.
const DEFECT: &str = "    if object.status.is_none() {
        let mut child = k8s_openapi::api::core::v1::ConfigMap::default();
        child.metadata.name = Some(\"child\".to_owned());
        ctx.apply_owned(child).await?;
    }
    Ok(Action::done())
";

#[test]
#[ignore = "slow: builds a project with operator-chaos"]
fn a_scaffolded_operator_is_clean_until_it_has_a_defect() {
    let dir = Dir::built("chaos-operator");
    let kind = |kind| {
        [
            "create",
            "api",
            "--group",
            "shop",
            "--version",
            "v1",
            "--kind",
            kind,
        ]
    };
    dir.ok(&kind("Parcel"));
    dir.ok(&[&kind("Van")[..], &["--image", "nginx:1.27"]].concat());
    let run = |arguments: &[&str], code| {
        let mut command = sdk();
        command.arg("chaos").args(arguments).current_dir(&dir.path);
        let output = command.env("CARGO_TARGET_DIR", common::target_dir()).output();
        ended(&output.unwrap(), code)
    };
    let explore = |plans| {
        [
            "run",
            "--plans",
            plans,
            "--budget",
            "20m",
            "--report",
            "report.json",
        ]
    };
    let (out, _) = run(&explore("40"), 0);
    assert!(out.contains("40 plans"), "{out}");
    let report: Value = serde_json::from_str(&dir.read("report.json")).unwrap();
    assert!(report["singleFaults"].as_u64().unwrap() > 40, "{report}");

    let controller = "src/controller/parcel_controller.rs";
    let correct = dir.read(controller);
    dir.replace(controller, "    Ok(Action::done())\n", DEFECT);
    let owns = "Controller::new(reconcile).owns::<k8s_openapi::api::core::v1::ConfigMap>()";
    dir.replace(
        controller,
        "    Controller::new(reconcile)\n",
        &format!("    {owns}\n"),
    );
    let (out, _) = run(&explore("40"), 1);
    assert!(out.contains("configmaps default/child"), "{out}");
    let report: Value = serde_json::from_str(&dir.read("report.json")).unwrap();
    let id = report["findings"][0]["id"].as_str().unwrap();
    let (out, _) = run(&["replay", id], 1);
    assert!(out.contains(&format!("Finding {id}")), "{out}");
    // The same seed and number of plans lead to the same findings.
    let (again, _) = run(&explore("40"), 1);
    assert!(again.contains(&format!("Finding {id}")), "{again}");

    dir.write(controller, &correct);
    let (out, _) = run(&["replay", id], 0);
    assert!(out.contains("0 findings"), "{out}");
}

/// `delete api` removes the steps that `create api` added to the workload. With the last kind, it also removes the
/// test.
#[test]
fn the_workload_has_the_steps_of_each_kind() {
    let dir = Dir::project();
    let before = dir.files();
    let kind = |verb, kind| [verb, "api", "--group", "shop", "--version", "v1", "--kind", kind];
    dir.ok(&kind("create", "Parcel"));
    let one = dir.read("tests/chaos.yaml");
    assert_eq!(one.matches("kind: Parcel").count(), 3, "{one}");
    dir.ok(&kind("create", "Van"));
    let two = dir.read("tests/chaos.yaml");
    assert!(
        two.starts_with(&one) && two.matches("kind: Van").count() == 3,
        "{two}"
    );
    dir.ok(&[&kind("delete", "Van")[..], &["--yes"]].concat());
    assert_eq!(dir.read("tests/chaos.yaml"), one);
    dir.ok(&[&kind("delete", "Parcel")[..], &["--yes"]].concat());
    let after = dir.files();
    let chaos = |path: &&String| path.starts_with("tests/chaos");
    assert_eq!(after.keys().find(chaos), before.keys().find(chaos));

    // A workload that does not end with its steps belongs to the user.
    dir.write("tests/chaos.yaml", "steps: []\n");
    dir.ok(&kind("create", "Parcel"));
    assert_eq!(dir.read("tests/chaos.yaml"), "steps: []\n");
}
