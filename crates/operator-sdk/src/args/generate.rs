//! `operator-sdk generate`.

use clap::Args;

/// Write the CRDs and the role from the source.
///
/// Builds the operator, asks it for its kinds and permissions, and writes config/crd/bases and
/// config/rbac/role.yaml. Running it twice changes nothing.
#[derive(Clone, Debug, Args)]
pub(crate) struct ManifestsArgs {
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
