//! `cluster up`: runs the embedded control plane until a signal.

use operator_apiserver::{ApiServer, Authorization};

use super::envtest::{parse_access_flags, with_access};
use crate::args::{ControllersArg, UpArgs};
use crate::failure::Failure;
use crate::process::cluster::{Cluster, ClusterError, ClusterOptions, described};
use crate::process::signal::Ends;
use crate::report::Report;

pub(crate) fn up(args: &UpArgs, report: &Report) -> Result<(), Failure> {
    let flags = parse_access_flags(&args.server_flags)?;
    let builder = described(ApiServer::builder());
    let (builder, files) = with_access(builder, &flags, Authorization::Rbac, report)?;
    super::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        let options = ClusterOptions {
            port: args.port,
            data_directory: args.data_dir.clone(),
            fsync: args.fsync,
            controllers: args.controllers == ControllersArg::All,
            nodes: args.nodes.into(),
            olm: args.olm,
            kubeconfig: args.kubeconfig.clone(),
            audit: None,
        };
        let cluster = Cluster::start_with(&options, builder).await?;
        for directory in &args.catalog {
            super::olm::add_catalog(&cluster, directory).await?;
        }
        report.line(&ready_line(&cluster));
        tokio::select! {
            _ = ends.next() => {}
            () = files.follow(cluster.server().clone(), report) => {}
        }
        report.progress("Stopping the control plane.");
        cluster.shutdown().await;
        Ok(())
    })
}

pub(crate) fn ready_line(cluster: &Cluster) -> String {
    // An absolute path, because commands in other directories use it too.
    let kubeconfig = std::path::absolute(cluster.kubeconfig());
    format!(
        "The control plane is ready: {} KUBECONFIG={}",
        cluster.url(),
        kubeconfig.as_deref().unwrap_or(cluster.kubeconfig()).display()
    )
}
