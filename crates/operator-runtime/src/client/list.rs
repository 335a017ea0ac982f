//! [`List`]: lists of objects, and the deletion of the listed objects.

use std::borrow::Cow;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use kube::core::Selector;

use super::resources::Resources;
use super::{Client, ClientError};
use crate::cache::ListOptions;
use crate::object::{Kind, View};

/// A list request, returned by [`Client::list`]. `await` it to get the objects, sorted by namespace and name.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::Pod;
/// use operator_runtime::prelude::*;
///
/// # async fn example(ctx: Context<Pod>) -> Result<()> {
/// let pods = ctx.list::<Pod>().labels([("app", "web")]).await?;
/// // In a reconcile, the default is the namespace of the object.
/// let everywhere = ctx.list::<Pod>().all_namespaces().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a list does nothing until it is awaited"]
pub struct List<'a, K> {
    client: &'a Client,
    kind: Cow<'a, Kind>,
    options: ListOptions,
    objects: PhantomData<fn() -> K>,
}

// === impl List ===

impl<'a, K: View> List<'a, K> {
    pub(super) fn new(client: &'a Client, kind: Cow<'a, Kind>) -> Self {
        Self {
            client,
            kind,
            options: ListOptions::default(),
            objects: PhantomData,
        }
    }

    /// Lists the objects of one namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.options.namespace = Some(namespace.to_owned());
        self
    }

    /// Lists the objects of all namespaces that the cache watches.
    pub fn all_namespaces(mut self) -> Self {
        self.options.namespace = None;
        self
    }

    /// Lists only objects that have all of these labels.
    pub fn labels<L: Into<String>, V: Into<String>>(
        mut self,
        labels: impl IntoIterator<Item = (L, V)>,
    ) -> Self {
        let labels = labels.into_iter().map(|(key, value)| (key.into(), value.into()));
        let selector: Selector = labels.collect();
        self.options.labels.extend(selector);
        self
    }

    /// Lists only objects that have `value` in the index `name`; see [`Cache::add_index`](crate::Cache::add_index).
    pub fn index(mut self, name: &str, value: &str) -> Self {
        self.options.indexes.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Replaces all options, for label selectors, field selectors and limits.
    pub fn options(mut self, options: impl Into<ListOptions>) -> Self {
        self.options = options.into();
        self
    }

    /// Deletes the objects of one namespace or of a cluster-scoped kind with one request. With an index, the objects in
    /// the cache are deleted one by one.
    ///
    /// # Errors
    /// Returns an error if the kind is namespace-scoped and no namespace is given, or if the server rejects a deletion.
    pub async fn delete_all(self) -> Result<(), ClientError> {
        let resources = Resources::<K>::new(self.client, self.kind);
        resources.delete_all_of(self.options).await
    }
}

impl<'a, K: View> IntoFuture for List<'a, K> {
    type Output = Result<Vec<Arc<K>>, ClientError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { Resources::new(self.client, self.kind).list(self.options).await }.boxed()
    }
}

impl<K> fmt::Debug for List<'_, K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = formatter.debug_struct("List");
        list.field("options", &self.options).finish_non_exhaustive()
    }
}
