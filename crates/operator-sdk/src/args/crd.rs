//! `operator-sdk crd`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::deploy::ClusterArgs;

/// Check CustomResourceDefinitions, compare them, and validate objects against them, without a cluster.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CrdCommand {
    Lint(LintArgs),
    Diff(DiffArgs),
    Validate(ValidateArgs),
}

/// Output format of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputArg {
    /// Lines of text.
    #[default]
    Text,
    /// One JSON document.
    Json,
}

/// Check CRDs for errors that an API server rejects, and for mistakes that fail later.
///
/// Exits with 1 if there are errors; warnings do not change the exit code.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  operator-sdk crd lint config/crd/bases")]
pub(crate) struct LintArgs {
    /// Files or directories with CRDs; directories are searched recursively.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) paths: Vec<PathBuf>,
    /// Output format of the findings.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: OutputArg,
}

/// Compare two revisions of CRDs, and report which changes break existing objects or clients.
///
/// OLD and NEW are each a file, a directory, `git:REVISION:PATH` for a file or directory in the history of the
/// repository, or `cluster` for the installed CRDs. Exits with 1 if a change is breaking.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk crd diff git:v1.2.0:config/crd/bases config/crd/bases\n  operator-sdk crd diff cluster config/crd/bases"
)]
pub(crate) struct DiffArgs {
    /// The old CRDs.
    #[arg(value_name = "OLD")]
    pub(crate) old: String,
    /// The new CRDs.
    #[arg(value_name = "NEW")]
    pub(crate) new: String,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Output format of the changes.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: OutputArg,
}

/// Validate objects against their CRDs as an API server does on creation: unknown fields, defaults, schema validation,
/// validation rules.
///
/// Exits with 1 if an object is rejected.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  operator-sdk crd validate -f config/samples --crd config/crd/bases --show"
)]
pub(crate) struct ValidateArgs {
    /// Files or directories with objects.
    #[arg(short, long = "file", required = true, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    /// Files or directories with CRDs.
    #[arg(long = "crd", default_value = "config/crd/bases", value_name = "FILE|DIR")]
    pub(crate) definitions: Vec<PathBuf>,
    /// Reject unknown fields, as `kubectl apply` does by default, instead of reporting a warning.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print each object as the server would store it, with its defaults.
    #[arg(long)]
    pub(crate) show: bool,
    /// Output format of the findings.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: OutputArg,
}
