//! [`Backend`]: the control plane of a test, which is the embedded API server, a cluster, or real binaries.

mod binaries;
mod embedded;
mod existing;

use std::path::PathBuf;
use std::time::Duration;

use apimachinery::time;
use kube::Client;
use operator_apiserver::ApiServer;
use operator_controlplane::{Options, Program};

use crate::error::Error;

/// The control plane of a test. Default: the one that the environment variables of controller-runtime's envtest select.
/// Without them, it is an API server in the process of the test.
///
/// ```
/// # use operator_envtest::TestEnv;
/// use operator_envtest::Backend;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A test that must never use a cluster.
/// let env = TestEnv::builder().backend(Backend::Embedded).start().await?;
/// assert!(env.api_server().is_some());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// An API server in this process, with controllers and simulated nodes. The default.
    #[default]
    Embedded,
    /// The cluster of the current kubeconfig context (`KUBECONFIG`, or `~/.kube/config`, or the pod's service account).
    Existing,
    /// `etcd` and `kube-apiserver` from a directory, started for this test as in controller-runtime's envtest. There
    /// are no controllers.
    Binaries(PathBuf),
}

impl Backend {
    /// Returns the back end that the environment variables of controller-runtime's envtest select:
    /// `USE_EXISTING_CLUSTER=true` selects the existing cluster, `KUBEBUILDER_ASSETS=DIR` the binaries in a directory,
    /// and `TEST_ASSET_ETCD=FILE` with `TEST_ASSET_KUBE_APISERVER=FILE` binaries at any path. The default is the
    /// embedded back end.
    ///
    /// ```
    /// use operator_envtest::Backend;
    ///
    /// if Backend::from_env() == Backend::Existing {
    ///     println!("these tests run on an existing cluster");
    /// }
    /// ```
    pub fn from_env() -> Self {
        Self::from_variables(variable)
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let existing = variable("USE_EXISTING_CLUSTER");
        if existing.is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1") {
            return Self::Existing;
        }
        let named = ["TEST_ASSET_ETCD", "TEST_ASSET_KUBE_APISERVER"].map(|name| variable(name).is_some());
        let folder = variable("KUBEBUILDER_ASSETS").or_else(|| (named == [true, true]).then(String::new));
        folder.map_or(Self::Embedded, |folder| Self::Binaries(folder.into()))
    }
}

/// Returns the value of an environment variable, or `None` if it is unset or empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Options for starting and stopping programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramOptions {
    pub(crate) start_timeout: Duration,
    pub(crate) stop_timeout: Duration,
    /// True if they write to the terminal of the test.
    pub(crate) attach_output: bool,
}

impl ProgramOptions {
    /// Returns the options in the environment variables of controller-runtime's envtest.
    pub(crate) fn from_env() -> Self {
        Self::from_variables(variable)
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let timeout = |name: &str| {
            let given = variable(name).and_then(|text| time::parse_timeout(&text).ok());
            given.unwrap_or(Duration::from_secs(20))
        };
        let attach = variable("KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT");
        Self {
            start_timeout: timeout("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT"),
            stop_timeout: timeout("KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT"),
            attach_output: attach.is_some_and(|value| value.eq_ignore_ascii_case("true")),
        }
    }
}

/// A running back end.
#[derive(Debug)]
pub(crate) enum Running {
    Embedded(Box<embedded::Embedded>),
    Existing,
    Binaries(Box<binaries::Binaries>),
}

/// Starts a back end and connects to it.
pub(crate) async fn start(
    backend: Backend,
    options: Options,
    images: Vec<(String, Program)>,
    programs: ProgramOptions,
) -> Result<(Running, Client), Error> {
    match backend {
        Backend::Embedded => {
            let embedded = embedded::Embedded::start(options, images).await?;
            let client = embedded.client();
            Ok((Running::Embedded(Box::new(embedded)), client))
        }
        Backend::Existing => Ok((Running::Existing, existing::client().await?)),
        Backend::Binaries(folder) => {
            let (binaries, client) = binaries::Binaries::start(&folder, programs).await?;
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
        let chosen = |variables: &[(&str, &str)]| Backend::from_variables(among(variables));
        let (existing, assets) = ("USE_EXISTING_CLUSTER", ("KUBEBUILDER_ASSETS", "bin"));
        let (etcd, server) = (
            ("TEST_ASSET_ETCD", "/etcd"),
            ("TEST_ASSET_KUBE_APISERVER", "/server"),
        );
        assert_eq!(chosen(&[]), Backend::Embedded);
        assert_eq!(chosen(&[(existing, "false")]), Backend::Embedded);
        assert_eq!(chosen(&[(existing, "true"), assets]), Backend::Existing);
        assert_eq!(chosen(&[assets]), Backend::Binaries("bin".into()));
        assert_eq!(chosen(&[etcd]), Backend::Embedded);
        assert_eq!(chosen(&[etcd, server]), Backend::Binaries(PathBuf::new()));
        assert_eq!(chosen(&[etcd, server, assets]), Backend::Binaries("bin".into()));
    }

    /// Returns a lookup of variables in a list.
    fn among(variables: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        move |name| {
            let found = variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        }
    }

    #[test]
    fn programs_have_the_timeouts_of_envtest() {
        let options = |variables: &[(&str, &str)]| ProgramOptions::from_variables(among(variables));
        let twenty = Duration::from_secs(20);
        let default = options(&[("KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT", "soon")]);
        assert_eq!((default.start_timeout, default.stop_timeout), (twenty, twenty));
        assert!(!default.attach_output);
        let given = options(&[
            ("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", "1m30s"),
            ("KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT", "500ms"),
            ("KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT", "true"),
        ]);
        assert_eq!(given.start_timeout, Duration::from_secs(90));
        assert_eq!(given.stop_timeout, Duration::from_millis(500));
        assert!(given.attach_output);
    }
}
