//! The in-process client: JSON trees in and out of the registry, with no HTTP between.
//!
//! It is what the controllers of operator-controlplane use. Every call walks the same registry as a request over
//! the wire (defaults, validation, managed fields, store) as the user `system:masters`.

use std::sync::Arc;

use serde_json::Value;

use crate::status::Status;

/// Names a resource: group (empty for core), version, plural.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvr {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The plural name, such as `deployments`.
    pub resource: String,
}

impl Gvr {
    /// A resource by group, version and plural.
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
        }
    }
}

/// What a client needs to know of a served resource (one entry per group and resource, in its storage version).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedResource {
    /// Group, version and plural.
    pub gvr: Gvr,
    /// The kind of its objects.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The verbs it answers to, such as `list` and `deletecollection`.
    pub verbs: Vec<String>,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It is gone; the event carries its last state with the revision of the deletion.
    Deleted,
}

/// One committed change, of any resource.
#[derive(Clone, Debug)]
pub struct Event {
    /// The revision of the commit.
    pub revision: u64,
    /// Which resource (in its storage version).
    pub gvr: Arc<Gvr>,
    /// What happened.
    pub kind: EventType,
    /// The object after the change (before it, if deleted).
    pub object: Arc<Value>,
    /// The object before the change; `None` if it was created.
    pub old: Option<Arc<Value>>,
}

/// Options of a delete: grace, propagation, preconditions.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Seconds of grace; `None` is the type's default.
    pub grace_period_seconds: Option<i64>,
    /// `Background`, `Foreground` or `Orphan`; `None` is the type's default.
    pub propagation_policy: Option<String>,
    /// Fails with a conflict if the object's uid is another.
    pub uid: Option<String>,
    /// Fails with a conflict if the object's resourceVersion is another.
    pub resource_version: Option<String>,
}

/// The kind of a patch.
#[derive(Clone, Debug)]
pub enum Patch {
    /// RFC 7386.
    Merge(Value),
    /// RFC 6902.
    Json(Value),
    /// Kubernetes' strategic merge patch; built-in kinds only.
    Strategic(Value),
    /// Server-side apply by this field manager.
    Apply {
        /// The applied configuration.
        config: Value,
        /// The field manager.
        manager: String,
        /// Whether conflicts are taken over.
        force: bool,
    },
}

/// A list with the revision it was taken at.
#[derive(Clone, Debug)]
pub struct List {
    /// The revision; a watch from here misses nothing.
    pub revision: u64,
    /// The objects, in key order.
    pub items: Vec<Arc<Value>>,
}

/// The interface between the server and what runs inside its process.
///
/// `namespace` is empty for cluster-scoped resources and, in `list`, for all namespaces.
/// Updates need a `metadata.resourceVersion` where the kind demands one; conflicts are a [`Status`] with reason
/// `Conflict`.
#[derive(Clone, Debug)]
pub struct Client {}

impl Client {
    /// The object, or a `NotFound` status.
    pub async fn get(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<Arc<Value>, Status> {
        let _ = (gvr, namespace, name);
        unimplemented!()
    }

    /// The objects that match a label selector (`""` is everything) now.
    pub async fn list(&self, gvr: &Gvr, namespace: &str, label_selector: &str) -> Result<List, Status> {
        let _ = (gvr, namespace, label_selector);
        unimplemented!()
    }

    /// Creates an object.
    pub async fn create(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Arc<Value>, Status> {
        let _ = (gvr, namespace, object);
        unimplemented!()
    }

    /// Replaces an object, or its subresource (`Some("status")`, `Some("finalize")`, …).
    pub async fn update(
        &self,
        gvr: &Gvr,
        subresource: Option<&str>,
        object: Value,
    ) -> Result<Arc<Value>, Status> {
        let _ = (gvr, subresource, object);
        unimplemented!()
    }

    /// Patches an object or its subresource.
    pub async fn patch(
        &self,
        gvr: &Gvr,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
        patch: Patch,
    ) -> Result<Arc<Value>, Status> {
        let _ = (gvr, namespace, name, subresource, patch);
        unimplemented!()
    }

    /// Deletes an object; the answer is the object as it was left, or the final Status.
    pub async fn delete(
        &self,
        gvr: &Gvr,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<Arc<Value>, Status> {
        let _ = (gvr, namespace, name, options);
        unimplemented!()
    }

    /// Every resource that is served now, built in or custom.
    pub fn resources(&self) -> Vec<ServedResource> {
        unimplemented!()
    }

    /// All objects of all resources now, and the revision they were read at: where a watch starts.
    pub fn snapshot(&self) -> (u64, Vec<(Arc<Gvr>, Arc<Value>)>) {
        unimplemented!()
    }

    /// Every commit of every resource after `revision`, in order. The stream ends when the server stops, or when
    /// the reader fell behind the event history (take a new [`snapshot`](Self::snapshot) then).
    pub fn watch(&self, revision: u64) -> Watch {
        let _ = revision;
        unimplemented!()
    }
}

/// A stream of [`Event`]s; see [`Client::watch`].
#[derive(Debug)]
pub struct Watch {}

impl Watch {
    /// The next event, or `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Event> {
        unimplemented!()
    }
}
