//! An operator in a separate process and another language: Python with kopf. The test needs python3 and pip. Without
//! them, it prints that it is skipped.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use operator_chaos::{Chaos, Oracle, Workload};
use serde_json::json;

/// The version of kopf that the test installs.
const KOPF: &str = "kopf==1.45.2";
/// Maximum number of single faults that the test runs.
const PLANS: usize = 64;

/// Installs kopf into a virtual environment, once per target directory.
fn kopf() -> Result<PathBuf, String> {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kopf");
    let program = environment.join("bin/kopf");
    if program.is_file() {
        return Ok(program);
    }
    let run = |command: &mut Command| {
        let shown = format!("{command:?}");
        let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr))),
        }
    };
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    run(Command::new(environment.join("bin/pip")).args(["install", "--quiet", KOPF]))?;
    Ok(program)
}

fn chaos(kopf: &Path, is_corrected: bool) -> Chaos {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/lost_update.py");
    let mut command = Vec::new();
    if is_corrected {
        command.extend(["env".to_owned(), "CORRECTED=1".to_owned()]);
    }
    let words = [
        kopf.to_str().unwrap(),
        "run",
        "--standalone",
        "-A",
        script.to_str().unwrap(),
    ];
    command.extend(words.map(str::to_owned));
    let widget = |size: i32| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": size},
        })
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    Chaos::command(command)
        .unwrap()
        .objects([definition])
        .workload(Workload::new().apply(widget(1)).patch(widget(2)))
        // kopf stores the last handled state in an annotation, which contains the annotations of other clients.
        .ignore("widgets.example.com metadata.annotations")
        .plans(PLANS)
        .jobs(8)
        .budget(Duration::from_secs(3600))
}

#[test]
#[ignore = "runs Python in real time: takes minutes"]
fn a_lost_update_of_a_kopf_operator_is_found() {
    let kopf = match kopf() {
        Ok(program) => program,
        Err(problem) => {
            eprintln!("SKIPPED, because kopf cannot be installed: {problem}");
            return;
        }
    };
    let report = chaos(&kopf, false).run().unwrap();
    println!("{report}");
    let is_lost = |oracle| oracle == Oracle::LostUpdate;
    let finding = report
        .findings
        .iter()
        .find(|finding| finding.violations.iter().any(|it| is_lost(it.oracle)));
    let Some(finding) = finding else {
        panic!("the lost update was not found: {report}");
    };
    assert_eq!(
        finding.text,
        "another client changes the object just before the 1st `update configmaps default/w`"
    );
    let corrected = chaos(&kopf, true).workload(finding.workload.clone());
    corrected.replay(&finding.plan).unwrap().assert_clean();
}
