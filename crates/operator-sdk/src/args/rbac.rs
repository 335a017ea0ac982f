//! `operator-sdk rbac`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

use super::OutputArg;

/// Compare the operator's permissions with what it asks.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum RbacCommand {
    Check(CheckArgs),
}

/// Find permissions that are missing, and those that nothing uses.
///
/// Runs the tests of the project and compares what the operator asked in them, on the control planes of `TestEnv`, with
/// the rules that `generate manifests` grants: those of `#[rbac]` attributes and markers, those that follow from what the
/// controllers watch and own, and those of the other roles in config/rbac that are bound to the operator. Only requests of
/// the operator's manager count, not those of the tests themselves. Rules that are never asked are reported where they are
/// written; it may be that no test leads there.
///
/// Exits with 1 if a permission is missing.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk rbac check\n  operator-sdk rbac check --fix\n  operator-sdk rbac check -- --test memcached_controller"
)]
pub(crate) struct CheckArgs {
    /// Compare what the last tests asked, and run none.
    #[arg(long)]
    pub(crate) no_run: bool,
    /// Exit with 1 if a rule is never asked, too.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Add missing permissions as attributes of a controller, and remove those that are never used.
    #[arg(long)]
    pub(crate) fix: bool,
    /// With `--fix`, show what would change, as a diff, and write nothing.
    #[arg(long, requires = "fix")]
    pub(crate) dry_run: bool,
    /// How the answer is printed.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: OutputArg,
    /// More arguments for `cargo test`.
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<OsString>,
}
