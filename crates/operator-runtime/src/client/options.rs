//! [`ClientOptions`], the options of a client.

use std::sync::Arc;

use kube::api::{DeleteParams, PatchParams, PostParams, ValidationDirective};

use crate::cache::Consistency;

/// Options of a [`Client`](super::Client), which [`Client::with`](super::Client::with) changes.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The field manager of writes. Default: the name of the manager. Applies of another field manager are always sent,
    /// because the cache records only the fields that the operator's own field manager applied.
    pub field_manager: Arc<str>,
    /// Sends writes as dry runs: the server validates and admits them without storing them. The cache ignores the
    /// responses. Default: false.
    pub dry_run: bool,
    /// Sends every write, including those that would change nothing according to the cache.
    /// [`ControllerOptions::always_send`](crate::controller::ControllerOptions::always_send) applies to all writes of a
    /// controller. Default: false.
    pub always_send: bool,
    /// Takes over the fields of other field managers in an apply. If false, the apply is rejected if another manager
    /// has set one of the fields to a different value ([`ClientError::is_conflict`](super::ClientError::is_conflict)).
    /// Default: true.
    pub force: bool,
    /// Rejects [`Client::patch_from`](super::Client::patch_from) with a conflict if the resource version has changed
    /// since the old state. Use it for changes that depend on the whole object, such as appending an item to a list.
    /// Default: false.
    pub optimistic_lock: bool,
    /// The handling of unknown fields in writes. Default: that of the server, which warns.
    pub field_validation: Option<ValidationDirective>,
    /// The default namespace of objects and lists. Another namespace is an error. Cluster-scoped kinds are not
    /// affected.
    pub namespace: Option<Arc<str>>,
    /// The grace period, propagation and preconditions of deletions. Default: background propagation. If the target of
    /// a deletion is an object instead of a key, its UID is the default precondition.
    pub delete: DeleteParams,
    /// Reads from the API server instead of the cache in [`Client::get`](super::Client::get) and
    /// [`Client::list`](super::Client::list), with one request for each read. Default: false.
    pub live: bool,
    /// Makes own writes visible to reads as soon as their response arrives. If false, they become visible when the
    /// watch delivers them, as in controller-runtime. Default: true.
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

    /// Returns the query parameters that kube's parameters of creates and updates lack.
    pub(super) fn post_query(&self) -> &'static str {
        match &self.field_validation {
            None => "",
            Some(ValidationDirective::Ignore) => "&fieldValidation=Ignore",
            Some(ValidationDirective::Warn) => "&fieldValidation=Warn",
            Some(ValidationDirective::Strict) => "&fieldValidation=Strict",
        }
    }
}
