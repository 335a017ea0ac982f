//! `operator-sdk delete`.

use clap::Args;

/// Take a version of a kind out of the project: its type, its controller, its sample, its roles.
///
/// Files that were written for it are removed, whatever is in them now: version control has them. With the last
/// version goes the definition.
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

/// Removing files needs a yes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConsentArgs {
    /// Do not ask.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Write over files under config/ that you changed.
    #[arg(long)]
    pub(crate) force: bool,
    /// Show what would be removed, as a diff, and remove nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
