//! `operator-sdk generate`.

use clap::Args;

/// Generate the CRDs, the role and the webhook configurations from the source.
///
/// Builds the operator, runs it to get its kinds, permissions and webhooks, and writes config/crd/bases,
/// config/rbac/role.yaml and config/webhook/manifests.yaml. Types that no API server accepts are errors, which name the
/// field and the fix. A second run changes nothing.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ManifestsArgs {
    /// Cut descriptions in CRDs to this number of characters; 0 omits them [default: complete, unless the CRD would be
    /// too large for `kubectl apply`].
    #[arg(long, value_name = "CHARACTERS")]
    pub(crate) max_description_len: Option<usize>,
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Generate config/crd/bases from the source.
#[derive(Clone, Debug, Args)]
pub(crate) struct CrdsArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestsArgs,
}

/// Generate config/rbac/role.yaml from the source.
#[derive(Clone, Debug, Args)]
pub(crate) struct RbacArgs {
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Generate config/webhook/manifests.yaml from the source.
#[derive(Clone, Debug, Args)]
pub(crate) struct WebhooksArgs {
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Generate config/manifests, the input of `generate bundle`, with the kinds of the source.
///
/// The ClusterServiceVersion under config/manifests/bases is yours: only its list of owned kinds is updated.
#[derive(Clone, Debug, Args)]
pub(crate) struct KustomizeArgs {
    /// The manifests to write.
    #[arg(value_parser = ["manifests"], default_value = "manifests")]
    pub(crate) what: String,
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
