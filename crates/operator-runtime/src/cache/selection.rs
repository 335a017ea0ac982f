//! Which objects: of a kind, for the cache to keep; of the cache, for a reader to get.

use std::any::TypeId;
use std::collections::HashMap;

use kube::Resource;
use kube::core::{Selector, SelectorExt};
use kube::runtime::watcher;

use crate::object::Object;

/// Which objects of a kind to list from the cache: those of a namespace or of all, with certain labels or any.
///
/// ```
/// use operator_runtime::cache::ListOptions;
///
/// let web = ListOptions::in_namespace("default").labels([("app", "web")]);
/// # let _ = web;
/// ```
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    namespace: Option<String>,
    labels: Selector,
}

/// Which objects of which kind the cache keeps; all, of kinds that are not mentioned.
///
/// The API server sends no others, so that they cost no memory: but to the operator they do not exist, neither for
/// reads nor for events. An object that changes so that it is not selected any more is deleted, for the operator.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use operator_runtime::cache::{CacheOptions, Selectors};
///
/// let selectors = Selectors::default().labels::<Pod>("app.kubernetes.io/managed-by=memcached-operator");
/// let options = CacheOptions { selectors, ..CacheOptions::default() };
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Selectors {
    by_kind: HashMap<TypeId, Selected>,
}

#[derive(Clone, Debug, Default)]
struct Selected {
    labels: Option<String>,
    fields: Option<String>,
}

// === impl ListOptions ===

impl ListOptions {
    /// All objects of the namespaces that are watched.
    pub fn all() -> Self {
        Self::default()
    }

    /// The objects of a namespace.
    pub fn in_namespace(namespace: &str) -> Self {
        Self::from(Some(namespace))
    }

    /// Of these, the objects with all of these labels.
    #[must_use]
    pub fn labels<'a>(self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        self.selector(labels.into_iter().map(owned).collect())
    }

    /// Of these, the objects whose labels the selector matches.
    #[must_use]
    pub fn selector(mut self, selector: Selector) -> Self {
        self.labels.extend(selector);
        self
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn matches(&self, object: &impl Resource) -> bool {
        if self.labels.selects_all() {
            return true;
        }
        match &object.meta().labels {
            Some(labels) => self.labels.matches(labels),
            None => self.labels.matches(&std::collections::BTreeMap::new()),
        }
    }
}

impl From<Option<&str>> for ListOptions {
    fn from(namespace: Option<&str>) -> Self {
        Self {
            namespace: namespace.map(str::to_owned),
            labels: Selector::default(),
        }
    }
}

// === impl Selectors ===

impl Selectors {
    /// Keeps the objects of `K` whose labels match, in the form of `kubectl get -l`.
    #[must_use]
    pub fn labels<K: Object>(mut self, selector: &str) -> Self {
        self.of::<K>().labels = Some(selector.to_owned());
        self
    }

    /// Keeps the objects of `K` whose fields match, in the form of `kubectl get --field-selector`.
    #[must_use]
    pub fn fields<K: Object>(mut self, selector: &str) -> Self {
        self.of::<K>().fields = Some(selector.to_owned());
        self
    }

    fn of<K: Object>(&mut self) -> &mut Selected {
        self.by_kind.entry(TypeId::of::<K>()).or_default()
    }

    pub(super) fn apply<K: Object>(&self, mut config: watcher::Config) -> watcher::Config {
        if let Some(selected) = self.by_kind.get(&TypeId::of::<K>()) {
            config.label_selector = selected.labels.clone();
            config.field_selector = selected.fields.clone();
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use super::*;

    fn labelled(labels: &[(&str, &str)]) -> ConfigMap {
        let mut object = ConfigMap::default();
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        object.metadata.labels = Some(labels.iter().map(owned).collect());
        object
    }

    #[test]
    fn every_label_must_match() {
        let options = ListOptions::all().labels([("app", "web"), ("tier", "front")]);
        assert!(options.matches(&labelled(&[("app", "web"), ("tier", "front"), ("more", "x")])));
        assert!(!options.matches(&labelled(&[("app", "web")])));
        assert!(!options.matches(&ConfigMap::default()));
        assert!(ListOptions::all().matches(&ConfigMap::default()));
    }

    #[test]
    fn selectors_are_of_one_kind() {
        let selectors = Selectors::default()
            .labels::<Pod>("app=web")
            .fields::<Pod>("spec.nodeName=n");
        let pods = selectors.apply::<Pod>(watcher::Config::default());
        assert_eq!(
            (pods.label_selector.as_deref(), pods.field_selector.as_deref()),
            (Some("app=web"), Some("spec.nodeName=n"))
        );
        assert_eq!(
            selectors
                .apply::<ConfigMap>(watcher::Config::default())
                .label_selector,
            None
        );
    }
}
