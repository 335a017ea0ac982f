//! `operator-sdk bundle` and `operator-sdk scorecard`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::deploy::duration;

/// Validate, build and pull bundles for Operator Lifecycle Manager.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BundleCommand {
    Validate(BundleValidateArgs),
    Build(BundleBuildArgs),
    Pull(BundlePullArgs),
}

/// Write the files of a bundle image into a directory, without a container engine.
///
/// Uses the credentials of `docker login` or `podman login`. The digests of the image are checked.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  operator-sdk bundle pull quay.io/example/memcached-operator-bundle:v0.0.1 bundle"
)]
pub(crate) struct BundlePullArgs {
    /// The name of the image, with a tag or a digest.
    #[arg(value_name = "IMAGE")]
    pub(crate) image: String,
    /// The directory to write to.
    #[arg(value_name = "DIR", default_value = "bundle")]
    pub(crate) directory: String,
    /// Replace files of a directory that is not empty.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Pull over HTTP, without TLS. Registries on this machine are always called over HTTP.
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// Build the image of a bundle, without a container engine.
///
/// The image has the files and labels that bundle.Dockerfile gives it, with the same bytes on every machine. It is
/// written as an OCI layout, which `docker load` and `skopeo copy` read, or pushed.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  operator-sdk bundle build quay.io/example/memcached-operator-bundle:v0.0.1 --push"
)]
pub(crate) struct BundleBuildArgs {
    /// The name of the image, such as quay.io/example/memcached-operator-bundle:v0.0.1.
    #[arg(value_name = "IMAGE")]
    pub(crate) image: String,
    /// The bundle directory.
    #[arg(value_name = "DIR", default_value = "bundle")]
    pub(crate) bundle: String,
    /// Push the image to its registry, with the credentials of `docker login` or `podman login`.
    #[arg(long)]
    pub(crate) push: bool,
    /// The file to write the image to [default: bundle.tar, unless the image is pushed].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Push over HTTP, without TLS. Registries on this machine are always called over HTTP.
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// Output format of the findings about a bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BundleOutputArg {
    /// Log lines, each with the file, line and column of the finding.
    #[default]
    Text,
    /// The JSON document of operator-sdk.
    #[value(name = "json-alpha1")]
    JsonAlpha1,
    /// A SARIF 2.1.0 document for code scanning.
    Sarif,
}

/// Validate a bundle directory: its format, its ClusterServiceVersion, its CRDs and its other objects.
///
/// Exits with 1 if there are errors; warnings do not change the exit code.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk bundle validate bundle\n  operator-sdk bundle validate bundle --select-optional suite=operatorframework --optional-values k8s-version=1.25"
)]
pub(crate) struct BundleValidateArgs {
    /// The bundle directory.
    #[arg(value_name = "DIR|IMAGE", required_unless_present = "list_optional")]
    pub(crate) bundle: Option<String>,
    /// Run the optional validators with these labels: `name=NAME` or `suite=operatorframework`.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) select_optional: Option<String>,
    /// Values for optional validators, such as k8s-version=1.25 or index-path=bundle.Dockerfile.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',')]
    pub(crate) optional_values: Vec<String>,
    /// Run these programs as validators; separate their paths by `:`. Each gets the directory as its argument and
    /// prints its findings as JSON.
    #[arg(long, value_name = "PROGRAM[:PROGRAM]")]
    pub(crate) alpha_select_external: Option<String>,
    /// List the optional validators.
    #[arg(long)]
    pub(crate) list_optional: bool,
    /// Fix errors that have one possible correction: the case of names, incomplete versions.
    #[arg(long)]
    pub(crate) fix: bool,
    /// Output format of the findings.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: BundleOutputArg,
}

/// Output format of scorecard results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScoreOutputArg {
    /// Blocks of text.
    #[default]
    Text,
    /// A TestList.
    Json,
    /// An XML report with a suite for each test.
    Xunit,
}

/// Run the built-in scorecard tests of a bundle directory, without a cluster.
///
/// The tests of the suite `behaviour` run if the selector names them. They build the project in the current directory,
/// install its bundle on an embedded control plane, and check the behaviour of the operator with the examples of the
/// bundle: each example becomes ready, each field of its spec has an effect, the operator writes nothing at rest, and
/// it leaves nothing behind.
///
/// Exits with 1 unless all tests pass.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk scorecard bundle --selector suite=olm\n  operator-sdk scorecard bundle --selector suite=behaviour"
)]
pub(crate) struct ScorecardArgs {
    /// The bundle directory.
    #[arg(value_name = "DIR|IMAGE")]
    pub(crate) bundle: String,
    /// Run only the tests with these labels.
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "")]
    pub(crate) selector: String,
    /// The configuration [default: tests/scorecard/config.yaml of the bundle].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The time limit of each step of a test of the suite `behaviour`, such as 30s or 2m.
    #[arg(short, long, default_value = "30s", value_name = "TIME", value_parser = duration)]
    pub(crate) wait_time: Duration,
    /// List the tests without running them.
    #[arg(short = 'L', long)]
    pub(crate) list: bool,
    /// Output format of the results.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: ScoreOutputArg,
}
