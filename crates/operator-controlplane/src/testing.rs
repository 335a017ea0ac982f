//! Fixtures for the tests of controllers: [`Scene`].

use std::sync::Arc;

use jiff::Timestamp;
use operator_apiserver::client::{Event, EventType, ServedResource};
use serde_json::Value;

use crate::kind::{self, Kind};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Failure, Plan, World};

/// An index of objects and a time.
pub(crate) struct Scene {
    pub(crate) objects: Objects,
    pub(crate) now: Timestamp,
    pub(crate) failure: Option<Failure>,
}

impl Scene {
    /// Returns an empty environment, in the first minute of 2024.
    pub(crate) fn new() -> Self {
        Self {
            objects: Objects::default(),
            now: "2024-01-01T00:00:00Z".parse().unwrap(),
            failure: None,
        }
    }

    pub(crate) fn put(&mut self, kind: &Kind, object: Value) {
        self.objects
            .insert(&Arc::new(kind.gvr.clone()), &Arc::new(object));
    }

    pub(crate) fn remove(&mut self, kind: &Kind, namespace: &str, name: &str) {
        let object = self.objects.get(kind, namespace, name).unwrap().clone();
        self.objects.apply(&Event {
            revision: 0,
            gvr: Arc::new(kind.gvr.clone()),
            kind: EventType::Deleted,
            object,
            old: None,
        });
    }

    /// Advances the time.
    pub(crate) fn wait(&mut self, seconds: i64) {
        self.now = self
            .now
            .checked_add(jiff::SignedDuration::from_secs(seconds))
            .unwrap();
    }

    /// Returns the plan of a controller.
    pub(crate) fn plan(
        &self,
        mut plan: impl FnMut(&World<'_>, &Key) -> Plan,
        namespace: &str,
        name: &str,
    ) -> Plan {
        let world = World {
            objects: &self.objects,
            now: self.now,
            failure: self.failure.as_ref(),
            resources: &served,
        };
        plan(&world, &Key::new(namespace, name))
    }
}

fn served() -> Vec<ServedResource> {
    let namespaced: [&Kind; 4] = [
        &kind::CONFIG_MAP,
        &kind::POD,
        &kind::REPLICA_SET,
        &kind::DEPLOYMENT,
    ];
    let cluster: [&Kind; 2] = [&kind::NAMESPACE, &kind::NODE];
    let namespaced = namespaced.map(|kind| (kind, true)).into_iter();
    namespaced
        .chain(cluster.map(|kind| (kind, false)))
        .map(|(kind, namespaced)| ServedResource {
            gvr: Arc::new(kind.gvr.clone()),
            kind: kind.name.to_owned(),
            namespaced,
            deletable: true,
        })
        .collect()
}

/// Returns actions in a short form: verb, resource, name.
pub(crate) fn names(actions: &[Action]) -> Vec<String> {
    actions.iter().map(short).collect()
}

fn short(action: &Action) -> String {
    use crate::object::Object;
    let name = |object: &Value| match object.name() {
        "" => object.text("/metadata/generateName").to_owned(),
        name => name.to_owned(),
    };
    match action {
        Action::Create { gvr, object, .. } => format!("create {}/{}", gvr.resource, name(object)),
        Action::Update {
            gvr,
            subresource,
            object,
            ..
        } => {
            let subresource = subresource
                .map(|subresource| format!("/{subresource}"))
                .unwrap_or_default();
            format!("update {}/{}{subresource}", gvr.resource, name(object))
        }
        #[cfg(feature = "olm")]
        Action::Put { gvr, object } => format!("update {}/{}", gvr.resource, name(object)),
        Action::Patch { gvr, name, .. } => format!("patch {}/{name}", gvr.resource),
        Action::Delete { gvr, name, .. } => format!("delete {}/{name}", gvr.resource),
        Action::Bind { pod, node, .. } => format!("bind {} to {node}", name(pod)),
        Action::Approve { request, .. } => format!("approve {}", name(request)),
        Action::Record(note) => format!("record {}", note.reason),
    }
}
