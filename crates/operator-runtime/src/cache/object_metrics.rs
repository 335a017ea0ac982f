//! Metrics of the objects in the cache.

use std::sync::Arc;

use super::Cache;
use crate::metrics::{Metrics, Objects};
use crate::object::{Kind, Object};

impl Metrics {
    /// Shows each cached object of a kind, as `memcached_info{namespace="default",memcached="sample"} 1`.
    ///
    /// Objects show once somebody reads the kind, such as a controller. Saying it twice is saying it once.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ServiceAccount;
    /// use operator_runtime::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// # let env = operator_envtest::TestEnv::builder().backend(Default::default()).start().await?;
    /// # let accounts = kube::Api::<ServiceAccount>::default_namespaced(env.client());
    /// # env.eventually(&accounts, "default", |_| true).await?;
    /// # let manager = Manager::builder("example-operator").client(env.client()).build().await?;
    /// let (metrics, client) = (manager.metrics().clone(), manager.client().clone());
    /// metrics.custom_resources::<ServiceAccount>(manager.cache());
    /// manager.run_until(async move {
    ///     let read = client.get::<ServiceAccount>(ObjectKey::namespaced("default", "default")).await;
    ///     assert!(read.is_ok());
    ///     let line = r#"serviceaccount_info{namespace="default",serviceaccount="default"} 1"#;
    ///     assert!(metrics.to_text().contains(line));
    /// }).await?;
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ServiceAccount;
    /// use operator_runtime::prelude::*;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// # let env = operator_envtest::TestEnv::builder().backend(Default::default()).start().await?;
    /// # let accounts = kube::Api::<ServiceAccount>::default_namespaced(env.client());
    /// # env.eventually(&accounts, "default", |_| true).await?;
    /// # let manager = Manager::builder("example-operator").client(env.client()).build().await?;
    /// let (metrics, client) = (manager.metrics().clone(), manager.client().clone());
    /// metrics.creation_times::<ServiceAccount>(manager.cache());
    /// manager.run_until(async move {
    ///     // Whoever reads the kind has it watched.
    ///     let read = client.get::<ServiceAccount>(ObjectKey::namespaced("default", "default")).await;
    ///     assert!(read.is_ok());
    ///     assert!(metrics.to_text().contains(r#"resource_created_at_seconds{name="default",namespace="default""#));
    /// }).await?;
    /// # Ok(())
    /// # }
    /// ```
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
