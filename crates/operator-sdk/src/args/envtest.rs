//! `operator-sdk envtest`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Serve the test suites of other operators.
#[derive(Debug, Subcommand)]
pub(crate) enum EnvtestCommand {
    Assets(AssetsArgs),
}

/// Put a kube-apiserver and an etcd for controller-runtime's envtest into a directory, and print the directory.
///
/// Both are this program; kubectl is linked if there is one on the PATH. Files of another origin are not replaced.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  KUBEBUILDER_ASSETS=$(operator-sdk envtest assets bin/envtest) go test ./..."
)]
pub(crate) struct AssetsArgs {
    /// The directory; it is made if it does not exist.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
