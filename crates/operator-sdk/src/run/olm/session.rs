//! A [`Session`] with a cluster that has Operator Lifecycle Manager, in one namespace: objects, waits, and rollback.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::OlmError;
use crate::failure::Failure;
use crate::process::api::{Api, ApiError};
use crate::process::objects::text;
use crate::report::Report;

/// A resource that the commands use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resource {
    /// The root path of its API.
    root: &'static str,
    plural: &'static str,
    namespaced: bool,
    /// The name of the resource in messages.
    pub(super) word: &'static str,
}

const fn namespaced(root: &'static str, plural: &'static str, word: &'static str) -> Resource {
    Resource {
        root,
        plural,
        namespaced: true,
        word,
    }
}

/// Returns a cluster-scoped resource.
pub(super) const fn cluster(root: &'static str, plural: &'static str, word: &'static str) -> Resource {
    Resource {
        root,
        plural,
        namespaced: false,
        word,
    }
}

pub(super) const V1ALPHA1: &str = "/apis/operators.coreos.com/v1alpha1";
pub(super) const CATALOG_SOURCE: Resource = namespaced(V1ALPHA1, "catalogsources", "catalogsource");
pub(super) const SUBSCRIPTION: Resource = namespaced(V1ALPHA1, "subscriptions", "subscription");
pub(super) const INSTALL_PLAN: Resource = namespaced(V1ALPHA1, "installplans", "installplan");
pub(super) const CSV: Resource = namespaced(V1ALPHA1, "clusterserviceversions", "clusterserviceversion");
pub(super) const OPERATOR_GROUP: Resource =
    namespaced("/apis/operators.coreos.com/v1", "operatorgroups", "operatorgroup");
pub(super) const CONFIG_MAP: Resource = namespaced("/api/v1", "configmaps", "configmap");
pub(super) const POD: Resource = namespaced("/api/v1", "pods", "pod");
pub(super) const DEPLOYMENT: Resource = namespaced("/apis/apps/v1", "deployments", "deployment");
pub(super) const DEFINITION: Resource = cluster(
    "/apis/apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    "customresourcedefinition",
);

/// A step of the rollback.
enum Undo {
    Delete(Resource, String),
    /// A merge patch that restores fields.
    Restore(Resource, String, Value),
}

/// A connection with a namespace, a deadline and a rollback log.
pub(super) struct Session<'a> {
    pub(super) api: Api,
    pub(super) report: &'a Report,
    pub(super) namespace: String,
    deadline: Instant,
    seconds: u64,
    undo: Vec<Undo>,
}

impl<'a> Session<'a> {
    /// Opens a session with a cluster that serves at least one of the given APIs.
    pub(super) async fn open(
        api: Api,
        roots: &[&str],
        namespace: Option<&str>,
        timeout: Duration,
        report: &'a Report,
    ) -> Result<Self, Failure> {
        let mut is_served = false;
        for root in roots {
            is_served = is_served || api.get(root).await?.is_some();
        }
        if !is_served {
            return Err(OlmError::NotInstalled.into());
        }
        let namespace = namespace.map_or_else(|| api.namespace().to_owned(), str::to_owned);
        Ok(Self {
            api,
            report,
            namespace,
            deadline: Instant::now() + timeout,
            seconds: timeout.as_secs(),
            undo: Vec::new(),
        })
    }

    pub(super) fn collection(&self, resource: Resource) -> String {
        let Resource { root, plural, .. } = resource;
        if resource.namespaced {
            format!("{root}/namespaces/{}/{plural}", self.namespace)
        } else {
            format!("{root}/{plural}")
        }
    }

    fn path(&self, resource: Resource, name: &str) -> String {
        format!("{}/{name}", self.collection(resource))
    }

    pub(super) async fn get(&self, resource: Resource, name: &str) -> Result<Option<Value>, ApiError> {
        if name.is_empty() {
            return Ok(None);
        }
        self.api.get(&self.path(resource, name)).await
    }

    pub(super) async fn list(&self, resource: Resource) -> Result<Vec<Value>, ApiError> {
        let list = self
            .api
            .get(&self.collection(resource))
            .await?
            .unwrap_or_default();
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Creates an object that must not exist. The rollback deletes it.
    pub(super) async fn create(&mut self, resource: Resource, object: &Value) -> Result<Value, Failure> {
        let name = text(object, "/metadata/name").to_owned();
        if self.get(resource, &name).await?.is_some() {
            let namespace = self.namespace.clone();
            let word = resource.word;
            return Err(OlmError::Exists {
                word,
                name,
                namespace,
            }
            .into());
        }
        // Recorded first, because an interrupted request may have been processed.
        self.undo.push(Undo::Delete(resource, name));
        Ok(self.api.create(&self.collection(resource), object).await?)
    }

    /// Adds the deletion of an object to the rollback.
    pub(super) fn delete_on_failure(&mut self, resource: Resource, name: &str) {
        self.undo.push(Undo::Delete(resource, name.to_owned()));
    }

    /// Patches an object. The rollback patches it with `before`.
    pub(super) async fn patch(
        &mut self,
        resource: Resource,
        name: &str,
        patch: &Value,
        before: Value,
    ) -> Result<(), Failure> {
        self.undo.push(Undo::Restore(resource, name.to_owned(), before));
        self.api.merge_patch(&self.path(resource, name), patch).await?;
        Ok(())
    }

    /// Discards the rollback, because the command has succeeded or can no longer be undone.
    pub(super) fn keep(&mut self) {
        self.undo.clear();
    }

    /// Runs the rollback in reverse order.
    pub(super) async fn undo(&mut self) {
        let steps: Vec<Undo> = self.undo.drain(..).rev().collect();
        if steps.is_empty() {
            return;
        }
        self.report.progress("Deleting the created objects");
        for step in steps {
            let outcome = match &step {
                Undo::Delete(resource, name) => {
                    self.api.remove(&self.path(*resource, name)).await.map(|_| ())
                }
                Undo::Restore(resource, name, before) => self
                    .api
                    .merge_patch(&self.path(*resource, name), before)
                    .await
                    .map(|_| ()),
            };
            if let Err(error) = outcome {
                let (Undo::Delete(resource, name) | Undo::Restore(resource, name, _)) = &step;
                let warning = format!("{} {name:?} was not deleted: {error}", resource.word);
                self.report.warning(&warning, None);
            }
        }
    }

    /// Deletes an object. Returns false if it did not exist.
    pub(super) async fn delete(&self, resource: Resource, name: &str) -> Result<bool, ApiError> {
        self.api.remove(&self.path(resource, name)).await
    }

    /// Waits until an object is deleted.
    pub(super) async fn gone(&self, resource: Resource, name: &str) -> Result<(), Failure> {
        self.gone_from(&self.collection(resource), name, resource.word)
            .await
    }

    /// Waits until an object of a collection is deleted.
    pub(super) async fn gone_from(&self, collection: &str, name: &str, word: &str) -> Result<(), Failure> {
        let place = (collection, name);
        let left = super::not_deleted(&self.api, place, word, self.deadline, self.seconds).await?;
        left.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Watches an object until `check` returns a value.
    pub(super) async fn until<T>(
        &self,
        resource: Resource,
        name: &str,
        goal: &str,
        check: impl FnMut(Option<&Value>) -> Option<T>,
    ) -> Result<T, Failure> {
        let collection = self.collection(resource);
        let followed = self.api.follow(&collection, name, check);
        match tokio::time::timeout_at(self.deadline, followed).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(OlmError::Timeout {
                goal: goal.to_owned(),
                seconds: self.seconds,
                causes: String::new(),
            }
            .into()),
        }
    }

    /// Returns the error that a goal was not reached in time, with the known causes.
    pub(super) fn timeout(&self, goal: &str, causes: &[String]) -> Failure {
        let error = OlmError::Timeout {
            goal: goal.to_owned(),
            seconds: self.seconds,
            causes: String::new(),
        };
        let causes: Vec<String> = causes.iter().filter(|cause| !cause.is_empty()).cloned().collect();
        error.with_causes(&causes).into()
    }

    /// Approves an InstallPlan.
    pub(super) async fn approve_plan(&self, name: &str) -> Result<(), ApiError> {
        let patch = json!({"spec": {"approved": true}});
        self.api
            .merge_patch(&self.path(INSTALL_PLAN, name), &patch)
            .await?;
        Ok(())
    }

    /// Returns true if the time limit of the command has passed.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}
