//! `run local`: the project's operator on this machine, until a signal.

use std::path::Path;
use std::process::ExitCode;

use super::scaffold::current_directory;
use crate::args::LocalArgs;
use crate::process::cargo::{self, BuildOptions};
use crate::process::cluster::{Cluster, ClusterError, ClusterOptions};
use crate::process::operator::{self, Operator, Start};
use crate::process::signal::Ends;
use crate::project::{Project, layout};
use crate::report::{Failure, Report};

/// `operator-sdk run local` in the current directory.
pub(crate) fn local(args: &LocalArgs, report: &Report) -> Result<ExitCode, Failure> {
    let project = Project::read(&current_directory()?)?;
    let kubeconfig = if args.embedded {
        None
    } else {
        operator::find_kubeconfig(args.kubeconfig.as_deref())?
    };
    let program = cargo::build(
        &project.root,
        &BuildOptions {
            release: args.release,
            ..BuildOptions::default()
        },
    )?;
    let start = Start {
        program,
        directory: project.root.clone(),
        kubeconfig,
        watch_namespace: args.watch_namespace.clone(),
        arguments: args.arguments.clone(),
        log: None,
    };
    super::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        if !args.embedded {
            return run(&start, &mut ends).await;
        }
        let cluster = embedded(&project.root, args, report).await?;
        let start = Start {
            kubeconfig: Some(absolute(cluster.kubeconfig())),
            ..start
        };
        let outcome = run(&start, &mut ends).await;
        cluster.shutdown().await;
        outcome
    })
}

async fn embedded(root: &Path, args: &LocalArgs, report: &Report) -> Result<Cluster, Failure> {
    let cluster = Cluster::start(&ClusterOptions {
        port: None,
        data_directory: None,
        controllers: true,
        nodes: 1,
        kubeconfig: args.kubeconfig.clone(),
    })
    .await?;
    let names = cluster.install(&root.join(layout::CRD_BASES)).await?;
    report.line(&super::cluster::ready_line(&cluster));
    for name in names {
        report.line(&format!(
            "customresourcedefinition.apiextensions.k8s.io/{name} created"
        ));
    }
    Ok(cluster)
}

/// The operator's working directory is the project, this tool's may be another.
fn absolute(path: &Path) -> std::path::PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Runs the operator until it ends by itself; signals are handed on to it.
async fn run(start: &Start, ends: &mut Ends) -> Result<ExitCode, Failure> {
    let mut operator = Operator::start(start)?;
    loop {
        tokio::select! {
            status = operator.wait() => {
                let status = status.map_err(ClusterError::from)?;
                return Ok(ExitCode::from(operator::exit_code(status)));
            }
            () = ends.next() => operator.stop(),
        }
    }
}
