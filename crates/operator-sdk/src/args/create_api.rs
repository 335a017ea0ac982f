//! `operator-sdk create api`.

use clap::{ArgAction, Args};

use super::init::PluginArgs;

/// Add a kind to the project: its type, its controller, a sample, a test and its roles.
///
/// A further version of an existing kind is added to its CRD; the first version stays the storage version. For kinds of
/// Kubernetes (`--group apps`) and of other projects (`--external-api-path`), only a controller is added.
///
/// With `--image` the controller is complete: it runs a Deployment of that image with `spec.size` replicas and
/// maintains status conditions. Without it, the controller compiles and runs, and comments show where to add your code.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk create api --group cache --version v1alpha1 --kind Memcached\n  operator-sdk create api --group cache --version v1alpha1 --kind Memcached \\\n    --image memcached:1.6.26-alpine3.19 --image-container-command \"memcached,--memory-limit=64,-o,modern,-v\" \\\n    --image-container-port 11211 --run-as-user 1001\n  operator-sdk create api --group apps --version v1 --kind Deployment --resource=false"
)]
pub(crate) struct CreateApiArgs {
    /// The API group without the project's domain, such as `cache`.
    #[arg(long)]
    pub(crate) group: String,
    /// The API version, such as v1alpha1, v1beta1 or v1.
    #[arg(long)]
    pub(crate) version: String,
    /// The kind in CamelCase, such as Memcached.
    #[arg(long)]
    pub(crate) kind: String,
    /// Make the kind namespace-scoped; `--namespaced=false` makes it cluster-scoped.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) namespaced: bool,
    /// The plural of the kind, in lower case [default: by the rules of English spelling].
    #[arg(long)]
    pub(crate) plural: Option<String>,
    /// Write the type, its sample and its roles [default: asked on a terminal, else true; false for kinds of other
    /// projects].
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) resource: Option<bool>,
    /// Write the controller and its test [default: asked on a terminal, else true; false for a further version].
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) controller: Option<bool>,
    /// The name of the controller, for a second controller of the same kind: letters, digits and dashes.
    #[arg(long, value_name = "NAME")]
    pub(crate) controller_name: Option<String>,
    #[command(flatten)]
    pub(crate) external: ExternalArgs,
    /// Overwrite existing files of this kind.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    #[command(flatten)]
    plugins: PluginArgs,
    /// Show what would be written, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    // kubebuilder's flag to run `make generate` afterwards. Rust types need no generated code.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    make: Option<bool>,
}

/// The type of a kind of another project.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ExternalArgs {
    /// The Rust module with the type of another project's kind, such as cert_manager::v1.
    #[arg(long, value_name = "MODULE")]
    pub(crate) external_api_path: Option<String>,
    /// The domain of its group: with `io`, the group `cert-manager` becomes cert-manager.io.
    #[arg(long, value_name = "DOMAIN", requires = "external_api_path")]
    pub(crate) external_api_domain: Option<String>,
    /// The crate with that module, and its version, as NAME@VERSION. It is added to Cargo.toml.
    #[arg(long, value_name = "CRATE", requires = "external_api_path")]
    pub(crate) external_api_module: Option<String>,
}

/// The container of the complete controller.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ImageArgs {
    /// The container image that the controller runs.
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// The command of the container: words separated by commas [default: the command of the image].
    #[arg(long, value_name = "COMMAND", requires = "image")]
    pub(crate) image_container_command: Option<String>,
    /// The port that the container listens on.
    #[arg(long, value_name = "PORT", requires = "image", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) image_container_port: Option<u16>,
    /// The user ID of the container [default: the user of the image, which must not be root].
    #[arg(long, value_name = "UID", requires = "image", value_parser = clap::value_parser!(i64).range(1..=2_147_483_647))]
    pub(crate) run_as_user: Option<i64>,
}
