//! `operator-sdk delete`.

use clap::Args;

/// Remove a version of a kind from the project: its type, its controller, its sample and its roles.
///
/// The files that were written for it are removed, even if you changed them; version control still has them. With the
/// last version, the CRD is removed too.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  operator-sdk delete api --group cache --version v1alpha1 --kind Memcached"
)]
pub(crate) struct DeleteApiArgs {
    #[command(flatten)]
    pub(crate) kind: KindArgs,
    #[command(flatten)]
    pub(crate) consent: ConsentArgs,
}

/// Names one version of a kind.
#[derive(Clone, Debug, Args)]
pub(crate) struct KindArgs {
    /// The API group without the project's domain, such as `cache`.
    #[arg(long)]
    pub(crate) group: String,
    /// The API version, such as v1alpha1, v1beta1 or v1.
    #[arg(long)]
    pub(crate) version: String,
    /// The kind in CamelCase, such as Memcached.
    #[arg(long)]
    pub(crate) kind: String,
}

/// Confirmation of removals.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConsentArgs {
    /// Do not ask for confirmation.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Overwrite files under config/ that you changed.
    #[arg(long)]
    pub(crate) force: bool,
    /// Show what would be removed, as a diff, and remove nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
