//! Installs the operator of a bundle on a separate control plane, and runs the program of the project as its pods.

use std::time::Duration;

use operator_apiserver::AuditOptions;

use super::OlmError;
use super::install::{Source, install};
use super::mode::install_mode;
use super::process::{Built, LocalProject};
use super::session::{Session, V1ALPHA1};
use crate::args::{ProgramArgs, RegistryArgs};
use crate::failure::Failure;
use crate::process::api::Api;
use crate::process::cluster::{Cluster, ClusterOptions};
use crate::process::signal::Ends;
use crate::report::Report;

/// An installed operator that runs on this machine, and its control plane.
pub(crate) struct LocalOperator {
    cluster: Cluster,
    pub(crate) api: Api,
    /// The namespace of the operator's pods.
    pub(crate) namespace: String,
    /// The namespace that the operator watches, or one of several.
    pub(crate) target: String,
    /// The name of the Deployment with the operator.
    pub(crate) deployment: String,
}

impl LocalOperator {
    /// Stops the operator and its control plane.
    pub(crate) async fn stop(self) {
        self.cluster.shutdown().await;
    }
}

/// Builds the project in the current directory, and installs its bundle. Returns `None` after a signal.
pub(crate) async fn start(
    source: &Source,
    timeout: Duration,
    audit: AuditOptions,
    ends: &mut Ends,
    report: &Report,
) -> Result<Option<LocalOperator>, Failure> {
    let project = LocalProject::find(&ProgramArgs::default(), source)?
        .ok_or_else(|| OlmError::NoProject(source.rendered.package.clone()))?;
    let Built::Program(program) = project.build(source, ends).await? else {
        return Ok(None);
    };
    let cluster = Cluster::start(&ClusterOptions {
        port: None,
        data_directory: None,
        fsync: false,
        controllers: true,
        nodes: 1,
        olm: true,
        kubeconfig: None,
        audit: Some(audit),
    })
    .await?;
    let installed = async {
        let api = Api::connect(cluster.kubeconfig()).await?;
        let mut session = Session::open(api.clone(), &[V1ALPHA1], None, timeout, report).await?;
        let mode = install_mode(None, source.csv(), &session.namespace)?;
        program.register(cluster.programs(), &session.namespace)?;
        let namespace = session.namespace.clone();
        let registry = RegistryArgs::default();
        let installed = install(&mut session, source, &mode, false, &registry);
        program.unless_it_crashes(&api, &namespace, installed).await?;
        Ok::<_, Failure>((api, namespace, mode))
    };
    let outcome = tokio::select! {
        outcome = installed => outcome.map(Some),
        () = ends.next() => Ok(None),
    };
    match outcome {
        Ok(Some((api, namespace, mode))) => Ok(Some(LocalOperator {
            target: mode.targets.first().cloned().unwrap_or_else(|| namespace.clone()),
            deployment: program.deployment().to_owned(),
            cluster,
            api,
            namespace,
        })),
        Ok(None) => {
            cluster.shutdown().await;
            Ok(None)
        }
        Err(failure) => {
            cluster.shutdown().await;
            Err(failure)
        }
    }
}
