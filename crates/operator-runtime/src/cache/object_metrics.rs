//! Metrics of the objects in the cache.

use std::sync::Arc;

use super::Cache;
use crate::metrics::{Metrics, Objects};
use crate::object::{Kind, Object};

impl Metrics {
    /// Shows each cached object of a kind, as `memcached_info{namespace="default",memcached="sample"} 1`.
    ///
    /// Objects show once somebody reads the kind, such as a controller. Saying it twice is saying it once.
    pub fn custom_resources<K: Object>(&self, cache: &Cache) {
        let kind = Kind::of::<K>();
        self.show_objects(&kind.kind.clone(), objects_of(cache, kind));
    }

    /// Shows when each cached object of a kind was created, in seconds since 1970, as operator-lib's instrumented
    /// handler does:
    /// `resource_created_at_seconds{name="sample",namespace="default",group="cache.example.com",version="v1",
    /// kind="Memcached"}`.
    ///
    /// Objects show once somebody reads the kind, and until they are gone. Saying it twice is saying it once.
    pub fn creation_times<K: Object>(&self, cache: &Cache) {
        let kind = Kind::of::<K>();
        self.show_creation_times(kind.clone(), objects_of(cache, kind));
    }
}

fn objects_of(cache: &Cache, kind: Kind) -> Objects {
    let cache = cache.clone();
    Arc::new(move || {
        let informer = cache.existing(&kind);
        informer.map(|informer| informer.metadata()).unwrap_or_default()
    })
}
