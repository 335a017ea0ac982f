//! Selection of objects: [`KindOptions`] for the objects that the cache keeps, [`ListOptions`] for the objects that a
//! list returns.

use std::collections::BTreeMap;

use kube::core::{Selector, SelectorExt};

use super::field_selector::FieldSelector;
use super::watch_options::{Namespaces, WatchOptions};

/// The objects of a kind to list. Converts from `None` and `Some(namespace)`.
///
/// ```
/// use operator_runtime::cache::ListOptions;
///
/// let on_node = ListOptions {
///     namespace: Some("default".to_owned()),
///     fields: ("spec.nodeName", "worker-1").into(),
///     ..ListOptions::default()
/// };
/// # let _ = on_node;
/// ```
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// The namespace. Default: all namespaces that are watched.
    pub namespace: Option<String>,
    /// Lists only objects whose labels match.
    pub labels: Selector,
    /// Lists only objects whose fields match. The cache knows `metadata.name` and `metadata.namespace`. Other fields,
    /// such as `spec.nodeName`, need an index of the same name. The cache supports only `=`: `!=` is an error.
    pub fields: FieldSelector,
    /// Lists only objects that have a value (second item) in an index (first item) that was added with
    /// [`Cache::add_index`](super::Cache::add_index). The most selective index should come first.
    pub indexes: Vec<(String, String)>,
    /// Maximum number of objects. It is undefined which ones are returned, and the rest cannot be requested: this is
    /// not paging.
    pub limit: Option<usize>,
}

/// Options of one kind in the cache.
///
/// The API server sends only the selected objects, so other objects need no memory. The operator neither reads the
/// others nor receives their events. An object that leaves the selection appears as deleted.
///
/// ```
/// use k8s_openapi::api::core::v1::{Pod, Secret};
/// use operator_runtime::Kind;
/// use operator_runtime::cache::{CacheOptions, KindOptions, WatchOptions};
///
/// let own = WatchOptions {
///     labels: Some("app.kubernetes.io/managed-by=memcached-operator".to_owned()),
///     ..WatchOptions::default()
/// };
/// let secrets = KindOptions { namespaces: Some(["cert-manager"].into()), ..KindOptions::default() };
/// let options = CacheOptions {
///     kinds: [(Kind::of::<Pod>(), own.into()), (Kind::of::<Secret>(), secrets)].into(),
///     ..CacheOptions::default()
/// };
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct KindOptions {
    /// The options of the watches of the kind.
    pub watch: WatchOptions,
    /// The namespaces to watch instead of those of [`CacheOptions::namespaces`](super::CacheOptions::namespaces).
    pub namespaces: Option<Namespaces>,
    /// Keeps the objects decoded instead of packed, for kinds that are frequently listed completely. An object then
    /// takes about ten times as much memory, and is read without decoding. Default: false.
    pub unpacked: bool,
}

// === impl KindOptions ===

impl From<WatchOptions> for KindOptions {
    fn from(watch: WatchOptions) -> Self {
        Self {
            watch,
            ..Self::default()
        }
    }
}

// === impl ListOptions ===

impl ListOptions {
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns the options limited to a namespace, or to all.
    pub(crate) fn within(mut self, namespace: Option<&str>) -> Self {
        self.namespace = namespace.map(str::to_owned);
        self
    }

    /// Returns the names of indexes and the values to look up in them.
    pub(super) fn lookups(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.known_fields().filter(|(field, _)| !is_identity(field));
        let indexes = self
            .indexes
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        indexes.chain(fields)
    }

    /// Returns true if indexes are needed.
    pub(super) fn has_lookups(&self) -> bool {
        self.lookups().next().is_some()
    }

    /// Returns true if the list uses an index, which only the cache has.
    pub(crate) fn are_of_the_cache(&self) -> bool {
        !self.indexes.is_empty() || self.limit.is_some()
    }

    pub(crate) fn field_selector(&self) -> Option<String> {
        self.fields.text()
    }

    pub(super) fn at_most(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }

    /// # Errors
    /// Returns an error if the field selector is invalid or not supported by the cache.
    pub(super) fn check(&self) -> Result<(), String> {
        self.fields.requirements().map(drop)
    }

    fn known_fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let requirements = self.fields.requirements().unwrap_or_default();
        requirements
            .iter()
            .map(|(field, value)| (field.as_str(), value.as_str()))
    }

    /// Returns true if the namespace and the name of an object match.
    pub(super) fn covers(&self, namespace: Option<&str>, name: &str) -> bool {
        let is_covered = self.namespace.is_none() || self.namespace.as_deref() == namespace;
        is_covered
            && self.known_fields().all(|(field, value)| match field {
                NAME => name == value,
                NAMESPACE => namespace.unwrap_or_default() == value,
                _ => true,
            })
    }

    /// Returns true if the labels of an object match; `labels` is called only if the selection depends on them.
    pub(super) fn matches(&self, labels: impl FnOnce() -> BTreeMap<String, String>) -> bool {
        self.labels.selects_all() || self.labels.matches(&labels())
    }
}

/// The fields that every object has without an index.
const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

fn is_identity(field: &str) -> bool {
    matches!(field, NAME | NAMESPACE)
}

impl From<Option<&str>> for ListOptions {
    fn from(namespace: Option<&str>) -> Self {
        Self {
            namespace: namespace.map(str::to_owned),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled<const N: usize>(labels: [(&str, &str); N]) -> impl FnOnce() -> BTreeMap<String, String> {
        let owned = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        move || owned.into()
    }

    #[test]
    fn every_label_must_match() {
        let labels =
            [("app", "web"), ("tier", "front")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let options = ListOptions {
            labels: labels.into_iter().collect(),
            ..ListOptions::default()
        };
        assert!(options.matches(labelled([("app", "web"), ("tier", "front"), ("more", "x")])));
        assert!(!options.matches(labelled([("app", "web")])));
        assert!(!options.matches(labelled([])));
        assert!(ListOptions::default().matches(labelled([])));
    }
}
