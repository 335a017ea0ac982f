//! A project in a directory of its own, and the commands that a user would type in it.

#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

pub mod blocks;
pub mod registry;
pub mod running;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The memcached operator of the tutorial, as the README makes it.
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

/// A directory that is removed with the value.
pub struct Dir {
    _root: tempfile::TempDir,
    pub path: PathBuf,
}

impl Dir {
    /// An empty directory of this name.
    pub fn named(name: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(name);
        std::fs::create_dir(&path).unwrap();
        Self { _root: root, path }
    }

    /// A new project, with the SDK of this checkout.
    pub fn project() -> Self {
        Self::project_with(&[])
    }

    /// A new project, made with more flags.
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

    /// A new project of this name that is built where this workspace is. Cargo takes projects of one name in one target
    /// directory for each other, so each has its own.
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

    /// Puts another text where one stands in a file.
    #[track_caller]
    pub fn replace(&self, path: &str, old: &str, new: &str) {
        let text = self.read(path);
        assert!(text.contains(old), "{old:?} is not in {path}: {text}");
        self.write(path, &text.replace(old, new));
    }

    /// Runs the tool here.
    pub fn run(&self, arguments: &[&str]) -> Output {
        sdk().args(arguments).current_dir(&self.path).output().unwrap()
    }

    /// Runs the tool here, and it must succeed; what it printed.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> String {
        succeeded(arguments, self.run(arguments))
    }

    /// Runs the tool here, and it must fail with exit code 1, one line and a hint, and change nothing.
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

    /// Every file with its text.
    pub fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        collect(&self.path, &self.path, &mut files);
        files
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path.join(path)).unwrap()
    }

    /// Removes a folder, if it is there.
    pub fn remove(&self, path: &str) {
        let _ = std::fs::remove_dir_all(self.path.join(path));
    }

    /// Writes a file, and the folders that lead to it.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.path.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Two trees have the same files; what differs is named, not all that is there.
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

/// The target directory of cargo. Operators of tests are built there too: their dependencies are compiled already.
pub fn target_dir() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_operator-sdk"));
    program.parent().unwrap().parent().unwrap().to_owned()
}

/// The sample project. Tests build other projects of its name in the same target directory, and cargo takes those for builds
/// of this one if they are newer than its sources.
pub fn sample_dir() -> PathBuf {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/memcached-operator");
    let library = std::fs::File::options()
        .append(true)
        .open(sample.join("src/lib.rs"))
        .unwrap();
    library.set_modified(std::time::SystemTime::now()).unwrap();
    sample.canonicalize().unwrap()
}

/// The digest of content, as images name it.
pub fn digest(bytes: &[u8]) -> String {
    use sha2::Digest;
    let hash = sha2::Sha256::digest(bytes);
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

/// A program must have succeeded; what it printed.
#[track_caller]
pub fn succeeded(arguments: &[&str], output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?} failed: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The tool under test.
pub fn sdk() -> Command {
    let mut sdk = Command::new(env!("CARGO_BIN_EXE_operator-sdk"));
    sdk.env(BUILD_CACHE, "");
    sdk
}

/// The directory of compiled dependencies, which are not kept if it is empty.
pub const BUILD_CACHE: &str = "OPERATOR_SDK_BUILD_CACHE";

/// Cargo, without the environment that describes the package under test: build scripts would run again for it.
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

/// kubectl without its discovery cache: it is kept by address, and a later control plane may get the port of an
/// earlier one whose kinds had another scope.
pub fn kubectl_command() -> Command {
    let mut command = Command::new("kubectl");
    command.env("KUBECACHEDIR", "/dev/null");
    command
}

/// The real kubectl; a machine without it fails the test.
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

/// Reads the files under a folder, without what a build leaves there.
pub fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        // The files that an upgrade needs, and files that are not committed.
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
