//! `crd`: checks and compares CRDs, and validates objects, offline.

mod diff;
mod finding;
mod lint;
mod source;
mod validate;

use std::process::ExitCode;

use crate::args::CrdCommand;
use crate::failure::Failure;
use crate::report::Report;

/// Runs `operator-sdk crd`.
pub(crate) fn run(command: &CrdCommand, report: &Report) -> Result<ExitCode, Failure> {
    match command {
        CrdCommand::Lint(args) => lint::lint(args, report),
        CrdCommand::Diff(args) => diff::diff(args, report),
        CrdCommand::Validate(args) => validate::validate(args, report),
    }
}

/// Returns a count with its noun: `1 error`, `2 errors`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

fn exit_code(failed: bool) -> ExitCode {
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
