//! `operator-sdk upgrade`.

use clap::Args;

/// Upgrade the project to the scaffold of this version of the tool.
///
/// Merges three versions of each file: the one that the earlier tool wrote (kept in .operator-sdk), the one that this
/// tool writes for the same commands, and yours. Files that you did not change are replaced. In files that you changed,
/// both changes are merged; conflicting lines are marked as git marks conflicts. None of your lines is lost. Generated
/// manifests are not changed: run `generate manifests`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  operator-sdk upgrade --dry-run")]
pub(crate) struct UpgradeArgs {
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Merge even if files have changes that are not committed.
    #[arg(long)]
    pub(crate) force: bool,
}
