//! All resources of one server, built in and from CRDs: [`Resources`].

use std::sync::Arc;

use parking_lot::RwLock;

use super::crd::CustomCatalog;
use super::{Catalog, Definition, RuntimeConfig, beta_catalog, builtin_catalog};

/// The resources that a server serves.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    /// The built-in ones, if they are not the default ones.
    builtin: Option<Catalog>,
    custom: RwLock<Arc<CustomCatalog>>,
}

impl Resources {
    pub(crate) fn new(config: &RuntimeConfig) -> Self {
        let enabled = || {
            let all = builtin_catalog().definitions().iter();
            let all = all.chain(beta_catalog().definitions());
            let enabled = all.filter(|definition| {
                let subject = &definition.subject;
                config.enables(&subject.group, &definition.version, &subject.resource)
            });
            Catalog::new(enabled.cloned().collect())
        };
        Self {
            builtin: (!config.is_default()).then(enabled),
            custom: RwLock::default(),
        }
    }

    /// Returns the built-in resources that are served.
    pub(crate) fn builtin(&self) -> &Catalog {
        match &self.builtin {
            Some(enabled) => enabled,
            None => builtin_catalog(),
        }
    }

    /// Returns the resource at a path.
    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Definition>> {
        self.builtin()
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
