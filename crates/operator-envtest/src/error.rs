//! [`Error`], the error of an environment.

use crate::crd::CrdError;
use crate::webhook::WebhookError;

/// An error of starting an environment, or of one of its functions.
///
/// ```
/// # use operator_envtest::TestEnv;
/// use operator_envtest::Error;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let refused = TestEnv::builder().crd_path("no/such/folder").start().await;
/// assert!(matches!(refused, Err(Error::Crd(_))));
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The embedded API server could not be created or could not listen.
    #[error("the embedded API server failed")]
    Embedded(#[from] operator_apiserver::Error),
    /// No cluster was found for the back end [`Backend::Existing`](crate::Backend::Existing).
    #[error(
        "no valid kubeconfig: set KUBECONFIG, or unset USE_EXISTING_CLUSTER to use the embedded API server"
    )]
    NoCluster(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A program of the back end [`Backend::Binaries`](crate::Backend::Binaries) could not be started or did not become ready.
    #[error("{program}: {problem}")]
    Binary {
        /// The path of the program.
        program: String,
        /// The cause.
        problem: String,
    },
    /// The name of a user or a group cannot be impersonated.
    #[error("invalid name of a user or a group: {name:?}")]
    UserName {
        /// The name.
        name: String,
    },
    /// A CustomResourceDefinition could not be installed.
    #[error("a CustomResourceDefinition could not be installed")]
    Crd(#[from] CrdError),
    /// The webhooks of the operator could not be installed.
    #[error("the webhooks could not be installed")]
    Webhook(#[from] WebhookError),
    /// A request to the API server failed.
    #[error("cannot {action}")]
    Request {
        /// The action that failed.
        action: String,
        /// The error of the client.
        #[source]
        source: Box<kube::Error>,
    },
}
