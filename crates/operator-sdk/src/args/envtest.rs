//! `operator-sdk envtest`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Run the test suites of operators in other languages.
#[derive(Debug, Subcommand)]
pub(crate) enum EnvtestCommand {
    Assets(AssetsArgs),
}

/// Write a kube-apiserver and an etcd for controller-runtime's envtest into a directory, and print the directory.
///
/// Both are links to this program. kubectl is linked too if it is in the PATH. Other files in the directory are not
/// replaced.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  KUBEBUILDER_ASSETS=$(operator-sdk envtest assets bin/envtest) go test ./..."
)]
pub(crate) struct AssetsArgs {
    /// The directory; it is created if it does not exist.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
