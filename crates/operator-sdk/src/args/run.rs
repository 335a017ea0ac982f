//! `operator-sdk run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Build the operator and run it on this machine, until Ctrl-C.
///
/// It talks to the cluster of the kubeconfig, or with `--embedded` to a control plane that is started for it, with the
/// CRDs of config/crd/bases installed. The exit code is the operator's.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  operator-sdk run local --embedded -- --zap-log-level=info")]
pub(crate) struct LocalArgs {
    /// Start a control plane for the operator, in this process.
    #[arg(long)]
    pub(crate) embedded: bool,
    /// The namespaces that the operator watches, with commas between [default: all].
    #[arg(long, value_name = "NS[,NS]")]
    pub(crate) watch_namespace: Option<String>,
    /// The kubeconfig to use; with `--embedded`, where the one of the control plane is written.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Build the operator optimized.
    #[arg(long)]
    pub(crate) release: bool,
    /// Arguments for the operator itself.
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<OsString>,
}
