//! `operator-sdk cluster`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Run a Kubernetes control plane in the foreground, until Ctrl-C.
///
/// The server listens with HTTPS on this machine only. Pods are simulated; `operator-sdk deploy --process` runs the
/// program of a project as pods. All data is lost at the end unless --data-dir is given. One line reports when the
/// control plane is ready, with its address and the kubeconfig of its administrator.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  operator-sdk cluster up --kubeconfig kubeconfig &\n  kubectl --kubeconfig kubeconfig get nodes\n  operator-sdk cluster up -- --authorization-mode=RBAC --audit-policy-file=policy.yaml --audit-log-path=audit.log"
)]
pub(crate) struct UpArgs {
    /// The kubeconfig to write, readable only by you. It is removed at the end unless --data-dir is given [default: in
    /// the data directory, or in a temporary one].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The port; 0 selects a free one [default: with --data-dir the previous port, else 0].
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,
    /// Keep all data in this directory, which is created if it does not exist. The next start with the same directory
    /// has the same objects, address and certificate authority [default: in memory].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Flush each write to the disk. This is slower, and needed only against power loss: writes survive the end of the
    /// process anyway.
    #[arg(long, requires = "data_dir")]
    pub(crate) fsync: bool,
    /// The controllers to run: all (Deployments, garbage collection, namespaces and others), or none, as in envtest.
    #[arg(long, value_enum, default_value_t = ControllersArg::All)]
    pub(crate) controllers: ControllersArg,
    /// Number of simulated nodes. Pods become ready on them.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=128))]
    pub(crate) nodes: u16,
    /// Run Operator Lifecycle Manager: install its CRDs, and install operators for Subscriptions.
    #[arg(long, conflicts_with = "controllers")]
    pub(crate) olm: bool,
    /// Offer the operators of a file-based catalog to all namespaces, through a CatalogSource in the namespace `olm`
    /// with the name of the directory. May be repeated.
    #[arg(long, value_name = "DIR", requires = "olm")]
    pub(crate) catalog: Vec<PathBuf>,
    /// Flags of kube-apiserver for access to the server, after `--`: --authorization-*, --authentication-*, --oidc-*,
    /// --audit-*, --requestheader-*, --token-auth-file, --anonymous-auth, --api-audiences,
    /// --enable-admission-plugins, --disable-admission-plugins, --admission-control-config-file, --runtime-config and
    /// --feature-gates. The program `kube-apiserver` of `operator-sdk envtest` explains them with --help.
    #[arg(last = true, value_name = "FLAG", allow_hyphen_values = true)]
    pub(crate) server_flags: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ControllersArg {
    /// All controllers
    All,
    /// Only the API server
    None,
}
