//! Tests of the shell sessions in the book: the commands in the `console` blocks of a page are run, and their output is
//! compared.
//!
//! A page takes part if it has a comment `<!-- session … -->`; the lines in such a comment are commands that readers do not
//! see. All commands of a page run in one bash, in an empty directory, which has the same path for all pages. `$CHECKOUT` is the
//! root of the repository. A page that copies a sample with `cp -a` must not change its Rust files: the path and the times of
//! the files are those of the page before, so that cargo uses the builds of that page.
//!
//! * A code block after a line with a path, such as "`src/lib.rs`:", is written to that file. A Rust file that begins
//!   with `//!` is replaced completely. The items of other blocks replace those with the same first line, or are added.
//! * A line `...` matches any number of lines. A command without output in the page may print anything, and must
//!   succeed.
//! * The progress of cargo is omitted.
//! * Ages, times, generated names, ports and UIDs may differ, and so may the widths of columns.
//! * For a command that ends with `&`, the initial output is compared. It is stopped at the end of the page.
//! * `kubectl get` and `curl` are repeated until they print the output in the page.
//!
//! `UPDATE_SESSIONS=1 cargo test -p operator-sdk --test sessions -- --ignored` writes output that differs into the
//! pages, and also replaces lines `?`. `SESSION=start/memcached` runs one page.

#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::blocks::{self, Block};
use common::running::PATIENCE;
use common::{Dir, target_dir};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// The home directory of a reader, in the pages.
const HOME: &str = "/home/me";

/// A character that precedes the exit code of a command.
const END: char = '\u{1}';

/// Maximum duration of a command. The first build of a project compiles the library.
const LIMIT: Duration = Duration::from_secs(600);

/// A step of a page.
#[derive(Debug, PartialEq)]
enum Step {
    /// A command.
    Run {
        command: String,
        /// The range of lines in the page with the expected output: the first line, and the line after the last.
        lines: (usize, usize),
    },
    /// A code block for a file of the project.
    Write(Block),
}

/// Returns the steps of a page in a directory, or `None` if it has no session.
fn steps(page: &str, folder: &Path) -> Option<Vec<Step>> {
    let lines: Vec<&str> = page.lines().collect();
    let mut steps: Vec<Step> = Vec::new();
    let mut is_session = false;
    let mut at = 0;
    while at < lines.len() {
        if let Some(first) = lines[at].strip_prefix("<!-- session") {
            is_session = true;
            at += 1;
            while !first.contains("-->") && lines[at] != "-->" {
                let first = lines[at];
                let command = command(&lines, &mut at, first);
                let lines = (at, at);
                steps.push(Step::Run { command, lines });
            }
        } else if lines[at] == "```console" {
            at += 1;
            while lines[at] != "```" {
                let first = lines[at].strip_prefix("$ ");
                let first = first.unwrap_or_else(|| panic!("line {}: a command begins with $", at + 1));
                let command = command(&lines, &mut at, first);
                let begin = at;
                while lines[at] != "```" && !lines[at].starts_with("$ ") {
                    at += 1;
                }
                let lines = (begin, at);
                steps.push(Step::Run { command, lines });
            }
        } else if is_session
            && lines[at].starts_with("```")
            && let Some((block, end)) = blocks::block(&lines, at, folder)
        {
            steps.push(Step::Write(block));
            at = end - 1;
        }
        at += 1;
    }
    is_session.then_some(steps)
}

/// Returns the command that begins with this line, including its continuation lines.
fn command(lines: &[&str], at: &mut usize, first: &str) -> String {
    let mut command = first.to_owned();
    *at += 1;
    while command.ends_with('\\') {
        command = format!("{command}\n{}", lines[*at]);
        *at += 1;
    }
    if first.contains("<<EOF") {
        loop {
            command = format!("{command}\n{}", lines[*at]);
            *at += 1;
            if command.ends_with("\nEOF") {
                break;
            }
        }
    }
    command
}

/// A bash that runs commands in sequence.
struct Shell {
    child: Child,
    lines: Receiver<String>,
    directory: PathBuf,
    background: usize,
}

impl Shell {
    fn start(directory: &Path, checkout: &Path) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_operator-sdk"));
        let path = std::env::var("PATH").unwrap();
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc"])
            .current_dir(directory)
            .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
            .env("CARGO_TARGET_DIR", target_dir())
            .env("CARGO_TERM_COLOR", "never")
            .env("CARGO_NET_OFFLINE", "true")
            .env(common::BUILD_CACHE, "")
            .env("KUBECACHEDIR", "/dev/null")
            .env("CHECKOUT", checkout)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        // With the environment that describes the package under test, build scripts would run again.
        for (name, _) in std::env::vars() {
            if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
            {
                bash.env_remove(name);
            }
        }
        let mut child = bash.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                if line.is_err() || sender.send(line.unwrap_or_default()).is_err() {
                    break;
                }
            }
        });
        let directory = directory.to_owned();
        Self {
            child,
            lines,
            directory,
            background: 0,
        }
    }

    /// Runs a command. Returns its output and its exit code.
    fn run(&mut self, command: &str) -> (Vec<String>, i32) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(
            input,
            "(exit ${{code:-0}}); {{ {command}\n}} </dev/null 2>&1; code=$?; printf '\\n\\001%s\\n' $code"
        )
        .unwrap();
        let mut output = Vec::new();
        let begin = Instant::now();
        loop {
            let left = LIMIT.saturating_sub(begin.elapsed());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("{command}: {error} after {output:#?}"));
            if let Some(code) = line.strip_prefix(END) {
                // The line break before the exit code ends the last line of the output, or is an empty line.
                if output.last().is_some_and(String::is_empty) {
                    output.pop();
                }
                return (output, code.parse().unwrap());
            }
            if !is_progress(&line) {
                output.push(line.replace(self.directory.to_str().unwrap(), HOME));
            }
        }
    }

    /// Returns the directory in which the next command runs.
    fn working_directory(&mut self) -> PathBuf {
        let (lines, _) = self.run("pwd");
        let line = lines.first().unwrap();
        PathBuf::from(line.replacen(HOME, self.directory.to_str().unwrap(), 1))
    }

    /// Starts a command that runs until the end of the page. Returns the file with its output.
    fn start_in_background(&mut self, command: &str) -> PathBuf {
        self.background += 1;
        let log = self.directory.join(format!(".background-{}", self.background));
        let command = command.trim_end_matches('&');
        self.run(&format!("{command} >{} 2>&1 &", log.display()));
        log
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let _ = group.map(|group| kill_process_group(group, Signal::TERM));
        // `run local` stops its operator, which is in another process group, before it exits.
        let begin = Instant::now();
        let is_left = |child: &mut Child| {
            let _ = child.try_wait();
            group.is_some_and(|group| test_kill_process_group(group).is_ok())
        };
        while is_left(&mut self.child) && begin.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let _ = self.child.wait();
    }
}

/// Runs a command until its output is as expected, and returns the last output.
fn output(shell: &mut Shell, command: &str, expected: &[&str]) -> Vec<String> {
    let patience = if expected == ["?"] { PATIENCE / 4 } else { PATIENCE };
    let begin = Instant::now();
    let is_in_background = command.ends_with('&') && !command.ends_with("&&");
    let log = is_in_background.then(|| shell.start_in_background(command));
    let is_repeated = ["kubectl get", "kubectl -n", "curl"]
        .iter()
        .any(|begin| command.starts_with(begin));
    loop {
        let (lines, code) = match &log {
            Some(log) => {
                let text = std::fs::read_to_string(log).unwrap_or_default();
                let text = text.replace(shell.directory.to_str().unwrap(), HOME);
                let lines = text.lines().filter(|line| !is_progress(line));
                (lines.map(str::to_owned).collect(), 0)
            }
            None => shell.run(command),
        };
        let is_expected = if expected.is_empty() {
            code == 0
        } else {
            matches(expected, &lines)
        };
        if is_expected || !(is_repeated || is_in_background) || begin.elapsed() > patience {
            assert!(
                code == 0 || !expected.is_empty(),
                "{command} failed:\n{}",
                lines.join("\n")
            );
            return lines;
        }
        // Simulates a user who runs the command again, because no event announces the change.
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns true for the lines in which cargo reports its progress, which depend on the crates that are already
/// compiled.
fn is_progress(line: &str) -> bool {
    let word = line
        .strip_prefix("  ")
        .map(str::trim_start)
        .and_then(|line| line.split(' ').next());
    word.is_some_and(|word| {
        [
            "Compiling",
            "Finished",
            "Running",
            "Blocking",
            "Locking",
            "Adding",
            "Doc-tests",
        ]
        .contains(&word)
    })
}

/// Returns true if the output is as expected. `...` matches any number of lines.
fn matches(expected: &[&str], actual: &[String]) -> bool {
    match (expected.split_first(), actual.split_first()) {
        (None, None) => true,
        (Some((&"...", rest)), _) => (0..=actual.len()).any(|skipped| matches(rest, &actual[skipped..])),
        (Some((line, rest)), Some((first, others))) => {
            pattern(line) == pattern(first) && matches(rest, others)
        }
        _ => false,
    }
}

/// Returns the line with placeholders for everything that differs between runs.
fn pattern(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let bare = word.trim_matches(['(', ')', ',', '.', ';', '"']);
        if is_time(bare) {
            return "TIME".to_owned();
        }
        let parts = word.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
        parts.map(part).collect()
    });
    words.collect::<Vec<String>>().join(" ")
}

/// Returns true for `12s`, `2m30s`, `0.35s`, `2026-01-31T12:00:00Z`.
fn is_time(word: &str) -> bool {
    let is_age = word.starts_with(|c: char| c.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h', 'd'])
        && word.chars().all(|c| c.is_ascii_digit() || ".msµhd".contains(c));
    let is_date = word.starts_with("20") && word.contains('T') && word.matches(['-', ':']).count() >= 4;
    is_age || is_date
}

/// Returns a placeholder for a part of a word that is generated: a suffix of a name, a port, a part of a UID.
fn part(part: &str) -> String {
    let bare = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_name =
        (5..=10).contains(&bare.len()) && bare.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c));
    let is_number = bare.len() >= 5 && bare.chars().all(|c| c.is_ascii_digit());
    let is_hexadecimal = bare.len() >= 8
        && bare.chars().all(|c| c.is_ascii_hexdigit())
        && bare.contains(|c: char| c.is_ascii_digit());
    if is_name || is_number || is_hexadecimal {
        part.replace(bare, "GENERATED")
    } else {
        part.to_owned()
    }
}

/// Runs the session of a page. Returns the page with the actual output, and the locations that differ.
fn run(page: &str, folder: &Path, checkout: &Path, home: &Path) -> Option<(String, Vec<String>)> {
    let steps = steps(page, folder)?;
    let _ = std::fs::remove_dir_all(home);
    std::fs::create_dir(home).unwrap();
    let mut shell = Shell::start(home, checkout);
    let lines: Vec<&str> = page.lines().collect();
    let mut written: Vec<String> = Vec::new();
    let mut copied = 0;
    let mut differences = Vec::new();
    for step in &steps {
        let (command, (begin, end)) = match step {
            Step::Run { command, lines } => (command, *lines),
            Step::Write(block) => {
                block.write(&shell.working_directory());
                continue;
            }
        };
        let expected = &lines[begin..end];
        let actual = output(&mut shell, command, expected);
        written.extend(lines[copied..begin].iter().map(|line| (*line).to_owned()));
        copied = end;
        if expected.is_empty() || matches(expected, &actual) {
            written.extend(expected.iter().map(|line| (*line).to_owned()));
        } else {
            differences.push(format!(
                "$ {command}\n--- the page\n{}\n--- the command\n{}\n",
                expected.join("\n"),
                actual.join("\n")
            ));
            written.extend(actual);
        }
    }
    written.extend(lines[copied..].iter().map(|line| (*line).to_owned()));
    drop(shell);
    for sample in copied_samples(&steps) {
        for folder in ["src", "tests"] {
            let original = checkout.join("samples").join(sample).join(folder);
            let copy = home.join(sample).join(folder);
            let same = Command::new("diff").arg("-r").args([&original, &copy]).status();
            assert!(
                same.is_ok_and(|status| status.success()),
                "the page changes Rust files of {sample}: copy it with `cp -r`"
            );
        }
    }
    Some((written.join("\n") + "\n", differences))
}

/// Returns the samples that the steps copy with their times.
fn copied_samples(steps: &[Step]) -> Vec<&str> {
    let commands = steps.iter().filter_map(|step| match step {
        Step::Run { command, .. } => Some(command),
        Step::Write(_) => None,
    });
    let copied = commands.filter_map(|command| {
        command
            .strip_prefix("cp -a $CHECKOUT/samples/")?
            .strip_suffix(" .")
    });
    copied.collect()
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
#[ignore = "slow: builds and runs the operators of the book"]
fn the_commands_of_the_book_print_what_it_shows() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let book = checkout.join("docs/book/src");
    let mut found = Vec::new();
    pages(&book, &mut found);
    found.sort();
    let only = std::env::var("SESSION").ok();
    let is_update = std::env::var("UPDATE_SESSIONS").is_ok();
    let home = Dir::named("me");
    let mut sessions = 0;
    let mut failures = Vec::new();
    for path in found {
        let name = path.strip_prefix(&book).unwrap().with_extension("");
        if only.as_ref().is_some_and(|only| Path::new(only) != name) {
            continue;
        }
        let page = std::fs::read_to_string(&path).unwrap();
        let Some((written, differences)) = run(&page, path.parent().unwrap(), &checkout, &home.path) else {
            continue;
        };
        sessions += 1;
        if is_update {
            std::fs::write(&path, written).unwrap();
        } else {
            failures.extend(
                differences
                    .into_iter()
                    .map(|text| format!("{}:\n{text}", name.display())),
            );
        }
    }
    assert!(sessions > 0, "no page has a session");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn commands_are_found_with_their_output() {
    let page = "<!-- session\ncp a b\n-->\n```console\n$ one \\\n    more\nout\n$ cat <<EOF\nx\nEOF\n```\n```sh\n$ no\n```\n";
    let folder = Path::new(".");
    let step = |command: &str, lines| Step::Run {
        command: command.to_owned(),
        lines,
    };
    assert_eq!(
        steps(page, folder).unwrap(),
        [
            step("cp a b", (2, 2)),
            step("one \\\n    more", (6, 7)),
            step("cat <<EOF\nx\nEOF", (10, 10)),
        ]
    );
    assert_eq!(steps("```console\n$ ls\n```\n", folder), None);
}

#[test]
fn blocks_of_code_are_written_to_their_files() {
    let directory = Dir::named("blocks");
    directory.write(
        "part.rs",
        "// ANCHOR: one\nfn one() {\n    1;\n}\n// ANCHOR_END: one\nfn two() {}\n",
    );
    let page = "<!-- session -->\n`a.rs`:\n\n```rust\n//! A.\n\nconst A: u8 = 1;\n\n/// Zero.\nfn one() {\n    0;\n}\n```\n\
                Then `a.rs` again.\n\n`a.rs`:\n```rust\n{{#include part.rs:one}}\n\nfn three() {}\n```\n```rust\nno\n```\n";
    for step in steps(page, &directory.path).unwrap() {
        let Step::Write(block) = step else {
            panic!("{step:?}")
        };
        block.write(&directory.path);
    }
    assert_eq!(
        directory.read("a.rs"),
        "//! A.\n\nconst A: u8 = 1;\n\nfn one() {\n    1;\n}\n\nfn three() {}\n"
    );
}

#[test]
fn only_what_is_generated_may_differ() {
    let same = |a: &str, b: &str| {
        let lines: Vec<&str> = a.lines().collect();
        let actual: Vec<String> = b.lines().map(str::to_owned).collect();
        matches(&lines, &actual)
    };
    assert!(same(
        "web-6474bcfc47-dwhk8   1/1   Running   6s",
        "web-xkqzf99cdd-zzzzz 1/1 Running 2m30s"
    ));
    assert!(same("listens on 127.0.0.1:34567", "listens on 127.0.0.1:45678"));
    assert!(same("a\n...\nd", "a\nb\nc\nd"));
    assert!(same(
        "at: \"2026-01-31T12:00:00Z\"",
        "at: \"2026-01-31T12:00:01Z\""
    ));
    assert!(same("at 2026-01-31T12:00:00Z", "at 2027-10-01T02:00:00.5Z"));
    assert!(!same("web 1/1", "web 0/1"));
    assert!(!same("a\n...\nd", "a\nb"));
    assert!(!same("size 3s", "size three"));
    assert!(!same("a", "a\nb"));
}
