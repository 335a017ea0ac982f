//! Pruning: [`Pruner`] deletes old objects of an operator, such as finished Jobs and Pods, by age or number.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::Pod;
//! use operator_lib::prune::Pruner;
//!
//! # async fn example(client: kube::Client) -> operator_runtime::Result<()> {
//! for pod in Pruner::of::<Pod>(client).labels("app=backup").keep_newest(3).run().await? {
//!     tracing::info!(%pod, "An old backup is gone");
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Preconditions, PropagationPolicy,
};
use kube::{Client, ResourceExt as _};

use operator_runtime::{Object, ObjectKey};

/// Page size of lists.
const PAGE: u32 = 500;

type Prunable = Box<dyn Fn(&DynamicObject) -> bool + Send + Sync>;
type Strategy = Box<dyn Fn(Vec<DynamicObject>) -> Vec<DynamicObject> + Send + Sync>;

/// Deletes old objects of one kind.
///
/// Only finished objects are deleted: succeeded Pods, completed Jobs, and all objects of other kinds, unless
/// [`Pruner::finished_when`] is set. Objects that are being deleted are skipped.
///
/// The operator needs permission to list and delete the kind.
///
/// ```no_run
/// use std::time::Duration;
///
/// use k8s_openapi::api::batch::v1::Job;
/// use operator_lib::prune::Pruner;
///
/// # async fn example(client: kube::Client) -> Result<(), operator_lib::prune::PruneError> {
/// // Backups older than a week, except for the last three.
/// let pruner = Pruner::of::<Job>(client).namespace("default").labels("app=backup");
/// let gone = pruner.keep_newest(3).older_than(Duration::from_secs(7 * 24 * 3600)).run().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "call `run`"]
pub struct Pruner {
    client: Client,
    resource: ApiResource,
    namespace: Option<String>,
    labels: String,
    keep_newest: usize,
    older_than: Duration,
    prunable: Vec<Prunable>,
    finished: Option<Prunable>,
    strategy: Option<Strategy>,
    dry_run: bool,
}

/// An error of pruning.
///
/// ```
/// use k8s_openapi::api::batch::v1::Job;
/// use operator_lib::prune::{PruneError, Pruner};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> operator_runtime::Result<()> {
/// # let env = operator_envtest::TestEnv::builder().backend(Default::default()).start().await?;
/// let refused = Pruner::of::<Job>(env.client()).run().await;
/// assert!(matches!(refused, Err(PruneError::NoStrategy(kind)) if kind == "Job"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    /// Neither a number to keep, nor an age, nor a strategy is set.
    #[error("cannot prune {0} without a limit: call keep_newest, older_than or strategy")]
    NoStrategy(String),
    /// The objects cannot be listed.
    #[error("cannot list {kind} to prune them")]
    List {
        /// Their kind.
        kind: String,
        /// The error of the request.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object cannot be deleted. Earlier objects have been deleted.
    #[error("cannot prune {kind} {key}")]
    Delete {
        /// Its kind.
        kind: String,
        /// The object.
        key: ObjectKey,
        /// The error of the request.
        #[source]
        source: Box<kube::Error>,
    },
}

// === impl Pruner ===

impl Pruner {
    /// Prunes objects of `K`, in all namespaces unless [`Pruner::namespace`] is called.
    pub fn of<K: Object>(client: Client) -> Self {
        Self::of_resource(client, ApiResource::erase::<K>(&K::DynamicType::default()))
    }

    /// Prunes objects of a kind that is known at run time.
    pub fn of_resource(client: Client, resource: ApiResource) -> Self {
        Self {
            client,
            resource,
            namespace: None,
            labels: String::new(),
            keep_newest: 0,
            older_than: Duration::ZERO,
            prunable: Vec::new(),
            finished: None,
            strategy: None,
            dry_run: false,
        }
    }

    /// Prunes only objects in a namespace. Otherwise the objects of all namespaces count together for
    /// [`Pruner::keep_newest`].
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Prunes only objects with these labels, as a selector: `app=backup,tier!=gold`.
    pub fn labels(mut self, selector: &str) -> Self {
        self.labels = selector.to_owned();
        self
    }

    /// Prunes only objects for which `prunable` returns true. With several functions, all must return true. Other
    /// objects are not counted by [`Pruner::keep_newest`].
    pub fn only(mut self, prunable: impl Fn(&DynamicObject) -> bool + Send + Sync + 'static) -> Self {
        self.prunable.push(Box::new(prunable));
        self
    }

    /// Sets the function that returns true for finished objects, instead of the rules for Pods and Jobs: for example to
    /// prune failed ones too.
    pub fn finished_when(
        mut self,
        finished: impl Fn(&DynamicObject) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.finished = Some(Box::new(finished));
        self
    }

    /// Deletes the objects that `strategy` returns, in that order. It gets the finished objects that neither
    /// [`Pruner::keep_newest`] nor [`Pruner::older_than`] keeps, the oldest first.
    pub fn strategy(
        mut self,
        strategy: impl Fn(Vec<DynamicObject>) -> Vec<DynamicObject> + Send + Sync + 'static,
    ) -> Self {
        self.strategy = Some(Box::new(strategy));
        self
    }

    /// Keeps this number of the newest objects. Default: 0.
    pub fn keep_newest(mut self, count: usize) -> Self {
        self.keep_newest = count;
        self
    }

    /// Keeps objects that were created less than `age` ago, regardless of when a Job or Pod finished. Combined with
    /// [`Pruner::keep_newest`], an object is kept if either option keeps it.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = age;
        self
    }

    /// Deletes nothing: [`Pruner::run`] returns the objects that it would delete.
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// Deletes the objects, the oldest first, with the objects that they own (in the background), and returns their
    /// keys. An object that changed since the list is skipped.
    ///
    /// # Errors
    /// Returns [`PruneError::NoStrategy`] if neither a number, nor an age, nor a strategy is set; otherwise the first
    /// error of the API server. Objects that are already gone are not an error.
    pub async fn run(self) -> Result<Vec<ObjectKey>, PruneError> {
        if self.keep_newest == 0 && self.older_than.is_zero() && self.strategy.is_none() {
            return Err(PruneError::NoStrategy(self.resource.kind));
        }
        let objects = self.list().await?;
        let finished = objects.into_iter().filter(|object| self.is_prunable(object));
        let outdated = outdated(
            finished.collect(),
            self.keep_newest,
            self.older_than,
            Timestamp::now(),
        );
        let outdated = match &self.strategy {
            Some(strategy) => strategy(outdated),
            None => outdated,
        };
        let mut pruned = Vec::with_capacity(outdated.len());
        for object in outdated {
            let key = ObjectKey::of(&object);
            if self.dry_run || self.delete(&object, &key).await? {
                tracing::info!(kind = self.resource.kind, %key, dry_run = self.dry_run, "Pruned");
                pruned.push(key);
            }
        }
        Ok(pruned)
    }

    async fn list(&self) -> Result<Vec<DynamicObject>, PruneError> {
        let api = self.api(self.namespace.as_deref());
        let mut parameters = ListParams::default().labels(&self.labels).limit(PAGE);
        let mut objects = Vec::new();
        loop {
            let page = api.list(&parameters).await.map_err(|source| PruneError::List {
                kind: self.resource.kind.clone(),
                source: Box::new(source),
            })?;
            objects.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(objects),
            }
        }
    }

    fn is_prunable(&self, object: &DynamicObject) -> bool {
        let is_finished = match &self.finished {
            Some(finished) => finished(object),
            None => is_finished(&self.resource, object),
        };
        object.metadata.deletion_timestamp.is_none()
            && is_finished
            && self.prunable.iter().all(|prunable| prunable(object))
    }

    /// Returns true if the object was deleted, and false if it was gone or replaced.
    async fn delete(&self, object: &DynamicObject, key: &ObjectKey) -> Result<bool, PruneError> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: object.metadata.uid.clone(),
                resource_version: object.metadata.resource_version.clone(),
            }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match self.api(key.namespace()).delete(key.name(), &parameters).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(false),
            Err(source) => Err(PruneError::Delete {
                kind: self.resource.kind.clone(),
                key: key.clone(),
                source: Box::new(source),
            }),
        }
    }

    fn api(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &self.resource),
            None => Api::all_with(self.client.clone(), &self.resource),
        }
    }
}

impl fmt::Debug for Pruner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Pruner")
            .field("kind", &self.resource.kind)
            .field("namespace", &self.namespace)
            .field("labels", &self.labels)
            .field("keep_newest", &self.keep_newest)
            .field("older_than", &self.older_than)
            .finish_non_exhaustive()
    }
}

/// Returns true if an object has finished. Always true for kinds that do not finish.
fn is_finished(resource: &ApiResource, object: &DynamicObject) -> bool {
    let status = &object.data["status"];
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Pod") => status["phase"] == "Succeeded",
        ("batch", "Job") => !status["completionTime"].is_null(),
        _ => true,
    }
}

/// Returns the objects that are neither among the newest `keep` nor younger than `age`, the oldest first.
fn outdated(
    mut objects: Vec<DynamicObject>,
    keep: usize,
    age: Duration,
    now: Timestamp,
) -> Vec<DynamicObject> {
    objects.sort_by_cached_key(|object| (created(object), object.namespace(), object.name_any()));
    objects.truncate(objects.len().saturating_sub(keep));
    objects.retain(|object| {
        let lived = created(object).map(|created| now.duration_since(created));
        lived.is_some_and(|lived| {
            lived >= jiff::SignedDuration::try_from(age).unwrap_or(jiff::SignedDuration::MAX)
        })
    });
    objects
}

fn created(object: &DynamicObject) -> Option<Timestamp> {
    object.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use serde_json::json;

    use super::*;

    fn object(name: &str, second: i64) -> DynamicObject {
        let created = Timestamp::from_second(second).unwrap();
        serde_json::from_value(json!({"metadata": {"name": name, "creationTimestamp": created.to_string()}}))
            .unwrap()
    }

    #[track_caller]
    fn check(keep: usize, age: u64, outdated_names: &[&str]) {
        let objects = vec![object("c", 30), object("a", 10), object("d", 40), object("b", 20)];
        let now = Timestamp::from_second(50).unwrap();
        let outdated = outdated(objects, keep, Duration::from_secs(age), now);
        let names: Vec<_> = outdated.iter().map(|object| object.name_any()).collect();
        assert_eq!(names, outdated_names);
    }

    #[test]
    fn newest_are_kept() {
        check(1, 0, &["a", "b", "c"]);
        check(4, 0, &[]);
        check(9, 0, &[]);
    }

    #[test]
    fn young_ones_are_kept() {
        check(0, 20, &["a", "b", "c"]);
        check(0, 41, &[]);
        check(0, u64::MAX, &[]);
    }

    #[test]
    fn both_limits_keep_objects() {
        check(2, 5, &["a", "b"]);
        check(2, 35, &["a"]);
    }

    #[test]
    fn only_finished_pods_and_jobs_are_pruned() {
        let finished = |resource: &ApiResource, status| {
            is_finished(
                resource,
                &serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap(),
            )
        };
        let (pod, job) = (ApiResource::erase::<Pod>(&()), ApiResource::erase::<Job>(&()));
        assert!(finished(&pod, json!({"phase": "Succeeded"})));
        assert!(!finished(&pod, json!({"phase": "Failed"})));
        assert!(!finished(&pod, json!(null)));
        assert!(finished(&job, json!({"completionTime": "2020-01-01T00:00:00Z"})));
        assert!(!finished(&job, json!({"active": 1})));
        assert!(finished(&ApiResource::erase::<ConfigMap>(&()), json!(null)));
    }
}
