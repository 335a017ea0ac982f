//! `quickstart`: runs the tutorial, and checks each step in the API.

mod walk;

use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io};

use clap::Parser;

use self::walk::Walk;
use super::{manifests, scaffold};
use crate::args::{Cli, Command, CreateCommand, QuickstartArgs};
use crate::failure::{Failure, Hinted};
use crate::process::cargo::{self, BuildOptions};
use crate::process::cluster::{Cluster, ClusterOptions};
use crate::process::operator::{Operator, Start};
use crate::project::layout;
use crate::report::Report;

const NAME: &str = "memcached-operator";

const INIT: &[&str] = &["init", "--domain", "example.com", "--project-name", NAME];

const CREATE_API: &[&str] = &[
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

#[derive(Debug, thiserror::Error)]
pub(crate) enum QuickstartError {
    #[error("the directory {} is not empty", .0.display())]
    NotEmpty(PathBuf),
    #[error("cannot create the directory {}: {source}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("timed out after {seconds} s waiting for {what}; the operator's log is {}", log.display())]
    Timeout {
        what: String,
        seconds: u64,
        log: PathBuf,
    },
    #[error("the operator stopped ({status}) while waiting for {what}; its log is {}", log.display())]
    OperatorEnded {
        what: String,
        status: String,
        log: PathBuf,
    },
    #[error("the API server accepted a size of {0}, which is invalid")]
    Accepted(String),
    #[error("the API server rejected a size of {size} without mentioning spec.size: {message}")]
    Unclear { size: String, message: String },
    #[error("unknown command `{0}`")]
    Command(String),
}

impl Hinted for QuickstartError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotEmpty(_) => "use a new directory with `--dir`".to_owned(),
            Self::Directory { .. } => "use another directory with `--dir`".to_owned(),
            Self::Timeout { .. } | Self::OperatorEnded { .. } => {
                "the last lines of the log are above; run the operator by hand with `operator-sdk run local --embedded`"
                    .to_owned()
            }
            Self::Accepted(_) | Self::Unclear { .. } | Self::Command(_) => {
                "this is a bug in operator-sdk; please report it".to_owned()
            }
        })
    }
}

pub(crate) fn quickstart(args: &QuickstartArgs, report: &Report) -> Result<(), Failure> {
    let begin = Instant::now();
    let directory = project_directory(args)?;
    report.command(&format!("mkdir -p {0} && cd {0}", directory.display()));
    type_command(&directory, INIT, report)?;
    type_command(&directory, CREATE_API, report)?;

    report.command("operator-sdk generate manifests");
    let options = build_options();
    manifests::generate_in(&directory, false, &options, report)?;
    let program = cargo::build(&directory, &options)?;
    let built = begin.elapsed();

    super::block_on(run(&directory, program, report))?;
    report.line("");
    report.line(&format!(
        "Every step was verified in the API, in {:.1} s, of which {:.1} s were for creating and compiling the operator.",
        begin.elapsed().as_secs_f64(),
        built.as_secs_f64()
    ));
    report.line(&format!("The project is in {}", directory.display()));
    Ok(())
}

/// Returns options that build the operator in this tool's target directory, so that dependencies are compiled only
/// once.
fn build_options() -> BuildOptions {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").is_some();
    let own = cargo::own_target_dir();
    BuildOptions {
        release: own.is_some() && cargo::own_build_is_release(),
        target_dir: own.filter(|_| !chosen),
        ..BuildOptions::default()
    }
}

/// Returns a new or empty directory. The directory of an earlier quickstart next to the build is recreated.
fn project_directory(args: &QuickstartArgs) -> Result<PathBuf, QuickstartError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| QuickstartError::Directory { path, source }
    };
    let directory = match (&args.dir, cargo::own_target_dir()) {
        (Some(directory), _) => directory.clone(),
        (None, Some(target)) => {
            let directory = target.join("quickstart").join(NAME);
            if directory.join(layout::PROJECT).is_file() {
                fs::remove_dir_all(&directory).map_err(failed(&directory))?;
            }
            directory
        }
        (None, None) => PathBuf::from(NAME),
    };
    fs::create_dir_all(&directory).map_err(failed(&directory))?;
    let mut entries = fs::read_dir(&directory).map_err(failed(&directory))?;
    if entries.next().is_some() {
        return Err(QuickstartError::NotEmpty(directory));
    }
    directory.canonicalize().map_err(failed(&directory))
}

/// Prints a command of this tool in the form in which a user types it, and runs it.
fn type_command(directory: &Path, words: &[&str], report: &Report) -> Result<(), Failure> {
    let line = format!("operator-sdk {}", words.join(" "));
    report.command(&line);
    let parsed = Cli::try_parse_from(std::iter::once(&"operator-sdk").chain(words));
    let applied = match parsed.map(|cli| cli.command) {
        Ok(Command::Init(args)) => scaffold::init_in(directory, &args)?,
        Ok(Command::Create(CreateCommand::Api(args))) => scaffold::create_api_in(directory, &args)?,
        _ => return Err(QuickstartError::Command(line).into()),
    };
    report.line(&format!("{} files written", applied.written()));
    Ok(())
}

/// Runs the operator on an embedded control plane, with a user of its API.
async fn run(directory: &Path, program: PathBuf, report: &Report) -> Result<(), Failure> {
    report.command("operator-sdk run local --embedded &");
    let cluster = Cluster::start(&ClusterOptions {
        port: None,
        data_directory: None,
        fsync: false,
        controllers: true,
        nodes: 1,
        olm: false,
        kubeconfig: None,
        audit: None,
    })
    .await?;
    cluster.install(&directory.join(layout::CRD_BASES)).await?;
    report.line(&super::cluster::ready_line(&cluster));
    let log = directory.join("target/operator.log");
    let folder = log.parent().unwrap_or(directory);
    fs::create_dir_all(folder).map_err(|source| QuickstartError::Directory {
        path: folder.to_owned(),
        source,
    })?;
    let mut operator = Operator::start(&Start {
        program,
        directory: directory.to_owned(),
        kubeconfig: Some(cluster.kubeconfig().to_owned().into_os_string()),
        watch_namespace: None,
        // Another operator may use the default port of the probes.
        arguments: vec!["--health-probe-bind-address=0".into()],
        environment: Vec::new(),
        log: Some(log.clone()),
    })?;
    let outcome = Walk::new(cluster.kubeconfig(), &mut operator, &log, report)
        .await?
        .walk(directory)
        .await;
    if outcome.is_err() {
        report.progress(&last_lines(&log));
    }
    operator.stop();
    let _ = operator.wait().await;
    cluster.shutdown().await;
    outcome
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(20);
    lines.get(from..).unwrap_or_default().join("\n")
}
