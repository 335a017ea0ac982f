//! Commands that the Jobs of Operator Lifecycle Manager call on an embedded control plane.

use clap::{Args, Subcommand};

/// Commands of `opm` for an embedded control plane.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AlphaCommand {
    /// Commands for bundle images.
    #[command(subcommand)]
    Bundle(AlphaBundleCommand),
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AlphaBundleCommand {
    Extract(ExtractArgs),
}

/// Write the manifests of a bundle image to a ConfigMap.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExtractArgs {
    /// The directory of the bundle in the pod of the Job, which the command does not need.
    #[arg(short = 'm', long = "manifestsdir", value_name = "DIR")]
    pub(crate) _directory: Option<String>,
    /// The namespace of the ConfigMap.
    #[arg(short, long, value_name = "NS")]
    pub(crate) namespace: String,
    /// The name of the ConfigMap.
    #[arg(short, long, value_name = "NAME")]
    pub(crate) configmapname: String,
    /// Compress the manifests, as is always done.
    #[arg(short = 'z', long = "gzip")]
    pub(crate) _gzip: bool,
    /// The bundle image.
    #[arg(long, env = "CONTAINER_IMAGE", value_name = "IMAGE")]
    pub(crate) image: String,
}
