//! The projects in `samples`. The tool wrote memcached-operator, file for file. The others were scaffolded by the tool and
//! edited by hand: their source, tests, samples and README are their own, and the other files are what the tool writes.
//!
//! After a change of a template, or of the dependencies of the runtime:
//! `UPDATE_SAMPLES=1 cargo test -p operator-sdk --test samples`, and read the diff.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Once;

use common::{CREATE_MEMCACHED, Dir};

const UPDATE: &str = "set UPDATE_SAMPLES=1 to write the sample anew";

/// A project in `samples`, and the commands after `init` that scaffold it.
struct Sample {
    name: &'static str,
    commands: &'static [&'static [&'static str]],
    /// Nothing in it is edited by hand.
    is_scaffold: bool,
}

const SAMPLES: [Sample; 4] = [
    Sample {
        name: "memcached-operator",
        commands: &[CREATE_MEMCACHED],
        is_scaffold: true,
    },
    Sample {
        name: "website-operator",
        commands: &[
            &[
                "create",
                "api",
                "--group=web",
                "--version=v1alpha1",
                "--kind=Website",
                "--controller=false",
            ],
            &[
                "create",
                "api",
                "--group=web",
                "--version=v1",
                "--kind=Website",
                "--controller=true",
            ],
            &[
                "create",
                "webhook",
                "--group=web",
                "--version=v1",
                "--kind=Website",
                "--defaulting",
                "--programmatic-validation",
                "--conversion",
            ],
        ],
        is_scaffold: false,
    },
    Sample {
        name: "database-operator",
        commands: &[
            &["create", "api", "--group=db", "--version=v1", "--kind=Database"],
            &[
                "create",
                "api",
                "--group=db",
                "--version=v1",
                "--kind=Database",
                "--resource=false",
                "--controller-name=backup",
            ],
            &["create", "api", "--group=db", "--version=v1", "--kind=User"],
        ],
        is_scaffold: false,
    },
    Sample {
        name: "cronjob-operator",
        commands: &[
            &[
                "create",
                "api",
                "--group=batch",
                "--version=v1",
                "--kind=CronJob",
                "--resource",
                "--controller",
            ],
            &[
                "create",
                "webhook",
                "--group=batch",
                "--version=v1",
                "--kind=CronJob",
                "--defaulting",
                "--programmatic-validation",
            ],
        ],
        is_scaffold: false,
    },
];

impl Sample {
    /// Returns its directory, after updating it if that was asked for.
    fn directory(&self) -> PathBuf {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            if std::env::var_os("UPDATE_SAMPLES").is_some() {
                SAMPLES.iter().for_each(Self::update);
            }
        });
        self.path()
    }

    fn path(&self) -> PathBuf {
        workspace().join("samples").join(self.name)
    }

    /// Returns the files that the tool writes, with their texts.
    fn written(&self) -> BTreeMap<String, String> {
        let dir = Dir::named(self.name);
        let repo = format!("github.com/example/{}", self.name);
        let init = ["init", "--domain", "example.com", "--repo", &repo];
        dir.ok(&init);
        for command in self.commands {
            dir.ok(command);
        }
        self.unedited(dir.files())
    }

    /// Removes what is edited by hand, or generated from it.
    fn unedited(&self, mut files: BTreeMap<String, String>) -> BTreeMap<String, String> {
        const EDITED: [&str; 6] = [
            "src/",
            "tests/",
            "config/samples/",
            "config/crd/bases/",
            "README.md",
            "Cargo.",
        ];
        const GENERATED: [&str; 2] = ["config/rbac/role.yaml", "config/webhook/manifests.yaml"];
        let is_edited = |path: &str| {
            !self.is_scaffold
                && (EDITED.iter().any(|prefix| path.starts_with(prefix)) || GENERATED.contains(&path))
        };
        files.retain(|path, _| !is_edited(path));
        files
    }

    fn update(&self) {
        let directory = self.path();
        for path in self.unedited(files_of(&directory)).keys() {
            std::fs::remove_file(directory.join(path)).unwrap();
        }
        for (path, text) in self.written() {
            let path = directory.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        // The dependencies of the workspace, less what its tests alone need: Cargo drops that.
        let lock = |directory: &Path| directory.join("Cargo.lock");
        if !self.is_scaffold {
            std::fs::copy(lock(&workspace()), lock(&directory)).unwrap();
        }
        cargo(&directory, &["metadata", "--offline", "--format-version=1"]);
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files_of(directory: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    common::collect(directory, directory, &mut files);
    files
}

#[track_caller]
fn cargo(directory: &Path, arguments: &[&str]) -> String {
    let mut command = common::cargo();
    let Output {
        status,
        stdout,
        stderr,
    } = command.args(arguments).current_dir(directory).output().unwrap();
    assert!(status.success(), "{UPDATE}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[test]
fn samples_are_what_the_tool_writes() {
    for sample in &SAMPLES {
        let without_lock = |mut files: BTreeMap<String, String>| {
            files.remove("Cargo.lock");
            files
        };
        let committed = without_lock(sample.unedited(files_of(&sample.directory())));
        let written = without_lock(sample.written());
        common::assert_same(&committed, &written, &format!("{}: {UPDATE}", sample.name));
    }
}

#[test]
#[ignore = "slow: builds and tests the samples"]
fn tests_of_the_edited_samples_pass() {
    for sample in SAMPLES.iter().filter(|sample| !sample.is_scaffold) {
        let directory = sample.directory();
        let mut command = common::cargo();
        let command = command.args(["test", "--offline", "--locked", "--quiet"]);
        let output = command
            .env("CARGO_TARGET_DIR", common::target_dir())
            .current_dir(&directory);
        let Output {
            status,
            stdout,
            stderr,
        } = output.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            status.success(),
            "{}: {}{}",
            sample.name,
            text(&stdout),
            text(&stderr)
        );

        let mut command = common::sdk();
        let command = command.args(["generate", "manifests", "--dry-run"]);
        let output = command
            .env("CARGO_TARGET_DIR", common::target_dir())
            .current_dir(&directory);
        let output = output.output().unwrap();
        let difference = common::succeeded(&["generate", "manifests"], output);
        assert!(
            !difference.contains("+++"),
            "{}: run operator-sdk generate manifests: {difference}",
            sample.name
        );
    }
}

/// The number of plans for each sample in `chaos_tests_find_nothing`.
const PLANS: &str = "60";

#[test]
#[ignore = "slow: builds the samples with operator-chaos, and explores them"]
fn chaos_tests_find_nothing() {
    for sample in &SAMPLES {
        let mut command = common::cargo();
        command
            .args([
                "test",
                "--offline",
                "--locked",
                "--quiet",
                "--features=chaos",
                "--test=chaos",
            ])
            .args(["--", "--ignored", "--nocapture"])
            .env("CARGO_TARGET_DIR", common::target_dir())
            .env("OPERATOR_CHAOS_PLANS", PLANS)
            .env("OPERATOR_CHAOS_BUDGET", "3600")
            .current_dir(sample.directory());
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{}: {said}", sample.name);
        assert!(said.contains("1 passed"), "{}: {said}", sample.name);
    }
}

/// The lock follows the workspace's, which changes more often than the templates; what counts is that no dependency
/// has a version of its own.
#[test]
fn locks_have_the_versions_of_the_workspace() {
    let lock = |directory: &Path| versions(&std::fs::read_to_string(directory.join("Cargo.lock")).unwrap());
    let ours = lock(&workspace());
    for sample in &SAMPLES {
        let versions = lock(&sample.directory());
        assert!(versions.len() > 100, "{versions:?}");
        for package in versions.iter().filter(|(name, _)| name != sample.name) {
            assert!(ours.contains(package), "{}: {package:?}: {UPDATE}", sample.name);
        }
    }
}

fn versions(lock: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = lock.lines().collect();
    let value = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
    let named = lines.windows(2).filter(|pair| pair[0].starts_with("name = "));
    named.map(|pair| (value(pair[0]), value(pair[1]))).collect()
}

/// The dependencies that the build of the tool compiled are not compiled again for the sample with other features. `kube` alone may differ: it only names the other crates of kube, and operators need more of them.
#[test]
fn samples_compile_no_dependency_of_the_tool_anew() {
    fn package(line: &str) -> &str {
        line.split(" [").next().unwrap_or_default()
    }
    // Macros run where the compiler runs: what they depend on has features of its own, and what uses them depends on those.
    let of_macros = |directory: &Path, package: &[&str]| {
        let lines = features(directory, "normal,build", package);
        lines.into_iter().filter(|line| line.starts_with("syn "))
    };
    let all = |directory: &Path, package: &[&str]| {
        let mut lines = features(directory, "normal,no-proc-macro", package);
        lines.extend(of_macros(directory, package));
        lines
    };
    let tool = all(&workspace(), &["--package=operator-sdk"]);
    let of_tool: Vec<&str> = tool.iter().map(|line| package(line)).collect();
    for sample in &SAMPLES {
        let features = all(&sample.directory(), &[]);
        assert!(features.len() > 100, "{features:?}");
        let may_differ = |line: &str| line.starts_with("operator-") || line.starts_with("kube ");
        let is_new =
            |line: &&String| of_tool.contains(&package(line)) && !tool.contains(line) && !may_differ(line);
        let anew: Vec<&String> = features.iter().filter(is_new).collect();
        assert_eq!(
            anew,
            Vec::<&String>::new(),
            "{}: these have other features than the tool gives them",
            sample.name
        );
    }
}

/// One line a package: name, version and features.
fn features(directory: &Path, edges: &str, arguments: &[&str]) -> Vec<String> {
    let edges = format!("--edges={edges}");
    let tree = [
        "tree",
        "--offline",
        "--locked",
        "--prefix=none",
        &edges,
        "--format={p} [{f}]",
    ];
    let text = cargo(directory, &[&tree, arguments].concat());
    let plain = |line: &str| line.replace(" (*)", "").replace(" (proc-macro)", "");
    let mut lines: Vec<String> = text.lines().map(plain).collect();
    lines.sort();
    lines.dedup();
    lines
}
