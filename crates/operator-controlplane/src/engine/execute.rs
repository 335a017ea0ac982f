//! Executes actions, and waits until the index contains their results for the next plan ([`Executor`]).

use std::sync::Arc;

use operator_apiserver::client::{Client, Gvr, Patch};
use operator_apiserver::status::Status;
use serde_json::{Value, json};

use crate::engine::Cache;
use crate::kind::{CERTIFICATE_SIGNING_REQUEST, POD};
use crate::object::Object;
use crate::objects::Key;
use crate::plan::{Action, Approval, Delete, Failure, Note};
use crate::recorder::Recorder;

/// The reason why an action failed.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The plan was based on an old state, and must be made again.
    Stale(Status),
    /// The action is not possible yet.
    Pending(String),
    /// The server rejected the action, which is reported to the user.
    Failed(Failure),
}

/// Executes actions.
#[derive(Debug)]
pub(crate) struct Executor {
    client: Client,
    cache: Arc<Cache>,
    recorder: Arc<Recorder>,
    max_pods: usize,
}

/// The memory limit of all pods, as counted by [`memory`](apimachinery::json::memory). Controllers create no pods
/// beyond it.
const PODS_WEIGHT_MAX: usize = 256 << 20;

impl Executor {
    pub(crate) fn new(client: Client, cache: Arc<Cache>, recorder: Arc<Recorder>, max_pods: usize) -> Self {
        Self {
            client,
            cache,
            recorder,
            max_pods,
        }
    }

    /// Executes actions in order, until one is rejected.
    pub(crate) async fn all(&self, actions: Vec<Action>) -> Result<(), Refusal> {
        for action in actions {
            self.one(action).await?;
        }
        Ok(())
    }

    /// Executes one action.
    pub(crate) async fn one(&self, action: Action) -> Result<(), Refusal> {
        match action {
            Action::Create { gvr, object, note } => self.create(&gvr, *object, note).await,
            Action::Update {
                gvr,
                subresource,
                object,
                note,
            } => {
                let written = self.client.update(&gvr, subresource, *object).await;
                self.written(written, note).await
            }
            #[cfg(feature = "olm")]
            Action::Put { gvr, object } => {
                let written = self.client.update(&gvr, None, *object).await;
                match written {
                    Err(status) if !matches!(status.code, 404 | 409) => {
                        Err(self.failed("FailedUpdate", "", &status, None).await)
                    }
                    written => self.written(written, None).await,
                }
            }
            Action::Patch {
                gvr,
                namespace,
                name,
                subresource,
                patch,
            } => {
                let patch = Patch::Merge(patch);
                let written = self
                    .client
                    .patch(&gvr, &namespace, &name, subresource, patch)
                    .await;
                self.written(written, None).await
            }
            Action::Delete {
                gvr,
                namespace,
                name,
                options,
                note,
            } => self.delete(&gvr, Key { namespace, name }, options, note).await,
            Action::Bind { pod, node, note } => self.bind(&pod, &node, note).await,
            Action::Approve { request, approvals } => self.approve(*request, &approvals).await,
            Action::Record(note) => {
                self.recorder.record(&note).await;
                Ok(())
            }
        }
    }

    async fn create(&self, gvr: &Gvr, object: Value, note: Option<Note>) -> Result<(), Refusal> {
        let namespace = object.namespace().to_owned();
        if let Some(full) = self.full(gvr) {
            return Err(self.refused("FailedCreate", "Error creating: ", full, note).await);
        }
        let created = self.client.create(gvr, &namespace, object).await;
        match created {
            Err(status) if is_namespace_terminating(&status) || status.reason() == "AlreadyExists" => {
                Err(Refusal::Stale(status))
            }
            Err(status) => Err(self
                .failed("FailedCreate", "Error creating: ", &status, note)
                .await),
            created => self.written(created, note).await,
        }
    }

    /// Approves a CertificateSigningRequest with the first permission that its requester has.
    async fn approve(&self, mut request: Value, approvals: &[Approval]) -> Result<(), Refusal> {
        for approval in approvals {
            let spec = json!({
                "user": request.text("/spec/username"), "uid": request.text("/spec/uid"),
                "groups": request.pointer("/spec/groups"), "extra": request.pointer("/spec/extra"),
                "resourceAttributes": {
                    "group": CERTIFICATE_SIGNING_REQUEST.gvr.group, "version": "*", "verb": "create",
                    "resource": CERTIFICATE_SIGNING_REQUEST.gvr.resource, "subresource": approval.subresource,
                },
            });
            if !self.client.is_allowed(&spec).await {
                continue;
            }
            let condition = json!({
                "type": "Approved", "status": "True", "reason": "AutoApproved", "message": approval.message,
            });
            match request
                .pointer_mut("/status/conditions")
                .and_then(Value::as_array_mut)
            {
                Some(conditions) => conditions.push(condition),
                None => request["status"]["conditions"] = json!([condition]),
            }
            let gvr = &CERTIFICATE_SIGNING_REQUEST.gvr;
            let written = self.client.update(gvr, Some("approval"), request).await;
            return self.written(written, None).await;
        }
        let tried: Vec<&str> = approvals.iter().map(|approval| approval.subresource).collect();
        Err(Refusal::Pending(format!(
            "recognized csr {:?} as [{}] but subject access review was not approved",
            request.name(),
            tried.join(" ")
        )))
    }

    /// Waits until the index contains the write. If the object was deleted or changed, the next plan handles that.
    async fn written(&self, written: Result<Arc<Value>, Status>, note: Option<Note>) -> Result<(), Refusal> {
        let object = written.map_err(Refusal::Stale)?;
        if let Ok(version) = object.version().parse::<u64>() {
            self.cache.wait(|_, revision| revision >= version).await;
        }
        if let Some(mut note) = note {
            note.message = note.message.replace("{name}", object.name());
            self.recorder.record(&note).await;
        }
        Ok(())
    }

    async fn delete(&self, gvr: &Gvr, key: Key, delete: Delete, note: Option<Note>) -> Result<(), Refusal> {
        let uid = delete.uid.clone();
        let deleted = self
            .client
            .delete(gvr, &key.namespace, &key.name, delete.into())
            .await;
        match deleted {
            Err(status) if status.code == 404 => {
                let is_gone = |object: Option<&Arc<Value>>| object.is_none_or(|object| object.uid() != uid);
                self.cache
                    .wait(|objects, _| is_gone(objects.find(gvr, &key)))
                    .await;
                Ok(())
            }
            Err(status) if status.code == 409 => Err(Refusal::Stale(status)),
            Err(status) => Err(self
                .failed("FailedDelete", "Error deleting: ", &status, note)
                .await),
            // The last state of a deleted object has the revision of its deletion.
            deleted => self.written(deleted, note).await,
        }
    }

    async fn bind(&self, pod: &Value, node: &str, note: Option<Note>) -> Result<(), Refusal> {
        let bound = self.client.bind(pod.namespace(), pod.name(), node).await;
        bound.map_err(Refusal::Stale)?;
        let key = Key::of(pod);
        let is_bound =
            |pod: Option<&Arc<Value>>| pod.is_none_or(|pod| !pod.text("/spec/nodeName").is_empty());
        self.cache
            .wait(|objects, _| is_bound(objects.find(&POD.gvr, &key)))
            .await;
        if let Some(note) = note {
            self.recorder.record(&note).await;
        }
        Ok(())
    }

    /// Returns the reason why no more pods can be created, if the cluster has reached a limit.
    fn full(&self, gvr: &Gvr) -> Option<String> {
        if !POD.is(gvr) {
            return None;
        }
        let (count, weight) = self.cache.objects.read().pods();
        if count < self.max_pods && weight < PODS_WEIGHT_MAX {
            return None;
        }
        Some(format!(
            "the simulated cluster is full: it has {count} pods, and controllers create at most {} pods or {} MiB of pods",
            self.max_pods,
            PODS_WEIGHT_MAX >> 20
        ))
    }

    async fn failed(
        &self,
        reason: &'static str,
        prefix: &str,
        status: &Status,
        note: Option<Note>,
    ) -> Refusal {
        self.refused(reason, prefix, status.to_string(), note).await
    }

    async fn refused(
        &self,
        reason: &'static str,
        prefix: &str,
        message: String,
        note: Option<Note>,
    ) -> Refusal {
        if let Some(note) = note.filter(|note| !note.refused.is_empty()) {
            let warning = Note {
                kind: "Warning",
                reason: note.refused,
                message: format!("{prefix}{message}"),
                ..note
            };
            self.recorder.record(&warning).await;
        }
        Refusal::Failed(Failure { reason, message })
    }
}

/// Returns true if an object was rejected because its namespace is terminating, and is therefore not needed.
pub(crate) fn is_namespace_terminating(status: &Status) -> bool {
    let causes = status.body.items("/details/causes");
    causes
        .iter()
        .any(|cause| cause.text("/reason") == "NamespaceTerminating")
}
