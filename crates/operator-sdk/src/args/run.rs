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
    /// As in the operator-sdk of old: `run --local` is `run local`.
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

/// The flags that `run --local` had.
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
/// It talks to the cluster of the kubeconfig, or with `--embedded` to a control plane that is started for it, with the
/// CRDs of config/crd/bases installed. The exit code is the operator's, or 130 where Ctrl-C ended the build.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk run local --embedded -- --zap-log-level=info\n  operator-sdk run local --watch-namespace default --enable-webhooks"
)]
pub(crate) struct LocalArgs {
    /// Start a control plane for the operator, in this process.
    #[arg(long)]
    pub(crate) embedded: bool,
    /// The namespaces that the operator watches, with commas between [default: all].
    #[arg(long, alias = "namespace", value_name = "NS[,NS]")]
    pub(crate) watch_namespace: Option<String>,
    /// The kubeconfig to use; with `--embedded`, where the one of the control plane is written.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Build the operator optimized.
    #[arg(long)]
    pub(crate) release: bool,
    #[command(flatten)]
    pub(crate) webhooks: WebhookArgs,
    /// Arguments for the operator, in one text with quotes as in a shell.
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub(crate) operator_flags: Option<String>,
    /// Go's; refused with the reason.
    #[arg(long, hide = true, allow_hyphen_values = true)]
    pub(crate) go_ldflags: Option<String>,
    #[arg(long, hide = true)]
    pub(crate) enable_delve: bool,
    /// Arguments for the operator itself.
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<OsString>,
}

/// How the webhooks of an operator on this machine are reached.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WebhookArgs {
    /// Have the cluster call the operator's webhooks on this machine: they are registered by URL, with a certificate
    /// made for this run, and removed at the end [default: with `--embedded` if the project has webhooks].
    #[arg(long, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) enable_webhooks: Option<bool>,
    /// The name or address of this machine as the cluster sees it, such as host.docker.internal for kind
    /// [default: 127.0.0.1].
    #[arg(long, value_name = "HOST", requires = "enable_webhooks")]
    pub(crate) webhook_host: Option<String>,
}

/// Develop: build and run the operator, and again whenever its source changes, until Ctrl-C.
///
/// A source that does not compile leaves the running operator as it is. After each successful build the manifests are
/// written anew, and the CRDs of the cluster follow them. Standard error shows the steps and the operator's log. Ctrl-C
/// ends all of it, with exit code 0.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  operator-sdk dev --embedded --kubeconfig kubeconfig")]
pub(crate) struct DevArgs {
    #[command(flatten)]
    pub(crate) local: LocalArgs,
}
