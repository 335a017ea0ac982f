//! Tests that every command and flag in the published guides of operator-sdk 0.8, 0.10, 0.19 and 1.15 and of
//! kubebuilder is accepted, or rejected with a reason.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use common::Dir;

/// The outcome of a line of a guide.
enum Outcome {
    /// The command succeeds.
    Runs,
    /// The flags are accepted, but the command then fails because the directory is not a project, or there is no
    /// cluster.
    Accepted,
    /// The command fails with this message.
    Refused(&'static str),
}

use Outcome::{Accepted, Refused, Runs};

const KIND: &str = "--group cache --version v1alpha1 --kind Memcached";
const OLD_KIND: &str = "--api-version=cache.example.com/v1alpha1 --kind=Memcached";

/// Lines of the guides outside of a project.
const OUTSIDE: &[(&str, Outcome)] = &[
    // 0.8
    ("new memcached-operator", Runs),
    (
        "new memcached-operator --dep-manager=dep",
        Refused("cargo is the only dependency manager"),
    ),
    (
        "new memcached-operator --cluster-scoped=true",
        Refused("watches the whole cluster by default"),
    ),
    (
        "new memcached-operator --cluster-scoped",
        Refused("watches the whole cluster by default"),
    ),
    ("add api OLD_KIND", Accepted),
    ("add controller OLD_KIND", Accepted),
    ("generate k8s", Accepted),
    ("build quay.io/example/memcached-operator:v0.0.1", Accepted),
    ("up local --namespace=default", Accepted),
    ("up local --namespace=default --kubeconfig=gone", Accepted),
    // 0.10
    (
        "new memcached-operator --repo=github.com/example-inc/memcached-operator --vendor=false",
        Runs,
    ),
    ("generate openapi", Accepted),
    // 0.19
    (
        "new memcached-operator --repo=github.com/example-inc/memcached-operator",
        Runs,
    ),
    ("new memcached-operator --type=go", Runs),
    ("generate crds", Accepted),
    ("run local --watch-namespace=default", Accepted),
    ("run local --watch-namespace=default --kubeconfig=gone", Accepted),
    // 1.15
    ("init --help", Runs),
    ("init -h", Runs),
    (
        "init --domain example.com --repo github.com/example/memcached-operator",
        Runs,
    ),
    (
        "init --component-config",
        Refused("an operator has no configuration file"),
    ),
    (
        "init --component-config=true",
        Refused("an operator has no configuration file"),
    ),
    ("init --component-config=false", Runs),
    ("init --fetch-deps", Runs),
    ("init --fetch-deps=false", Runs),
    ("init --license apache2", Runs),
    ("init --license none", Runs),
    ("init --owner Me", Runs),
    ("init --project-name memcached-operator", Runs),
    ("init --project-version 3", Runs),
    ("init --project-version 2", Refused("possible values: 3")),
    ("init --skip-go-version-check", Runs),
    ("init --skip-go-version-check=true", Runs),
    ("init --skip-go-version-check=false", Runs),
    ("init --verbose", Runs),
    ("init --verbose=true", Runs),
    (
        "init --plugins go/v3 --domain example.org --owner Me",
        Refused("scaffolds projects in Go"),
    ),
    (
        "init --plugins go/v3 --project-version 3",
        Refused("scaffolds projects in Go"),
    ),
    ("create --help", Runs),
    ("create api --help", Runs),
    ("olm install", Accepted),
    (
        "run bundle registry.example.com/memcached-operator-bundle:v0.0.1",
        Accepted,
    ),
    // kubebuilder
    ("init --domain=example.com", Runs),
];

/// Lines of the guides in a project.
const INSIDE: &[(&str, Outcome)] = &[
    ("create api KIND", Runs),
    ("create api KIND --resource --controller", Runs),
    (
        "create api KIND --resource=true --controller=true --namespaced=false",
        Runs,
    ),
    ("create api KIND --namespaced", Runs),
    ("create api KIND --make", Runs),
    ("create api KIND --make=false", Runs),
    ("create api KIND --force", Runs),
    ("create api KIND --force=true", Runs),
    ("create api KIND --force=false", Runs),
    ("create api KIND --plural memcacheds", Runs),
    ("create api KIND --verbose", Runs),
    (
        "create api KIND --plugins go/v3",
        Refused("scaffolds projects in Go"),
    ),
    (
        "create api KIND --image=memcached:1.4.36-alpine --plugins=deploy-image/v1-alpha",
        Refused("create api --image"),
    ),
    ("create api --group ship --version v1beta1 --kind Frigate", Runs),
    ("add api OLD_KIND", Runs),
    ("add crd OLD_KIND --skip-generation=true", Runs),
    ("generate k8s", Runs),
];

#[track_caller]
fn check(dir: &Dir, line: &str, outcome: &Outcome) {
    let text = line.replace("OLD_KIND", OLD_KIND).replace("KIND", KIND);
    let arguments: Vec<&str> = text.split(' ').collect();
    let mut command = common::sdk();
    command
        .args(&arguments)
        .current_dir(&dir.path)
        .env("HOME", &dir.path)
        .env_remove("KUBECONFIG");
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let is_usage = errors.contains("For more information, try '--help'");
    match outcome {
        Runs => assert!(output.status.success(), "{line}: {errors}"),
        Accepted => {
            assert_eq!(output.status.code(), Some(1), "{line}: {errors}");
            let reasons = [
                "has no PROJECT file",
                "is not a bundle directory",
                "no cluster is configured",
                "cannot reach the registry",
            ];
            assert!(
                reasons.iter().any(|reason| errors.contains(reason)),
                "{line}: {errors}"
            );
            assert!(!is_usage, "{line}: {errors}");
        }
        Refused(reason) => {
            assert_eq!(output.status.code(), Some(1), "{line}: {errors}");
            assert!(errors.contains(reason), "{line}: {errors}");
        }
    }
}

#[test]
fn lines_outside_of_a_project() {
    for (line, outcome) in OUTSIDE {
        let dry = line.starts_with("init").then_some(" --dry-run");
        check(
            &Dir::named("op"),
            &format!("{line}{}", dry.unwrap_or_default()),
            outcome,
        );
    }
}

#[test]
fn lines_in_a_project() {
    let dir = Dir::project();
    for (line, outcome) in INSIDE {
        let dry = line.starts_with("create").then_some(" --dry-run");
        check(&dir, &format!("{line}{}", dry.unwrap_or_default()), outcome);
        if line.starts_with("add") {
            let delete = [
                "delete",
                "api",
                "--yes",
                "--group=cache",
                "--version=v1alpha1",
                "--kind=Memcached",
            ];
            dir.ok(&delete);
        }
    }
}

/// As in Go programs, a switch may have a value.
#[test]
fn switches_with_values() {
    let dir = Dir::named("op");
    dir.ok(&[
        "init",
        "--multigroup=true",
        "--namespaced=false",
        "--dry-run=false",
    ]);
    let project = dir.read("PROJECT");
    assert!(
        project.contains("multigroup: true") && !project.contains("namespaced"),
        "{project}"
    );
    let output = dir.run(&["edit", "--multigroup=maybe"]);
    assert_eq!(output.status.code(), Some(1));
    // The record contains the switches in their normalized form.
    assert!(dir.ok(&["upgrade"]).contains("No changes"));
}
