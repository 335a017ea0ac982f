//! `operator-sdk bundle` and `operator-sdk scorecard`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::deploy::{ClusterArgs, duration};

/// Validate, build, push and pull bundles for Operator Lifecycle Manager.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BundleCommand {
    Validate(BundleValidateArgs),
    Build(BundleBuildArgs),
    Push(BundlePushArgs),
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

/// Build the image of a bundle and push it to its registry, as `bundle build --push`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  operator-sdk bundle push quay.io/example/memcached-operator-bundle:v0.0.1"
)]
pub(crate) struct BundlePushArgs {
    /// The name of the image, such as quay.io/example/memcached-operator-bundle:v0.0.1.
    #[arg(value_name = "IMAGE")]
    pub(crate) image: String,
    /// The bundle directory.
    #[arg(value_name = "DIR", default_value = "bundle")]
    pub(crate) bundle: String,
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

/// Validate a bundle directory or a bundle image: its format, its ClusterServiceVersion, its CRDs and its other objects.
///
/// Exits with 1 if there are errors; warnings do not change the exit code.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk bundle validate bundle\n  operator-sdk bundle validate bundle --select-optional suite=operatorframework --optional-values k8s-version=1.25"
)]
pub(crate) struct BundleValidateArgs {
    /// The bundle directory, or an image, which is pulled with the credentials of `docker login` or `podman login`.
    #[arg(value_name = "DIR|IMAGE", required_unless_present = "list_optional")]
    pub(crate) bundle: Option<String>,
    /// Pull the image over HTTP, without TLS. Registries on this machine are always called over HTTP.
    #[arg(long)]
    pub(crate) insecure: bool,
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

/// The security context of the pods of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PodSecurityArg {
    /// No security context
    #[default]
    Legacy,
    /// The security context that the restricted Pod Security Standard requires
    Restricted,
}

/// Run the scorecard tests of a bundle directory or a bundle image.
///
/// The built-in tests run in the process of the command. A test with an image of its own runs as a pod of a cluster: it
/// gets the bundle in /bundle and its namespace in SCORECARD_NAMESPACE, and prints its results as JSON.
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
    /// The bundle directory, or an image, which is pulled with the credentials of `docker login` or `podman login`.
    #[arg(value_name = "DIR|IMAGE")]
    pub(crate) bundle: String,
    /// Pull the image over HTTP, without TLS. Registries on this machine are always called over HTTP.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Run only the tests with these labels.
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "")]
    pub(crate) selector: String,
    /// The configuration [default: tests/scorecard/config.yaml of the bundle].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The time limit of each pod, and of each step of a test of the suite `behaviour`, such as 30s or 2m.
    #[arg(short, long, default_value = "30s", value_name = "TIME", value_parser = duration)]
    pub(crate) wait_time: Duration,
    /// List the tests without running them.
    #[arg(short = 'L', long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// The namespace of the pods [default: that of the context].
    #[arg(short, long, value_name = "NS")]
    pub(crate) namespace: Option<String>,
    /// The service account of the pods [default: that of the configuration, or default].
    #[arg(short, long, value_name = "NAME")]
    pub(crate) service_account: Option<String>,
    /// The security context of the pods; namespaces that enforce the restricted Pod Security Standard need `restricted`.
    #[arg(long, value_enum, default_value_t, value_name = "CONTEXT")]
    pub(crate) pod_security: PodSecurityArg,
    /// The image with `tar` and `base64` that prints the files of a test with storage.
    #[arg(
        short = 'b',
        long,
        default_value = "docker.io/library/busybox:1.36",
        value_name = "IMAGE"
    )]
    pub(crate) storage_image: String,
    /// The directory for the files of tests with storage.
    #[arg(short, long, default_value = "test-output", value_name = "DIR")]
    pub(crate) test_output: PathBuf,
    /// Keep the pods and the ConfigMaps of the tests.
    #[arg(short = 'x', long)]
    pub(crate) skip_cleanup: bool,
    /// Run the pods on a control plane in this process.
    #[arg(long, conflicts_with_all = ["kubeconfig", "context", "skip_cleanup"])]
    pub(crate) embedded: bool,
    /// On an embedded control plane, run a program of this machine in place of the image of a test. It finds the bundle in
    /// the directory SCORECARD_BUNDLE, and writes files to the directory SCORECARD_STORAGE.
    #[arg(long, value_name = "IMAGE=PATH")]
    pub(crate) test_program: Vec<String>,
    /// Output format of the results.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: ScoreOutputArg,
}
