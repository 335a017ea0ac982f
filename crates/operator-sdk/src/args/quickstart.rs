//! `operator-sdk quickstart`.

use std::path::PathBuf;

use clap::Args;

/// Create the memcached operator, run it and use it, to see the whole system work.
///
/// Prints each command as you would type it, and runs it: a project and an API, the manifests, the operator on an
/// embedded control plane, then one custom resource that is created, scaled and deleted. Each step is checked in the
/// API; the exit code is 0 only if all steps succeed.
#[derive(Clone, Debug, Args)]
pub(crate) struct QuickstartArgs {
    /// The directory of the project, which must be new or empty
    /// [default: next to the build of this program, or ./memcached-operator].
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}
