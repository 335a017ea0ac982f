//! All resources of one server: the built-in ones and those of its CustomResourceDefinitions.

use std::sync::Arc;

use parking_lot::RwLock;

use super::crd::CustomCatalog;
use super::{Definition, builtin_catalog};

/// The resources that a server serves.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    custom: RwLock<Arc<CustomCatalog>>,
}

impl Resources {
    /// Returns the resource at a path.
    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Definition>> {
        builtin_catalog()
            .find(group, version, resource)
            .or_else(|| self.custom().find(group, version, resource))
    }

    /// Returns the resources of CustomResourceDefinitions.
    pub(crate) fn custom(&self) -> Arc<CustomCatalog> {
        self.custom.read().clone()
    }

    pub(crate) fn set_custom(&self, catalog: CustomCatalog) {
        *self.custom.write() = Arc::new(catalog);
    }
}
