//! Runs the program of the project instead of the image of its bundle, on an embedded control plane.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use operator_controlplane::{Program, register};
use serde_json::Value;

use super::OlmError;
use super::install::Source;
use crate::args::ProgramArgs;
use crate::failure::Failure;
use crate::process::api::{Api, ApiError};
use crate::process::cargo::{self, BuildOptions};
use crate::process::objects::text;
use crate::process::signal::Ends;
use crate::project::{Project, Resource};
use crate::report::Report;
use crate::run::deploy::DeployError;
use crate::run::scaffold::current_directory;

/// The number of crashes after which an installation fails. An operator may crash before its objects exist.
const CRASHES_MAX: i64 = 3;

/// The project in the current directory, if the bundle belongs to it.
pub(super) struct LocalProject {
    project: Project,
    release: bool,
}

/// The built program of the project.
pub(super) struct LocalProgram {
    path: PathBuf,
    /// True if the program has a webhook server.
    serves_webhooks: bool,
    /// The name of the Deployment with the operator.
    deployment: String,
    image: String,
}

/// The result of a build.
pub(super) enum Built {
    Program(LocalProgram),
    /// A signal ended the build.
    Interrupted,
}

// === impl LocalProject ===

impl LocalProject {
    /// Returns the project of a bundle. Returns `None` if the current directory has no project or that of another
    /// operator, or if the pods must be simulated.
    pub(super) fn find(args: &ProgramArgs, source: &Source) -> Result<Option<Self>, Failure> {
        if args.simulate {
            return Ok(None);
        }
        let root = current_directory()?;
        let is_project = match std::fs::metadata(root.join(crate::project::layout::PROJECT)) {
            Ok(file) => file.is_file(),
            Err(error) if is_absent(&error) => false,
            // The error of reading it contains the name of the file.
            Err(_) => true,
        };
        if !is_project {
            return Ok(None);
        }
        let project = Project::read(&root)?;
        let is_own = project.config.project_name == source.rendered.package;
        Ok(is_own.then_some(Self {
            project,
            release: args.release,
        }))
    }

    /// Builds the program, unless a signal ends the build.
    pub(super) async fn build(&self, source: &Source, ends: &mut Ends) -> Result<Built, Failure> {
        let (deployment, image) = workload(source.csv()).ok_or_else(|| DeployError::NoImage {
            directory: "the bundle".to_owned(),
            image: self.project.config.project_name.clone(),
        })?;
        let options = BuildOptions {
            release: self.release,
            ..BuildOptions::default()
        };
        let built = cargo::build_until(&self.project.root, &options, ends.next()).await?;
        let Some(path) = built else {
            return Ok(Built::Interrupted);
        };
        let resources = &self.project.config.resources;
        Ok(Built::Program(LocalProgram {
            path,
            serves_webhooks: resources.iter().any(Resource::has_webhooks),
            deployment,
            image,
        }))
    }
}

// === impl LocalProgram ===

impl LocalProgram {
    /// Registers the program for the image of the bundle in a namespace.
    pub(super) fn register(&self, directory: &Path, namespace: &str) -> Result<(), Failure> {
        let mut program = Program::new(&self.path)
            .argument("--health-probe-bind-address=$(POD_IP):8081")
            .argument("--leader-election-namespace=$(POD_NAMESPACE)")
            .in_namespace(namespace);
        if self.serves_webhooks {
            program = program.argument("--webhook-host=$(POD_IP)");
        }
        register(directory, &self.image, &program).map_err(DeployError::from)?;
        Ok(())
    }

    /// Runs an installation, which fails if the program crashes repeatedly.
    pub(super) async fn unless_it_crashes(
        &self,
        api: &Api,
        namespace: &str,
        installed: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        tokio::select! {
            outcome = installed => outcome,
            crash = self.crash(api, namespace) => Err(crash?.into()),
        }
    }

    /// Waits until the program has crashed repeatedly.
    async fn crash(&self, api: &Api, namespace: &str) -> Result<OlmError, ApiError> {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let prefix = format!("{}-", self.deployment);
        let is_looping = |status: &&Value| {
            text(status, "/state/waiting/reason") == "CrashLoopBackOff"
                && status["restartCount"].as_i64() >= Some(CRASHES_MAX - 1)
        };
        let crashed = api.find(&pods, |pod| {
            let name = Some(text(pod, "/metadata/name")).filter(|name| name.starts_with(&prefix))?;
            let statuses = pod.pointer("/status/containerStatuses")?.as_array()?;
            let status = statuses.iter().find(is_looping)?;
            let code = status.pointer("/lastState/terminated/exitCode")?.as_i64()?;
            Some((name.to_owned(), code))
        });
        let (pod, code) = crashed.await?;
        let log = api.text(&format!("{pods}/{pod}/log")).await.unwrap_or_default();
        let last = log.lines().rev().find(|line| !line.trim().is_empty());
        Ok(OlmError::Crashed {
            count: CRASHES_MAX,
            pod,
            code,
            output: last.map_or(String::new(), |line| format!(": {line}")),
        })
    }

    /// Returns the name of the Deployment with the operator.
    pub(super) fn deployment(&self) -> &str {
        &self.deployment
    }

    /// Prints the location of the operator, and the command that shows its log.
    pub(super) fn explain(&self, namespace: &str, report: &Report) {
        report.progress(&format!(
            "The pods run {} on this machine. Their log: kubectl logs -n {namespace} deployment/{}",
            self.path.display(),
            self.deployment,
        ));
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns the Deployment with the operator, and the image of its container: the one named `manager`, otherwise the
/// first.
fn workload(csv: &Value) -> Option<(String, String)> {
    let deployments = csv.pointer("/spec/install/spec/deployments")?.as_array()?;
    let containers = deployments.iter().flat_map(|deployment| {
        let containers = deployment.pointer("/spec/template/spec/containers");
        let containers = containers.and_then(Value::as_array).into_iter().flatten();
        containers.map(move |container| (deployment, container))
    });
    let is_manager = |(_, container): &(&Value, &Value)| text(container, "/name") == "manager";
    let mut others = containers.clone();
    let found = containers.into_iter().find(is_manager).or_else(|| others.next());
    let (deployment, container) = found?;
    Some((
        text(deployment, "/name").to_owned(),
        text(container, "/image").to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_manager_is_preferred_to_the_first_container() {
        let csv = |containers: Value| {
            json!({"spec": {"install": {"spec": {"deployments": [{
                "name": "web", "spec": {"template": {"spec": {"containers": containers}}},
            }]}}}})
        };
        let found = |containers| workload(&csv(containers)).map(|(_, image)| image);
        let proxy = json!({"name": "proxy", "image": "proxy:1"});
        let manager = json!({"name": "manager", "image": "web:1"});
        assert_eq!(found(json!([proxy, manager])).as_deref(), Some("web:1"));
        assert_eq!(found(json!([proxy])).as_deref(), Some("proxy:1"));
        assert_eq!(found(json!([])), None);
    }
}
