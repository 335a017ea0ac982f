//! `install`, `uninstall`, `deploy`, `undeploy`: manages the project's manifests in a cluster.

mod apply;
mod delete;
mod process;
mod ready;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use operator_manifests::kustomize::build::Overrides;
use serde_json::Value;

use self::apply::Rollout;
use self::delete::Removal;
use self::process::LocalProcess;
use super::render;
use super::scaffold::current_directory;
use crate::args::{ApplyArgs, ClusterArgs, DeleteArgs, DeployArgs, InstallArgs, UndeployArgs, UninstallArgs};
use crate::failure::{Failure, Hinted};
use crate::process::api::{Api, ApplyOptions};
use crate::process::cluster::ClusterError;
use crate::process::objects::{Objects, name_of, text};
use crate::process::signal::{Ends, INTERRUPTED};
use crate::project::Project;
use crate::report::Report;

/// The label with the project of an object.
const LABEL: &str = "rust.operator-sdk.dev/project";

/// The directory of the CRDs.
const CRDS: &str = "config/crd";

/// The API group of cert-manager.
const CERT_MANAGER: &str = "cert-manager.io/";

/// An error of changing a cluster.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeployError {
    #[error("the cluster does not serve {kind} of {api_version}")]
    NotServed { api_version: String, kind: String },
    #[error("{what} after {seconds} s: {state}")]
    Timeout {
        what: String,
        seconds: u64,
        state: String,
        hint: &'static str,
    },
    #[error("{0} cannot be rolled out: {1}")]
    Failed(String, String),
    #[error(
        "the cluster is not one of `operator-sdk cluster up` on this machine, so its pods run no local programs"
    )]
    NotEmbedded,
    #[error(
        "cert-manager, which issues the certificates of this deployment, does not run on simulated nodes"
    )]
    NoCertManager,
    #[error("no workload of {directory} has the image {image:?} of the local program")]
    NoImage { directory: String, image: String },
    #[error(transparent)]
    Register(#[from] operator_controlplane::ProcessesError),
}

impl Hinted for DeployError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoCertManager => {
                "have the operator create its certificates with `operator-sdk edit --cert-manager=false`".to_owned()
            }
            Self::NotServed { api_version, .. } if api_version.starts_with(CERT_MANAGER) => {
                "install cert-manager first, or have the operator create its certificates with `operator-sdk edit --cert-manager=false`"
                    .to_owned()
            }
            Self::NotServed { .. } => {
                "install the provider of that kind first (such as the Prometheus operator), or remove the object from config/default"
                    .to_owned()
            }
            Self::Timeout { hint, .. } => (*hint).to_owned(),
            Self::NotEmbedded => {
                "start one with `operator-sdk cluster up --kubeconfig FILE` and use its kubeconfig, or deploy an image with `--image`"
                    .to_owned()
            }
            Self::NoImage { .. } => "set the image of the operator's container with `--image`".to_owned(),
            Self::Register(_) => "check that the control plane is still running".to_owned(),
            Self::Failed(..) => "check its events with `kubectl describe`, and the name of the image".to_owned(),
        })
    }
}

/// Runs `operator-sdk install` in the current directory.
pub(crate) fn install(args: &InstallArgs, report: &Report) -> Result<ExitCode, Failure> {
    let project = Project::read(&current_directory()?)?;
    let objects = render::render(&project.root, CRDS, &Overrides::default())?;
    interruptible(report, async {
        let mut rollout = rollout(&project, &args.apply, report).await?;
        rollout.apply(&objects).await?;
        rollout.wait(&objects, args.apply.timeout).await
    })
}

/// Runs `operator-sdk uninstall` in the current directory.
pub(crate) fn uninstall(args: &UninstallArgs, report: &Report) -> Result<ExitCode, Failure> {
    let project = Project::read(&current_directory()?)?;
    let mut objects = render::render(&project.root, CRDS, &Overrides::default())?;
    objects.reverse();
    // During a prompt there is nothing to roll back, so Ctrl-C ends the process.
    let confirmed = super::block_on(async {
        let mut removal = removal(&project, &args.delete, report).await?;
        removal.confirmed(&objects, args.crds, None).await
    })?;
    if !confirmed {
        return Ok(ExitCode::SUCCESS);
    }
    interruptible(report, async {
        let mut removal = removal(&project, &args.delete, report).await?;
        removal.delete(&objects).await
    })
}

/// Runs `operator-sdk deploy` in the current directory.
pub(crate) fn deploy(args: &DeployArgs, report: &Report) -> Result<ExitCode, Failure> {
    let project = Project::read(&current_directory()?)?;
    let process = match args.process {
        true => {
            let directory = process::directory(&args.apply.cluster)?;
            check_served(&project, args, report)?;
            match LocalProcess::build(&project, args, directory)? {
                Some(process) => Some(process),
                None => return Ok(ExitCode::from(INTERRUPTED)),
            }
        }
        false => None,
    };
    let image = process.as_ref().map(|process| process.image.as_str());
    let image = image.or(args.render.image.as_deref());
    let overrides = render::overrides(image, args.render.namespace.as_deref())?;
    let objects = render::render(&project.root, &args.render.kustomization, &overrides)?;
    if let Some(process) = process.as_ref() {
        process.register(&project, args, &objects)?;
    }
    if image.is_none() && objects.iter().any(render::has_placeholder_image) {
        report.warning(
            &format!(
                "the operator's image is the placeholder {}:latest",
                render::PLACEHOLDER
            ),
            Some("set the image with `--image`, or in config/manager/kustomization.yaml"),
        );
    }
    interruptible(report, async {
        let mut rollout = rollout(&project, &args.apply, report).await?;
        rollout.apply(&objects).await?;
        if !args.no_prune {
            let mut removal = removal(
                &project,
                &DeleteArgs {
                    cluster: args.apply.cluster.clone(),
                    dry_run: args.apply.dry_run || args.apply.diff,
                    timeout: Duration::ZERO,
                },
                report,
            )
            .await?;
            let left = removal.left_over(&objects).await?;
            removal.delete(&left).await?;
        }
        rollout.wait(&objects, args.apply.timeout).await?;
        if let Some(process) = &process {
            process.explain(&objects, report);
        } else if has_only_simulated_nodes(&args.apply).await? {
            report.warning(
                "the nodes of this cluster are simulated: pods become ready, but their images are not run, so nothing is reconciled",
                Some("run the project's program as pods with `operator-sdk deploy --process`, or outside the cluster with `operator-sdk run local --enable-webhooks`"),
            );
        }
        Ok(())
    })
}

/// Runs `operator-sdk undeploy` in the current directory.
pub(crate) fn undeploy(args: &UndeployArgs, report: &Report) -> Result<ExitCode, Failure> {
    let project = Project::read(&current_directory()?)?;
    let overrides = render::overrides(None, args.namespace.as_deref())?;
    let rendered = render::render(&project.root, &args.kustomization, &overrides)?;
    // During a prompt there is nothing to roll back, so Ctrl-C ends the process.
    let (crds, objects, confirmed) = super::block_on(async {
        let mut removal = removal(&project, &args.delete, report).await?;
        let mut objects = removal.everything(&rendered).await?;
        let is_crd = |object: &Value| text(object, "/kind") == "CustomResourceDefinition";
        let crds: Vec<Value> = objects.extract_if(.., |object| is_crd(object)).collect();
        let hint = Some("keep them with `--keep-crds`");
        let confirmed = args.keep_crds || removal.confirmed(&crds, args.crds, hint).await?;
        Ok::<_, Failure>((crds, objects, confirmed))
    })?;
    if !confirmed {
        return Ok(ExitCode::SUCCESS);
    }
    interruptible(report, async {
        let mut removal = removal(&project, &args.delete, report).await?;
        if !args.keep_crds {
            // While the operator runs, it can complete the finalizers of its objects.
            removal.delete(&crds).await?;
        }
        removal.delete(&objects).await
    })
}

/// Checks before a build for `--process` that the cluster serves the kinds of the deployment.
fn check_served(project: &Project, args: &DeployArgs, report: &Report) -> Result<(), Failure> {
    let overrides = render::overrides(None, args.render.namespace.as_deref())?;
    let objects = render::render(&project.root, &args.render.kustomization, &overrides)?;
    super::block_on(async {
        let mut rollout = rollout(project, &args.apply, report).await?;
        match rollout.not_served(&objects).await? {
            Some(DeployError::NotServed { api_version, .. }) if api_version.starts_with(CERT_MANAGER) => {
                Err(DeployError::NoCertManager.into())
            }
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    })
}

/// Returns true if no node of the cluster runs containers. Returns false if nodes cannot be listed.
async fn has_only_simulated_nodes(args: &ApplyArgs) -> Result<bool, Failure> {
    let mut objects = connect(&args.cluster).await?;
    let nodes = objects.all("v1", "Node").await.unwrap_or_default();
    let is_simulated =
        |node: &Value| text(node, "/status/nodeInfo/containerRuntimeVersion").starts_with("simulated://");
    Ok(!nodes.is_empty() && nodes.iter().all(is_simulated))
}

/// Runs work against a cluster. A signal ends it without a rollback.
fn interruptible(
    report: &Report,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<ExitCode, Failure> {
    super::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        tokio::select! {
            outcome = work => outcome.map(|()| ExitCode::SUCCESS),
            () = ends.next() => {
                report.progress("Interrupted: completed changes in the cluster are kept. The command can be run again.");
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    })
}

pub(crate) async fn connect(args: &ClusterArgs) -> Result<Objects, Failure> {
    let api = Api::infer(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    Ok(Objects::new(api))
}

async fn rollout<'a>(
    project: &Project,
    args: &ApplyArgs,
    report: &'a Report,
) -> Result<Rollout<'a>, Failure> {
    Ok(Rollout::new(
        connect(&args.cluster).await?,
        report,
        &project.config.project_name,
        ApplyOptions {
            dry_run: args.dry_run || args.diff,
            force: args.force_conflicts,
        },
        args.diff,
    ))
}

async fn removal<'a>(
    project: &Project,
    args: &DeleteArgs,
    report: &'a Report,
) -> Result<Removal<'a>, Failure> {
    Ok(Removal {
        objects: connect(&args.cluster).await?,
        report,
        project: project.config.project_name.clone(),
        dry_run: args.dry_run,
        timeout: args.timeout,
    })
}

/// Applies objects and takes ownership of all their fields, for commands that keep a cluster up to date.
pub(crate) async fn bring(
    objects: Objects,
    project: &Project,
    manifests: &[Value],
    report: &Report,
) -> Result<(), Failure> {
    let how = ApplyOptions {
        dry_run: false,
        force: true,
    };
    let mut rollout = Rollout::new(objects, report, &project.config.project_name, how, false);
    rollout.apply(manifests).await
}

/// Returns kind, namespace and name, which identify an object in both trees.
fn identity(object: &Value) -> (String, String) {
    (name_of(object), text(object, "/metadata/namespace").to_owned())
}

fn identities(objects: &[Value]) -> BTreeSet<(String, String)> {
    objects.iter().map(identity).collect()
}
