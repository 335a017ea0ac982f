//! `operator-sdk rbac`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

use super::OutputArg;

/// Compare the operator's permissions with its requests.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum RbacCommand {
    Check(CheckArgs),
}

/// Find missing and unused permissions.
///
/// Runs the tests of the project and compares the operator's requests, on the control planes of `TestEnv`, with the
/// rules that `generate manifests` grants: those of `#[rbac]` attributes and markers, those that follow from the
/// controllers' watched and owned kinds, and those of other roles in config/rbac that are bound to the operator. Only
/// requests of the operator's manager count, not those of the tests. Unused rules are reported with their place in the
/// source; a test for them may be missing.
///
/// Exits with 1 if a permission is missing.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk rbac check\n  operator-sdk rbac check --fix\n  operator-sdk rbac check -- --test memcached_controller"
)]
pub(crate) struct CheckArgs {
    /// Compare the requests of the last test run, without running the tests.
    #[arg(long)]
    pub(crate) no_run: bool,
    /// Exit with 1 also if a rule is unused.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Add missing permissions as attributes of a controller, and remove unused ones.
    #[arg(long)]
    pub(crate) fix: bool,
    /// With `--fix`, show what would change, as a diff, and write nothing.
    #[arg(long, requires = "fix")]
    pub(crate) dry_run: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: OutputArg,
    /// More arguments for `cargo test`.
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<OsString>,
}
