//! `operator-sdk generate bundle`.

use clap::Args;

/// Generate an OLM bundle: a ClusterServiceVersion, the other manifests, their labels and bundle.Dockerfile.
///
/// The objects come from the kustomization config/manifests, or from standard input if it is a pipe or a file. The
/// ClusterServiceVersion starts from config/manifests/bases. The same input gives the same bytes: the creation time is
/// SOURCE_DATE_EPOCH, else the time of the last commit, else omitted. Labels and lines of bundle.Dockerfile that you
/// added are kept.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk generate bundle --version 0.1.0 --channels stable\n  kubectl kustomize config/manifests | operator-sdk generate bundle --version 0.1.0"
)]
pub(crate) struct GenerateBundleArgs {
    /// Semantic version of the bundle [default: the version of the base].
    #[arg(short, long, default_value = "", hide_default_value = true)]
    pub(crate) version: String,
    /// Channels of the bundle, separated by commas.
    #[arg(long, default_value = "alpha", value_delimiter = ',')]
    pub(crate) channels: Vec<String>,
    /// Channel of users who choose none.
    #[arg(long, value_name = "CHANNEL")]
    pub(crate) default_channel: Option<String>,
    /// Name of the package [default: the name of the project].
    #[arg(long, value_name = "NAME")]
    pub(crate) package: Option<String>,
    /// Overwrite existing labels and bundle.Dockerfile; `false` keeps them unchanged.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) overwrite: bool,
    /// Service accounts of other workloads whose permissions belong to the operator, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) extra_service_accounts: Vec<String>,
    /// Directory of the bundle, inside the project.
    #[arg(long, default_value = "bundle", value_name = "DIR")]
    pub(crate) output_dir: String,
    /// Directory of the kustomization to render.
    #[arg(long, default_value = "config/manifests", value_name = "DIR")]
    pub(crate) kustomize_dir: String,
    /// Image of the operator [default: that of config/manager]; not for objects from standard input.
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Name of the ClusterServiceVersion that this one replaces [default: that of the base].
    #[arg(long, value_name = "NAME")]
    pub(crate) replaces: Option<String>,
    /// Names of ClusterServiceVersions to skip, separated by commas [default: those of the base].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) skips: Vec<String>,
    /// Range of versions that can be upgraded directly, such as `<1.2.0` [default: that of the base].
    #[arg(long, value_name = "RANGE")]
    pub(crate) skip_range: Option<String>,
    /// Replace the tags of images by digests, which their registries resolve, and list all images in `relatedImages`.
    #[arg(long)]
    pub(crate) use_image_digests: bool,
    /// Print the manifests instead of writing files.
    #[arg(long)]
    pub(crate) stdout: bool,
    /// Show what would change, as a diff, and write nothing.
    #[arg(long, conflicts_with = "stdout")]
    pub(crate) dry_run: bool,
}

/// Rejected: the packagemanifests format is obsolete.
#[derive(Clone, Debug, Args)]
pub(crate) struct PackagemanifestsArgs {
    /// Ignored.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub(crate) rest: Vec<String>,
}
