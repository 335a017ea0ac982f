//! What answers the test: the embedded API server, a cluster, or real binaries.

mod binaries;
mod embedded;
mod existing;

use std::path::PathBuf;

use kube::Client;
use operator_apiserver::ApiServer;
use operator_controlplane::Options;

use crate::env::Error;

/// What answers the test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// An API server in this process, with controllers and simulated nodes. The default.
    #[default]
    Embedded,
    /// The cluster of the current kubeconfig context (`KUBECONFIG`, or `~/.kube/config`, or the pod's service account).
    Existing,
    /// `etcd` and `kube-apiserver` from a folder, started for this test, as controller-runtime's envtest does it. No
    /// controllers run beside them.
    Binaries(PathBuf),
}

impl Backend {
    /// What the environment variables of controller-runtime's envtest ask for: `USE_EXISTING_CLUSTER=true` the existing
    /// cluster, `KUBEBUILDER_ASSETS=DIR` the binaries in a folder; otherwise the embedded one.
    pub fn from_env() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self::from_variables(
            variable("USE_EXISTING_CLUSTER").as_deref(),
            variable("KUBEBUILDER_ASSETS").as_deref(),
        )
    }

    fn from_variables(existing: Option<&str>, assets: Option<&str>) -> Self {
        if existing.is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1") {
            return Self::Existing;
        }
        assets.map_or(Self::Embedded, |folder| Self::Binaries(folder.into()))
    }
}

/// A back end that runs.
#[derive(Debug)]
pub(crate) enum Running {
    Embedded(embedded::Embedded),
    Existing,
    Binaries(Box<binaries::Binaries>),
}

/// Starts a back end and connects to it.
pub(crate) async fn start(backend: Backend, options: Options) -> Result<(Running, Client), Error> {
    match backend {
        Backend::Embedded => {
            let embedded = embedded::Embedded::start(options)?;
            let client = embedded.client();
            Ok((Running::Embedded(embedded), client))
        }
        Backend::Existing => Ok((Running::Existing, existing::client().await?)),
        Backend::Binaries(folder) => {
            let (binaries, client) = binaries::Binaries::start(&folder).await?;
            Ok((Running::Binaries(Box::new(binaries)), client))
        }
    }
}

impl Running {
    pub(crate) async fn kubeconfig(&self) -> Result<String, Error> {
        match self {
            Self::Embedded(embedded) => embedded.kubeconfig().await,
            Self::Existing => existing::kubeconfig(),
            Self::Binaries(binaries) => Ok(binaries.kubeconfig()),
        }
    }

    pub(crate) fn api_server(&self) -> Option<&ApiServer> {
        match self {
            Self::Embedded(embedded) => Some(embedded.server()),
            Self::Existing | Self::Binaries(_) => None,
        }
    }

    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded(_))
    }

    pub(crate) async fn stop(self) {
        match self {
            Self::Embedded(embedded) => embedded.stop().await,
            Self::Existing => {}
            Self::Binaries(binaries) => binaries.stop().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_of_envtest_choose_the_back_end() {
        assert_eq!(Backend::from_variables(None, None), Backend::Embedded);
        assert_eq!(Backend::from_variables(Some("false"), None), Backend::Embedded);
        assert_eq!(
            Backend::from_variables(Some("true"), Some("bin")),
            Backend::Existing
        );
        assert_eq!(
            Backend::from_variables(None, Some("bin")),
            Backend::Binaries("bin".into())
        );
    }
}
