//! `operator-sdk init`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Create an operator project in the current directory.
///
/// Writes the program, the kustomize tree under `config/`, a Dockerfile, a Makefile and the PROJECT file. Existing
/// files are never overwritten: an existing README.md, LICENSE or .gitignore is kept; any other existing file with the
/// same name is an error, and nothing is written.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  mkdir memcached-operator && cd memcached-operator\n  operator-sdk init --domain example.com --repo github.com/example/memcached-operator"
)]
pub(crate) struct InitArgs {
    /// The domain of the API groups: a group `cache` becomes `cache.<domain>`.
    #[arg(long, default_value = "my.domain")]
    pub(crate) domain: String,
    /// The name of the project, a DNS label [default: the name of the directory].
    #[arg(long, value_name = "NAME")]
    pub(crate) project_name: Option<String>,
    /// The source repository, such as github.com/example/memcached-operator.
    #[arg(long)]
    pub(crate) repo: Option<String>,
    /// The owner named in the copyright line of the source files.
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// The license of the project.
    #[arg(long, value_enum, default_value_t = License::Apache2)]
    pub(crate) license: License,
    /// The file with the header of every source file, instead of `--owner` and `--license`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["owner", "license"])]
    pub(crate) license_file: Option<PathBuf>,
    /// Put kinds into directories by group, so that several groups may have kinds of the same name.
    #[arg(long)]
    pub(crate) multigroup: bool,
    /// Have the operator watch only its own namespace, with Roles instead of ClusterRoles.
    #[arg(long)]
    pub(crate) namespaced: bool,
    #[command(flatten)]
    pub(crate) sdk: SdkArgs,
    #[command(flatten)]
    plugins: PluginArgs,
    /// Show what would be written, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    // Flags of kubebuilder that have no effect here, or only one valid value.
    #[arg(long, hide = true, value_parser = ["3"])]
    project_version: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    fetch_deps: Option<bool>,
    #[arg(long, hide = true)]
    skip_go_version_check: bool,
    /// Rejected, with the reason.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) component_config: Option<bool>,
}

/// Plugins in other languages. `run::plugin` removes the flag from the command line before it is parsed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PluginArgs {
    /// External plugins that take part in this command and later ones, through kubebuilder's protocol.
    #[arg(long, value_name = "NAME/VERSION,...")]
    plugins: Option<String>,
}

/// The source of the SDK's crates.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SdkArgs {
    /// Use the SDK's crates from a checkout on this machine, through .cargo/config.toml, which git ignores. Cargo.toml
    /// names the published version [default: the checkout that this tool was built from, if there is one].
    #[arg(long, value_name = "DIR")]
    pub(crate) sdk_path: Option<PathBuf>,
    /// Use the SDK's crates from a git repository, at the revision of `--sdk-rev`.
    #[arg(long, value_name = "URL", requires = "sdk_rev", conflicts_with = "sdk_path")]
    pub(crate) sdk_git: Option<String>,
    /// The revision of `--sdk-git`: a commit or a tag.
    #[arg(long, value_name = "REV", requires = "sdk_git")]
    pub(crate) sdk_rev: Option<String>,
    /// Use the SDK's crates from the registry, at the minor version of this tool.
    #[arg(long, conflicts_with_all = ["sdk_path", "sdk_git"])]
    pub(crate) sdk_registry: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum License {
    /// Apache License 2.0
    Apache2,
    /// No license
    None,
}
