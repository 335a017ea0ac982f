//! `operator-sdk crd`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Check CustomResourceDefinitions, compare them, and try objects against them, without a cluster.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CrdCommand {
    Lint(LintArgs),
    Diff(DiffArgs),
    Validate(ValidateArgs),
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputArg {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON document.
    Json,
}

/// Find what is wrong with definitions: all that an API server refuses, and what it accepts but fails later.
///
/// Exits with 1 if there are errors; warnings alone do not fail.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  operator-sdk crd lint config/crd/bases")]
pub(crate) struct LintArgs {
    /// Files or directories with definitions; directories are searched to the bottom.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) paths: Vec<PathBuf>,
    /// How findings are printed.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: OutputArg,
}

/// Say what changed between two revisions of definitions, and whether it breaks objects or clients that exist.
///
/// OLD and NEW are each a file, a directory, `git:REVISION:PATH` for a file or directory in the history of the
/// repository, or `cluster` for what is installed. Exits with 1 if a change is breaking.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk crd diff git:v1.2.0:config/crd/bases config/crd/bases\n  operator-sdk crd diff cluster config/crd/bases"
)]
pub(crate) struct DiffArgs {
    /// The definitions before.
    #[arg(value_name = "OLD")]
    pub(crate) old: String,
    /// The definitions after.
    #[arg(value_name = "NEW")]
    pub(crate) new: String,
    /// The kubeconfig of the cluster, where one side is `cluster`.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// How changes are printed.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: OutputArg,
}

/// Try objects against their definitions as an API server does when they are created: unknown fields, defaults,
/// validation, rules.
///
/// Exits with 1 if an object is refused.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  operator-sdk crd validate -f config/samples --crd config/crd/bases --show"
)]
pub(crate) struct ValidateArgs {
    /// Files or directories with objects.
    #[arg(short, long = "file", required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Files or directories with definitions.
    #[arg(long = "crd", default_value = "config/crd/bases", value_name = "FILE|DIR")]
    pub(crate) definitions: Vec<PathBuf>,
    /// Refuse unknown fields, as `kubectl apply` does by default, in place of a warning.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print each object as the server would store it, with its defaults.
    #[arg(long)]
    pub(crate) show: bool,
    /// How findings are printed.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: OutputArg,
}
