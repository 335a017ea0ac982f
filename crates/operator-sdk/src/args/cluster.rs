//! `operator-sdk cluster`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Run a Kubernetes control plane in the foreground, until Ctrl-C.
///
/// It serves HTTPS on this machine alone, forgets everything at its end unless it has a --data-dir, and simulates the pods; with
/// `operator-sdk deploy --process` those of a project run its program. One line says when
/// it is ready, and names its address and the kubeconfig of its administrator.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  operator-sdk cluster up --kubeconfig kubeconfig &\n  kubectl --kubeconfig kubeconfig get nodes"
)]
pub(crate) struct UpArgs {
    /// Where the kubeconfig is written, readable for you alone, and removed at the end unless the cluster has a
    /// --data-dir [default: in the data directory, or in a temporary one].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The port; 0 takes one that is free [default: with --data-dir the port of the last time, else 0].
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,
    /// Keep everything in this directory, which is made if it does not exist: the cluster is there again when it is
    /// next started on it, at the same address and with the same authority [default: in memory].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Wait for the disk at each write. Slower; needed only against a loss of power, since writes survive the end of
    /// the process anyway.
    #[arg(long, requires = "data_dir")]
    pub(crate) fsync: bool,
    /// Which controllers run: those of Deployments, garbage and namespaces among others, or none, as in envtest.
    #[arg(long, value_enum, default_value_t = ControllersArg::All)]
    pub(crate) controllers: ControllersArg,
    /// How many nodes are simulated; pods become ready on them.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=128))]
    pub(crate) nodes: u16,
    /// Run Operator Lifecycle Manager: its definitions are installed, and Subscriptions install operators.
    #[arg(long, conflicts_with = "controllers")]
    pub(crate) olm: bool,
    /// Offer the operators of a file-based catalog to all namespaces, by a CatalogSource with the name of the directory
    /// in the namespace `olm`. May be given several times.
    #[arg(long, value_name = "DIR", requires = "olm")]
    pub(crate) catalog: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ControllersArg {
    /// All that there are
    All,
    /// The API server alone
    None,
}
