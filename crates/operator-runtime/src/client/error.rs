//! Why a request of the client failed.

use crate::cache::CacheError;
use crate::owner::OwnerError;

/// Why a request of the client failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The cache has no answer.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The owner cannot own the object.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The object cannot be written because it has no name, or no namespace though its kind has them.
    #[error("cannot {verb} {kind}: metadata.{field} is empty")]
    Incomplete {
        /// What was to be done.
        verb: &'static str,
        /// The kind.
        kind: String,
        /// The empty field of the metadata.
        field: &'static str,
    },
    /// The client is for another namespace.
    #[error("cannot {what}: this client is for namespace {namespace}; take one for the other namespace")]
    OtherNamespace {
        /// What was to be done, such as `get Deployment.apps default/web`.
        what: String,
        /// The namespace of the client.
        namespace: String,
    },
    /// Indexes exist only in the cache.
    #[error("cannot {what}: an index cannot be used in a live list")]
    LiveIndex {
        /// The request, such as `list Deployment.apps default/`.
        what: String,
    },
    /// Metadata is not enough to create or replace an object.
    #[error("cannot {what}: cannot create/update using only metadata; patch it, or use the whole type")]
    MetadataOnly {
        /// What was to be done, such as `create Deployment.apps default/web`.
        what: String,
    },
    /// `mutate` of `create_or_update`, or the new state of `patch_from`, made another object of it.
    #[error("cannot {what}: mutate changed the name or the namespace")]
    Renamed {
        /// What was to be done, such as `create or update Deployment.apps default/web`.
        what: String,
    },
    /// The object, or a value for its status, is no JSON.
    #[error("cannot {what}: it does not serialize")]
    Serialize {
        /// What was to be done, such as `apply Deployment.apps default/web`.
        what: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// This instance is not the leader, or has not renewed its leadership in time: another one may act already.
    #[error("cannot {what}: {reason}")]
    NotLeader {
        /// What was to be done, such as `apply Deployment.apps default/web`.
        what: String,
        /// Tells whether the request was sent.
        reason: String,
    },
    /// The API server refused, or could not be reached.
    #[error("cannot {what}")]
    Request {
        /// What was to be done, such as `apply Deployment.apps default/web`.
        what: String,
        /// What the server or the network said.
        #[source]
        source: kube::Error,
    },
}

// === impl ClientError ===

impl ClientError {
    /// The `Status` that the API server refused with, if it did; `None` for what went wrong on this side or on the way.
    pub fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Request {
                source: kube::Error::Api(status),
                ..
            } => Some(status),
            _ => None,
        }
    }

    /// Returns true if the server said that the object does not exist. A kind or a subresource that is not served is another
    /// error, though its code is 404 as well: see [`ClientError::is_not_served`].
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| {
            let names_object = |details: &kube::core::response::StatusDetails| !details.name.is_empty();
            status.code == 404 && status.details.as_ref().is_some_and(names_object)
        })
    }

    /// Returns true if the server does not serve the kind or the subresource: its CRD is not installed, or the version is
    /// not served.
    pub fn is_not_served(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404) && !self.is_not_found()
    }

    /// Whether the server said that the object had changed meanwhile, so that what was written came from a stale state.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_conflict)
    }

    /// Returns true if the server said that an object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_already_exists)
    }
}
