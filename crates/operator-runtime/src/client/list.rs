//! Lists from the cache.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{Client, ClientError};
use crate::cache::ListOptions;
use crate::object::Object;

/// A list of objects from the cache, which [`Client::list`] returns. `await` it to get the objects, sorted by namespace and
/// name.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use operator_runtime::prelude::*;
///
/// # async fn example(ctx: Context<Pod>) -> Result<()> {
/// let pods = ctx.list::<Pod>().labels([("app", "web")]).await?;
/// // From inside a reconcile, a list defaults to the namespace of the object.
/// let everywhere = ctx.list::<Pod>().all_namespaces().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a list does nothing until it is awaited"]
pub struct List<'a, K> {
    client: &'a Client,
    options: ListOptions,
    objects: std::marker::PhantomData<fn() -> K>,
}

// === impl List ===

impl<'a, K: Object> List<'a, K> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self {
            client,
            options: ListOptions::all(),
            objects: std::marker::PhantomData,
        }
    }

    /// Lists the objects of one namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.options = self.options.within(Some(namespace));
        self
    }

    /// Lists the objects of all namespaces that the cache watches.
    pub fn all_namespaces(mut self) -> Self {
        self.options = self.options.within(None);
        self
    }

    /// Lists only objects that have all of these labels.
    pub fn labels<L: Into<String>, V: Into<String>>(
        mut self,
        labels: impl IntoIterator<Item = (L, V)>,
    ) -> Self {
        let labels = labels.into_iter().map(|(key, value)| (key.into(), value.into()));
        self.options = self.options.selector(labels.collect());
        self
    }

    /// Lists only objects that have `value` in the index `name`; see [`Cache::add_index`](crate::Cache::add_index).
    pub fn index(mut self, name: &str, value: &str) -> Self {
        self.options = self.options.index(name, value);
        self
    }

    /// Replaces all options: for label selectors, field selectors and limits.
    pub fn options(mut self, options: impl Into<ListOptions>) -> Self {
        self.options = options.into();
        self
    }
}

impl<'a, K: Object> IntoFuture for List<'a, K> {
    type Output = Result<Vec<Arc<K>>, ClientError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { self.client.of::<K>().list(self.options).await }.boxed()
    }
}

impl<K> fmt::Debug for List<'_, K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = formatter.debug_struct("List");
        list.field("options", &self.options).finish_non_exhaustive()
    }
}
