//! The field managers of a resource, created when they are first used: [`FieldManagers`].

use std::collections::HashMap;
use std::sync::OnceLock;

use structured_merge::FieldManager;

/// The field managers of a definition: one for the resource and one for each subresource.
#[derive(Debug, Default)]
pub(crate) struct FieldManagers(HashMap<String, OnceLock<FieldManager>>);

impl FieldManagers {
    /// Returns empty slots for the managers of a resource with these subresources.
    pub(crate) fn new<'a>(subresources: impl Iterator<Item = &'a str>) -> Self {
        let names = std::iter::once("").chain(subresources);
        Self(names.map(|name| (name.to_owned(), OnceLock::new())).collect())
    }

    /// Returns the manager of a subresource, or of the resource itself for the empty name; `make` creates it on the
    /// first call.
    pub(crate) fn get(
        &self,
        subresource: &str,
        make: impl FnOnce() -> FieldManager,
    ) -> Option<&FieldManager> {
        self.0.get(subresource).map(|cell| cell.get_or_init(make))
    }
}
