//! Tests of the tool on a terminal: prompts, and Ctrl-C.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use common::{Dir, sample_dir, target_dir};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// A terminal with a program in its foreground.
struct Terminal {
    /// `None` after the terminal has hung up.
    device: Option<File>,
    child: Child,
    shown: String,
}

// === impl Terminal ===

impl Terminal {
    /// Starts the tool in a new session that has this terminal.
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        Self::start_in(directory, arguments, &target_dir())
    }

    /// Starts the tool like [`start`](Self::start), with a target directory for its builds.
    fn start_in(directory: &Path, arguments: &[&str], target: &Path) -> Self {
        // Programs that inherit the device would prevent the terminal from hanging up.
        let device = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&device).unwrap();
        unlockpt(&device).unwrap();
        let name = ptsname(&device, Vec::new()).unwrap().into_string().unwrap();
        let side = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
        // Tests that run in the background of a shell ignore SIGINT, and the tool would inherit this.
        let child = Command::new("env")
            .args(["--default-signal=INT", "setsid", "--ctty", "--wait"])
            .arg(env!("CARGO_BIN_EXE_operator-sdk"))
            .args(arguments)
            .current_dir(directory)
            .env("CARGO_TARGET_DIR", target)
            .env(common::BUILD_CACHE, "")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .expect("env (coreutils) and setsid (util-linux) must be installed: this test does not skip");
        Self {
            device: Some(device.into()),
            child,
            shown: String::new(),
        }
    }

    /// Reads until the terminal shows a text.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        while !self.shown.contains(text) {
            assert!(self.read(), "{text:?} is missing: {}", self.shown);
        }
        let end = self.shown.find(text).unwrap() + text.len();
        self.shown.drain(..end);
    }

    /// Returns false at the end: Linux reports an error for a terminal that no program has open.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let device = self.device.as_mut().unwrap();
        let count = device.read(&mut bytes).unwrap_or(0);
        self.shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
        count > 0
    }

    fn types(&mut self, text: &str) {
        let device = self.device.as_mut().unwrap();
        device.write_all(text.as_bytes()).unwrap();
    }

    /// Reads to the end. Returns the exit status of the program, and its output.
    fn ends(mut self) -> (ExitStatus, String) {
        while self.read() {}
        (self.child.wait().unwrap(), std::mem::take(&mut self.shown))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that fails leaves no program behind: the hangup ends the tool, which ends its operator.
        self.device = None;
        let begin = std::time::Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < common::running::PATIENCE {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CTRL_C: &str = "\u{3}";

/// Returns the processes with a text in their command lines.
fn processes_with(text: &str) -> Vec<String> {
    let command_of = |entry: std::io::Result<std::fs::DirEntry>| {
        let bytes = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
    };
    let all = std::fs::read_dir("/proc").unwrap().filter_map(command_of);
    all.filter(|command| command.contains(text)).collect()
}

const CREATE: [&str; 8] = [
    "create",
    "api",
    "--group",
    "shop",
    "--version",
    "v1",
    "--kind",
    "Order",
];

#[test]
fn create_api_asks_what_was_not_said() {
    let dir = Dir::project();
    let mut terminal = Terminal::start(&dir.path, &CREATE);
    terminal.shows("Create Resource [Y/n]? ");
    terminal.types("perhaps\n");
    terminal.shows("Create Resource [Y/n]? ");
    terminal.types("\n");
    terminal.shows("Create Controller [Y/n]? ");
    terminal.types("n\n");
    let (status, shown) = terminal.ends();
    assert!(status.success(), "{shown}");
    let files = dir.files();
    assert!(files.contains_key("src/api/v1/order_types.rs"));
    assert!(!files.contains_key("src/controller/order_controller.rs"));

    // A prompt is not shown for a value that is given.
    let (status, shown) = Terminal::start(
        &dir.path,
        &[&CREATE[..], &["--resource=false", "--controller"]].concat(),
    )
    .ends();
    assert!(status.success() && !shown.contains("[Y/n]"), "{shown}");
    assert!(dir.files().contains_key("src/controller/order_controller.rs"));
}

#[test]
fn nothing_is_deleted_without_a_yes() {
    let dir = Dir::project();
    dir.ok(&CREATE);
    let before = dir.files();
    let delete: Vec<&str> = ["delete"].iter().chain(&CREATE[1..]).copied().collect();
    for answer in ["\n", "no\n"] {
        let mut terminal = Terminal::start(&dir.path, &delete);
        terminal.shows("src/api/v1/order_types.rs");
        terminal.shows("Remove them [y/N]? ");
        terminal.types(answer);
        let (status, shown) = terminal.ends();
        assert!(
            status.success() && shown.contains("Nothing was removed."),
            "{shown}"
        );
        assert_eq!(dir.files(), before);
    }
    let mut terminal = Terminal::start(&dir.path, &delete);
    terminal.shows("Remove them [y/N]? ");
    terminal.types("y\n");
    assert!(terminal.ends().0.success());
    assert!(!dir.files().contains_key("src/api/v1/order_types.rs"));
}

#[test]
fn ctrl_c_at_a_question_changes_nothing() {
    let dir = Dir::project();
    let before = dir.files();
    let mut terminal = Terminal::start(&dir.path, &CREATE);
    terminal.shows("Create Resource [Y/n]? ");
    terminal.types(CTRL_C);
    let (status, shown) = terminal.ends();
    assert!(!status.success(), "{shown}");
    assert_eq!(dir.files(), before);
}

/// Creates a project whose build never ends.
fn endless() -> Dir {
    let dir = Dir::project();
    dir.write(
        "Cargo.toml",
        "[package]\nname = \"memcached-operator\"\nversion = \"0.0.1\"\nedition = \"2024\"\n[workspace]\n",
    );
    dir.write(
        "build.rs",
        "fn main() { loop { std::thread::sleep(std::time::Duration::from_secs(1)); } }\n",
    );
    dir.write("src/lib.rs", "");
    dir.write("src/main.rs", "fn main() {}\n");
    std::fs::remove_file(dir.path.join("Cargo.lock")).unwrap();
    dir
}

#[test]
fn ctrl_c_ends_a_build_and_all_of_its_processes() {
    for (command, code) in [("run local", 130), ("dev", 0)] {
        let dir = endless();
        let target = dir.path.join("target");
        let kubeconfig = dir.path.join("kubeconfig");
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.extend(["--embedded", "--kubeconfig", kubeconfig.to_str().unwrap()]);
        let mut terminal = Terminal::start_in(&dir.path, &arguments, &target);
        let target = target.to_str().unwrap();
        let begin = std::time::Instant::now();
        while processes_with(&format!("{target}/debug/build")).is_empty() {
            assert!(begin.elapsed() < common::running::PATIENCE, "nothing is built");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        terminal.types(CTRL_C);
        let (status, shown) = terminal.ends();
        assert_eq!(status.code(), Some(code), "{command}: {shown}");
        assert!(!shown.contains("does not build"), "{shown}");
        // A killed compiler may take a moment to exit.
        let begin = std::time::Instant::now();
        while !processes_with(target).is_empty() {
            let left = processes_with(target);
            assert!(begin.elapsed() < common::running::PATIENCE, "{command}: {left:?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(!kubeconfig.exists(), "{command}");
    }
}

#[test]
#[ignore = "slow: builds and runs the sample"]
fn a_test_that_fails_leaves_no_operator_behind() {
    let own = format!("--leader-election-namespace=fails-{}", std::process::id());
    let failing = std::panic::AssertUnwindSafe(|| {
        let dir = Dir::named("terminal");
        let kubeconfig = dir.path.join("kubeconfig");
        let mut arguments = vec!["run", "local", "--embedded"];
        arguments.extend(["--kubeconfig", kubeconfig.to_str().unwrap(), "--", &own]);
        let mut terminal = Terminal::start(&sample_dir(), &arguments);
        terminal.shows("Starting workers");
        std::panic::resume_unwind(Box::new("a failed assertion"));
    });
    assert!(std::panic::catch_unwind(failing).is_err());
    assert_eq!(processes_with(&own), Vec::<String>::new());
}

#[test]
#[ignore = "slow: builds and runs the sample"]
fn ctrl_c_ends_the_operator_with_the_tool() {
    for (command, runs) in [
        ("run local", "Starting workers"),
        ("dev", "dev: the operator is running"),
    ] {
        let dir = Dir::named("terminal");
        let kubeconfig = dir.path.join("kubeconfig");
        let mut arguments: Vec<&str> = command.split(' ').collect();
        let own = format!("--leader-election-namespace=ends-{}", std::process::id());
        arguments.extend(["--embedded", "--kubeconfig", kubeconfig.to_str().unwrap()]);
        arguments.extend(["--", "--health-probe-bind-address=0", &own]);
        let mut terminal = Terminal::start(&sample_dir(), &arguments);
        terminal.shows(runs);
        // A program has no command line at the moment in which it replaces the process that started it.
        let begin = std::time::Instant::now();
        while processes_with(&own).len() != 2 {
            let seen = processes_with(&own);
            assert!(
                begin.elapsed() < common::running::PATIENCE,
                "tool and operator: {seen:?}"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        terminal.types(CTRL_C);
        let (status, shown) = terminal.ends();
        assert_eq!(status.code(), Some(0), "{command}: {shown}");
        assert_eq!(processes_with(&own), Vec::<String>::new(), "{command}");
        assert!(!kubeconfig.exists(), "{command}");
    }
}
