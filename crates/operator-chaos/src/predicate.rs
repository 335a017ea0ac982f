//! Predicates of users over the states of a cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// The objects of the cluster after a commit.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    objects: &'a BTreeMap<(String, String, String), Arc<Value>>,
}

/// A condition on states, and when it must hold.
pub(crate) struct Predicate {
    pub(crate) name: String,
    pub(crate) when: When,
    holds: Box<Test>,
}

/// When a predicate must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    Never,
    Eventually,
}

type Test = dyn Fn(&Cluster<'_>) -> bool + Send + Sync;

impl<'a> Cluster<'a> {
    pub(crate) fn new(objects: &'a BTreeMap<(String, String, String), Arc<Value>>) -> Self {
        Self { objects }
    }

    /// Returns the objects of a resource, such as `statefulsets.apps`, in all namespaces.
    pub fn list(&self, resource: &str) -> Vec<&'a Value> {
        let first = (resource.to_owned(), String::new(), String::new());
        let objects = self
            .objects
            .range(first..)
            .take_while(|((found, ..), _)| found == resource);
        objects.map(|(_, object)| &**object).collect()
    }

    /// Returns an object; the namespace is empty for cluster-scoped resources.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<&'a Value> {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.objects.get(&key).map(|object| &**object)
    }
}

impl fmt::Debug for Cluster<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.objects.keys()).finish()
    }
}

impl Predicate {
    pub(crate) fn new(
        name: &str,
        when: When,
        holds: impl Fn(&Cluster<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            when,
            holds: Box::new(holds),
        }
    }

    pub(crate) fn holds(&self, cluster: &Cluster<'_>) -> bool {
        (self.holds)(cluster)
    }
}
