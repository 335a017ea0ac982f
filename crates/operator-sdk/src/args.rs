//! Command-line arguments: one file per command, clap types only.

mod alpha;
mod build;
mod bundle;
mod catalog;
mod chaos;
mod cluster;
mod completion;
mod crd;
mod create_api;
mod create_webhook;
mod delete;
mod deploy;
mod docs;
mod edit;
mod envtest;
mod generate;
mod generate_bundle;
pub(crate) mod go_flags;
mod init;
mod legacy;
mod man;
mod olm;
mod quickstart;
mod rbac;
mod run;
mod upgrade;
mod version;

use std::ffi::{OsStr, OsString};

use clap::{CommandFactory, Parser, Subcommand};

pub(crate) use self::alpha::{AlphaBundleCommand, AlphaCommand, ExtractArgs};
pub(crate) use self::build::{BuildArgs, BuilderArg};
pub(crate) use self::bundle::{
    BundleBuildArgs, BundleCommand, BundleOutputArg, BundlePullArgs, BundlePushArgs, BundleValidateArgs,
    PodSecurityArg, ScoreOutputArg, ScorecardArgs,
};
pub(crate) use self::catalog::{
    CatalogAddArgs, CatalogCommand, CatalogDiffArgs, CatalogForm, CatalogInitArgs, CatalogRenderArgs,
    CatalogServeArgs, CatalogValidateArgs,
};
pub(crate) use self::chaos::{ChaosCommand, ChaosReplayArgs, ChaosRunArgs, SubjectArgs};
pub(crate) use self::cluster::{ControllersArg, UpArgs};
pub(crate) use self::completion::CompletionArgs;
pub(crate) use self::crd::{CrdCommand, DiffArgs, LintArgs, OutputArg, ValidateArgs};
pub(crate) use self::create_api::{CreateApiArgs, ImageArgs};
pub(crate) use self::create_webhook::{CreateWebhookArgs, DeleteWebhookArgs, WebhookArgs};
pub(crate) use self::delete::{ConsentArgs, DeleteApiArgs, KindArgs};
pub(crate) use self::deploy::{
    ApplyArgs, ClusterArgs, DeleteArgs, DeleteCrdsArgs, DeployArgs, InstallArgs, InstallerArgs, UndeployArgs,
    UninstallArgs,
};
pub(crate) use self::docs::DocsArgs;
pub(crate) use self::edit::EditArgs;
pub(crate) use self::envtest::{AssetsArgs, EnvtestCommand};
pub(crate) use self::generate::{CrdsArgs, KustomizeArgs, ManifestsArgs, RbacArgs, WebhooksArgs};
pub(crate) use self::generate_bundle::{GenerateBundleArgs, PackagemanifestsArgs};
pub(crate) use self::init::{InitArgs, License, SdkArgs};
pub(crate) use self::legacy::{
    AddArgs, AddCommand, NewArgs, OperatorType, PrintDepsArgs, TestCommand, TestLocalArgs, UpCommand,
};
pub(crate) use self::man::ManArgs;
pub(crate) use self::olm::{
    CleanupArgs, OlmCommand, OlmInstallArgs, OlmStatusArgs, OlmUninstallArgs, OlmVersionArg, ProgramArgs,
    RegistryArgs, RunBundleArgs, RunBundleUpgradeArgs, SecurityContextArg,
};
pub(crate) use self::quickstart::QuickstartArgs;
pub(crate) use self::rbac::{CheckArgs, RbacCommand};
pub(crate) use self::run::{DevArgs, LocalArgs, OldLocalArgs, RunArgs, RunCommand};
pub(crate) use self::upgrade::UpgradeArgs;
pub(crate) use self::version::{VersionArgs, VersionOutputArg};

/// Build Kubernetes operators in Rust.
///
/// One binary scaffolds, generates, runs and tests an operator. The only other tool that it needs is cargo.
#[derive(Debug, Parser)]
#[command(name = "operator-sdk", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Write more logs to standard error, as `RUST_LOG=info` does.
    #[arg(long, global = true, hide = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Replaces switches with a value, which programs in Go accept: `--force=true` becomes `--force`, and `--force=false` is
/// removed.
pub(crate) fn without_switch_values(words: Vec<OsString>) -> Vec<OsString> {
    let is_candidate = |word: &OsString| switch_value(word).is_some();
    if !words.iter().any(is_candidate) {
        return words;
    }
    let cli = Cli::command();
    let mut command = &cli;
    let mut only_arguments = false;
    let mut out = Vec::with_capacity(words.len());
    for word in words {
        only_arguments |= word == "--";
        if let Some(inner) = command.find_subcommand(&word).filter(|_| !only_arguments) {
            command = inner;
        }
        match switch_value(&word).filter(|_| !only_arguments) {
            Some((name, value)) if is_switch(command, name) || is_switch(&cli, name) => {
                if value {
                    out.push(format!("--{name}").into());
                }
            }
            _ => out.push(word),
        }
    }
    out
}

/// Parses `--NAME=BOOL`.
fn switch_value(word: &OsStr) -> Option<(&str, bool)> {
    let (name, value) = word.to_str()?.strip_prefix("--")?.split_once('=')?;
    Some((name, value.parse().ok()?))
}

fn is_switch(command: &clap::Command, name: &str) -> bool {
    let mut all = command.get_arguments();
    all.any(|argument| {
        argument.get_long() == Some(name) && matches!(argument.get_action(), clap::ArgAction::SetTrue)
    })
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(InitArgs),
    /// Add an API or webhooks to the project.
    #[command(subcommand, arg_required_else_help = true)]
    Create(CreateCommand),
    /// Remove an API or webhooks from the project.
    #[command(subcommand, arg_required_else_help = true)]
    Delete(DeleteCommand),
    Edit(EditArgs),
    /// Generate manifests from the source.
    #[command(subcommand, arg_required_else_help = true)]
    Generate(GenerateCommand),
    Run(RunArgs),
    Dev(DevArgs),
    Build(BuildArgs),
    Install(InstallArgs),
    Uninstall(UninstallArgs),
    Deploy(DeployArgs),
    Undeploy(UndeployArgs),
    Upgrade(UpgradeArgs),
    /// Run an embedded Kubernetes control plane.
    #[command(subcommand, arg_required_else_help = true)]
    Cluster(ClusterCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Catalog(CatalogCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Crd(CrdCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Rbac(RbacCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Chaos(ChaosCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Bundle(BundleCommand),
    Scorecard(ScorecardArgs),
    Cleanup(CleanupArgs),
    #[command(subcommand, arg_required_else_help = true)]
    Olm(OlmCommand),
    #[command(subcommand, arg_required_else_help = true)]
    Envtest(EnvtestCommand),
    Quickstart(QuickstartArgs),
    Completion(CompletionArgs),
    Docs(DocsArgs),
    Man(ManArgs),
    Version(VersionArgs),
    #[command(subcommand, arg_required_else_help = true, hide = true)]
    Alpha(AlphaCommand),
    // Commands of operator-sdk 0.x.
    #[command(hide = true)]
    New(Box<NewArgs>),
    #[command(subcommand, arg_required_else_help = true, hide = true)]
    Add(AddCommand),
    #[command(subcommand, arg_required_else_help = true, hide = true)]
    Up(UpCommand),
    #[command(subcommand, arg_required_else_help = true, hide = true)]
    Test(TestCommand),
    #[command(hide = true)]
    PrintDeps(PrintDepsArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum CreateCommand {
    Api(CreateApiArgs),
    Webhook(CreateWebhookArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeleteCommand {
    Api(DeleteApiArgs),
    Webhook(DeleteWebhookArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum GenerateCommand {
    Manifests(ManifestsArgs),
    Crds(CrdsArgs),
    Rbac(RbacArgs),
    Webhooks(WebhooksArgs),
    Kustomize(KustomizeArgs),
    Bundle(Box<GenerateBundleArgs>),
    #[command(hide = true)]
    Packagemanifests(PackagemanifestsArgs),
    Installer(InstallerArgs),
    /// Do nothing: Rust types need no generated code (legacy).
    #[command(hide = true)]
    K8s,
    /// Generate the CRDs, which contain the schemas (now: `generate manifests`).
    #[command(hide = true)]
    Openapi(ManifestsArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    Up(UpArgs),
}
