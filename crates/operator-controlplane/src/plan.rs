//! The decision of a controller for one key: a [`Plan`] of actions, computed from the current state.
//!
//! Controllers are functions from a [`World`] to a [`Plan`]; the engine executes the plan.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use operator_apiserver::client::{DeleteOptions, Gvr, ServedResource};
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::Object;
use crate::objects::Objects;

/// The input of a decision.
pub(crate) struct World<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) now: Timestamp,
    /// The error of the last create or delete for this key, if it was rejected.
    pub(crate) failure: Option<&'a Failure>,
    /// Returns the served resources. Call it only if needed, because the list is long.
    pub(crate) resources: &'a dyn Fn() -> Vec<ServedResource>,
}

/// A create or delete that the server rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The reason of the Event: `FailedCreate`, `FailedUpdate` or `FailedDelete`.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The actions for a key.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// The actions, executed in order. Then the controller plans again, with their results in the index.
    pub(crate) actions: Vec<Action>,
    /// The status update. It is executed when there are no other actions, or when an action was rejected.
    pub(crate) status: Option<Action>,
    /// The time after which the controller plans again, even without an event.
    pub(crate) after: Option<Duration>,
}

impl Plan {
    /// Returns a plan without actions.
    pub(crate) fn done() -> Self {
        Self::default()
    }

    /// Returns a plan with one action.
    pub(crate) fn act(action: Action) -> Self {
        Self::actions(vec![action])
    }

    /// Returns a plan with actions.
    pub(crate) fn actions(actions: Vec<Action>) -> Self {
        Self {
            actions,
            ..Self::default()
        }
    }
}

/// A write to the API server.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    Create {
        gvr: Gvr,
        object: Box<Value>,
        note: Option<Note>,
    },
    Update {
        gvr: Gvr,
        subresource: Option<&'static str>,
        object: Box<Value>,
        note: Option<Note>,
    },
    /// Replaces an object. If this fails, the status reports it.
    #[cfg(feature = "olm")]
    Put { gvr: Gvr, object: Box<Value> },
    /// A JSON merge patch.
    Patch {
        gvr: Gvr,
        namespace: String,
        name: String,
        subresource: Option<&'static str>,
        patch: Value,
    },
    Delete {
        gvr: Gvr,
        namespace: String,
        name: String,
        options: Delete,
        note: Option<Note>,
    },
    /// Binds a pod to a node.
    Bind {
        pod: Arc<Value>,
        node: String,
        note: Option<Note>,
    },
    /// Approves a CertificateSigningRequest if its requester has one of the permissions.
    Approve {
        request: Box<Value>,
        approvals: Vec<Approval>,
    },
    /// Records only an Event.
    Record(Note),
}

impl Action {
    /// Returns an update that also records an Event. Other actions are unchanged.
    pub(crate) fn with(self, told: Note) -> Self {
        match self {
            Self::Update {
                gvr,
                subresource,
                object,
                ..
            } => Self::Update {
                gvr,
                subresource,
                object,
                note: Some(told),
            },
            other => other,
        }
    }
}

/// A permission of the requester that approves a CertificateSigningRequest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Approval {
    /// The subresource of `certificatesigningrequests` that the requester may create.
    pub(crate) subresource: &'static str,
    /// The message of the condition.
    pub(crate) message: &'static str,
}

/// The options of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delete {
    pub(crate) uid: String,
    pub(crate) version: Option<String>,
    pub(crate) policy: Option<&'static str>,
    pub(crate) grace: Option<i64>,
}

impl From<Delete> for DeleteOptions {
    fn from(delete: Delete) -> Self {
        Self {
            grace_period_seconds: delete.grace,
            propagation_policy: delete.policy.map(str::to_owned),
            uid: Some(delete.uid),
            resource_version: delete.version,
        }
    }
}

/// An Event to record after the action has succeeded. `{name}` in the message is the name of the written object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Note {
    pub(crate) about: Value,
    pub(crate) kind: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// The component that reports the Event.
    pub(crate) component: &'static str,
    /// The reason of the warning that is recorded if the action is rejected.
    pub(crate) refused: &'static str,
}

impl Note {
    /// Returns a `Normal` Event about an object.
    pub(crate) fn normal(
        component: &'static str,
        kind: &Kind,
        object: &Value,
        reason: &'static str,
        message: String,
    ) -> Self {
        Self {
            about: reference(&kind.api_version(), kind.name, object),
            kind: "Normal",
            reason,
            message,
            component,
            refused: "",
        }
    }

    /// Returns a `Warning` Event about an object.
    pub(crate) fn warning(
        component: &'static str,
        kind: &Kind,
        object: &Value,
        reason: &'static str,
        message: String,
    ) -> Self {
        Self {
            kind: "Warning",
            ..Self::normal(component, kind, object, reason, message)
        }
    }

    /// Sets the reason of the warning that is recorded if the action is rejected.
    pub(crate) fn or(self, refused: &'static str) -> Self {
        Self { refused, ..self }
    }
}

/// Returns a `v1.ObjectReference`.
pub(crate) fn reference(api_version: &str, kind: &str, object: &Value) -> Value {
    let mut reference = json!({
        "apiVersion": api_version,
        "kind": kind,
        "name": object.name(),
        "uid": object.uid(),
        "resourceVersion": object.version(),
    });
    if !object.namespace().is_empty() {
        reference["namespace"] = object.namespace().into();
    }
    reference
}

/// Creates an object of a kind; sets its `apiVersion` and `kind`.
pub(crate) fn create(kind: &Kind, mut object: Value, note: Option<Note>) -> Action {
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.name.into();
    Action::Create {
        gvr: kind.gvr.clone(),
        object: Box::new(object),
        note,
    }
}

/// Replaces an object of a kind.
pub(crate) fn update(kind: &Kind, object: Value, note: Option<Note>) -> Action {
    write(kind, None, object, note)
}

/// Replaces a subresource of an object of a kind.
pub(crate) fn update_subresource(kind: &Kind, subresource: &'static str, object: Value) -> Action {
    write(kind, Some(subresource), object, None)
}

fn write(kind: &Kind, subresource: Option<&'static str>, mut object: Value, note: Option<Note>) -> Action {
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.name.into();
    Action::Update {
        gvr: kind.gvr.clone(),
        subresource,
        object: Box::new(object),
        note,
    }
}

/// Replaces the status of an object, unless it is equal.
pub(crate) fn update_status(kind: &Kind, object: &Value, status: Value) -> Option<Action> {
    if object.get("status") == Some(&status) {
        return None;
    }
    Some(update_subresource(
        kind,
        "status",
        crate::object::with_status(object, status),
    ))
}

/// Patches metadata of an object, if its version has not changed since it was read.
pub(crate) fn patch_metadata(gvr: &Gvr, object: &Value, mut metadata: Value) -> Action {
    metadata["uid"] = object.uid().into();
    metadata["resourceVersion"] = object.version().into();
    Action::Patch {
        gvr: gvr.clone(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        subresource: None,
        patch: json!({"metadata": metadata}),
    }
}

/// Removes a finalizer.
pub(crate) fn remove_finalizer(gvr: &Gvr, object: &Value, finalizer: &str) -> Action {
    let kept: Vec<&Value> = object
        .items("/metadata/finalizers")
        .iter()
        .filter(|found| *found != finalizer)
        .collect();
    let kept = if kept.is_empty() { Value::Null } else { json!(kept) };
    patch_metadata(gvr, object, json!({"finalizers": kept}))
}

/// Deletes an object of a kind in the background.
pub(crate) fn delete(kind: &Kind, object: &Value, note: Option<Note>) -> Action {
    delete_with(&kind.gvr, object, Some("Background"), None, note)
}

/// Deletes an object.
pub(crate) fn delete_with(
    gvr: &Gvr,
    object: &Value,
    policy: Option<&'static str>,
    grace: Option<i64>,
    note: Option<Note>,
) -> Action {
    Action::Delete {
        gvr: gvr.clone(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        options: Delete {
            uid: object.uid().to_owned(),
            version: None,
            policy,
            grace,
        },
        note,
    }
}

/// Returns the time until an instant, which is at least one millisecond.
pub(crate) fn until(now: Timestamp, instant: Timestamp) -> Duration {
    let left = instant.as_millisecond().saturating_sub(now.as_millisecond());
    Duration::from_millis(u64::try_from(left).unwrap_or(0).max(1))
}

/// Returns the shorter of two delays.
pub(crate) fn sooner(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
