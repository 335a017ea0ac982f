//! Reads past the cache.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use kube::api::{GetParams, ListParams, WatchEvent, WatchParams};
use kube::core::ObjectList;

use super::{Client, ClientError};
use crate::cache::item::from_value;
use crate::object::{Kind, ObjectKey, View};

/// Reads objects of one kind from the API server: for a kind that is not worth a watch, or an answer that must be the
/// newest. [`Client::live`] and [`Resources::live`](super::Resources::live) return it.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Node;
/// # use operator_runtime::prelude::*;
/// # async fn example(ctx: KeyContext) -> Result<()> {
/// if let Some(node) = ctx.live::<Node>().get(ObjectKey::cluster("worker-1")).await? {
///     tracing::info!(provider = ?node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()), "found");
/// }
/// # Ok(())
/// # }
/// ```
pub struct LiveReader<'a, K> {
    client: &'a Client,
    kind: Cow<'a, Kind>,
    objects: PhantomData<fn() -> K>,
}

// === impl LiveReader ===

impl<'a, K: View> LiveReader<'a, K> {
    pub(super) fn new(client: &'a Client, kind: Cow<'a, Kind>) -> Self {
        let objects = PhantomData;
        Self {
            client,
            kind,
            objects,
        }
    }

    /// Returns the object; `None` if there is none.
    ///
    /// # Errors
    /// If the server refuses the request or the object does not fit its type.
    pub async fn get(&self, key: impl Into<ObjectKey>) -> Result<Option<Arc<K>>, ClientError> {
        let target = self.client.target("get", &self.kind, key.into())?;
        let (name, parameters) = (target.key.name(), GetParams::default());
        let request = if K::metadata_api() {
            target.request().get_metadata(name, &parameters)
        } else {
            target.request().get(name, &parameters)
        };
        match self.client.send(&target, request).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => {
                let object = from_value(answer?).map_err(|error| target.malformed(error))?;
                Ok(Some(Arc::new(object)))
            }
        }
    }

    /// Lists the objects of a namespace, or of all; `parameters` select and page.
    ///
    /// # Errors
    /// If the server refuses the request or an object does not fit its type.
    pub async fn list(
        &self,
        namespace: Option<&str>,
        parameters: &ListParams,
    ) -> Result<ObjectList<K>, ClientError> {
        let key = ObjectKey::new(namespace, "");
        let target = self.client.target("list", &self.kind, key)?;
        let request = if K::metadata_api() {
            target.request().list_metadata(parameters)
        } else {
            target.request().list(parameters)
        };
        self.client.send(&target, request).await
    }

    /// Watches the objects of a namespace, or of all, from a resource version on. If it is empty, the watch begins with the
    /// objects that exist. The stream ends when the server ends the watch; it is not opened again. Most operators use a
    /// controller instead.
    ///
    /// # Errors
    /// If the server refuses the request; items of the stream, if the watch breaks or an object does not fit its type.
    pub async fn watch(
        &self,
        namespace: Option<&str>,
        parameters: &WatchParams,
        version: &str,
    ) -> Result<impl Stream<Item = Result<WatchEvent<K>, ClientError>> + Send + use<K>, ClientError> {
        let key = ObjectKey::new(namespace, "");
        let target = self.client.target("watch", &self.kind, key)?;
        let request = if K::metadata_api() {
            target.request().watch_metadata(parameters, version)
        } else {
            target.request().watch(parameters, version)
        };
        let what = target.to_string();
        let failed = move |source| ClientError::Request {
            what: what.clone(),
            source,
        };
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        let events = self.client.kube.request_events::<K>(request).await;
        let events = events.map_err(&failed)?;
        Ok(events.map(move |event| event.map_err(&failed)))
    }
}
