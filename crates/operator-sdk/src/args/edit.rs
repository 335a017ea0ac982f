//! `operator-sdk edit`.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::init::PluginArgs;
use super::{License, SdkArgs};

/// Change what the project as a whole is.
///
/// Says of each part whether it is wanted: `--metrics`, `--metrics=false`. Files under config/ and PROJECT follow. A
/// file that you changed is not written over without `--force`, and the entries that you added to kustomizations stay.
#[derive(Clone, Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  operator-sdk edit --multigroup\n  operator-sdk edit --namespaced --prometheus\n  operator-sdk edit --cert-manager=false"
)]
pub(crate) struct EditArgs {
    /// Put new kinds into folders by their group; the kinds that are there stay where they are.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) multigroup: Option<bool>,
    /// Have the operator watch its own namespace alone, with Roles in place of ClusterRoles.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) namespaced: Option<bool>,
    /// Serve metrics.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) metrics: Option<bool>,
    /// Tell Prometheus' operator about the metrics.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) prometheus: Option<bool>,
    /// Guard the servers of the operator by network policies.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) network_policy: Option<bool>,
    /// Take certificates from cert-manager; the operator makes its own otherwise.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) cert_manager: Option<bool>,
    /// The owner named in the copyright line of new source files.
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// The license named in new source files.
    #[arg(long, value_enum)]
    pub(crate) license: Option<License>,
    /// The file with the head of new source files.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["owner", "license"])]
    pub(crate) license_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sdk: SdkArgs,
    /// Write over files that you changed.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    plugins: PluginArgs,
    /// Show what would be written, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
