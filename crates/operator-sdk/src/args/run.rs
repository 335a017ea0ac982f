//! `operator-sdk run` and `operator-sdk dev`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::olm::{RunBundleArgs, RunBundleUpgradeArgs};

/// Run the operator.
#[derive(Clone, Debug, Args)]
#[command(
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct RunArgs {
    #[command(subcommand)]
    pub(crate) command: Option<RunCommand>,
    /// The form of operator-sdk 0.x: `run --local` is `run local`.
    #[arg(long, hide = true, required = true)]
    pub(crate) local: bool,
    #[command(flatten)]
    pub(crate) old: OldLocalArgs,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum RunCommand {
    Local(Box<LocalArgs>),
    Bundle(Box<RunBundleArgs>),
    BundleUpgrade(Box<RunBundleUpgradeArgs>),
}

/// The flags of `run --local`.
#[derive(Clone, Debug, Args)]
pub(crate) struct OldLocalArgs {
    #[arg(long, hide = true, alias = "namespace", value_name = "NS[,NS]")]
    pub(crate) watch_namespace: Option<String>,
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub(crate) operator_flags: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) embedded: bool,
}

/// Build the operator and run it on this machine, until Ctrl-C.
///
/// It connects to the cluster of the kubeconfig, or with `--embedded` to a control plane that is started for it, with
/// the CRDs of config/crd/bases installed. The exit code is that of the operator, or 130 if Ctrl-C interrupted the
/// build.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk run local --embedded -- --zap-log-level=info\n  operator-sdk run local --context dev --watch-namespace default --enable-webhooks --webhook-host dev-machine.example.com"
)]
pub(crate) struct LocalArgs {
    /// Start a control plane for the operator, in this process.
    #[arg(long)]
    pub(crate) embedded: bool,
    /// The namespaces that the operator watches, separated by commas [default: all].
    #[arg(long, alias = "namespace", value_name = "NS[,NS]")]
    pub(crate) watch_namespace: Option<String>,
    /// The kubeconfig to use; with `--embedded`, the file to write the kubeconfig of the control plane to.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: the current context].
    #[arg(long, value_name = "NAME", conflicts_with = "embedded")]
    pub(crate) context: Option<String>,
    /// Build an optimized program.
    #[arg(long)]
    pub(crate) release: bool,
    #[command(flatten)]
    pub(crate) webhooks: WebhookArgs,
    /// Arguments for the operator, as one string with quotes as in a shell.
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub(crate) operator_flags: Option<String>,
    /// Rejected: it is for Go operators.
    #[arg(long, hide = true, allow_hyphen_values = true)]
    pub(crate) go_ldflags: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) enable_delve: bool,
    /// Arguments for the operator itself.
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<OsString>,
}

/// The webhooks of an operator that runs on this machine.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WebhookArgs {
    /// Have the cluster call the operator's webhooks on this machine. They are registered by URL, with a certificate
    /// created for this run, and removed at the end [default: with `--embedded`, if the project has webhooks].
    #[arg(long, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) enable_webhooks: Option<bool>,
    /// The name or address of this machine as seen from the cluster, such as host.docker.internal for kind
    /// [default: 127.0.0.1].
    #[arg(long, value_name = "HOST", requires = "enable_webhooks")]
    pub(crate) webhook_host: Option<String>,
}

/// Build and run the operator, and restart it whenever its source changes, until Ctrl-C.
///
/// If the source does not compile, the running operator is kept. After each successful build the manifests are
/// generated again and the CRDs of the cluster are updated. Standard error shows the steps and the operator's log.
/// Ctrl-C stops everything, with exit code 0.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  operator-sdk dev --embedded --kubeconfig kubeconfig")]
pub(crate) struct DevArgs {
    #[command(flatten)]
    pub(crate) local: LocalArgs,
}
