//! `cluster up`: runs the embedded control plane until a signal.

use crate::args::{ControllersArg, UpArgs};
use crate::failure::Failure;
use crate::process::cluster::{Cluster, ClusterError, ClusterOptions};
use crate::process::signal::Ends;
use crate::report::Report;

pub(crate) fn up(args: &UpArgs, report: &Report) -> Result<(), Failure> {
    super::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        let cluster = Cluster::start(&ClusterOptions {
            port: args.port,
            data_directory: args.data_dir.clone(),
            fsync: args.fsync,
            controllers: args.controllers == ControllersArg::All,
            nodes: args.nodes.into(),
            olm: args.olm,
            kubeconfig: args.kubeconfig.clone(),
            audit: None,
        })
        .await?;
        for directory in &args.catalog {
            super::olm::add_catalog(&cluster, directory).await?;
        }
        report.line(&ready_line(&cluster));
        ends.next().await;
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
