//! Tests of the workflows of the repository and of a scaffolded project, as GitHub would parse them and a shell would
//! run them.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use common::Dir;
use serde_json::Value;

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the commands of a workflow.
#[track_caller]
fn commands(name: &str, text: &str) -> Vec<String> {
    let workflow: Value = serde_saphyr::from_str(text).unwrap();
    assert!(workflow["on"].is_object(), "{name}");
    assert!(
        workflow["permissions"].is_object(),
        "{name}: the rights of the token are not limited"
    );
    let mut commands = Vec::new();
    for (job, content) in workflow["jobs"].as_object().unwrap() {
        assert_eq!(content["runs-on"], "ubuntu-latest", "{name}: {job}");
        for step in content["steps"].as_array().unwrap() {
            match (step["uses"].as_str(), step["run"].as_str()) {
                (Some(action), None) => assert!(action.contains("@v"), "{name}: {action} has no version"),
                (None, Some(command)) => commands.push(command.to_owned()),
                _ => panic!("{name}: {step} has neither one action nor one command"),
            }
        }
    }
    assert!(!commands.is_empty(), "{name}");
    commands
}

#[track_caller]
fn has_valid_syntax(name: &str, command: &str) {
    let output = Command::new("bash").args(["-n", "-c", command]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {command}: {errors}");
}

#[test]
fn workflows_of_the_repository() {
    let mut scripts = Vec::new();
    for entry in std::fs::read_dir(workspace().join(".github/workflows")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        for command in commands(name, &std::fs::read_to_string(&path).unwrap()) {
            has_valid_syntax(name, &command);
            let words = command.split_whitespace().map(str::to_owned);
            scripts.extend(words.filter(|word| word.starts_with("scripts/") || word.starts_with(".ci/")));
        }
    }
    assert!(
        scripts.contains(&"scripts/release-image".to_owned()),
        "{scripts:?}"
    );
    for script in scripts {
        let path = workspace().join(&script);
        let mode = std::fs::metadata(&path).expect(&script).permissions().mode();
        assert!(mode & 0o111 != 0, "{script} is not executable");
        let status = Command::new("bash").arg("-n").arg(&path).status().unwrap();
        assert!(status.success(), "{script}");
    }
}

/// A crate is published after all crates that its package requires with a version, including those for tests.
#[test]
fn crates_are_published_after_their_dependencies() {
    let run = |command: &mut Command| {
        let output = command.current_dir(workspace()).output().unwrap();
        common::succeeded(&["release"], output)
    };
    let listed = run(Command::new("scripts/release")
        .arg("--list")
        .env("CARGO_NET_OFFLINE", "true"));
    let order: Vec<&str> = listed.lines().collect();
    let mut metadata = common::cargo();
    metadata.args(["metadata", "--no-deps", "--offline", "--format-version=1"]);
    let metadata: Value = serde_json::from_str(&run(&mut metadata)).unwrap();
    let mut published = 0;
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let place = order.iter().position(|listed| *listed == name);
        if package["publish"] == serde_json::json!([]) {
            assert_eq!(place, None, "{name} is not published");
            continue;
        }
        published += 1;
        for dependency in package["dependencies"].as_array().unwrap() {
            let is_needed = dependency["path"].is_string() && dependency["req"] != "*";
            let needed = dependency["name"].as_str().unwrap();
            if is_needed {
                let before = order.iter().position(|listed| *listed == needed);
                assert!(
                    before.is_some() && before < place,
                    "{name} is published before {needed}"
                );
            }
        }
    }
    assert_eq!(order.len(), published);
}

#[test]
fn workflow_of_a_project() {
    let dir = Dir::project();
    let name = ".github/workflows/test.yml";
    let commands = commands(name, &dir.read(name));
    for command in &commands {
        has_valid_syntax(name, command);
    }
    assert!(
        commands.iter().any(|command| command == "cargo test"),
        "{commands:?}"
    );
}
