//! `operator-sdk generate`.

use clap::Args;

/// Write the CRDs, the role and the webhook configurations from the source.
///
/// Builds the operator, asks it for its kinds, permissions and webhooks, and writes config/crd/bases,
/// config/rbac/role.yaml and config/webhook/manifests.yaml. Types that no API server would take are refused with the
/// field and what to do. Running it twice changes nothing.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ManifestsArgs {
    /// Cut descriptions in CRDs to this many characters; 0 leaves them out [default: whole, unless `kubectl apply`
    /// could not take the CRD].
    #[arg(long, value_name = "CHARACTERS")]
    pub(crate) max_description_len: Option<usize>,
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Write config/crd/bases from the source.
#[derive(Clone, Debug, Args)]
pub(crate) struct CrdsArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestsArgs,
}

/// Write config/rbac/role.yaml from the source.
#[derive(Clone, Debug, Args)]
pub(crate) struct RbacArgs {
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Write config/webhook/manifests.yaml from the source.
#[derive(Clone, Debug, Args)]
pub(crate) struct WebhooksArgs {
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Write what an OLM bundle is made from: config/manifests, with the kinds of the source.
///
/// The ClusterServiceVersion under config/manifests/bases is yours: only its list of owned kinds follows the source.
#[derive(Clone, Debug, Args)]
pub(crate) struct KustomizeArgs {
    /// What is written.
    #[arg(value_parser = ["manifests"], default_value = "manifests")]
    pub(crate) what: String,
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
