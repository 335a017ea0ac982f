//! `operator-sdk build`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Build the image of the operator.
///
/// docker, podman and buildah build the project's Dockerfile. `--builder oci` needs no container engine: it compiles a
/// static program and puts it into an image with one layer, with the same bytes on every machine. The image is written
/// as an OCI layout, which `docker load` and `kind load image-archive` read, or pushed to a registry. Without
/// `--builder`, the first builder that works on this machine is used.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk build quay.io/example/memcached-operator:v0.0.1\n  operator-sdk build quay.io/example/memcached-operator:v0.0.1 --builder oci --push"
)]
pub(crate) struct BuildArgs {
    /// The name of the image, such as quay.io/example/memcached-operator:v0.0.1.
    #[arg(value_name = "IMAGE", env = "IMG")]
    pub(crate) image: String,
    /// The builder of the image.
    #[arg(long, alias = "image-builder", value_enum, default_value_t = BuilderArg::Auto)]
    pub(crate) builder: BuilderArg,
    /// Push the image to its registry, with the credentials of `docker login` or `podman login`.
    #[arg(long)]
    pub(crate) push: bool,
    /// More arguments for docker, podman or buildah, as one string.
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub(crate) image_build_args: Option<String>,
    /// More arguments for `cargo build`, as one string.
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub(crate) cargo_build_args: Option<String>,
    /// Rejected: it is for Go operators.
    #[arg(long, hide = true, allow_hyphen_values = true)]
    pub(crate) go_build_args: Option<String>,
    /// With `oci`: the file to write the image to [default: target/oci/PROJECT.tar, unless the image is pushed].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// With `oci`: the compiler target, such as aarch64-unknown-linux-musl [default: this machine's, static].
    #[arg(long, value_name = "TRIPLE")]
    pub(crate) target: Option<String>,
    /// With `oci`: an existing static program to use instead of building one. It needs no project.
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    pub(crate) binary: Option<PathBuf>,
    /// With `oci`: the path of the program in the image [default: /manager].
    #[arg(long, value_name = "PATH")]
    pub(crate) entrypoint: Option<String>,
    /// With `oci`: another file of the image, such as certificates of authorities; may be repeated.
    #[arg(long = "add", value_name = "FILE:PATH")]
    pub(crate) files: Vec<String>,
    /// With `oci`: push over HTTP, without TLS. Registries on this machine are always called over HTTP.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// With `oci`: a label of the image; may be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BuilderArg {
    /// The first builder that works on this machine
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
