//! The command line of the Operator SDK for Rust.
//!
//! A command walks: [`args`] says what was typed, [`project`] what is there, [`plan`] which files come of it
//! (with the texts of [`template`] and the insertions of [`edit`]), [`apply`] writes them, [`report`] tells.

mod apply;
mod args;
mod edit;
mod lock;
mod names;
mod plan;
mod process;
mod project;
mod report;
mod run;
mod template;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command, CreateCommand};
use crate::report::{Failure, Report};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => return clap_answer(&answer),
    };
    let report = Report::new();
    match dispatch(cli, &report) {
        Ok(code) => code,
        Err(failure) => {
            report.failure(&failure);
            ExitCode::FAILURE
        }
    }
}

/// Help and the version are answers; everything else that the parser says is an error.
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
        Command::Completion(args) => args.print(),
        Command::Version => report.line(&report::version()),
    }
    Ok(ExitCode::SUCCESS)
}
