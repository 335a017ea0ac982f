//! [`Dir`], a project in a temporary directory, and the commands that a user would run there.

#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

pub mod blocks;
pub mod registry;
pub mod running;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command that creates the memcached operator of the tutorial, as in the README.
pub const CREATE_MEMCACHED: &[&str] = &[
    "create",
    "api",
    "--group",
    "cache",
    "--version",
    "v1alpha1",
    "--kind",
    "Memcached",
    "--image",
    "memcached:1.6.26-alpine3.19",
    "--image-container-command",
    "memcached,--memory-limit=64,-o,modern,-v",
    "--image-container-port",
    "11211",
    "--run-as-user",
    "1001",
];

/// A directory that is removed when the value is dropped.
pub struct Dir {
    _root: tempfile::TempDir,
    pub path: PathBuf,
}

impl Dir {
    /// Creates an empty directory with this name.
    pub fn named(name: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(name);
        std::fs::create_dir(&path).unwrap();
        Self { _root: root, path }
    }

    /// Creates a new project with the SDK of this checkout.
    pub fn project() -> Self {
        Self::project_with(&[])
    }

    /// Creates a new project with additional flags.
    pub fn project_with(flags: &[&str]) -> Self {
        let dir = Self::named("memcached-operator");
        let init = [
            "init",
            "--domain",
            "example.com",
            "--repo",
            "github.com/example/memcached-operator",
        ];
        dir.ok(&[&init, flags].concat());
        dir
    }

    /// Creates a new project with this name, which is built in the target directory of this workspace. Cargo treats
    /// projects of the same name in one target directory as the same project, so each one needs its own name.
    pub fn built(name: &str) -> Self {
        let dir = Self::named(name);
        dir.ok(&[
            "init",
            "--domain",
            "example.com",
            "--repo",
            "github.com/example/operator",
        ]);
        dir
    }

    /// Replaces a text in a file, which must contain it.
    #[track_caller]
    pub fn replace(&self, path: &str, old: &str, new: &str) {
        let text = self.read(path);
        assert!(text.contains(old), "{old:?} is not in {path}: {text}");
        self.write(path, &text.replace(old, new));
    }

    /// Runs the tool in this directory.
    pub fn run(&self, arguments: &[&str]) -> Output {
        sdk().args(arguments).current_dir(&self.path).output().unwrap()
    }

    /// Runs the tool in this directory, checks that it succeeds, and returns its output.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> String {
        succeeded(arguments, self.run(arguments))
    }

    /// Runs the tool in this directory, and checks that it fails with exit code 1, one line and a hint, and changes
    /// nothing.
    #[track_caller]
    pub fn fails(&self, arguments: &[&str]) -> String {
        let before = self.files();
        let output = self.run(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        let lines: Vec<&str> = errors.lines().collect();
        assert_eq!(lines.len(), 2, "one line and a hint: {errors}");
        assert!(lines[0].starts_with("error: "), "{errors}");
        assert_eq!(errors.matches("error: ").count(), 1, "one label: {errors}");
        assert!(lines[1].starts_with("hint: "), "{errors}");
        assert_eq!(self.files(), before, "nothing is written");
        errors
    }

    /// Returns every file with its text.
    pub fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        collect(&self.path, &self.path, &mut files);
        files
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path.join(path)).unwrap()
    }

    /// Removes a directory if it exists.
    pub fn remove(&self, path: &str) {
        let _ = std::fs::remove_dir_all(self.path.join(path));
    }

    /// Writes a file, and creates its parent directories.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.path.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Asserts that two trees have the same files. The message contains only the differences.
#[track_caller]
pub fn assert_same(left: &BTreeMap<String, String>, right: &BTreeMap<String, String>, what: &str) {
    assert_eq!(
        left.keys().collect::<Vec<_>>(),
        right.keys().collect::<Vec<_>>(),
        "{what}"
    );
    for (path, text) in left {
        assert_eq!(text, &right[path], "{what}: {path}");
    }
}

/// Returns cargo's target directory. Operators of tests are built there too, because their dependencies are already
/// compiled.
pub fn target_dir() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_operator-sdk"));
    program.parent().unwrap().parent().unwrap().to_owned()
}

/// Returns the directory of the sample project. Tests build other projects with its name in the same target directory,
/// and cargo treats those as builds of this project if they are newer than its sources.
pub fn sample_dir() -> PathBuf {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/memcached-operator");
    let library = std::fs::File::options()
        .append(true)
        .open(sample.join("src/lib.rs"))
        .unwrap();
    library.set_modified(std::time::SystemTime::now()).unwrap();
    sample.canonicalize().unwrap()
}

/// Returns the digest of content, in the form that images use.
pub fn digest(bytes: &[u8]) -> String {
    use sha2::Digest;
    let hash = sha2::Sha256::digest(bytes);
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

/// Checks that a program has succeeded, and returns its output.
#[track_caller]
pub fn succeeded(arguments: &[&str], output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?} failed: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a command that runs the tool under test.
pub fn sdk() -> Command {
    let mut sdk = Command::new(env!("CARGO_BIN_EXE_operator-sdk"));
    sdk.env(BUILD_CACHE, "");
    sdk
}

/// The variable with the directory of compiled dependencies. They are not stored if it is empty.
pub const BUILD_CACHE: &str = "OPERATOR_SDK_BUILD_CACHE";

/// Returns a cargo command without the environment that describes the package under test, because build scripts would
/// run again for it.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    let describes = |name: &str| {
        ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    for (name, _) in std::env::vars().filter(|(name, _)| describes(name)) {
        cargo.env_remove(name);
    }
    cargo
}

/// Returns a kubectl command without a discovery cache. The cache is stored by address, and a later control plane may
/// get the port of an earlier one in which kinds had another scope.
pub fn kubectl_command() -> Command {
    let mut command = Command::new("kubectl");
    command.env("KUBECACHEDIR", "/dev/null");
    command
}

/// Runs the real kubectl. If it is not installed, the test fails.
#[track_caller]
pub fn kubectl(arguments: &[&str], dir: &Path) -> String {
    let output = kubectl_command()
        .args(arguments)
        .current_dir(dir)
        .output()
        .expect("kubectl must be installed: this test does not skip");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "kubectl {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Collects the files below a directory, except for those that a build creates.
pub fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        // Skips the files that an upgrade needs, and files that are not committed.
        if [".cargo", ".operator-sdk", ".git"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() && name != "target" {
            collect(root, &path, files);
        } else if path.is_file() {
            files.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
}
