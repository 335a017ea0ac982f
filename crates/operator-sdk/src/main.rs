//! The command line of the Operator SDK for Rust.
//!
//! [`args`] parses the command line, [`project`] reads the project, [`plan`] computes the files to write (with
//! [`template`] and [`edit`]), [`apply`] writes them, and [`report`] prints the outcome.

mod apply;
mod args;
mod edit;
mod failure;
mod file;
mod lock;
mod merge;
mod names;
mod oci;
mod plan;
mod process;
mod project;
mod record;
mod report;
mod run;
mod source;
mod template;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{
    AlphaBundleCommand, AlphaCommand, Cli, ClusterCommand, Command, CreateCommand, DeleteCommand,
    EnvtestCommand, GenerateCommand, VersionOutputArg,
};
use crate::failure::Failure;
use crate::process::signal;
use crate::report::Report;

fn main() -> ExitCode {
    if let Some(code) = run::envtest::by_name(std::env::args_os()) {
        return code;
    }
    let report = Report::new();
    match run(&report) {
        Ok(code) => code,
        Err(failure) => {
            report.failure(&failure);
            ExitCode::FAILURE
        }
    }
}

/// Runs a command line: first the plugins, then this tool.
fn run(report: &Report) -> Result<ExitCode, Failure> {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let chain = run::plugin::split(&mut words)?;
    words = args::without_switch_values(words);
    let cli = match Cli::try_parse_from(
        std::iter::once(OsString::from("operator-sdk")).chain(words.iter().cloned()),
    ) {
        Ok(cli) => cli,
        Err(answer) => {
            let mut code = clap_answer(&answer);
            if answer.use_stderr() && words.first().is_some_and(|word| word == "chaos") {
                code = ExitCode::from(run::chaos::UNUSABLE);
            }
            if let Some(chain) = chain.filter(|_| !answer.use_stderr()) {
                chain.help(report)?;
            }
            return Ok(code);
        }
    };
    init_logging(cli.verbose);
    signal::keep_on_file_size_limit();
    run::upgrade::check_record(&words)?;
    let before = run::upgrade::project_text();
    let code = dispatch(cli, report)?;
    run::upgrade::remember(&words, before.as_deref(), report)?;
    if let Some(chain) = chain {
        chain.run(report)?;
    }
    Ok(code)
}

/// Initializes the log of the embedded control plane: warnings, unless `RUST_LOG` is set.
fn init_logging(verbose: bool) {
    // Failed connections are reported as errors of the command.
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => tracing_subscriber::EnvFilter::new(directives),
        _ if verbose => tracing_subscriber::EnvFilter::new("info"),
        _ => tracing_subscriber::EnvFilter::new("warn,kube_client::client::builder=off"),
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
}

/// Prints the result of the parser: help and version as output, everything else as an error.
fn clap_answer(answer: &clap::Error) -> ExitCode {
    let printed = answer.print();
    if answer.use_stderr() || printed.is_err() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn dispatch(cli: Cli, report: &Report) -> Result<ExitCode, Failure> {
    match cli.command {
        Command::Init(args) => run::scaffold::init(&args, report)?,
        Command::Create(CreateCommand::Api(args)) => run::scaffold::create_api(&args, report)?,
        Command::Create(CreateCommand::Webhook(args)) => run::scaffold::create_webhook(&args, report)?,
        Command::Delete(DeleteCommand::Webhook(args)) => run::scaffold::delete_webhook(&args, report)?,
        Command::Delete(DeleteCommand::Api(args)) => run::scaffold::delete_api(&args, report)?,
        Command::Edit(args) => run::scaffold::edit(&args, report)?,
        Command::Generate(GenerateCommand::Manifests(args)) => run::manifests::generate(&args, report)?,
        Command::Generate(GenerateCommand::K8s) => run::legacy::generate_k8s(report)?,
        Command::Generate(GenerateCommand::Openapi(args)) => run::legacy::generate_openapi(&args, report)?,
        Command::Generate(GenerateCommand::Crds(args)) => run::manifests::crds(&args, report)?,
        Command::Generate(GenerateCommand::Rbac(args)) => run::manifests::rbac(&args, report)?,
        Command::Generate(GenerateCommand::Webhooks(args)) => run::manifests::webhooks(&args, report)?,
        Command::Generate(GenerateCommand::Kustomize(args)) => run::manifests::kustomize(&args, report)?,
        Command::Generate(GenerateCommand::Installer(args)) => run::render::installer(&args, report)?,
        Command::Generate(GenerateCommand::Bundle(args)) => run::generate_bundle::generate(&args, report)?,
        Command::Generate(GenerateCommand::Packagemanifests(_)) => {
            return Err(run::generate_bundle::packagemanifests());
        }
        Command::Build(args) => run::build::build(&args, report)?,
        Command::Install(args) => return run::deploy::install(&args, report),
        Command::Uninstall(args) => return run::deploy::uninstall(&args, report),
        Command::Deploy(args) => return run::deploy::deploy(&args, report),
        Command::Undeploy(args) => return run::deploy::undeploy(&args, report),
        Command::Upgrade(args) => run::upgrade::upgrade(&args, report)?,
        Command::Run(args) => return run::local::run_command(&args, report),
        Command::Dev(args) => return run::dev::dev(&args, report),
        Command::Cluster(ClusterCommand::Up(args)) => run::cluster::up(&args, report)?,
        Command::Catalog(command) => return run::catalog::run(&command, report),
        Command::Crd(command) => return run::crd::run(&command, report),
        Command::Rbac(command) => return run::rbac::run(&command, report),
        Command::Chaos(command) => return Ok(run::chaos::run(&command, report)),
        Command::Bundle(command) => return run::bundle::run(&command, report),
        Command::Alpha(AlphaCommand::Bundle(AlphaBundleCommand::Extract(args))) => {
            return run::olm::extract(&args, report);
        }
        Command::Cleanup(args) => return run::olm::cleanup(&args, report),
        Command::Olm(command) => return run::olm::manage(&command, report),
        Command::Scorecard(args) => return run::scorecard::run(&args, report),
        Command::Envtest(EnvtestCommand::Assets(args)) => run::envtest::assets(&args, report)?,
        Command::Quickstart(args) => run::quickstart::quickstart(&args, report)?,
        Command::Completion(args) => report.text(&args.script()),
        Command::New(args) => run::legacy::new(&args, report)?,
        Command::Add(command) => run::legacy::add(&command, report)?,
        Command::Up(command) => return run::legacy::up(&command, report),
        Command::Test(command) => return run::legacy::test(&command, report),
        Command::PrintDeps(args) => run::legacy::print_deps(&args, report)?,
        Command::Docs(args) => run::docs::docs(&args, report)?,
        Command::Man(args) => run::man::man(&args)?,
        Command::Version(args) => report.line(&match args.output {
            VersionOutputArg::Text => report::version(),
            VersionOutputArg::Json => report::version_json(),
        }),
    }
    Ok(ExitCode::SUCCESS)
}
