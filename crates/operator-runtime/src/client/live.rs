//! Reads past the cache.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use kube::api::{GetParams, ListParams, WatchEvent, WatchParams};
use kube::core::ObjectList;

use super::{Client, ClientError};
use crate::cache::item::from_value;
use crate::object::{Kind, Object, ObjectKey, View};

/// Reads from the API server itself, for the rare case in which the cache is not enough: a kind that is not worth a
/// watch, or an answer that others must not have changed meanwhile.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Node;
/// # use operator_runtime::prelude::*;
/// # async fn example(ctx: KeyContext) -> Result<()> {
/// if let Some(node) = ctx.live().get::<Node>(ObjectKey::cluster("worker-1")).await? {
///     tracing::info!(provider = ?node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()), "found");
/// }
/// # Ok(())
/// # }
/// ```
pub struct LiveReader<'a>(&'a Client);

// === impl LiveReader ===

impl<'a> LiveReader<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self(client)
    }

    /// The object, from the API server; `None` if there is none.
    ///
    /// # Errors
    /// If the server refuses the request or the object does not fit its type.
    pub async fn get<K: Object>(&self, key: impl Into<ObjectKey>) -> Result<Option<Arc<K>>, ClientError> {
        self.get_of(&Kind::of::<K>(), key).await
    }

    /// [`LiveReader::get`] of an object of a kind, as `K`, such as `DynamicObject`.
    ///
    /// # Errors
    /// As [`LiveReader::get`].
    pub async fn get_of<K: View>(
        &self,
        kind: &Kind,
        key: impl Into<ObjectKey>,
    ) -> Result<Option<Arc<K>>, ClientError> {
        let target = self.0.target("get", kind, key.into())?;
        let (name, parameters) = (target.key.name(), GetParams::default());
        let request = if K::metadata_api() {
            target.request().get_metadata(name, &parameters)
        } else {
            target.request().get(name, &parameters)
        };
        match self.0.send(&target, request).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => {
                let object = from_value(answer?).map_err(|error| target.malformed(error))?;
                Ok(Some(Arc::new(object)))
            }
        }
    }

    /// The objects of a namespace, or of all, from the API server; `parameters` select and page.
    ///
    /// # Errors
    /// If the server refuses the request or an object does not fit its type.
    pub async fn list<K: Object>(
        &self,
        namespace: Option<&str>,
        parameters: &ListParams,
    ) -> Result<ObjectList<K>, ClientError> {
        self.list_of(&Kind::of::<K>(), namespace, parameters).await
    }

    /// [`LiveReader::list`] of objects of a kind, as `K`, such as `DynamicObject`.
    ///
    /// # Errors
    /// As [`LiveReader::list`].
    pub async fn list_of<K: View>(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        parameters: &ListParams,
    ) -> Result<ObjectList<K>, ClientError> {
        let target = self.0.target("list", kind, ObjectKey::new(namespace, ""))?;
        let request = if K::metadata_api() {
            target.request().list_metadata(parameters)
        } else {
            target.request().list(parameters)
        };
        self.0.send(&target, request).await
    }

    /// The changes of the objects of a namespace, or of all, since a resource version; since now if it is empty, which
    /// begins with the objects that are there. The stream ends when the server ends the watch: nobody opens it again, and
    /// nobody backs off. A controller is what most operators want instead.
    ///
    /// # Errors
    /// If the server refuses the request; items of the stream, if the watch breaks or an object does not fit its type.
    pub async fn watch<K: Object>(
        &self,
        namespace: Option<&str>,
        parameters: &WatchParams,
        version: &str,
    ) -> Result<impl Stream<Item = Result<WatchEvent<K>, ClientError>> + Send + use<K>, ClientError> {
        self.watch_of(&Kind::of::<K>(), namespace, parameters, version)
            .await
    }

    /// [`LiveReader::watch`] of objects of a kind, as `K`, such as `DynamicObject`.
    ///
    /// # Errors
    /// As [`LiveReader::watch`].
    pub async fn watch_of<K: View>(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        parameters: &WatchParams,
        version: &str,
    ) -> Result<impl Stream<Item = Result<WatchEvent<K>, ClientError>> + Send + use<K>, ClientError> {
        let target = self.0.target("watch", kind, ObjectKey::new(namespace, ""))?;
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
        let events = self.0.kube.request_events::<K>(request).await;
        let events = events.map_err(&failed)?;
        Ok(events.map(move |event| event.map_err(&failed)))
    }
}
