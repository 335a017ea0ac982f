//! `operator-sdk version`.

use clap::{Args, ValueEnum};

/// Print the versions of the tool and of the Kubernetes API server that is embedded in it.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct VersionArgs {
    /// The format of the output.
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
