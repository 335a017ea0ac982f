//! The in-process client: calls the registry with JSON trees, without HTTP.
//!
//! It is used by the controllers of operator-controlplane. Every call uses the same registry as an HTTP request
//! (defaults, validation, managed fields, store), as the group `system:masters`.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::identity::authn::User;
use crate::identity::authz;
pub use crate::registry::pod_logs::LogWriter;
use crate::registry::{self, ListOptions, Registry};
use crate::resource::crd::conversion;
use crate::resource::{Definition, builtin_catalog};
use crate::status::{self, Status};
use crate::store;
pub use crate::store::{EventType, Resident};
use crate::write::object_body::{self, StrictFaults};
use crate::write::{FieldValidation, Warnings, Write};
pub use apimachinery::gvk::Gvr;
use apimachinery::object;

/// The description of a served resource (one entry per group and resource, in its storage version).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedResource {
    /// Group, version and plural.
    pub gvr: Arc<Gvr>,
    /// The kind of its objects.
    pub kind: String,
    /// True if its objects live in namespaces.
    pub namespaced: bool,
    /// True if its objects can be deleted.
    pub deletable: bool,
}

/// One committed change, of any resource.
#[derive(Clone, Debug)]
pub struct Event {
    /// The revision of the commit.
    pub revision: u64,
    /// The resource (in its storage version).
    pub gvr: Arc<Gvr>,
    /// The type of the event.
    pub kind: EventType,
    /// The object after the change (before it, if deleted).
    pub object: Arc<Value>,
    /// The object before the change; `None` if it was created.
    pub old: Option<Arc<Value>>,
}

/// Options of a delete: grace, propagation, preconditions.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// The grace period in seconds; `None` is the default of the kind.
    pub grace_period_seconds: Option<i64>,
    /// `Background`, `Foreground` or `Orphan`; `None` is the default of the kind.
    pub propagation_policy: Option<String>,
    /// Fails with a conflict if the object has another uid.
    pub uid: Option<String>,
    /// Fails with a conflict if the object has another resourceVersion.
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
        /// True if the apply is forced.
        force: bool,
    },
}

/// A list with the revision it was taken at.
#[derive(Clone, Debug)]
pub struct List {
    /// The revision; a watch from it misses no event.
    pub revision: u64,
    /// The objects, in key order.
    pub items: Vec<Arc<Value>>,
}

/// An in-process client of the server.
///
/// `namespace` is empty for cluster-scoped resources and, in `list`, for all namespaces. Updates need a
/// `metadata.resourceVersion` if the kind requires one; conflicts are a [`Status`] with reason `Conflict`.
#[derive(Clone, Debug)]
pub struct Client {
    registry: Arc<Registry>,
    manager: String,
}

/// The default field manager of writes; see [`Client::with_manager`].
const DEFAULT_MANAGER: &str = "kube-controller-manager";

impl Client {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            manager: DEFAULT_MANAGER.to_owned(),
        }
    }

    /// Returns the same client, writing as another field manager.
    #[must_use]
    pub fn with_manager(&self, manager: &str) -> Self {
        Self {
            registry: self.registry.clone(),
            manager: manager.to_owned(),
        }
    }

    /// Returns the object, or a `NotFound` status.
    pub async fn get(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<Arc<Value>, Status> {
        let definition = self.find(gvr)?;
        let stored = self.registry.get(&definition, namespace, name)?;
        conversion::prepare(&self.registry.converter, &definition, [&stored.value]).await?;
        Ok(definition.serve(&stored.value))
    }

    /// Returns the current objects that match a label selector (`""` selects everything).
    pub async fn list(&self, gvr: &Gvr, namespace: &str, label_selector: &str) -> Result<List, Status> {
        let definition = self.find(gvr)?;
        let options = ListOptions {
            labels: label_selector
                .parse()
                .map_err(|why: String| status::bad_request(why))?,
            ..ListOptions::default()
        };
        let page = self.registry.list(&definition, namespace, &options)?;
        let stored = page.items.iter().map(|stored| &stored.value);
        conversion::prepare(&self.registry.converter, &definition, stored).await?;
        Ok(List {
            revision: page.revision,
            items: page
                .items
                .iter()
                .map(|stored| definition.serve(&stored.value))
                .collect(),
        })
    }

    /// Returns true if a request is allowed. `spec` describes it and its user, like the `spec` of a SubjectAccessReview.
    pub async fn is_allowed(&self, spec: &Value) -> bool {
        let user = authz::user_of(spec);
        let asked = authz::asked_by(&user, spec);
        self.registry.authorizer.authorize(&asked).await.allowed
    }

    /// Creates an object. A missing apiVersion, kind or namespace is set.
    pub async fn create(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Arc<Value>, Status> {
        let write = self.write(gvr, namespace, "", None)?;
        let object = complete(&write, object)?;
        self.registry.create(&write, object).await
    }

    /// Replaces an object, or its subresource (`Some("status")`, `Some("finalize")`, …).
    pub async fn update(
        &self,
        gvr: &Gvr,
        subresource: Option<&str>,
        object: Value,
    ) -> Result<Arc<Value>, Status> {
        let (namespace, name) = (object::namespace(&object), object::name(&object));
        let write = self.write(gvr, namespace, name, subresource)?;
        let object = complete(&write, object)?;
        let change = |_: &Value| Ok(object.clone());
        self.registry.update(&write, &change).await
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
        let mut write = self.write(gvr, namespace, name, subresource)?;
        let patch = match patch {
            Patch::Merge(patch) => registry::patch::Patch::Merge(patch),
            Patch::Json(Value::Array(operations)) => registry::patch::Patch::Json(operations),
            Patch::Json(_) => return Err(status::bad_request("a JSON patch must be a list")),
            Patch::Strategic(patch) => registry::patch::Patch::Strategic(patch),
            Patch::Apply {
                config,
                manager,
                force,
            } => {
                write.manager = manager;
                registry::patch::Patch::Apply { config, force }
            }
        };
        let patching = registry::patch::Patching {
            patch,
            validation: FieldValidation::Ignore,
            faults: Vec::new(),
        };
        let (_, patched) = self.registry.patch(&mut write, &patching).await?;
        Ok(patched)
    }

    /// Deletes an object; returns the terminating object, or its last state.
    pub async fn delete(
        &self,
        gvr: &Gvr,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<Arc<Value>, Status> {
        let write = self.write(gvr, namespace, name, None)?;
        let options = registry::DeleteOptions {
            grace_period_seconds: options.grace_period_seconds,
            propagation_policy: options.propagation_policy,
            orphan_dependents: None,
            uid: options.uid,
            resource_version: options.resource_version,
        };
        let deleted = self.registry.delete(&write, &options).await?;
        Ok(deleted.object)
    }

    /// Binds a pod to a node, as the scheduler does through `pods/binding`: policies and webhooks are called.
    pub async fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<Arc<Value>, Status> {
        let write = self.write(&Gvr::new("", "v1", "pods"), namespace, pod, Some("binding"))?;
        let mut binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        registry::binding::admit_and_bind(&self.registry, &write, &mut binding).await
    }

    /// Returns every served resource, built in or custom; one entry for each group and resource.
    pub fn resources(&self) -> Vec<ServedResource> {
        let custom = self.registry.resources.custom();
        let mut resources: Vec<ServedResource> = Vec::new();
        let definitions = builtin_catalog().definitions().iter();
        for definition in definitions.chain(custom.definitions()) {
            let known = |resource: &ServedResource| resource.gvr == definition.storage;
            if resources.iter().any(known) {
                continue;
            }
            resources.push(ServedResource {
                gvr: definition.storage.clone(),
                kind: definition.subject.kind.clone(),
                namespaced: definition.namespaced,
                deletable: definition.verbs.iter().any(|verb| verb == "delete"),
            });
        }
        resources
    }

    /// Returns all objects of all resources, and their revision, from which a watch can start.
    pub fn snapshot(&self) -> (u64, Vec<Resident>) {
        self.registry.store.snapshot()
    }

    /// Returns every commit of every resource after `revision`, in order. The stream ends when the server stops, or
    /// when the reader is behind the event history (take a new [`snapshot`](Self::snapshot) then).
    ///
    /// An idle watch costs nothing; each event is one shared reference.
    pub fn watch(&self, revision: u64) -> Watch {
        Watch {
            changes: self.registry.store.subscribe_all(),
            registry: self.registry.clone(),
            cursor: revision,
            batch: VecDeque::new(),
        }
    }

    /// Starts the log of a container that runs as a local process. `pods/log` serves it instead of the annotations of
    /// simulated pods; the previous log stays available as `previous`.
    pub fn open_log(&self, pod_uid: &str, container: &str) -> LogWriter {
        self.registry.pod_logs.open(pod_uid, container)
    }

    /// Removes the logs of a pod.
    pub fn remove_logs(&self, pod_uid: &str) {
        self.registry.pod_logs.remove(pod_uid);
    }

    /// Sets the local address of a pod that runs as a local process; `None` removes it. Webhooks and extension API
    /// servers behind a Service are called at this address.
    pub fn route_pod(&self, pod: IpAddr, local: Option<IpAddr>) {
        self.registry.services.pods.set(pod, local);
    }

    /// Returns the current time of the server.
    pub fn now(&self) -> std::time::SystemTime {
        self.registry.clock.now()
    }

    fn find(&self, gvr: &Gvr) -> Result<Arc<Definition>, Status> {
        self.registry
            .find(&gvr.group, &gvr.version, &gvr.resource)
            .ok_or_else(status::unknown_resource)
    }

    fn write(
        &self,
        gvr: &Gvr,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
    ) -> Result<Write, Status> {
        Ok(Write {
            definition: self.find(gvr)?,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.unwrap_or_default().to_owned(),
            user: User::admin(),
            manager: self.manager.clone(),
            tracked: false,
            replaces: true,
            dry_run: false,
            options: Value::Null,
            warnings: Warnings::default(),
            in_collection: false,
            conversions: Arc::default(),
            decisions: Arc::default(),
            requested_name: Default::default(),
            deadline: None,
        })
    }
}

fn complete(write: &Write, mut object: Value) -> Result<Value, Status> {
    let definition = &write.definition;
    let validation = FieldValidation::Ignore;
    let warnings = &write.warnings;
    object_body::complete(
        definition,
        &mut object,
        StrictFaults::default(),
        validation,
        warnings,
    )?;
    Ok(object)
}

/// The number of events that a watch takes from the history at once.
const WATCH_BATCH: usize = 256;

/// A stream of [`Event`]s; see [`Client::watch`].
#[derive(Debug)]
pub struct Watch {
    registry: Arc<Registry>,
    changes: store::Changes,
    cursor: u64,
    batch: VecDeque<Arc<store::Event>>,
}

impl Watch {
    /// Returns the next event, or `None` at the end of the stream. No event is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.try_next() {
                return Some(event);
            }
            self.changes.mark_seen();
            let events = self.registry.store.all_events(self.cursor, WATCH_BATCH);
            self.batch.extend(events.ok()?);
            if !self.batch.is_empty() {
                continue;
            }
            let stop = self.registry.stop.clone();
            tokio::select! {
                biased;
                changed = self.changes.changed() => changed.ok()?,
                () = stop.cancelled() => return None,
            }
        }
    }

    /// Returns an event that is available without waiting.
    fn try_next(&mut self) -> Option<Event> {
        let event = self.batch.pop_front()?;
        self.cursor = event.revision;
        Some(Event {
            revision: event.revision,
            gvr: event.gvr.clone(),
            kind: event.kind,
            object: event.object.value.clone(),
            old: event.old.as_ref().map(|old| old.value.clone()),
        })
    }
}
