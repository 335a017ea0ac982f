//! The record of a run: commits, states, and results.

use std::sync::Arc;

use futures::FutureExt;
use operator_apiserver::client::{EventType, Gvr};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::inner::object_key;
use super::{Outcome, Session};
use crate::state::{self, State};
use crate::trace::{Actor, Event, Kind};

impl Session {
    /// Records the commits since the last call. Those of the object `key` are the actor's. Other commits are also
    /// attributed to the actor if it is a user or a third party, and otherwise to the cluster. Returns true if there
    /// was a commit of the actor.
    pub(crate) fn drain(&self, actor: Actor, key: Option<&(String, String, String)>) -> bool {
        let elapsed = self.elapsed();
        let mut inner = self.inner();
        let mut any = false;
        while let Some(Some(commit)) = inner.commits.next().now_or_never() {
            let id = object_key(&commit.gvr, &commit.object);
            inner.history.take(&id, &commit);
            let (resource, _, name) = &id;
            let is_of_actor = match key {
                None => actor != Actor::Cluster,
                Some((wanted, namespace, wanted_name)) => {
                    let generated = wanted_name.is_empty() && commit.kind == EventType::Added;
                    wanted == resource && *namespace == id.1 && (wanted_name == name || generated)
                }
            };
            let by = if is_of_actor { actor } else { Actor::Cluster };
            any |= is_of_actor;
            if !state::is_derived(resource) {
                inner.last_change = Instant::now();
            }
            inner
                .history
                .revisions
                .entry(resource.clone())
                .or_default()
                .push(commit.revision);
            let kind = match commit.kind {
                EventType::Added => Kind::Added,
                EventType::Modified => Kind::Modified,
                EventType::Deleted => Kind::Deleted,
            };
            let canonical = state::key_of(resource, &commit.object, &inner.history.names);
            if !state::is_derived(resource) {
                let hash = (kind != Kind::Deleted)
                    .then(|| state::hash(&canonical, &commit.object, &inner.history.names));
                inner.cover(&id, hash);
            }
            let is_noise = matches!(
                resource.as_str(),
                "events" | "events.events.k8s.io" | "leases.coordination.k8s.io"
            );
            if !is_noise {
                let event = Event::Commit {
                    actor: by,
                    kind,
                    key: canonical,
                    object: commit.object,
                    old: commit.old,
                };
                inner.history.trace.push(elapsed, event);
            }
            inner.check(&self.predicates);
        }
        any
    }

    /// Returns the normalized relevant objects that were written since the beginning of the workload.
    pub(crate) fn state(&self) -> State {
        self.drain(Actor::Cluster, None);
        let inner = self.inner();
        let mut state = State::new();
        for id in inner.history.hashes.keys() {
            let Some(object) = inner.history.objects.get(id) else {
                continue;
            };
            // An old ReplicaSet depends on the history of its Deployment, not on its state.
            let is_retired =
                id.0 == "replicasets.apps" && object.pointer("/spec/replicas") == Some(&json!(0));
            if is_retired {
                continue;
            }
            let key = state::key_of(&id.0, object, &inner.history.names);
            let normalized = state::normalize(object, &inner.history.names);
            state.entry(key).or_default().push(normalized);
        }
        for objects in state.values_mut() {
            objects.sort_by_cached_key(Value::to_string);
        }
        state
    }

    /// Returns the changes of the operator since it was restarted when idle.
    pub(crate) fn writes_since_check(&self) -> Vec<String> {
        self.drain(Actor::Cluster, None);
        let inner = self.inner();
        let events = inner.history.trace.iter();
        let after = events.skip_while(|event| !matches!(event, Event::IdempotenceCheck));
        let own = after.filter(|event| {
            matches!(
                event,
                Event::Commit {
                    actor: Actor::Operator,
                    ..
                }
            )
        });
        own.filter_map(crate::trace::line)
            .map(|line| line.trim().to_owned())
            .collect()
    }

    /// Ends the run.
    pub(crate) fn outcome(&self, is_pruned: bool) -> Outcome {
        self.drain(Actor::Cluster, None);
        let mut inner = self.inner();
        let lost = inner.lost_updates();
        if !is_pruned {
            inner.check_eventually(&self.predicates);
        }
        Outcome {
            lost,
            overran: inner.history.call_count > inner.call_limit,
            fired: inner.fired.len(),
            violations: std::mem::take(&mut inner.violations),
            leadership: std::mem::take(&mut inner.leadership),
            coverage: std::mem::take(&mut inner.coverage),
            trace: std::mem::take(&mut inner.history.trace),
            names: std::mem::take(&mut inner.history.names),
            objects: std::mem::take(&mut inner.history.objects),
        }
    }

    /// Returns the hash of the state of the cluster.
    pub(crate) fn world_hash(&self) -> u64 {
        self.drain(Actor::Cluster, None);
        self.inner().history.world
    }

    /// Returns the resource and the first object with a canonical key.
    pub(crate) fn find(&self, key: &str) -> Option<(Gvr, Arc<Value>)> {
        let inner = self.inner();
        let mut objects = inner.history.objects.iter();
        let found = objects
            .find(|((resource, ..), object)| state::key_of(resource, object, &inner.history.names) == key);
        found.map(|((resource, ..), object)| {
            let api_version = object
                .get("apiVersion")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let version = api_version.rsplit('/').next().unwrap_or_default();
            let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
            (Gvr::new(group, version, plural), object.clone())
        })
    }

    /// Returns the pods on a node.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<Value>> {
        let inner = self.inner();
        let pods = inner
            .history
            .objects
            .iter()
            .filter(|((resource, ..), _)| resource == "pods")
            .map(|(_, object)| object);
        let is_here = |pod: &&Arc<Value>| {
            let found = pod.pointer("/spec/nodeName").and_then(Value::as_str);
            found == Some(node)
        };
        pods.filter(is_here).cloned().collect()
    }
}
