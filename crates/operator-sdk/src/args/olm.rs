//! The commands of Operator Lifecycle Manager: `run bundle`, `run bundle-upgrade`, `cleanup` and `olm`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::deploy::{ClusterArgs, duration};

/// The namespace and the time limit of a command.
#[derive(Clone, Debug, Args)]
pub(crate) struct OlmArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// The namespace [default: that of the context].
    #[arg(long, short = 'n', value_name = "NS")]
    pub(crate) namespace: Option<String>,
    /// The time limit of the whole command, such as 90s or 2m.
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Duration,
}

const INDEX_IMAGE: &str = "quay.io/operator-framework/opm:latest";
const DECOMPRESSION_IMAGE: &str = "registry.access.redhat.com/ubi9/ubi:9.8";
const PULL_POLICY: &str = "Always";
const SERVICE_ACCOUNT: &str = "default";

/// Settings of the registry pod of a bundle.
#[derive(Clone, Debug, Args)]
pub(crate) struct RegistryArgs {
    /// The image with the `opm` that serves the catalog of the bundle.
    #[arg(long, default_value = INDEX_IMAGE, value_name = "IMAGE")]
    pub(crate) index_image: String,
    /// The image that decompresses the catalog in the registry pod.
    #[arg(long, default_value = DECOMPRESSION_IMAGE, value_name = "IMAGE")]
    pub(crate) decompression_image: String,
    /// The pull policy of these images.
    #[arg(long, default_value = PULL_POLICY, value_name = "POLICY")]
    pub(crate) image_pull_policy: String,
    /// The name of a Secret in the namespace with credentials for these images.
    #[arg(long, value_name = "SECRET")]
    pub(crate) pull_secret_name: Option<String>,
    /// The service account of the registry pod.
    #[arg(long, default_value = SERVICE_ACCOUNT, value_name = "NAME")]
    pub(crate) service_account: String,
    /// The security context of the registry pod; namespaces that enforce the restricted Pod Security Standard need
    /// `restricted`.
    #[arg(long, value_enum, default_value_t, value_name = "CONTEXT")]
    pub(crate) security_context_config: SecurityContextArg,
}

impl Default for RegistryArgs {
    fn default() -> Self {
        Self {
            index_image: INDEX_IMAGE.to_owned(),
            decompression_image: DECOMPRESSION_IMAGE.to_owned(),
            image_pull_policy: PULL_POLICY.to_owned(),
            pull_secret_name: None,
            service_account: SERVICE_ACCOUNT.to_owned(),
            security_context_config: SecurityContextArg::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SecurityContextArg {
    /// No security context
    #[default]
    Legacy,
    /// The security context that the restricted Pod Security Standard requires
    Restricted,
}

/// A version of Operator Lifecycle Manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OlmVersionArg {
    /// Subscriptions and ClusterServiceVersions
    #[default]
    V0,
    /// ClusterExtensions
    V1,
}

/// The program of the project in place of its image.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct ProgramArgs {
    /// Simulate the pods of the operator on an embedded control plane instead of building and running the project's
    /// program.
    #[arg(long)]
    pub(crate) simulate: bool,
    /// Build an optimized program.
    #[arg(long, conflicts_with = "simulate")]
    pub(crate) release: bool,
}

/// Install the operator of a bundle on a cluster with Operator Lifecycle Manager.
///
/// A bundle directory needs no registry: its objects are stored in ConfigMaps, which a pod serves as a catalog. If the
/// installation fails or is interrupted by Ctrl-C, all created objects are deleted.
///
/// On an embedded control plane (`--embedded` or `cluster up --olm`), no image is pulled: if the bundle is the one of
/// the project in the current directory, the project is built, and its program runs on this machine as the operator's
/// pods, as with `deploy --process`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk run bundle bundle\n  operator-sdk run bundle bundle --install-mode OwnNamespace -n operators\n  operator-sdk run bundle bundle --embedded\n  operator-sdk run bundle bundle --olm-version v1 --push-to quay.io/example/memcached-operator"
)]
pub(crate) struct RunBundleArgs {
    /// The bundle directory, or an image, which is pulled with the credentials of `docker login` or `podman login`.
    #[arg(value_name = "DIR|IMAGE")]
    pub(crate) bundle: String,
    /// Pull and push images over HTTP, without TLS. Registries on this machine are always called over HTTP.
    #[arg(long)]
    pub(crate) insecure: bool,
    #[command(flatten)]
    pub(crate) olm: OlmArgs,
    /// The version of Operator Lifecycle Manager: v0 creates a CatalogSource and a Subscription, v1 a ClusterCatalog and a
    /// ClusterExtension.
    #[arg(long, value_enum, default_value_t, value_name = "VERSION")]
    pub(crate) olm_version: OlmVersionArg,
    /// The repository to which the bundle and its catalog are pushed, such as quay.io/example/memcached-operator. OLM v1
    /// pulls both; on an embedded control plane it does not.
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) push_to: Option<String>,
    /// AllNamespaces, OwnNamespace, SingleNamespace=NS or MultiNamespace=NS,NS [default: AllNamespaces if the operator
    /// supports it, else OwnNamespace].
    #[arg(long, value_name = "MODE")]
    pub(crate) install_mode: Option<String>,
    /// Start a control plane with Operator Lifecycle Manager in this process, until Ctrl-C; with --kubeconfig, write
    /// its kubeconfig to that file.
    #[arg(long, conflicts_with = "context")]
    pub(crate) embedded: bool,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
}

/// Upgrade an operator that `run bundle` installed to the version of another bundle.
///
/// If the upgrade fails before it is approved, or is interrupted by Ctrl-C, the previous catalog is restored. OLM v1 needs
/// no approval: the previous catalog is restored after each failure.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk run bundle-upgrade bundle\n  operator-sdk run bundle-upgrade bundle --olm-version v1 --push-to quay.io/example/memcached-operator"
)]
pub(crate) struct RunBundleUpgradeArgs {
    /// The bundle directory, or an image, which is pulled with the credentials of `docker login` or `podman login`.
    #[arg(value_name = "DIR|IMAGE")]
    pub(crate) bundle: String,
    /// Pull and push images over HTTP, without TLS. Registries on this machine are always called over HTTP.
    #[arg(long)]
    pub(crate) insecure: bool,
    #[command(flatten)]
    pub(crate) olm: OlmArgs,
    /// The version of Operator Lifecycle Manager with which the operator was installed.
    #[arg(long, value_enum, default_value_t, value_name = "VERSION")]
    pub(crate) olm_version: OlmVersionArg,
    /// The repository to which the bundle and its catalog are pushed. OLM v1 pulls both; on an embedded control plane it
    /// does not.
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) push_to: Option<String>,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
}

/// Delete an operator that Operator Lifecycle Manager installed: its Subscription, its ClusterServiceVersion and its
/// catalog.
///
/// CRDs are deleted only if the operator owns them. All their objects are deleted with them.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk cleanup memcached-operator --dry-run\n  operator-sdk cleanup memcached-operator --delete-all=false"
)]
pub(crate) struct CleanupArgs {
    /// The name of the package.
    #[arg(value_name = "PACKAGE")]
    pub(crate) package: String,
    #[command(flatten)]
    pub(crate) olm: OlmArgs,
    /// Delete the owned CRDs and the OperatorGroup as well.
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub(crate) delete_all: bool,
    /// Delete the CRDs that the operator owns, and with them all their objects.
    #[arg(long)]
    pub(crate) delete_crds: bool,
    /// Delete the OperatorGroup of `run bundle` if no Subscription is left in the namespace.
    #[arg(long)]
    pub(crate) delete_operator_groups: bool,
    /// Print what would be deleted, and delete nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Install, inspect and remove Operator Lifecycle Manager itself.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum OlmCommand {
    Install(OlmInstallArgs),
    Status(OlmStatusArgs),
    Uninstall(OlmUninstallArgs),
}

/// Install Operator Lifecycle Manager from its release manifests.
///
/// The files crds.yaml and olm.yaml of the release are downloaded, through the proxy of HTTPS_PROXY if it is set.
/// Without network access, give them with `--manifests`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  operator-sdk olm install --version 0.46.0\n  operator-sdk olm install --manifests olm-manifests    # crds.yaml and olm.yaml of a release"
)]
pub(crate) struct OlmInstallArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// The release to download, such as 0.46.0.
    #[arg(long, value_name = "VERSION", default_value = "latest")]
    pub(crate) version: String,
    /// The address of the releases, for mirrors.
    #[arg(
        long,
        value_name = "URL",
        default_value = "https://github.com/operator-framework/operator-lifecycle-manager/releases"
    )]
    pub(crate) releases: String,
    /// A file, or a directory of YAML files, with the manifests of a release.
    #[arg(long, value_name = "DIR|FILE", conflicts_with_all = ["version", "releases"])]
    pub(crate) manifests: Option<PathBuf>,
    /// The time limit of the whole command, such as 90s or 2m.
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Show the version of the installed Operator Lifecycle Manager and the state of its objects.
#[derive(Clone, Debug, Args)]
pub(crate) struct OlmStatusArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// The namespace of Operator Lifecycle Manager.
    #[arg(long, default_value = "olm", value_name = "NS")]
    pub(crate) olm_namespace: String,
    /// The required version [default: any].
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// The manifests of the release, whose objects are checked [default: the objects that every release has].
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) manifests: Option<PathBuf>,
}

/// Remove Operator Lifecycle Manager, and with it all Subscriptions and ClusterServiceVersions.
#[derive(Clone, Debug, Args)]
pub(crate) struct OlmUninstallArgs {
    #[command(flatten)]
    pub(crate) status: OlmStatusArgs,
    /// The time limit of the whole command, such as 90s or 2m.
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Duration,
}
