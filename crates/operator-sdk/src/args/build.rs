//! `operator-sdk build`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Build the image of the operator.
///
/// With docker, podman or buildah the project's Dockerfile is built. `--builder oci` needs none of them: the operator
/// is built as a static program, and becomes an image of one layer that is the same on every machine, written as an OCI
/// layout (which `docker load` and `kind load image-archive` read) or pushed to a registry. Without `--builder` it is
/// the first that works here.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk build quay.io/example/memcached-operator:v0.0.1\n  operator-sdk build quay.io/example/memcached-operator:v0.0.1 --builder oci --push"
)]
pub(crate) struct BuildArgs {
    /// The image's name, such as quay.io/example/memcached-operator:v0.0.1.
    #[arg(value_name = "IMAGE", env = "IMG")]
    pub(crate) image: String,
    /// What builds the image.
    #[arg(long, alias = "image-builder", value_enum, default_value_t = BuilderArg::Auto)]
    pub(crate) builder: BuilderArg,
    /// Push the image to its registry, with the credentials of `docker login` or `podman login`.
    #[arg(long)]
    pub(crate) push: bool,
    /// More arguments for docker, podman or buildah, in one text.
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub(crate) image_build_args: Option<String>,
    /// More arguments for `cargo build`, in one text.
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub(crate) cargo_build_args: Option<String>,
    /// Go's; refused with the reason.
    #[arg(long, hide = true, allow_hyphen_values = true)]
    pub(crate) go_build_args: Option<String>,
    /// With `oci`: where the image is written [default: target/oci/PROJECT.tar, unless it is pushed].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// With `oci`: the target of the compiler, such as aarch64-unknown-linux-musl [default: the machine's, static].
    #[arg(long, value_name = "TRIPLE")]
    pub(crate) target: Option<String>,
    /// With `oci`: a static program that was built elsewhere, in place of building one.
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    pub(crate) binary: Option<PathBuf>,
    /// With `oci`: push over HTTP, without TLS; registries on this machine are always asked so.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// With `oci`: a label of the image; may be given several times.
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BuilderArg {
    /// The first that works here
    Auto,
    /// docker, with the Dockerfile
    Docker,
    /// podman, with the Dockerfile
    Podman,
    /// buildah, with the Dockerfile
    Buildah,
    /// This tool, without a container engine
    Oci,
}
