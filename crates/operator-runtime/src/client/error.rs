//! [`ClientError`], the error of a request of the client.

use crate::cache::CacheError;
use crate::owner::OwnerError;

/// An error of a request of the client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The read from the cache failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The owner cannot own the object.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The object has no name, or no namespace although its kind is namespace-scoped.
    #[error("cannot {verb} {kind}: metadata.{field} is empty")]
    Incomplete {
        /// The verb.
        verb: &'static str,
        /// The kind.
        kind: String,
        /// The empty field of the metadata.
        field: &'static str,
    },
    /// The client is limited to another namespace.
    #[error("cannot {what}: this client is limited to namespace {namespace}")]
    OtherNamespace {
        /// The request, such as `get Deployment.apps default/web`.
        what: String,
        /// The namespace of the client.
        namespace: String,
    },
    /// The list uses an index, which exists only in the cache, but the client reads from the API server.
    #[error("cannot {what}: an index cannot be used in a live list")]
    LiveIndex {
        /// The request, such as `list Deployment.apps default/`.
        what: String,
    },
    /// The type holds only metadata, which is not sufficient to create or replace an object.
    #[error("cannot {what}: cannot create/update using only metadata: send a patch, or use the whole type")]
    MetadataOnly {
        /// The request, such as `create Deployment.apps default/web`.
        what: String,
    },
    /// The function of `create_or_patch`, or the new state of `patch_from`, has another name or namespace.
    #[error("cannot {what}: mutate changed the name or the namespace")]
    Renamed {
        /// The request, such as `create or patch Deployment.apps default/web`.
        what: String,
    },
    /// The object or the value for its status cannot be serialized.
    #[error("cannot {what}: failed to serialize the object")]
    Serialize {
        /// The request, such as `apply Deployment.apps default/web`.
        what: String,
        /// The error of the serializer.
        #[source]
        source: serde_json::Error,
    },
    /// This instance is not the leader, or has not renewed its lease in time, so that another instance may lead.
    #[error("cannot {what}: {reason}")]
    NotLeader {
        /// The request, such as `apply Deployment.apps default/web`.
        what: String,
        /// The reason, which also says whether the request was sent.
        reason: String,
    },
    /// The API server rejected the request, or could not be reached.
    #[error("cannot {what}")]
    Request {
        /// The request, such as `apply Deployment.apps default/web`.
        what: String,
        /// The error of the request.
        #[source]
        source: kube::Error,
    },
}

// === impl ClientError ===

impl ClientError {
    /// Returns the `Status` of the API server's error response. `None` for other errors.
    pub fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Request {
                source: kube::Error::Api(status),
                ..
            } => Some(status),
            _ => None,
        }
    }

    /// Returns true if the server reported that the object does not exist. An unknown kind or subresource is a
    /// different error, although its code is also 404: see [`ClientError::is_not_served`].
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| {
            let names_object = |details: &kube::core::response::StatusDetails| !details.name.is_empty();
            status.code == 404 && status.details.as_ref().is_some_and(names_object)
        })
    }

    /// Returns true if the server does not serve the kind or the subresource, because its CRD is not installed or its
    /// version is not served.
    pub fn is_not_served(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404) && !self.is_not_found()
    }

    /// Returns true if the server reported that the object has changed, so that the write was based on a stale state.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_conflict)
    }

    /// Returns true if the server reported that an object with the name exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_already_exists)
    }
}
