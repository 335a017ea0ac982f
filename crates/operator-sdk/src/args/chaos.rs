//! `operator-sdk chaos`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::deploy::duration;

/// Find reliability bugs of an operator, and replay them.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ChaosCommand {
    Run(ChaosRunArgs),
    Replay(ChaosReplayArgs),
}

/// Run the operator with one injected fault after the other, and report those that it does not survive.
///
/// Faults are crashes, lost responses, conflicts, late watches, and others that a real API server can show. The operator of the
/// project runs in simulated time: its test tests/chaos.rs is built and run. With `--cmd`, any program of any language runs as a
/// process, in real time; it gets the path of a kubeconfig in `KUBECONFIG`.
///
/// Findings are written to target/operator-sdk/chaos. Ctrl-C ends the exploration, and the results up to then are reported.
///
/// Exits with 1 if there are findings, and with 2 if the exploration cannot be carried out.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk chaos run\n  operator-sdk chaos run --budget 1m --seed 7 --report chaos.html --report chaos.xml\n  operator-sdk chaos run --cmd ./manager --crds config/crd/bases --workload workload.yaml -- --leader-elect=false"
)]
pub(crate) struct ChaosRunArgs {
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// The steps of the users, as YAML. Default: those of the test; needed with `--cmd`.
    #[arg(long, value_name = "FILE")]
    pub(crate) workload: Option<PathBuf>,
    /// The time after which no further plan is begun, such as 90s or 2m. Default: that of the test, which is 10s if it sets none;
    /// with `--cmd` 5m.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) budget: Option<Duration>,
    /// The number of plans after which the exploration ends. Default: no limit.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) plans: Option<usize>,
    /// The seed of random plans. Default: 1.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// The number of plans that run at the same time. Default: one for each core; with `--cmd` four for each core.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) jobs: Option<usize>,
    /// Write the report to a file; its extension determines the form: .json, .xml (JUnit), .html, or text. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Vec<PathBuf>,
}

/// Run a finding again, and report whether it still occurs.
///
/// Exits with 1 if it does, and with 2 if the finding cannot be replayed.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk chaos replay 2f6c0e9d41aa\n  operator-sdk chaos replay findings/2f6c0e9d41aa.json --report replay.html"
)]
pub(crate) struct ChaosReplayArgs {
    /// The ID of a finding in target/operator-sdk/chaos, or the file of a finding.
    #[arg(value_name = "ID")]
    pub(crate) finding: String,
    #[command(flatten)]
    pub(crate) subject: SubjectArgs,
    /// Write the report to a file; its extension determines the form. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Vec<PathBuf>,
}

/// The operator under test.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SubjectArgs {
    /// The program of an operator in any language; its arguments follow `--`. Default: the project's operator; for a replay the
    /// operator of the finding.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) cmd: Option<OsString>,
    /// A file or a directory with CRDs and other objects that exist before the operator starts. May be repeated.
    #[arg(long, value_name = "PATH", requires = "cmd")]
    pub(crate) crds: Vec<PathBuf>,
    /// A field that is not compared: `RESOURCE FIELD`, such as `widgets.example.com status.lastBackup`. May be repeated.
    #[arg(long, value_name = "FIELD", requires = "cmd")]
    pub(crate) ignore: Vec<String>,
    /// Build the project's operator with optimizations: slower to build, faster to explore.
    #[arg(long, conflicts_with = "cmd")]
    pub(crate) release: bool,
    /// The test of tests/chaos.rs, if there are several.
    #[arg(long, value_name = "NAME", conflicts_with = "cmd")]
    pub(crate) test: Option<String>,
    /// The arguments of the program.
    #[arg(last = true, value_name = "ARGUMENTS", requires = "cmd")]
    pub(crate) arguments: Vec<OsString>,
}
