//! `chaos run` and `chaos replay`: explores an operator with injected faults.

mod program;
mod screen;
mod test;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use operator_chaos::{Finding, Oracle, Report as Findings};
use serde::{Deserialize, Serialize};

use crate::args::{ChaosCommand, ChaosReplayArgs, ChaosRunArgs, SubjectArgs};
use crate::failure::{Failure, Hinted};
use crate::process::cluster::ClusterError;
use crate::process::signal::{Ends, INTERRUPTED};
use crate::report::Report;

/// The directory of the findings. `operator-chaos` has the same constant.
const DIRECTORY: &str = "target/operator-sdk/chaos";

/// The exit code if the exploration cannot be carried out.
pub(crate) const UNUSABLE: u8 = 2;

/// An error that makes an exploration impossible.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChaosError {
    #[error("no workload: `--cmd` needs the steps of the users")]
    NoWorkload,
    #[error("the project has no chaos test: {0} does not exist")]
    NoTest(&'static str),
    #[error("{path} has no test {name:?}", path = test::FILE)]
    UnknownTest { name: String, tests: Vec<String> },
    #[error("{path} has {count} tests", path = test::FILE, count = .0.len())]
    SeveralTests(Vec<String>),
    #[error("cannot run {}: {reason}", program.to_string_lossy())]
    Program { program: OsString, reason: String },
    #[error("the chaos test ended without a report: {0}")]
    NoReport(String),
    #[error("{0}")]
    Campaign(#[from] operator_chaos::Error),
    #[error("the workload fails without faults: {0}")]
    Workload(String),
    #[error("without faults, {0}")]
    Ended(String),
    #[error("cannot find the finding {id}: {} does not exist", path.display())]
    NoFinding { id: String, path: PathBuf },
    #[error("cannot use {}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
}

impl Hinted for ChaosError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoWorkload => "give a file with `--workload`; `operator-sdk docs` has an example",
            Self::NoTest(_) => {
                "`operator-sdk create api` and `operator-sdk upgrade` write one; with `--cmd` any program is explored"
            }
            Self::UnknownTest { tests, .. } | Self::SeveralTests(tests) => {
                return Some(format!("choose one of them with `--test`: {}", tests.join(", ")));
            }
            Self::Program { .. } => {
                "give the path of an executable program with `--cmd`, and its arguments after `--`"
            }
            Self::NoReport(_) => "run `cargo test --features chaos --test chaos -- --ignored` for details",
            Self::Campaign(_) => "correct it, and run the command again",
            Self::Workload(reason) if reason.contains("no resource is served") => {
                "correct the step, or add the CustomResourceDefinitions with `--crds`"
            }
            Self::Workload(_) => "correct the step in the workload",
            Self::Ended(_) => {
                "run the program by hand with a kubeconfig in KUBECONFIG: it must run until it is stopped"
            }
            Self::NoFinding { .. } => "`operator-sdk chaos run` prints the IDs of its findings",
            Self::File { .. } => "check the path and its permissions",
        };
        Some(hint.to_owned())
    }
}

/// The program of an operator, which a finding records for its replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Program {
    command: Vec<String>,
    #[serde(default)]
    crds: Vec<PathBuf>,
    #[serde(default)]
    ignore: Vec<String>,
}

/// The file of a finding.
#[derive(Serialize, Deserialize)]
struct FindingFile {
    #[serde(flatten)]
    finding: Finding,
    /// `None` for the operator of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<Program>,
}

/// The parts of a command that are the same for both kinds of operators.
struct Campaign<'a> {
    /// Settings of a run. `None` replays `finding`.
    run: Option<&'a ChaosRunArgs>,
    finding: Option<(PathBuf, Finding)>,
}

/// Runs `operator-sdk chaos`.
pub(crate) fn run(command: &ChaosCommand, report: &Report) -> ExitCode {
    let outcome = match command {
        ChaosCommand::Run(args) => explore(args, report),
        ChaosCommand::Replay(args) => replay(args, report),
    };
    outcome.unwrap_or_else(|failure| {
        report.failure(&failure);
        ExitCode::from(UNUSABLE)
    })
}

fn explore(args: &ChaosRunArgs, report: &Report) -> Result<ExitCode, Failure> {
    let campaign = Campaign {
        run: Some(args),
        finding: None,
    };
    let program = Program::of(&args.subject);
    let Some(found) = carried_out(&campaign, &args.subject, program.as_ref(), report)? else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    check_undisturbed(&found)?;
    let files = write_findings(&found, program.as_ref())?;
    write_reports(&found, &args.report)?;
    report.text(&found.to_string());
    for file in files {
        report.progress(&format!("The finding is in {}.", file.display()));
    }
    Ok(ExitCode::from(u8::from(!found.is_clean())))
}

fn replay(args: &ChaosReplayArgs, report: &Report) -> Result<ExitCode, Failure> {
    let path = match Path::new(&args.finding).is_file() {
        true => PathBuf::from(&args.finding),
        false => Path::new(DIRECTORY).join(format!("{}.json", args.finding)),
    };
    if !path.is_file() {
        let id = args.finding.clone();
        return Err(ChaosError::NoFinding { id, path }.into());
    }
    let text = std::fs::read(&path).map_err(|error| unusable(&path, &error))?;
    let file: FindingFile = serde_json::from_slice(&text).map_err(|error| unusable(&path, &error))?;
    let program = Program::of(&args.subject).or(file.program);
    let campaign = Campaign {
        run: None,
        finding: Some((path, file.finding)),
    };
    let Some(found) = carried_out(&campaign, &args.subject, program.as_ref(), report)? else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    check_undisturbed(&found)?;
    write_reports(&found, &args.report)?;
    report.text(&found.to_string());
    Ok(ExitCode::from(u8::from(!found.is_clean())))
}

/// Runs a campaign. Returns `None` if a second signal ended it immediately.
fn carried_out(
    campaign: &Campaign<'_>,
    subject: &SubjectArgs,
    program: Option<&Program>,
    report: &Report,
) -> Result<Option<Findings>, Failure> {
    super::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        match program {
            Some(program) => program::run(campaign, program, &mut ends, report).await,
            None => test::run(campaign, subject, &mut ends, report).await,
        }
    })
}

/// Returns an error if the workload or the operator fails even without faults in a way that makes an exploration
/// impossible.
fn check_undisturbed(found: &Findings) -> Result<(), ChaosError> {
    let [finding] = found.findings.as_slice() else {
        return Ok(());
    };
    if found.plans > 0 || !finding.plan.faults.is_empty() || finding.plan.schedule.is_some() {
        return Ok(());
    }
    let message_of = |oracle: Oracle| {
        let violation = finding.violations.iter().find(|it| it.oracle == oracle);
        violation.map(|violation| violation.message.clone())
    };
    if let Some(message) = message_of(Oracle::Ended) {
        return Err(ChaosError::Ended(message));
    }
    match message_of(Oracle::Workload) {
        Some(message) => Err(ChaosError::Workload(message)),
        None => Ok(()),
    }
}

/// Writes one file for each finding, and returns the paths of the files.
fn write_findings(found: &Findings, program: Option<&Program>) -> Result<Vec<PathBuf>, ChaosError> {
    if found.is_clean() {
        return Ok(Vec::new());
    }
    let folder = Path::new(DIRECTORY);
    std::fs::create_dir_all(folder).map_err(|error| unusable(folder, &error))?;
    let write = |finding: &Finding| {
        let path = folder.join(format!("{}.json", finding.id));
        let file = FindingFile {
            finding: finding.clone(),
            program: program.cloned(),
        };
        let text = serde_json::to_string_pretty(&file).map_err(|error| unusable(&path, &error))?;
        std::fs::write(&path, text).map_err(|error| unusable(&path, &error))?;
        Ok(path)
    };
    found.findings.iter().map(write).collect()
}

fn write_reports(found: &Findings, paths: &[PathBuf]) -> Result<(), ChaosError> {
    for path in paths {
        found.write(path).map_err(|error| unusable(path, &error))?;
    }
    Ok(())
}

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> ChaosError {
    ChaosError::File {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

// === impl Program ===

impl Program {
    fn of(subject: &SubjectArgs) -> Option<Self> {
        let command = subject.cmd.iter().chain(&subject.arguments);
        let command: Vec<String> = command.map(|word| word.to_string_lossy().into_owned()).collect();
        (!command.is_empty()).then(|| Self {
            command,
            crds: subject.crds.clone(),
            ignore: subject.ignore.clone(),
        })
    }
}
