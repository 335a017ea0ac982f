//! `operator-sdk version`.

use clap::{Args, ValueEnum};

/// Print the versions of this tool and of the embedded Kubernetes API server.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct VersionArgs {
    /// Output format.
    #[arg(long, short, value_enum, default_value_t = VersionOutputArg::Text)]
    pub(crate) output: VersionOutputArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionOutputArg {
    /// One line
    Text,
    /// A JSON object
    Json,
}
