//! `operator-sdk upgrade`.

use clap::Args;

/// Bring the project to what this version of the tool scaffolds.
///
/// A three-way merge of what the version that made the project wrote (kept in .operator-sdk), what this version
/// writes for the same commands, and your files. Files that you did not touch become the new ones; in those that you
/// changed, your lines and the new ones are merged, and lines that both changed are marked as git marks conflicts.
/// Nothing of yours is overwritten or removed. Generated manifests are left to `generate manifests`.
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
