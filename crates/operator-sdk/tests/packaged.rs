//! Tests a scaffold with the packaged crates, as after a release: none of its files contains a path of the checkout.
//!
//! Works offline, with the crates in cargo's home directory. The crates of the SDK are compiled. Their dependencies are
//! those of this test.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{CREATE_MEMCACHED, Dir, cargo, sdk, succeeded, target_dir};
use serde_json::Value;

/// The variable that makes cargo search a directory for crates before the registry. It exists for cargo's own tests. No
/// documented option keeps the paths of all other crates, and therefore the compiled crates.
const OVERLAY: &str = "__CARGO_TEST_DEPENDENCY_CONFUSION_VULNERABILITY_DO_NOT_USE_THIS";

/// A registry with the packages of this workspace.
struct Registry {
    /// The path is new, because cargo does not unpack a package again that it has unpacked from the same path.
    directory: tempfile::TempDir,
    /// The directory in cargo's home with the unpacked packages.
    unpacked: Option<PathBuf>,
}

impl Registry {
    fn of_this_workspace() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // All other commands run offline, but the metadata of a project also contains crates for other platforms.
        let mut fetch = cargo();
        let fetched = fetch
            .args(["fetch", "--locked"])
            .current_dir(workspace())
            .output();
        succeeded(&["fetch"], fetched.unwrap());
        let mut package = cargo();
        package
            .args(["package", "--no-verify", "--allow-dirty", "--offline", "--locked"])
            .arg("--target-dir")
            .arg(directory.path());
        for name in published() {
            package.args(["--package", &name]);
        }
        let output = package.current_dir(workspace()).output().unwrap();
        succeeded(&["package"], output);
        Self {
            directory,
            unpacked: None,
        }
    }

    fn use_in(&self, command: &mut Command) {
        let path = self.directory.path().join("package/tmp-registry");
        command
            .env(
                OVERLAY,
                format!("sparse+https://index.crates.io/={}", path.display()),
            )
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", target_dir());
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if let Some(unpacked) = &self.unpacked {
            let _ = std::fs::remove_dir_all(unpacked);
        }
    }
}

fn workspace() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

/// Returns the packages in the output of `cargo metadata`.
fn packages(command: &mut Command) -> Vec<Value> {
    let output = command.args(["metadata", "--format-version=1"]).output().unwrap();
    let metadata: Value = serde_json::from_str(&succeeded(&["metadata"], output)).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn published() -> Vec<String> {
    let mut metadata = cargo();
    metadata.arg("--offline").current_dir(workspace());
    let members = packages(&mut metadata)
        .into_iter()
        .filter(|package| package["source"].is_null() && package["publish"] != serde_json::json!([]));
    members
        .map(|package| package["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
#[ignore = "slow: compiles the packaged crates and a project"]
fn a_project_is_built_from_the_packaged_crates() {
    let mut registry = Registry::of_this_workspace();
    let dir = Dir::named("packaged-operator");
    dir.ok(&["init", "--domain", "example.com"]);
    dir.ok(CREATE_MEMCACHED);
    dir.ok(&["edit", "--sdk-registry"]);
    assert!(!dir.path.join(".cargo/config.toml").exists());
    let checkout = workspace();
    for (path, text) in dir.files() {
        assert!(!text.contains(checkout.to_str().unwrap()), "{path}");
    }

    let mut metadata = cargo();
    registry.use_in(metadata.current_dir(&dir.path));
    for package in packages(&mut metadata) {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        assert!(!manifest.starts_with(&checkout), "{}", manifest.display());
        if package["name"] == "operator-runtime" {
            registry.unpacked = manifest.ancestors().nth(2).map(Path::to_owned);
        }
    }
    assert!(
        registry.unpacked.is_some(),
        "the project depends on the packaged runtime"
    );

    let manifests = dir.files();
    let mut generate = sdk();
    registry.use_in(generate.args(["generate", "manifests"]).current_dir(&dir.path));
    succeeded(&["generate", "manifests"], generate.output().unwrap());
    let crd = "config/crd/bases/cache.example.com_memcacheds.yaml";
    assert_eq!(dir.read(crd), manifests[crd]);

    let mut test = cargo();
    registry.use_in(test.args(["test", "--quiet", "--locked"]).current_dir(&dir.path));
    let said = succeeded(&["test"], test.output().unwrap());
    let passed = said
        .lines()
        .any(|line| line.starts_with("test result: ok.") && !line.contains(" 0 passed"));
    assert!(passed, "{said}");
}

/// Cargo excludes directories with a manifest from packages. The pages of the book and the code that they include are
/// links.
#[test]
fn every_template_and_page_is_in_the_package() {
    let mut list = cargo();
    list.args([
        "package",
        "--list",
        "--allow-dirty",
        "--offline",
        "--package",
        "operator-sdk",
    ]);
    let output = list.current_dir(workspace()).output().unwrap();
    let listed = succeeded(&["package", "--list"], output);
    let mut templates = BTreeMap::new();
    let crate_root = workspace().join("crates/operator-sdk");
    for folder in ["templates", "book/src", "book/code/website/controller"] {
        let before = templates.len();
        common::collect(&crate_root, &crate_root.join(folder), &mut templates);
        assert!(templates.len() > before, "{folder}");
    }
    for path in templates.keys() {
        assert!(
            listed.lines().any(|line| line == path),
            "{path} is not in the package"
        );
    }
}
