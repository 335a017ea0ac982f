//! An existing cluster.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::error::Error;

pub(crate) async fn client() -> Result<Client, Error> {
    let config = Config::infer()
        .await
        .map_err(|error| Error::NoCluster(Box::new(error)))?;
    Client::try_from(config).map_err(|error| Error::NoCluster(Box::new(error)))
}

/// Returns the current kubeconfig, merged into one file.
pub(crate) fn kubeconfig() -> Result<String, Error> {
    let kubeconfig = Kubeconfig::read().map_err(|error| Error::NoCluster(Box::new(error)))?;
    serde_saphyr::to_string(&kubeconfig).map_err(|error| Error::NoCluster(error.to_string().into()))
}

/// Returns a client for a kubeconfig in YAML.
pub(crate) async fn client_of(kubeconfig: &str) -> Result<Client, Error> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|error| Error::NoCluster(Box::new(error)))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| Error::NoCluster(Box::new(error)))?;
    Client::try_from(config).map_err(|error| Error::NoCluster(Box::new(error)))
}
