//! The [`Client`]: reads from the cache, writes to the API server, and skips writes that would change nothing.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::cache::Cache;
use crate::error::Result;
use crate::metrics::ClientMetrics;
use crate::object::{Kind, Object, View};
use crate::owner::Owner;
use crate::rest_mapper::RestMapper;
use kube::api::Patch;
use serde::Serialize;

mod error;
pub(crate) mod leadership;
mod list;
mod live;
mod merge;
mod mutate;
mod options;
mod origin;
mod request;
pub(crate) mod resources;
mod status;
mod subresource;
mod target;
mod written;

pub use error::ClientError;
pub use list::List;
pub use options::ClientOptions;
pub(crate) use origin::{Current, within};
use resources::Resources;
pub use subresource::Subresource;
pub use target::{Desired, Target};
pub use written::Written;

/// Reads from the cache and writes to the API server, as one field manager. Clones are cheap.
///
/// * Reads see own writes: the response to a write is in the cache before the write returns.
/// * Within a reconcile, a write that would change nothing according to the cache is skipped: by
///   [`apply`](Client::apply), [`update`](Client::update), [`patch`](Client::patch),
///   [`create_or_patch`](Client::create_or_patch), [`update_status`](Client::update_status) and
///   [`Finalizers::run`](crate::finalizer::Finalizers::run). The result, [`Written`], shows whether a request was sent.
/// * Skipped writes repair themselves: a write is skipped only while the watch of the object is live. If a later event
///   shows that the object was different, the request is reconciled again, regardless of predicates.
///   [`ClientOptions::always_send`] disables skipping.
/// * [`Client::live`] reads from the API server.
///
/// # Options
/// [`Client::with`] returns a client with other [`ClientOptions`]: dry runs, another field manager, one namespace, and
/// more.
///
/// # Kinds without a Rust type
/// Some types do not define their kind, such as `DynamicObject` or `PartialObjectMeta`. For them, pass a tuple that
/// begins with a [`Kind`] instead of the key or the object:
///
/// ```no_run
/// # use kube::api::DynamicObject;
/// # use operator_runtime::{Kind, prelude::*};
/// # async fn example(ctx: KeyContext, request: Request) -> Result<()> {
/// let gateways = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
/// if let Some(gateway) = ctx.get::<DynamicObject>((&gateways, &request)).await? {
///     tracing::info!(class = %gateway.data["spec"]["gatewayClassName"], "seen");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    kube: kube::Client,
    cache: Cache,
    metrics: ClientMetrics,
    mapper: RestMapper,
    options: Arc<ClientOptions>,
}

// === impl Client ===

impl Client {
    pub(crate) fn new(kube: kube::Client, cache: Cache, metrics: ClientMetrics) -> Self {
        let options = Arc::new(ClientOptions::new(cache.manager()));
        let mapper = RestMapper::new(kube.clone());
        Self {
            kube,
            cache,
            metrics,
            mapper,
            options,
        }
    }

    /// Returns the underlying client of kube, for requests that this client does not offer. Its writes appear in the
    /// cache when the watch delivers them. If this client writes only as the leader, so does the underlying one.
    pub fn kube(&self) -> &kube::Client {
        &self.kube
    }

    /// Returns the cache that this client reads from.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the mapper that finds kinds by name at run time.
    pub fn rest_mapper(&self) -> &RestMapper {
        &self.mapper
    }

    /// Returns the options.
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// Returns a client with other options.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use operator_runtime::prelude::*;
    /// # async fn example(ctx: KeyContext, config: ConfigMap) -> Result<()> {
    /// let dry = ctx.with(|options| options.dry_run = true);
    /// dry.apply(config).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with(&self, change: impl FnOnce(&mut ClientOptions)) -> Self {
        let mut client = self.clone();
        change(Arc::make_mut(&mut client.options));
        client
    }

    /// Returns a client that reads from the API server instead of the cache; see [`ClientOptions::live`].
    #[must_use]
    pub fn live(&self) -> Self {
        self.with(|options| options.live = true)
    }

    /// Returns this client over another connection to the cluster.
    pub(crate) fn over(&self, kube: kube::Client) -> Self {
        Self { kube, ..self.clone() }
    }

    /// Returns an object from the cache, or `None` if it does not exist.
    ///
    /// The first read of a kind starts its watch, which needs the permissions to list and watch, and waits for the
    /// first list.
    ///
    /// # Errors
    /// Returns an error if the kind cannot be listed in time, the namespace is not watched, or the object cannot be
    /// decoded.
    pub async fn get<'a, K: View>(
        &self,
        target: impl Into<Target<'a, K>>,
    ) -> Result<Option<Arc<K>>, ClientError> {
        let target = target.into();
        if self.options.live || self.options.namespace.is_some() {
            return Resources::new(self, target.kind()).get(target.key).await;
        }
        let informer = target.reader(&self.cache)?;
        let consistency = self.options.consistency();
        Ok(self.cache.read(&informer, &target.key, consistency).await?)
    }

    /// Lists objects from the cache: those of all watched namespaces, unless [`List`] selects others.
    ///
    /// # Errors
    /// Awaiting the list returns an error if the kind cannot be listed in time or the index does not exist.
    pub fn list<K: Object>(&self) -> List<'_, K> {
        List::new(self, Cow::Owned(Kind::of::<K>()))
    }

    /// Lists the objects of a kind for types that do not define their kind, such as `DynamicObject`; see
    /// [`Client::list`].
    pub fn list_kind<'a, K: View>(&'a self, kind: &'a Kind) -> List<'a, K> {
        List::new(self, Cow::Borrowed(kind))
    }

    /// Applies `desired` with server-side apply and returns the resulting object.
    ///
    /// Fields that `desired` omits keep their values if other managers own them. Fields that `desired` omits are
    /// removed if an earlier apply of this field manager set them. Fields of other managers are taken over. Nothing is
    /// sent if, according to the cache, the field manager owns exactly these fields with these values.
    ///
    /// # Errors
    /// Returns an error if the object has no name or the server rejects it.
    pub async fn apply<'a, K: View>(
        &self,
        desired: impl Into<Desired<'a, K>>,
    ) -> Result<Written<K>, ClientError> {
        let Desired { kind, object } = desired.into();
        Resources::new(self, kind).apply(object).await
    }

    /// Applies an object with a controller reference to `owner`. It is then deleted with its owner, and its changes
    /// reconcile the owner (`owns`). Its namespace defaults to that of the owner.
    ///
    /// `owner` is a reference to an object whose type defines its kind, or the result of [`Owner::of`].
    ///
    /// # Errors
    /// As for [`Client::apply`], and if `owner` cannot own the object.
    pub async fn apply_owned<'a, K: View>(
        &self,
        owner: impl Into<Owner>,
        desired: impl Into<Desired<'a, K>>,
    ) -> Result<Written<K>, ClientError> {
        let Desired { kind, mut object } = desired.into();
        owner.into().place(&kind, &mut object)?;
        Resources::new(self, kind).apply(object).await
    }

    /// Creates an object. The server can generate its name (`generateName`).
    ///
    /// # Errors
    /// Returns an error if the server rejects it, for example because it exists (`is_already_exists`).
    pub async fn create<'a, K: View>(
        &self,
        object: impl Into<Desired<'a, K>>,
    ) -> Result<Written<K>, ClientError> {
        let Desired { kind, object } = object.into();
        Resources::new(self, kind).create(object).await
    }

    /// Replaces an object. `object` must be derived from its newest state, and fields that `K` lacks are lost. Nothing
    /// is sent if the cache has the same state.
    ///
    /// # Errors
    /// Returns an error if the server rejects it, for example because it was changed concurrently (`is_conflict`).
    pub async fn update<'a, K: View>(
        &self,
        object: impl Into<Desired<'a, K>>,
    ) -> Result<Written<K>, ClientError> {
        let Desired { kind, object } = object.into();
        Resources::new(self, kind).update(object).await
    }

    /// Sends a patch of any type. Prefer [`Client::apply`] where possible. A merge patch or JSON patch that would not
    /// change the object in the cache is not sent.
    ///
    /// # Errors
    /// Returns an error if the server rejects it.
    pub async fn patch<'a, K: View, P: Serialize + fmt::Debug>(
        &self,
        target: impl Into<Target<'a, K>>,
        patch: &Patch<P>,
    ) -> Result<Written<K>, ClientError> {
        let target = target.into();
        Resources::new(self, target.kind()).patch(target.key, patch).await
    }

    /// Sends the difference of two states of an object as a merge patch. Fields that `K` lacks are kept, and so are
    /// concurrent changes of others. Lists are replaced completely. Nothing is sent if nothing differs. Usually `old`
    /// is the object in the cache and `new` a changed clone of it. See [`ClientOptions::optimistic_lock`].
    ///
    /// # Errors
    /// Returns an error if `new` is another object or the server rejects the patch.
    pub async fn patch_from<'a, K: View>(
        &self,
        old: &K,
        new: impl Into<Desired<'a, K>>,
    ) -> Result<Written<K>, ClientError> {
        let Desired { kind, object } = new.into();
        Resources::new(self, kind).patch_from(old, object).await
    }

    /// Creates `object` after `mutate` has changed it. If it exists, patches the fields that `mutate` changes in its
    /// newest state instead. Nothing is sent if `mutate` changes nothing.
    ///
    /// `mutate` may be called several times and must not change the name or the namespace. The object and its status
    /// are patched with one JSON merge patch each, so fields that `K` lacks are kept, and concurrent changes of other
    /// fields do not conflict. [`Client::apply`] needs no read and suits most cases better.
    ///
    /// # Errors
    /// Returns the error of `mutate`, or an error if the server rejects the object.
    pub async fn create_or_patch<'a, K: View>(
        &self,
        object: impl Into<Desired<'a, K>>,
        mutate: impl FnMut(&mut K) -> Result<()> + Send,
    ) -> Result<Written<K>> {
        let Desired { kind, object } = object.into();
        Resources::new(self, kind).create_or_patch(object, mutate).await
    }

    /// Deletes an object. The garbage collector deletes the objects that it owns in the background. A missing object is
    /// not an error.
    ///
    /// An object as the target, instead of a key, is deleted only if its UID is the same. See [`ClientOptions::delete`]
    /// for other parameters.
    ///
    /// # Errors
    /// Returns an error if the server rejects it, for example because another object now has the name.
    pub async fn delete<'a, K: View>(&self, target: impl Into<Target<'a, K>>) -> Result<(), ClientError> {
        let target = target.into();
        let resources = Resources::<K>::new(self, target.kind());
        resources.delete(target.key, target.uid).await
    }

    /// Returns a subresource of an object, such as `scale`.
    pub fn subresource<'a, K: View>(
        &'a self,
        target: impl Into<Target<'a, K>>,
        name: &'a str,
    ) -> Subresource<'a> {
        let target = target.into();
        Subresource::new(self, target.kind().into_owned(), target.key, name)
    }
}
