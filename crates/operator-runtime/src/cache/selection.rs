//! Selection of objects: those of a kind that the cache keeps, and those of the cache that a reader gets.

use std::collections::{BTreeMap, HashMap, HashSet};

use kube::core::{Expression, Selector, SelectorExt};

use super::field_selector::FieldSelector;
use super::watch_options::{Namespaces, WatchOptions};
use crate::object::Kind;

/// The objects of a kind to list from the cache: those of a namespace or of all, with certain labels or any, with
/// certain values of indexes or any.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    namespace: Option<String>,
    labels: Selector,
    indexes: Vec<(String, String)>,
    fields: FieldSelector,
    limit: Option<usize>,
}

/// The objects that the cache keeps, by kind; all objects of a kind without an entry.
///
/// The API server sends no others, so that they cost no memory: but to the operator they do not exist, neither for
/// reads nor for events. An object that changes so that it is not selected any more is deleted, for the operator.
///
/// ```
/// use k8s_openapi::api::core::v1::{Pod, Secret};
/// use operator_runtime::Kind;
/// use operator_runtime::cache::{CacheOptions, Selectors};
///
/// let selectors = Selectors::default()
///     .labels(Kind::of::<Pod>(), "app.kubernetes.io/managed-by=memcached-operator")
///     .namespaces(Kind::of::<Secret>(), ["cert-manager"]);
/// let options = CacheOptions { selectors, ..CacheOptions::default() };
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Selectors {
    by_kind: HashMap<String, OfKind>,
}

/// The selection of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct OfKind {
    pub(super) kind: Option<Kind>,
    pub(super) options: WatchOptions,
    pub(super) namespaces: Option<Namespaces>,
}

/// Kinds whose objects are kept as they are read, and not packed: for kinds that are listed as a whole again and again.
/// An object takes some ten times as much memory then, and reading it costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Unpacked {
    kinds: HashSet<String>,
}

// === impl Unpacked ===

impl Unpacked {
    /// Keeps the objects of a kind as they are read. Another call names another kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Kind>) -> Self {
        self.kinds.insert(kind.into().path());
        self
    }

    pub(super) fn contains(&self, kind: &Kind) -> bool {
        self.kinds.contains(&kind.path())
    }
}

// === impl ListOptions ===

impl ListOptions {
    /// All objects of the namespaces that are watched; `None` says the same where options are asked for.
    pub fn all() -> Self {
        Self::default()
    }

    /// The objects of a namespace; `Some(namespace)` says the same where options are asked for.
    pub fn in_namespace(namespace: &str) -> Self {
        Self::from(Some(namespace))
    }

    /// Of these, the objects with all of these labels.
    #[must_use]
    pub fn labels<'a>(self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        self.selector(labels.into_iter().map(owned).collect())
    }

    /// Of these, the objects whose labels the selector matches: for more than equality.
    #[must_use]
    pub fn selector(mut self, selector: Selector) -> Self {
        self.labels.extend(selector);
        self
    }

    /// Of these, the objects that have all of these labels, whatever their values.
    #[must_use]
    pub fn has_labels<'a>(self, keys: impl IntoIterator<Item = &'a str>) -> Self {
        let exists = |key: &str| Expression::Exists(key.to_owned());
        self.selector(keys.into_iter().map(exists).collect())
    }

    /// Of these, the objects that have `value` in the index `name`, which [`Cache::add_index`](super::Cache::add_index)
    /// made. Only those of the index that is named first are looked at.
    #[must_use]
    pub fn index(mut self, name: &str, value: &str) -> Self {
        self.indexes.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Of these, the objects whose field has a value. The name and the namespace of an object are known; any other field
    /// is looked up in the index of its name, such as `spec.nodeName`, which has to be added.
    #[must_use]
    pub fn field(mut self, field: &str, value: &str) -> Self {
        self.fields.add_field(field, value);
        self
    }

    /// Of these, the objects whose fields match, in the form of `kubectl get --field-selector`; see
    /// [`ListOptions::field`]. The cache answers what asks for a value: `!=` is an error of the list.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.fields.add(selector);
        self
    }

    /// Not more than so many of them. Which ones is not said, and there is no way to ask for the rest: this is no paging.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The same of a namespace, or of all.
    pub(crate) fn within(mut self, namespace: Option<&str>) -> Self {
        self.namespace = namespace.map(str::to_owned);
        self
    }

    pub(crate) fn label_selector(&self) -> &Selector {
        &self.labels
    }

    /// The names of indexes, and the values to look up in them.
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
    /// If the field selector is none, or none that the cache can answer.
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

/// The fields that every object has, without an index.
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

// === impl Selectors ===

impl Selectors {
    /// Keeps the objects of a kind whose labels match, in the form of `kubectl get -l`.
    #[must_use]
    pub fn labels(mut self, kind: impl Into<Kind>, selector: &str) -> Self {
        self.entry(kind.into()).options.labels = Some(selector.to_owned());
        self
    }

    /// Keeps the objects of a kind whose fields match, in the form of `kubectl get --field-selector`. Which fields can be
    /// selected is up to the server: `metadata.name`, `metadata.namespace` and some of each kind.
    #[must_use]
    pub fn fields(mut self, kind: impl Into<Kind>, selector: &str) -> Self {
        self.entry(kind.into()).options.fields = Some(selector.to_owned());
        self
    }

    /// Keeps the objects of a kind in these namespaces, instead of those of all watched ones; all if none is named.
    #[must_use]
    pub fn namespaces(mut self, kind: impl Into<Kind>, namespaces: impl Into<Namespaces>) -> Self {
        self.entry(kind.into()).namespaces = Some(namespaces.into());
        self
    }

    /// Sets how the objects of a kind are watched. What the options leave open stays as it was.
    #[must_use]
    pub fn options(mut self, kind: impl Into<Kind>, options: WatchOptions) -> Self {
        let entry = self.entry(kind.into());
        entry.options = options.or(&entry.options);
        self
    }

    fn entry(&mut self, kind: Kind) -> &mut OfKind {
        let entry = self.by_kind.entry(kind.path()).or_default();
        entry.kind = Some(kind);
        entry
    }

    pub(super) fn of(&self, kind: &Kind) -> OfKind {
        self.by_kind.get(&kind.path()).cloned().unwrap_or_default()
    }

    pub(super) fn kinds(&self) -> impl Iterator<Item = &OfKind> {
        self.by_kind.values()
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
        let options = ListOptions::all().labels([("app", "web"), ("tier", "front")]);
        assert!(options.matches(labelled([("app", "web"), ("tier", "front"), ("more", "x")])));
        assert!(!options.matches(labelled([("app", "web")])));
        assert!(!options.matches(labelled([])));
        assert!(ListOptions::all().matches(labelled([])));
    }
}
