//! Explores the project's operator by building and running its chaos test.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use operator_chaos::{Progress, Report as Findings};
use operator_controlplane::ProcessGroup;
use tokio::process::Command;

use super::screen::Screen;
use super::{Campaign, ChaosError};
use crate::args::SubjectArgs;
use crate::failure::Failure;
use crate::file;
use crate::process::cargo::{self, BuildOptions};
use crate::process::signal::Ends;
use crate::process::temporary::TemporaryDirectory;
use crate::project::{Project, layout};
use crate::report::Report;
use crate::run::scaffold::current_directory;

/// The file of the chaos test in a project.
pub(super) const FILE: &str = layout::CHAOS_TEST;
/// The test target, and the feature of the project that it needs.
const NAME: &str = "chaos";
/// The interval at which the progress is read.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum number of lines of the output in an error.
const LINES: usize = 8;

/// Builds and runs the chaos test. Returns `None` if a second signal ended it immediately.
pub(super) async fn run(
    campaign: &Campaign<'_>,
    subject: &SubjectArgs,
    ends: &mut Ends,
    report: &Report,
) -> Result<Option<Findings>, Failure> {
    let root = current_directory()?;
    let project = Project::read(&root)?;
    if project.tree.get(FILE).is_none() {
        return Err(ChaosError::NoTest(FILE).into());
    }
    let manifest = file::read_text(&root.join(layout::CARGO)).unwrap_or_default();
    let options = BuildOptions {
        release: subject.release,
        test: Some(NAME.to_owned()),
        arguments: match has_feature(&manifest) {
            true => vec!["--features".to_owned(), NAME.to_owned()],
            false => Vec::new(),
        },
        ..BuildOptions::default()
    };
    let Some(program) = cargo::build_until(&root, &options, ends.next()).await? else {
        return Ok(None);
    };
    let test = chosen(&program, subject.test.as_deref()).await?;
    let directory = TemporaryDirectory::create()?;
    let test = Test {
        program: &program,
        name: &test,
        root: &root,
        directory: directory.path(),
    };
    Ok(test.run(campaign, ends, report).await?)
}

/// Returns true if a manifest has the feature of the chaos test.
fn has_feature(manifest: &str) -> bool {
    let document: toml_edit::DocumentMut = manifest.parse().unwrap_or_default();
    let features = document.get("features");
    features.is_some_and(|features| features.get(NAME).is_some())
}

/// Returns the name of the test: the one that the user selected, or the only one.
async fn chosen(program: &Path, name: Option<&str>) -> Result<String, ChaosError> {
    let output = Command::new(program).args(["--list", "--format=terse"]).output();
    let output = output.await.map_err(|error| not_started(program, &error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
    let tests: Vec<String> = tests.map(str::to_owned).collect();
    match (name, tests.as_slice()) {
        (Some(name), _) if tests.iter().any(|test| test == name) => Ok(name.to_owned()),
        (Some(name), _) => Err(ChaosError::UnknownTest {
            name: name.to_owned(),
            tests,
        }),
        (None, [test]) => Ok(test.clone()),
        (None, []) => Err(ChaosError::NoTest("a function with #[test] in tests/chaos.rs")),
        (None, _) => Err(ChaosError::SeveralTests(tests)),
    }
}

fn not_started(program: &Path, error: &std::io::Error) -> ChaosError {
    ChaosError::Program {
        program: program.as_os_str().to_owned(),
        reason: error.to_string(),
    }
}

/// A test of the program that cargo built.
struct Test<'a> {
    program: &'a Path,
    name: &'a str,
    root: &'a Path,
    /// The directory of the files through which the test and this process communicate.
    directory: &'a Path,
}

// === impl Test ===

impl Test<'_> {
    async fn run(
        &self,
        campaign: &Campaign<'_>,
        ends: &mut Ends,
        report: &Report,
    ) -> Result<Option<Findings>, ChaosError> {
        let [result, progress, stop, log] =
            ["report.json", "progress.json", "stop", "log"].map(|name| self.directory.join(name));
        let output = File::create(&log).map_err(|error| super::unusable(&log, &error))?;
        let errors = output
            .try_clone()
            .map_err(|error| super::unusable(&log, &error))?;
        let mut command = Command::new(self.program);
        command
            .args(["--exact", self.name, "--include-ignored", "--nocapture"])
            .current_dir(self.root)
            .env("OPERATOR_CHAOS_REPORT", &result)
            .env("OPERATOR_CHAOS_PROGRESS", &progress)
            .env("OPERATOR_CHAOS_STOP", &stop)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        set(&mut command, campaign)?;
        let failed = |error: std::io::Error| not_started(self.program, &error);
        let group = ProcessGroup::start(Duration::ZERO).map_err(failed)?;
        let mut child = group.spawn(&mut command).map_err(failed)?;
        let mut screen = Screen::new();
        let mut looks = tokio::time::interval(LOOK);
        let mut is_stopped = false;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status.map_err(failed)?,
                _ = looks.tick() => {
                    if let Some(progress) = read::<Progress>(&progress).filter(|_| !is_stopped) {
                        screen.show(&progress);
                    }
                }
                () = ends.next() => {
                    screen.clear();
                    if is_stopped {
                        return Ok(None);
                    }
                    is_stopped = true;
                    std::fs::write(&stop, "").map_err(|error| super::unusable(&stop, &error))?;
                    report.progress("Stopping; press Ctrl-C again to end at once.");
                }
            }
        };
        screen.clear();
        match read::<Findings>(&result) {
            Some(found) => Ok(Some(found)),
            None => Err(ChaosError::NoReport(format!("{status}: {}", last_lines(&log)))),
        }
    }
}

/// Passes the settings of the command to `Chaos::from_env`.
fn set(command: &mut Command, campaign: &Campaign<'_>) -> Result<(), ChaosError> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(|error| super::unusable(path, &error));
    if let Some((path, _)) = &campaign.finding {
        command.env("OPERATOR_CHAOS_REPLAY", absolute(path)?);
    }
    let Some(args) = campaign.run else {
        return Ok(());
    };
    if let Some(workload) = &args.workload {
        command.env("OPERATOR_CHAOS_WORKLOAD", absolute(workload)?);
    }
    let numbers = [
        (
            "OPERATOR_CHAOS_BUDGET",
            args.budget.map(|budget| budget.as_secs()),
        ),
        ("OPERATOR_CHAOS_PLANS", args.plans.map(|plans| plans as u64)),
        ("OPERATOR_CHAOS_SEED", args.seed),
        ("OPERATOR_CHAOS_JOBS", args.jobs.map(|jobs| jobs as u64)),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            command.env(name, number.to_string());
        }
    }
    Ok(())
}

/// Reads a JSON file that the test writes. Returns `None` if it does not exist yet.
fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    let text = std::fs::read(path).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Returns the last relevant lines of the output.
fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let is_message = |line: &&str| {
        let noise = ["running ", "test ", "failures:", "note: "];
        !line.trim().is_empty() && !noise.iter().any(|start| line.trim().starts_with(start))
    };
    let lines: Vec<&str> = text.lines().filter(is_message).collect();
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    last.join(" / ")
}
