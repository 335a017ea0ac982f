//! `operator-sdk create webhook` and `delete webhook`.

use clap::Args;

use super::create_api::ExternalArgs;
use super::delete::{ConsentArgs, KindArgs};
use super::init::PluginArgs;

/// Add webhooks to a kind: defaults, checks, conversion between its versions.
///
/// The operator makes its own certificates and tells the API server about them, unless the project has cert-manager do
/// it (`operator-sdk edit --cert-manager`). Webhooks can be added to a kind that has others already.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk create webhook --group cache --version v1alpha1 --kind Memcached --defaulting --programmatic-validation\n  operator-sdk create webhook --group cache --version v1 --kind Memcached --conversion --spoke v1alpha1"
)]
pub(crate) struct CreateWebhookArgs {
    #[command(flatten)]
    pub(crate) kind: KindArgs,
    #[command(flatten)]
    pub(crate) parts: WebhookArgs,
    /// The versions that are converted to this one and back [default: all others of the kind].
    #[arg(long, value_name = "VERSION", value_delimiter = ',', requires = "conversion")]
    pub(crate) spoke: Vec<String>,
    #[command(flatten)]
    pub(crate) external: ExternalArgs,
    /// Write the files of the webhooks again, even if they are there.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    plugins: PluginArgs,
    /// Show what would be written, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Which webhooks.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct WebhookArgs {
    /// A webhook that fills in defaults.
    #[arg(long)]
    pub(crate) defaulting: bool,
    /// A webhook that checks objects.
    #[arg(long, visible_alias = "validation")]
    pub(crate) programmatic_validation: bool,
    /// A webhook that converts between versions, with this one as the one in the middle.
    #[arg(long)]
    pub(crate) conversion: bool,
}

/// Take webhooks of a kind out of the project: those that are named, or all.
///
/// With the last one go their files. As long as others stay, the code of those that were taken out stays too, for you to
/// remove.
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
