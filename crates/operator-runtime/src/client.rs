//! The client: reads from the cache, writes to the API server, and skips writes that would change nothing.
//! It never knows controllers.

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
pub(crate) mod warnings;
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
/// * A read after an own write sees it: the answer to the write is in the cache before the write returns.
/// * Within a reconcile, a write that would change nothing, as far as the cache knows, is skipped: by
///   [`apply`](Client::apply), [`update`](Client::update), [`patch`](Client::patch),
///   [`create_or_update`](Client::create_or_update), [`create_or_patch`](Client::create_or_patch),
///   [`update_status`](Client::update_status) and [`Finalizers::run`](crate::finalizer::Finalizers::run). [`Written`] says whether a request was sent.
/// * A skipped write is repeated if it was wrong: it is skipped only while the watch of the object is live, and if a later
///   event shows that the object was different, the request is reconciled again, whatever the predicates say.
///   [`ClientOptions::always_send`] turns skipping off.
/// * [`Client::live`] reads past the cache.
///
/// # Options
/// [`Client::with`] makes a client with other [`ClientOptions`]: dry runs, another field manager, one namespace, and more.
///
/// # Kinds without a Rust type
/// If the Rust type does not know the kind, such as `DynamicObject` or `PartialObjectMeta`, a tuple that begins with a
/// [`Kind`] takes the place of the key or the object:
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

    /// The client of kube underneath, for what this one does not offer. What is written with it is in the cache when
    /// the watch brings it, and not before. If this client writes only as the leader, so does that one.
    pub fn kube(&self) -> &kube::Client {
        &self.kube
    }

    /// The cache that reads come from: for indexes, and for what is said of watches.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Finds kinds that are named at run time.
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

    /// Returns the same client over another connection to the cluster.
    pub(crate) fn over(&self, kube: kube::Client) -> Self {
        Self { kube, ..self.clone() }
    }

    /// Returns the object, from the cache; `None` if there is none.
    ///
    /// The first read of a kind starts watching it, which needs the permission to list and watch, and waits for the
    /// first list.
    ///
    /// # Errors
    /// If the kind cannot be listed in time, the namespace is not watched, or the object does not fit its type.
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
    /// If the kind cannot be listed in time, or has no such index.
    pub fn list<K: Object>(&self) -> List<'_, K> {
        List::new(self, Cow::Owned(Kind::of::<K>()))
    }

    /// Lists the objects of a kind, for types that do not know their kind, such as `DynamicObject`; otherwise as
    /// [`Client::list`].
    pub fn list_kind<'a, K: View>(&'a self, kind: &'a Kind) -> List<'a, K> {
        List::new(self, Cow::Borrowed(kind))
    }

    /// Makes the cluster agree with `desired` by server-side apply, and returns the object as it is then.
    ///
    /// Fields that `desired` omits belong to others, or have defaults, and stay as they are; fields that an earlier apply
    /// set and this one omits are removed. Fields that others hold are taken over. Nothing is sent if the object in the
    /// cache has exactly these fields, as the operator's, with these values: an apply at rest costs no request.
    ///
    /// # Errors
    /// If the object has no name, or the server rejects it.
    pub async fn apply<'a, K: View>(
        &self,
        desired: impl Into<Desired<'a, K>>,
    ) -> Result<Written<K>, ClientError> {
        let Desired { kind, object } = desired.into();
        Resources::new(self, kind).apply(object).await
    }

    /// [`Client::apply`] of an object that belongs to `owner`: with a controller reference, so that it is deleted with
    /// its owner and its changes reconcile the owner (`owns`), and in the owner's namespace if it names none.
    ///
    /// `owner` is a reference to an object whose type knows its kind, or [`Owner::of`] any object.
    ///
    /// # Errors
    /// As [`Client::apply`], and if `owner` cannot own the object.
    pub async fn apply_owned<'a, K: View>(
        &self,
        owner: impl Into<Owner>,
        desired: impl Into<Desired<'a, K>>,
    ) -> Result<Written<K>, ClientError> {
        let Desired { kind, mut object } = desired.into();
        owner.into().place(&kind, &mut object)?;
        Resources::new(self, kind).apply(object).await
    }

    /// Creates an object; the server can generate its name (`generateName`).
    ///
    /// # Errors
    /// If the server rejects it, for one because it exists already (`is_already_exists`).
    pub async fn create<'a, K: View>(
        &self,
        object: impl Into<Desired<'a, K>>,
    ) -> Result<Written<K>, ClientError> {
        let Desired { kind, object } = object.into();
        Resources::new(self, kind).create(object).await
    }

    /// Replaces an object by another state of it, which must be made from its newest one: fields that `K` does not
    /// know are lost. Nothing is sent if it is the state that the cache has.
    ///
    /// # Errors
    /// If the server rejects it, for one because it changed meanwhile (`is_conflict`).
    pub async fn update<'a, K: View>(
        &self,
        object: impl Into<Desired<'a, K>>,
    ) -> Result<Written<K>, ClientError> {
        let Desired { kind, object } = object.into();
        Resources::new(self, kind).update(object).await
    }

    /// Sends a patch of any kind; [`Client::apply`] is the better choice wherever it fits. A merge patch or a JSON
    /// patch that would not change the object in the cache is not sent.
    ///
    /// # Errors
    /// If the server rejects it.
    pub async fn patch<'a, K: View, P: Serialize + fmt::Debug>(
        &self,
        target: impl Into<Target<'a, K>>,
        patch: &Patch<P>,
    ) -> Result<Written<K>, ClientError> {
        let target = target.into();
        Resources::new(self, target.kind()).patch(target.key, patch).await
    }

    /// Sends the difference of two states of an object, as a merge patch: fields that `K` does not know stay, and so do
    /// changes that others made meanwhile. Lists are sent as a whole. If nothing differs, nothing is sent. Usually `old` is
    /// the object in the cache, and `new` a changed clone of it. See [`ClientOptions::optimistic_lock`].
    ///
    /// # Errors
    /// If `new` is another object, or the server rejects the patch.
    pub async fn patch_from<'a, K: View>(
        &self,
        old: &K,
        new: impl Into<Desired<'a, K>>,
    ) -> Result<Written<K>, ClientError> {
        let Desired { kind, object } = new.into();
        Resources::new(self, kind).patch_from(old, object).await
    }

    /// Creates `object` after `mutate` has changed it. If it exists, patches the fields that `mutate` changes in its newest
    /// state instead. Sends nothing if `mutate` changes nothing.
    ///
    /// `mutate` may be called several times and must not change the name or the namespace. The object and its status are
    /// patched with one JSON merge patch each, so fields that `K` does not know stay, and concurrent changes of other
    /// fields are no conflict. [`Client::apply`] needs no read and suits most cases better.
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

    /// Deletes an object; the objects that it owns follow in the background. An object that is gone already is no error.
    ///
    /// If the target is an object instead of a key, it is deleted only if it is still the same object, by its UID. See
    /// [`ClientOptions::delete`] for other parameters.
    ///
    /// # Errors
    /// If the server rejects it, for one because an object with the same name took its place.
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
