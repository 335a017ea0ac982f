//! `operator-sdk edit`.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::init::PluginArgs;
use super::{License, SdkArgs};

/// Edit project settings.
///
/// Each flag switches a setting on (`--metrics`) or off (`--metrics=false`). PROJECT and the files under config/ are
/// updated. Files that you changed are overwritten only with `--force`. Entries that you added to kustomizations are
/// kept.
#[derive(Clone, Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  operator-sdk edit --multigroup\n  operator-sdk edit --namespaced --prometheus\n  operator-sdk edit --cert-manager=false"
)]
pub(crate) struct EditArgs {
    /// Put new kinds into directories by group; existing kinds are not moved.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) multigroup: Option<bool>,
    /// Have the operator watch only its own namespace, with Roles instead of ClusterRoles.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) namespaced: Option<bool>,
    /// Serve metrics.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) metrics: Option<bool>,
    /// Add a ServiceMonitor and alert rules for the Prometheus operator.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) prometheus: Option<bool>,
    /// Restrict access to the operator's servers with network policies.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) network_policy: Option<bool>,
    /// Use certificates from cert-manager; otherwise the operator creates its own.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) cert_manager: Option<bool>,
    /// The owner named in the copyright line of new source files.
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// The license named in new source files.
    #[arg(long, value_enum)]
    pub(crate) license: Option<License>,
    /// The file with the header of new source files.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["owner", "license"])]
    pub(crate) license_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sdk: SdkArgs,
    /// Overwrite files that you changed.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    plugins: PluginArgs,
    /// Show what would be written, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
