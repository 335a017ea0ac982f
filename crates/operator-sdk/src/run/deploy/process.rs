//! `deploy --process`: runs the project's program instead of its image, on an embedded control plane.

use std::path::{Path, PathBuf};

use operator_controlplane::{Program, register};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::DeployError;
use crate::args::{ClusterArgs, DeployArgs};
use crate::failure::Failure;
use crate::process::api;
use crate::process::cargo::{self, BuildError, BuildOptions};
use crate::process::cluster::ClusterError;
use crate::process::objects::text;
use crate::process::signal::Ends;
use crate::project::{Project, Resource};
use crate::report::Report;

/// The program of a project, and the image that it replaces.
pub(super) struct LocalProcess {
    /// The directory with the control plane's programs.
    directory: PathBuf,
    program: PathBuf,
    pub(super) image: String,
}

// === impl LocalProcess ===

impl LocalProcess {
    /// Builds the program. Returns `None` if a signal ended the build.
    pub(super) fn build(
        project: &Project,
        args: &DeployArgs,
        directory: PathBuf,
    ) -> Result<Option<Self>, Failure> {
        let options = BuildOptions {
            release: args.release,
            ..BuildOptions::default()
        };
        let built = super::super::block_on(async {
            let mut ends = Ends::catch().map_err(ClusterError::from)?;
            let built = cargo::build_until(&project.root, &options, ends.next()).await?;
            Ok::<_, Failure>(built)
        })?;
        let Some(program) = built else { return Ok(None) };
        let given = args.render.image.clone().filter(|image| !image.is_empty());
        let image = match given {
            Some(image) => image,
            None => image_of(&project.config.project_name, &program)?,
        };
        Ok(Some(Self {
            directory,
            program,
            image,
        }))
    }

    /// Registers the program for the namespaces of the operator's pods.
    pub(super) fn register(
        &self,
        project: &Project,
        args: &DeployArgs,
        objects: &[Value],
    ) -> Result<(), DeployError> {
        let workload = self.workload(objects).ok_or_else(|| DeployError::NoImage {
            directory: args.render.kustomization.clone(),
            image: self.image.clone(),
        })?;
        if args.apply.dry_run || args.apply.diff {
            return Ok(());
        }
        let mut program = Program::new(&self.program)
            .argument("--health-probe-bind-address=$(POD_IP):8081")
            .argument("--leader-election-namespace=$(POD_NAMESPACE)")
            .in_namespace(text(workload, "/metadata/namespace"));
        if project.config.resources.iter().any(Resource::has_webhooks) {
            program = program.argument("--webhook-host=$(POD_IP)");
        }
        register(&self.directory, &self.image, &program)?;
        Ok(())
    }

    /// Prints the location of the operator, and the command that shows its log.
    pub(super) fn explain(&self, objects: &[Value], report: &Report) {
        if let Some(workload) = self.workload(objects) {
            report.progress(&format!(
                "The pods run {} on this machine. Their log: kubectl logs -n {} {}/{}",
                self.program.display(),
                text(workload, "/metadata/namespace"),
                text(workload, "/kind").to_lowercase(),
                text(workload, "/metadata/name"),
            ));
        }
    }

    fn workload<'a>(&self, objects: &'a [Value]) -> Option<&'a Value> {
        objects.iter().find(|object| {
            let containers = object.pointer("/spec/template/spec/containers");
            let mut containers = containers.and_then(Value::as_array).into_iter().flatten();
            containers.any(|container| container["image"] == self.image.as_str())
        })
    }
}

/// Returns the directory of the control plane's programs.
pub(super) fn directory(cluster: &ClusterArgs) -> Result<PathBuf, Failure> {
    let found = api::processes_directory(cluster.kubeconfig.as_deref(), cluster.context.as_deref())?;
    Ok(found.ok_or(DeployError::NotEmbedded)?)
}

/// Returns an image name with a hash of the program, so that a changed program causes a rollout.
fn image_of(project: &str, program: &Path) -> Result<String, BuildError> {
    let content = std::fs::read(program).map_err(|source| BuildError::Start {
        program: program.display().to_string(),
        source,
    })?;
    let hash = Sha256::digest(content);
    let digest: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("localhost/{project}:process-{digest}"))
}
