//! An object while a tree is rendered, with its current and previous names.

use serde_json::Value;

use super::order::is_cluster_scoped;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resource {
    pub(super) value: Value,
    /// Name and namespace before each change, oldest first.
    before: Vec<(String, String)>,
}

// === impl Resource ===

impl Resource {
    pub(super) fn new(value: Value) -> Self {
        Self {
            value,
            before: Vec::new(),
        }
    }

    pub(super) fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// Returns the group; empty for the core group.
    pub(super) fn group(&self) -> &str {
        let api_version = self.text("/apiVersion");
        api_version.split_once('/').map_or("", |(group, _)| group)
    }

    pub(super) fn version(&self) -> &str {
        let api_version = self.text("/apiVersion");
        api_version
            .split_once('/')
            .map_or(api_version, |(_, version)| version)
    }

    pub(super) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    pub(super) fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    fn text(&self, pointer: &str) -> &str {
        self.value
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub(super) fn is_namespaced(&self) -> bool {
        !is_cluster_scoped(self.kind())
    }

    /// Returns true if both are the same object.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.kind() == other.kind()
            && self.group() == other.group()
            && self.name() == other.name()
            && self.namespace() == other.namespace()
    }

    pub(super) fn describe(&self) -> String {
        format!("{} {:?}", self.kind(), self.name())
    }

    /// Returns the current and all previous names of the object, newest first.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let before = self.before.iter().rev().map(|(name, _)| name.as_str());
        std::iter::once(self.name()).chain(before)
    }

    /// Returns the current and all previous namespaces of the object, newest first.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        let before = self.before.iter().rev().map(|(_, namespace)| namespace.as_str());
        std::iter::once(self.namespace()).chain(before)
    }

    pub(super) fn set_name(&mut self, name: String) {
        self.remember();
        self.set("name", name);
    }

    pub(super) fn set_namespace(&mut self, namespace: &str) {
        self.remember();
        self.set("namespace", namespace.to_owned());
    }

    fn remember(&mut self) {
        self.before
            .push((self.name().to_owned(), self.namespace().to_owned()));
    }

    fn set(&mut self, key: &str, text: String) {
        if let Some(metadata) = super::build::map_at(&mut self.value, "metadata") {
            metadata.insert(key.to_owned(), Value::String(text));
        }
    }
}
