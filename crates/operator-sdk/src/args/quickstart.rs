//! `operator-sdk quickstart`.

use std::path::PathBuf;

use clap::Args;

/// See the whole system work: make the memcached operator, run it, use it.
///
/// Prints each command that you would type, and does it: a project and an API, the manifests, the operator on an
/// embedded control plane, then one custom resource created, scaled and deleted. Each step is looked up in the API;
/// the exit code is 0 only if every one was seen there.
#[derive(Clone, Debug, Args)]
pub(crate) struct QuickstartArgs {
    /// The directory of the project, which must be new or empty
    /// [default: beside this program's build, or ./memcached-operator].
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}
