//! `operator-sdk create webhook` and `delete webhook`.

use clap::Args;

use super::create_api::ExternalArgs;
use super::delete::{ConsentArgs, KindArgs};
use super::init::PluginArgs;

/// Add webhooks to a kind: defaulting, validation, conversion between its versions.
///
/// The operator creates its own certificates and registers them with the API server, unless the project uses
/// cert-manager (`operator-sdk edit --cert-manager`). Webhooks can be added to a kind that already has others.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk create webhook --group cache --version v1alpha1 --kind Memcached --defaulting --programmatic-validation\n  operator-sdk create webhook --group cache --version v1 --kind Memcached --conversion --spoke v1alpha1"
)]
pub(crate) struct CreateWebhookArgs {
    #[command(flatten)]
    pub(crate) kind: KindArgs,
    #[command(flatten)]
    pub(crate) parts: WebhookArgs,
    /// The versions that are converted to this one and back [default: all other versions of the kind].
    #[arg(long, value_name = "VERSION", value_delimiter = ',', requires = "conversion")]
    pub(crate) spoke: Vec<String>,
    #[command(flatten)]
    pub(crate) external: ExternalArgs,
    /// Overwrite existing files of the webhooks.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    plugins: PluginArgs,
    /// Show what would be written, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The types of webhooks to add or remove.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct WebhookArgs {
    /// A webhook that sets defaults.
    #[arg(long)]
    pub(crate) defaulting: bool,
    /// A webhook that validates objects.
    #[arg(long, visible_alias = "validation")]
    pub(crate) programmatic_validation: bool,
    /// A webhook that converts between versions, with this version as the hub.
    #[arg(long)]
    pub(crate) conversion: bool,
}

/// Remove webhooks of a kind from the project: the given types, or all.
///
/// The files of webhooks are removed with the last webhook of the kind. Until then, the code of removed webhooks stays
/// for you to delete.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  operator-sdk delete webhook --group cache --version v1alpha1 --kind Memcached --defaulting"
)]
pub(crate) struct DeleteWebhookArgs {
    #[command(flatten)]
    pub(crate) kind: KindArgs,
    #[command(flatten)]
    pub(crate) parts: WebhookArgs,
    #[command(flatten)]
    pub(crate) consent: ConsentArgs,
}

// === impl WebhookArgs ===

impl WebhookArgs {
    pub(crate) fn is_empty(self) -> bool {
        !(self.defaulting || self.programmatic_validation || self.conversion)
    }
}
