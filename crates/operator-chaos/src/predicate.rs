//! [`Cluster`] and the predicates of users on the states of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kubernetes_cel::ast::{Issue, describe};
use kubernetes_cel::types::Type;
use kubernetes_cel::value::from_json;
use kubernetes_cel::{Activation, Variables, check, evaluate, parse};
use serde_json::Value;

/// The objects of the cluster after a commit.
#[derive(Clone, Copy)]
pub struct Cluster<'a> {
    objects: &'a BTreeMap<(String, String, String), Arc<Value>>,
}

/// A condition on states, with the states in which it must be true.
pub(crate) struct Predicate {
    pub(crate) name: String,
    pub(crate) when: When,
    holds: Box<Test>,
}

/// The states in which a predicate must be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    Never,
    Eventually,
}

type Test = dyn Fn(&Cluster<'_>) -> Result<bool, String> + Send + Sync;

/// Maximum cost of one evaluation of an expression.
const COST_MAX: u64 = 10_000_000;

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

    /// Returns an object. The namespace is empty for cluster-scoped resources.
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
            holds: Box::new(move |cluster| Ok(holds(cluster))),
        }
    }

    /// Creates a predicate of a CEL expression over `objects`, a map from resources to lists of objects.
    ///
    /// # Errors
    /// Returns a message if the expression is invalid.
    pub(crate) fn cel(name: &str, when: When, source: &str) -> Result<Self, String> {
        let failed = |issues: Vec<Issue>| describe(source, &issues);
        let expression = parse(source).map_err(failed)?;
        let variables = Variables::from([("objects".to_owned(), Type::map(Type::String, Type::Dyn))]);
        let program = check(expression, &variables).map_err(failed)?;
        let resources = literals(source);
        let holds = move |cluster: &Cluster<'_>| {
            let lists = resources.iter().map(|resource| {
                let objects = cluster.list(resource).into_iter().cloned().collect();
                (resource.clone(), Value::Array(objects))
            });
            let objects = Value::Object(lists.collect());
            let activation = Activation::from([("objects".to_owned(), from_json(&objects, None))]);
            match evaluate(&program, &activation, COST_MAX).0 {
                Ok(kubernetes_cel::value::Value::Bool(holds)) => Ok(holds),
                Ok(other) => Err(format!(
                    "the expression is a {}, and not a bool",
                    other.type_name()
                )),
                Err(failure) => Err(format!("the expression cannot be evaluated: {failure}")),
            }
        };
        Ok(Self {
            name: name.to_owned(),
            when,
            holds: Box::new(holds),
        })
    }

    /// Returns true if the predicate is true in a state.
    ///
    /// # Errors
    /// Returns a message if the evaluation of an expression fails.
    pub(crate) fn holds(&self, cluster: &Cluster<'_>) -> Result<bool, String> {
        (self.holds)(cluster)
    }
}

/// Returns the string literals of an expression. Literals that are not resources have no objects.
fn literals(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = source;
    while let Some(start) = rest.find(['"', '\'']) {
        let quote = &rest[start..=start];
        let after = &rest[start + 1..];
        let Some(end) = after.find(quote) else { break };
        found.insert(after[..end].to_owned());
        rest = &after[end + 1..];
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(source: &str) -> Result<bool, String> {
        let pod = |name: &str| {
            let key = ("pods".to_owned(), "default".to_owned(), name.to_owned());
            (
                key,
                Arc::new(json!({"metadata": {"name": name}, "spec": {"replicas": 2}})),
            )
        };
        let objects = BTreeMap::from([pod("a"), pod("b")]);
        Predicate::cel("p", When::Always, source)?.holds(&Cluster::new(&objects))
    }

    #[test]
    fn expressions_read_the_objects_of_the_resources_that_they_name() {
        assert_eq!(holds("objects['pods'].size() == 2"), Ok(true));
        assert_eq!(
            holds("objects['pods'].all(pod, pod.spec.replicas < 2)"),
            Ok(false)
        );
        assert_eq!(holds("objects[\"secrets\"].size() == 0"), Ok(true));
    }

    #[test]
    fn wrong_expressions_are_refused() {
        let problem = |source: &str| holds(source).err().unwrap_or_default();
        assert!(
            problem("objects[").contains("Syntax error"),
            "{}",
            problem("objects[")
        );
        assert!(problem("pods.size() == 1").contains("undeclared reference"));
        assert!(problem("objects['pods'].size()").contains("not a bool"));
        assert!(problem("objects['pods'][0].spec.size == 1").contains("no such key"));
    }
}
