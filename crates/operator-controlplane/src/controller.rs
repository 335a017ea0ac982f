//! The controllers, one per file. Each is a pure function from the index to a plan.

pub(crate) mod certificate;
pub(crate) mod certificate_approval;
pub(crate) mod cluster_role;
pub(crate) mod cron_job;
pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod disruption;
pub(crate) mod endpoint_slice;
pub(crate) mod endpoints;
pub(crate) mod garbage;
pub(crate) mod job;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod node_lifecycle;
pub(crate) mod quota;
pub(crate) mod replica_set;
pub(crate) mod scheduler;
pub(crate) mod service_account;
pub(crate) mod stateful_set;
pub(crate) mod ttl;
pub(crate) mod volume;

use operator_apiserver::client::Event;

use crate::kind::Kind;
use crate::object::Object;
use crate::objects::Key;
use crate::owner::controller_of;

/// Adds the key of the event's object if it is of a kind.
pub(crate) fn key_of(kind: &Kind, event: &Event, keys: &mut Vec<Key>) {
    if kind.is(&event.gvr) {
        keys.push(Key::of(&event.object));
    }
}

/// Adds the keys of the objects of `owner` that control the object of the event, before or after the change.
pub(crate) fn keys_of_controller(owner: &Kind, event: &Event, keys: &mut Vec<Key>) {
    for object in std::iter::once(&event.object).chain(&event.old) {
        let controller = controller_of(object).filter(|controller| controller.text("/kind") == owner.name);
        if let Some(controller) = controller {
            keys.push(Key::new(object.namespace(), controller.text("/name")));
        }
    }
}
