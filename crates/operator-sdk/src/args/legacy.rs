//! The commands of operator-sdk 0.x. They are hidden from the help; each prints its current name once.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand, ValueEnum};

use super::run::LocalArgs;

/// Create a project in a new directory (now: `init`).
#[derive(Clone, Debug, Args)]
pub(crate) struct NewArgs {
    /// The name of the project and of its directory.
    pub(crate) name: String,
    /// The source repository, such as github.com/example-inc/memcached-operator.
    #[arg(long)]
    pub(crate) repo: Option<String>,
    /// The domain of the API groups [default: the domain of `--api-version`, or of the first `add api`].
    #[arg(long)]
    pub(crate) domain: Option<String>,
    /// The language of the operator.
    #[arg(long = "type", value_enum, default_value_t = OperatorType::Rust)]
    pub(crate) type_: OperatorType,
    /// Add this API, such as cache.example.com/v1alpha1.
    #[arg(long, requires = "kind")]
    pub(crate) api_version: Option<String>,
    /// Add this kind.
    #[arg(long, requires = "api_version")]
    pub(crate) kind: Option<String>,
    /// Create a git repository in the directory.
    #[arg(long, action = ArgAction::Set, default_value_t = false, hide_default_value = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) git_init: bool,
    /// Ignored: a repository is created only with `--git-init`.
    #[arg(long, conflicts_with = "git_init", action = ArgAction::Set, default_value_t = false, hide_default_value = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) skip_git_init: bool,
    /// Put the source of all dependencies into vendor/ (`cargo vendor`).
    #[arg(long, action = ArgAction::Set, default_value_t = false, hide_default_value = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) vendor: bool,
    /// The file with the header of every source file.
    #[arg(long, value_name = "FILE")]
    pub(crate) header_file: Option<PathBuf>,
    /// Ignored: this step does not exist.
    #[arg(long, action = ArgAction::Set, default_value_t = false, hide_default_value = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) skip_validation: bool,
    /// Ignored: this step does not exist.
    #[arg(long, action = ArgAction::Set, default_value_t = false, hide_default_value = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) skip_generation: bool,
    #[arg(long, value_name = "VERSION", value_parser = ["v1"])]
    pub(crate) crd_version: Option<String>,
    /// As in `init`.
    #[arg(long, value_name = "DIR")]
    pub(crate) sdk_path: Option<PathBuf>,
    /// Rejected: it is for Go operators.
    #[arg(long)]
    pub(crate) dep_manager: Option<String>,
    #[arg(long, action = ArgAction::Set, default_value_t = false, hide_default_value = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) cluster_scoped: bool,
    #[arg(long, action = ArgAction::Set, default_value_t = false, hide_default_value = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) generate_playbook: bool,
    #[arg(long)]
    pub(crate) helm_chart: Option<String>,
    #[arg(long)]
    pub(crate) helm_chart_repo: Option<String>,
    #[arg(long)]
    pub(crate) helm_chart_version: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OperatorType {
    Rust,
    Go,
    Ansible,
    Helm,
}

/// Add an API to the project (now: `create api`).
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AddCommand {
    /// Add a kind: its type, its sample and its roles (now: `create api --controller=false`).
    Api(AddArgs),
    /// Add the controller of a kind (now: `create api --resource=false`).
    Controller(AddArgs),
    /// Add a kind without a controller (now: `create api --controller=false`).
    Crd(AddArgs),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct AddArgs {
    /// The group and the version, such as cache.example.com/v1alpha1.
    #[arg(long)]
    pub(crate) api_version: String,
    /// The kind in CamelCase, such as Memcached.
    #[arg(long)]
    pub(crate) kind: String,
    #[arg(long, value_name = "VERSION", value_parser = ["v1"])]
    pub(crate) crd_version: Option<String>,
    /// Ignored: this step does not exist.
    #[arg(long)]
    pub(crate) skip_generation: bool,
    /// Rejected: it is for Go operators.
    #[arg(long)]
    pub(crate) custom_api_import: Option<String>,
    #[arg(long)]
    pub(crate) header_file: Option<PathBuf>,
}

/// Run the operator (now: `run local`).
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum UpCommand {
    /// Build the operator and run it on this machine (now: `run local`).
    Local(Box<LocalArgs>),
}

/// Test the operator (now: `cargo test`).
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TestCommand {
    /// Run the project's tests (now: `cargo test`).
    Local(Box<TestLocalArgs>),
    /// Rejected, with the reason.
    Cluster(TestClusterArgs),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TestLocalArgs {
    /// The directory of the tests; in a Rust project it is `tests`.
    pub(crate) directory: Option<PathBuf>,
    /// Run against the cluster of this kubeconfig, instead of a control plane for each test.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Arguments for `cargo test`, as one string.
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub(crate) cargo_test_flags: Option<String>,
    /// Ignored: the operator runs inside the test.
    #[arg(long)]
    pub(crate) up_local: bool,
    /// Ignored: a test starts its own control plane.
    #[arg(long)]
    pub(crate) no_setup: bool,
    /// Ignored: a control plane ends with its test.
    #[arg(long)]
    pub(crate) skip_cleanup_error: bool,
    /// Rejected: it is for Go operators or the old test framework.
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) go_test_flags: Option<String>,
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) molecule_test_flags: Option<String>,
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    #[arg(long)]
    pub(crate) operator_namespace: Option<String>,
    #[arg(long)]
    pub(crate) image: Option<String>,
    #[arg(long)]
    pub(crate) global_manifest: Option<String>,
    #[arg(long)]
    pub(crate) namespaced_manifest: Option<String>,
    #[arg(long)]
    pub(crate) debug: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TestClusterArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<String>,
}

/// Print the dependencies of a new project.
#[derive(Clone, Debug, Args)]
pub(crate) struct PrintDepsArgs {
    /// Print a complete Cargo.toml.
    #[arg(long)]
    pub(crate) as_file: bool,
    /// As in `init`.
    #[arg(long, value_name = "DIR")]
    pub(crate) sdk_path: Option<PathBuf>,
    /// Rejected: it is for Go operators.
    #[arg(long)]
    pub(crate) dep_manager: Option<String>,
}
