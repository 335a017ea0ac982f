//! The options of a client.

use std::sync::Arc;

use kube::api::{DeleteParams, PatchParams, PostParams, ValidationDirective};

use crate::cache::Consistency;

/// The options of a [`Client`](super::Client), which [`Client::with`](super::Client::with) changes.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The field manager of the writes. Default: the name of the manager. Applies of another field manager are always
    /// sent, because the cache remembers only the fields that the operator's own field manager applied.
    pub field_manager: Arc<str>,
    /// If true, the server checks and admits writes, and does not store them. The cache does not take the answers.
    pub dry_run: bool,
    /// If true, every write is sent, also those that would change nothing as far as the cache knows.
    /// [`ControllerOptions::always_send`](crate::controller::ControllerOptions::always_send) does the same for all writes
    /// of a controller.
    pub always_send: bool,
    /// If true, which is the default, an apply takes over the fields that other field managers hold. Otherwise it is
    /// rejected if one of them has another value ([`ClientError::is_conflict`](super::ClientError::is_conflict)).
    pub force: bool,
    /// If true, [`Client::patch_from`](super::Client::patch_from) is rejected with a conflict if the object is not at the
    /// resource version of the old state any more: for changes that depend on the whole object, such as a list that grows.
    pub optimistic_lock: bool,
    /// The treatment of unknown fields in writes. Default: that of the server, which warns.
    pub field_validation: Option<ValidationDirective>,
    /// The namespace of objects and lists that name none; it is an error to name another one. Cluster-scoped kinds are not
    /// affected.
    pub namespace: Option<Arc<str>>,
    /// The grace period, propagation and preconditions of deletions. Default: background propagation. Without
    /// preconditions, the deletion of an object, instead of a key, has its UID as precondition.
    pub delete: DeleteParams,
    /// If true, [`Client::get`](super::Client::get) and [`Client::list`](super::Client::list) read from the API server
    /// instead of the cache. Each read is a request then.
    pub live: bool,
    /// If true, which is the default, reads see the operator's own writes as soon as they are answered. Otherwise they see
    /// them when the watch brings them, as in controller-runtime; reconcilers have no use for that.
    pub own_writes: bool,
}

// === impl ClientOptions ===

impl ClientOptions {
    pub(super) fn new(field_manager: &str) -> Self {
        Self {
            field_manager: field_manager.into(),
            dry_run: false,
            always_send: false,
            force: true,
            optimistic_lock: false,
            field_validation: None,
            namespace: None,
            delete: DeleteParams::background(),
            live: false,
            own_writes: true,
        }
    }

    pub(super) fn consistency(&self) -> Consistency {
        match self.own_writes {
            true => Consistency::OwnWrites,
            false => Consistency::Watched,
        }
    }

    pub(super) fn post(&self) -> PostParams {
        PostParams {
            dry_run: self.dry_run,
            field_manager: Some(self.field_manager.to_string()),
        }
    }

    pub(super) fn patch(&self) -> PatchParams {
        PatchParams {
            dry_run: self.dry_run,
            force: false,
            field_manager: Some(self.field_manager.to_string()),
            field_validation: self.field_validation.clone(),
        }
    }

    /// Returns the part of the query that kube's parameters of creates and updates do not have.
    pub(super) fn post_query(&self) -> &'static str {
        match &self.field_validation {
            None => "",
            Some(ValidationDirective::Ignore) => "&fieldValidation=Ignore",
            Some(ValidationDirective::Warn) => "&fieldValidation=Warn",
            Some(ValidationDirective::Strict) => "&fieldValidation=Strict",
        }
    }
}
