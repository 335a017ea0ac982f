//! Tests of `rbac check` with a new project: it compares the requests of its tests with its rules, and fixes the
//! differences.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::process::{Command, Output};

use common::{CREATE_MEMCACHED, Dir, sdk, target_dir};
use serde_json::{Value, json};

const CONTROLLER: &str = "src/controller/memcached_controller.rs";

/// Creates a project with the memcached kind.
fn project(name: &str) -> Dir {
    let dir = Dir::built(name);
    dir.ok(CREATE_MEMCACHED);
    dir
}

fn run(dir: &Dir, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = sdk()
        .args(arguments)
        .env("CARGO_TARGET_DIR", target_dir())
        .current_dir(&dir.path)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
#[ignore = "slow: builds projects"]
fn permissions_follow_what_the_tests_ask() {
    let dir = project("asking-operator");
    dir.replace(
        CONTROLLER,
        "    let pods = ctx.list",
        "    ctx.list::<k8s_openapi::api::core::v1::Service>().await?;\n    let pods = ctx.list",
    );
    dir.replace(
        "src/lib.rs",
        "/// Returns the operator",
        "// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;delete\n/// Returns the operator",
    );

    let (code, out, errors) = run(&dir, &["rbac", "check"]);
    assert_eq!(code, Some(1), "{out}{errors}");
    for wanted in [
        "of services is requested but not granted (memcached_controller: an_object_becomes_a_deployment_of_its_size)",
        "    fix: add above `fn controller` (src/controller/memcached_controller.rs:",
        "        #[rbac(groups = \"core\", resources = \"services\", verbs = \"get;list;watch\")]",
        "src/lib.rs:10: warning: get, delete of jobs.batch is granted but never requested",
        "1 missing, 1 never requested, in the records of 2 tests",
    ] {
        assert!(out.contains(wanted), "{wanted:?} is missing: {out}");
    }

    let (code, out, _) = run(&dir, &["rbac", "check", "--no-run", "-o", "json"]);
    assert_eq!(code, Some(1));
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["missing"][0]["resource"], "services");
    assert_eq!(answer["missing"][0]["file"], CONTROLLER);
    let jobs = json!({"group": "batch", "resource": "jobs", "verbs": ["get", "delete"], "file": "src/lib.rs", "line": 10});
    assert!(answer["unused"].as_array().unwrap().contains(&jobs), "{answer}");

    let before = dir.files();
    let (_, diff, _) = run(&dir, &["rbac", "check", "--no-run", "--fix", "--dry-run"]);
    assert!(diff.contains("-// +kubebuilder:rbac:groups=batch"), "{diff}");
    assert_eq!(dir.files(), before);

    let (code, out, errors) = run(&dir, &["rbac", "check", "--no-run", "--fix"]);
    assert_eq!(code, Some(0), "{out}{errors}");
    let controller = dir.read(CONTROLLER);
    assert!(
        controller.contains(
            "#[rbac(groups = \"core\", resources = \"services\", verbs = \"get;list;watch\")]\npub fn controller()"
        ),
        "{controller}"
    );
    assert!(!dir.read("src/lib.rs").contains("kubebuilder"));
    let formatted = Command::new("cargo")
        .args(["fmt", "--check"])
        .current_dir(&dir.path)
        .output()
        .unwrap();
    assert!(
        formatted.status.success(),
        "{}",
        String::from_utf8_lossy(&formatted.stdout)
    );

    let (code, out, errors) = run(&dir, &["rbac", "check", "--no-run", "--strict"]);
    assert_eq!(
        (code, out.as_str()),
        (
            Some(0),
            "0 missing, 0 never requested, in the records of 2 tests\n"
        ),
        "{errors}"
    );
    let (code, out, errors) = run(&dir, &["generate", "rbac"]);
    assert_eq!(code, Some(0), "{out}{errors}");
    let role: Value = serde_saphyr::from_str(&dir.read("config/rbac/role.yaml")).unwrap();
    let rules = role["rules"].as_array().unwrap();
    let has = |group: &str, resource: &str, verbs: &[&str]| {
        rules.iter().any(|rule| {
            let lists = |key: &str, word: &str| rule[key].as_array().unwrap().contains(&json!(word));
            lists("apiGroups", group) && lists("resources", resource) && rule["verbs"] == json!(verbs)
        })
    };
    assert!(has("", "services", &["get", "list", "watch"]), "{role}");
    // The rules of `owns` are kept, although the attribute lost the verbs that were never requested.
    let all = ["create", "delete", "get", "list", "patch", "update", "watch"];
    assert!(has("apps", "deployments", &all), "{role}");
    assert!(
        has("cache.example.com", "memcacheds", &["get", "list", "watch"]),
        "{role}"
    );
    assert!(!role.to_string().contains("jobs"), "{role}");
}

#[test]
#[ignore = "slow: builds projects"]
fn project_whose_tests_recorded_nothing_is_told_so() {
    let dir = project("silent-operator");
    let (code, _, errors) = run(&dir, &["rbac", "check", "--no-run"]);
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("error: no test has recorded requests of the operator\nhint: "),
        "{errors}"
    );
}

#[test]
#[ignore = "slow: builds projects"]
fn marker_that_is_none_is_named_with_its_line() {
    let dir = project("marked-operator");
    let lib = dir.read("src/lib.rs");
    dir.write(
        "src/lib.rs",
        &format!("{lib}\n// +kubebuilder:rbac:groups=batch,resource=jobs,verbs=get\n"),
    );
    let line = lib.lines().count() + 2;
    let (code, _, errors) = run(&dir, &["generate", "rbac"]);
    assert_eq!(code, Some(1));
    let wanted = format!("error: src/lib.rs:{line}: unknown argument `resource`");
    assert!(errors.contains(&wanted), "{errors}");
}
