//! `samples/memcached-operator` is what the tool writes, file for file.
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

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The directory of the sample; written anew first if that was asked for.
fn sample() -> PathBuf {
    static ONCE: Once = Once::new();
    let directory = workspace().join("samples/memcached-operator");
    ONCE.call_once(|| {
        if std::env::var_os("UPDATE_SAMPLES").is_some() {
            update(&directory);
        }
    });
    directory
}

fn files_of(directory: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    common::collect(directory, directory, &mut files);
    files
}

fn written() -> BTreeMap<String, String> {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    dir.files()
}

fn update(directory: &Path) {
    for path in files_of(directory).keys() {
        std::fs::remove_file(directory.join(path)).unwrap();
    }
    for (path, text) in written() {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    // Cargo drops what the workspace's lock has for its tests alone, as it will at the first build of any project.
    cargo(directory, &["metadata", "--offline", "--format-version=1"]);
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
fn the_memcached_operator_is_what_the_tool_writes() {
    let without_lock = |mut files: BTreeMap<String, String>| {
        assert!(files.remove("Cargo.lock").is_some());
        files
    };
    let (committed, written) = (without_lock(files_of(&sample())), without_lock(written()));
    let paths = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(&committed), paths(&written), "{UPDATE}");
    for (path, text) in &written {
        assert_eq!(&committed[path], text, "{path}: {UPDATE}");
    }
}

/// The lock follows the workspace's, which changes more often than the templates; what counts is that no dependency
/// has a version of its own.
#[test]
fn the_lock_has_the_versions_of_the_workspace() {
    let lock = |directory: &Path| versions(&std::fs::read_to_string(directory.join("Cargo.lock")).unwrap());
    let (ours, sample) = (lock(&workspace()), lock(&sample()));
    assert!(sample.len() > 100, "{sample:?}");
    for package in sample.iter().filter(|(name, _)| name != "memcached-operator") {
        assert!(ours.contains(package), "{package:?}: {UPDATE}");
    }
}

fn versions(lock: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = lock.lines().collect();
    let value = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
    let named = lines.windows(2).filter(|pair| pair[0].starts_with("name = "));
    named.map(|pair| (value(pair[0]), value(pair[1]))).collect()
}

/// What the tool's own build compiled serves the sample: no crate has another version or other features there.
#[test]
fn the_sample_compiles_no_dependency_anew() {
    let tool = features(&workspace(), &["--package=operator-sdk"]);
    let sample = features(&sample(), &[]);
    assert!(sample.len() > 100, "{sample:?}");
    let ours = ["memcached-operator ", "operator-runtime ", "operator-macros "];
    let anew: Vec<&String> = sample
        .iter()
        .filter(|line| !ours.iter().any(|name| line.starts_with(name)) && !tool.contains(line))
        .collect();
    assert_eq!(
        anew,
        Vec::<&String>::new(),
        "these have other features than the tool gives them"
    );
}

/// One line a package: name, version and features.
fn features(directory: &Path, arguments: &[&str]) -> Vec<String> {
    let tree = [
        "tree",
        "--offline",
        "--locked",
        "--prefix=none",
        "--edges=normal,build",
        "--format={p} [{f}]",
    ];
    let text = cargo(directory, &[&tree, arguments].concat());
    let plain = |line: &str| line.replace(" (*)", "").replace(" (proc-macro)", "");
    let mut lines: Vec<String> = text.lines().map(plain).collect();
    lines.sort();
    lines.dedup();
    lines
}
