//! The client: reads from the cache, writes to the API server, and skips writes that would change nothing.
//! It never knows controllers.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::cache::{Cache, ListOptions};
use crate::error::Result;
use crate::metrics::ClientMetrics;
use crate::object::{Kind, Object, ObjectKey, View};
use crate::owner::Owner;
use crate::rest_mapper::RestMapper;
use kube::api::{DeleteParams, DynamicObject, Patch};
use kube::core::PartialObjectMeta;
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
mod resources;
mod status;
mod subresource;
pub(crate) mod warnings;
mod written;

pub use error::ClientError;
pub use list::List;
pub use live::LiveReader;
pub use mutate::OperationResult;
pub use options::FieldValidation;
use options::Options;
pub(crate) use origin::{Current, within};
pub use resources::Resources;
pub use status::StatusWriter;
pub use subresource::Subresource;
pub use written::Written;

/// Reads from the cache and writes to the API server, as one field manager. Clones are cheap.
///
/// * A read after an own write sees it: the answer to the write is in the cache before the write returns.
/// * Within a reconcile, a write that would change nothing, as far as the cache knows, is skipped: by
///   [`apply`](Client::apply), [`update`](Client::update), [`patch`](Client::patch),
///   [`create_or_update`](Client::create_or_update), [`create_or_patch`](Client::create_or_patch), [`StatusWriter::patch`]
///   and [`Finalizers::run`](crate::finalizer::Finalizers::run). [`Written`] says whether a request was sent.
/// * A skipped write is repeated if it was wrong: it is skipped only while the watch of the object is live, and if a later
///   event shows that the object was different, the request is reconciled again, whatever the predicates say.
///   [`always_send`](Client::always_send) turns skipping off.
/// * [`Client::live`] reads past the cache.
///
/// # Other ways to write
/// [`dry_run`](Client::dry_run), [`always_send`](Client::always_send),
/// [`with_field_manager`](Client::with_field_manager), [`with_field_validation`](Client::with_field_validation),
/// [`in_namespace`](Client::in_namespace), [`without_force`](Client::without_force) and
/// [`without_own_writes`](Client::without_own_writes) make a client that does everything in that way; they combine.
///
/// # Kinds without a Rust type
/// [`Client::dynamic`], [`Client::metadata`] and [`Client::resources`] give the same functions for a [`Kind`] that is
/// named at run time.
///
/// ```no_run
/// # use operator_runtime::{Kind, prelude::*};
/// # async fn example(ctx: KeyContext, request: Request) -> Result<()> {
/// let gateways = Kind::in_namespaces("gateway.networking.k8s.io/v1", "Gateway", "gateways");
/// if let Some(gateway) = ctx.dynamic(&gateways).get(&request).await? {
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
    options: Arc<Options>,
}

// === impl Client ===

impl Client {
    pub(crate) fn new(kube: kube::Client, cache: Cache, metrics: ClientMetrics) -> Self {
        let options = Arc::new(Options::new(cache.manager()));
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

    /// The field manager of the writes: the name of the manager, unless [`Client::with_field_manager`] names another.
    pub fn field_manager(&self) -> &str {
        &self.options.field_manager
    }

    /// A client whose writes are checked, admitted and answered by the server, and not stored. The cache does not see
    /// the answers.
    #[must_use]
    pub fn dry_run(&self) -> Self {
        self.with(|options| options.dry_run = true)
    }

    /// Returns a client that sends every write, also those that would change nothing as far as the cache knows.
    /// [`ControllerOptions::always_send`](crate::controller::ControllerOptions::always_send) does the same for all writes of
    /// a controller.
    #[must_use]
    pub fn always_send(&self) -> Self {
        self.with(|options| options.always_send = true)
    }

    /// A client that writes as another field manager. Its applies are always sent: the cache remembers only what the
    /// operator's own field manager applied.
    #[must_use]
    pub fn with_field_manager(&self, name: &str) -> Self {
        self.with(|options| options.field_manager = name.into())
    }

    /// A client whose writes say what the server does with fields that it does not know: `Warn` without this.
    #[must_use]
    pub fn with_field_validation(&self, validation: FieldValidation) -> Self {
        self.with(|options| options.field_validation = Some(validation))
    }

    /// A client whose applies are refused where another field manager holds a field with another value (`is_conflict`),
    /// instead of taking it over.
    #[must_use]
    pub fn without_force(&self) -> Self {
        self.with(|options| options.force = false)
    }

    /// A client for one namespace: objects and lists that name none are of this one, and what names another one is an
    /// error. Kinds without namespaces are not affected.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        self.with(|options| options.namespace = Some(namespace.into()))
    }

    /// A client whose reads do not see the operator's own writes before the watch brings them, as in controller-runtime
    /// unless told otherwise: everything that it reads is some state of before. For comparing what the watch says with
    /// what was written; reconcilers have no use for it.
    #[must_use]
    pub fn without_own_writes(&self) -> Self {
        self.with(|options| options.consistency = crate::cache::Consistency::Watched)
    }

    /// Returns the same client over another connection to the cluster.
    pub(crate) fn over(&self, kube: kube::Client) -> Self {
        Self { kube, ..self.clone() }
    }

    fn with(&self, change: impl FnOnce(&mut Options)) -> Self {
        let mut client = self.clone();
        change(Arc::make_mut(&mut client.options));
        client
    }

    /// The objects of a kind, as `DynamicObject`: whole, as JSON.
    pub fn dynamic<'a>(&'a self, kind: &'a Kind) -> Resources<'a, DynamicObject> {
        self.resources(kind)
    }

    /// The metadata of the objects of a kind. The server sends no more than that, unless somebody reads whole objects
    /// of the kind too. Metadata can be applied, patched and deleted; to create or replace an object takes the whole of
    /// it.
    pub fn metadata<'a>(&'a self, kind: &'a Kind) -> Resources<'a, PartialObjectMeta> {
        self.resources(kind)
    }

    /// The objects of a kind, as `K`: a type of one's own for a kind of somebody else, for example with the fields that
    /// are needed alone.
    pub fn resources<'a, K: View>(&'a self, kind: &'a Kind) -> Resources<'a, K> {
        Resources::new(self, Cow::Borrowed(kind))
    }

    fn of<K: Object>(&self) -> Resources<'_, K> {
        Resources::new(self, Cow::Owned(Kind::of::<K>()))
    }

    /// The object, from the cache; `None` if there is none.
    ///
    /// The first read of a kind starts watching it, which needs the permission to list and watch, and waits for the
    /// first list.
    ///
    /// # Errors
    /// If the kind cannot be listed in time, the namespace is not watched, or the object does not fit its type.
    pub async fn get<K: Object>(&self, key: impl Into<ObjectKey>) -> Result<Option<Arc<K>>, ClientError> {
        if self.options.namespace.is_some() {
            return self.of().get(key).await;
        }
        let informer = self.cache.reader::<K>()?;
        let consistency = self.options.consistency;
        Ok(self.cache.read(&informer, &key.into(), consistency).await?)
    }

    /// Lists objects from the cache: those of all watched namespaces, unless [`List`] selects others.
    ///
    /// # Errors
    /// If the kind cannot be listed in time, or has no such index.
    pub fn list<K: Object>(&self) -> List<'_, K> {
        List::new(self)
    }

    /// Reads past the cache: each read is a request.
    pub fn live<K: Object>(&self) -> LiveReader<'_, K> {
        LiveReader::new(self, Cow::Owned(Kind::of::<K>()))
    }

    /// Makes the cluster agree with `desired` by server-side apply, and returns the object as it is then.
    ///
    /// What `desired` leaves out belongs to others, or to defaults, and stays as it is; what an earlier apply set and
    /// this one leaves out is removed. Fields that others hold are taken over. Nothing is sent if the object in the
    /// cache has exactly these fields, as the operator's, with these values: an apply at rest costs no request.
    ///
    /// # Errors
    /// If the object has no name, or the server refuses it.
    pub async fn apply<K: Object>(&self, desired: K) -> Result<Written<K>, ClientError> {
        self.of().apply(desired).await
    }

    /// [`Client::apply`] of an object that belongs to `owner`: with a controller reference, so that it is deleted with
    /// its owner and its changes reconcile the owner (`owns`), and in the owner's namespace if it names none.
    ///
    /// `owner` is a reference to an object whose type knows its kind, or [`Owner::of`] any object.
    ///
    /// # Errors
    /// As [`Client::apply`], and if `owner` cannot own the object.
    pub async fn apply_owned<K: Object>(
        &self,
        owner: impl Into<Owner>,
        desired: K,
    ) -> Result<Written<K>, ClientError> {
        self.of().apply_owned(owner, desired).await
    }

    /// Creates an object; its name may be left to the server (`generateName`).
    ///
    /// # Errors
    /// If the server refuses it, for one because it exists already (`is_already_exists`).
    pub async fn create<K: Object>(&self, object: K) -> Result<Written<K>, ClientError> {
        self.of().create(object).await
    }

    /// Replaces an object by another state of it, which has to be made from its newest one: fields that `K` does not
    /// know are lost. Nothing is sent if it is the state that the cache has.
    ///
    /// # Errors
    /// If the server refuses it, for one because it changed meanwhile (`is_conflict`).
    pub async fn update<K: Object>(&self, object: K) -> Result<Written<K>, ClientError> {
        self.of().update(object).await
    }

    /// Sends a patch of any kind; [`Client::apply`] is the better choice wherever it fits. A merge patch or a JSON
    /// patch that leaves the object in the cache as it is is not sent.
    ///
    /// # Errors
    /// If the server refuses it.
    pub async fn patch<K: Object, P: Serialize + fmt::Debug>(
        &self,
        key: impl Into<ObjectKey>,
        patch: &Patch<P>,
    ) -> Result<Written<K>, ClientError> {
        self.of().patch(key, patch).await
    }

    /// Sends what differs between two states of an object, as a merge patch of what changed from `old` to `new`: what `K`
    /// does not know stays, and so does what others changed meanwhile. Lists are sent as a whole. If nothing differs,
    /// nothing is sent. `old` mostly is what the cache has, and `new` a changed clone of it.
    ///
    /// # Errors
    /// If `new` is another object, or the server refuses the patch.
    pub async fn patch_from<K: Object>(&self, old: &K, new: &K) -> Result<Written<K>, ClientError> {
        self.of().patch_from(old, new).await
    }

    /// [`Client::patch_from`], which the server refuses if the object is not at the resource version of `old` any more
    /// (`is_conflict`): for what depends on all of the object, such as a list that grows.
    ///
    /// # Errors
    /// As [`Client::patch_from`], and if `old` has no resource version.
    pub async fn patch_from_locked<K: Object>(&self, old: &K, new: &K) -> Result<Written<K>, ClientError> {
        self.of().patch_from_locked(old, new).await
    }

    /// Creates `object` as `mutate` leaves it; or, if it exists, replaces it by what `mutate` makes of its newest
    /// state. Nothing is sent if that is what it is. If it changed meanwhile, or came or went, it is read and mutated
    /// again.
    ///
    /// `mutate` may be called several times and must not change the name or the namespace. As it is shown all fields,
    /// also those that the server has set, it sets what it means and leaves the rest.
    ///
    /// # Errors
    /// The error of `mutate`, or if the server refuses the object.
    pub async fn create_or_update<K: Object>(
        &self,
        object: K,
        mutate: impl FnMut(&mut K) -> Result<()> + Send,
    ) -> Result<(Arc<K>, OperationResult)> {
        self.of().create_or_update(object, mutate).await
    }

    /// [`Client::create_or_update`] with merge patches of what `mutate` changed, one of the object and one of its
    /// status: what `K` does not know stays, and what others changed meanwhile is no conflict.
    ///
    /// # Errors
    /// As [`Client::create_or_update`].
    pub async fn create_or_patch<K: Object>(
        &self,
        object: K,
        mutate: impl FnMut(&mut K) -> Result<()> + Send,
    ) -> Result<(Arc<K>, OperationResult)> {
        self.of().create_or_patch(object, mutate).await
    }

    /// Deletes the object if it is still there and still the same one (by its uid); what it owns follows in the
    /// background. An object that is gone already is no error.
    ///
    /// # Errors
    /// If the server refuses it, for one because an object with the same name took its place.
    pub async fn delete<K: Object>(&self, object: &K) -> Result<(), ClientError> {
        self.of().delete(object).await
    }

    /// [`Client::delete`] with parameters of one's own: grace period, propagation, preconditions. It takes the key
    /// instead of the object, and whatever object has it, unless the preconditions say which.
    ///
    /// # Errors
    /// As [`Client::delete`].
    pub async fn delete_with<K: Object>(
        &self,
        key: impl Into<ObjectKey>,
        parameters: DeleteParams,
    ) -> Result<(), ClientError> {
        self.of::<K>().delete_with(key, parameters).await
    }

    /// Deletes the objects of a namespace that `options` name, in one request, which is always sent. Objects that an index
    /// or a limit names are deleted one by one. Reads show the objects until the watch brings their deletions: the answer
    /// does not say which of them remain for their finalizers.
    ///
    /// # Errors
    /// If no namespace is named for a kind that has them, or the server refuses.
    pub async fn delete_all_of<K: Object>(&self, options: impl Into<ListOptions>) -> Result<(), ClientError> {
        self.of::<K>().delete_all_of(options).await
    }

    /// [`Client::delete_all_of`] with parameters of one's own: grace period, propagation, preconditions.
    ///
    /// # Errors
    /// As [`Client::delete_all_of`].
    pub async fn delete_all_of_with<K: Object>(
        &self,
        options: impl Into<ListOptions>,
        parameters: DeleteParams,
    ) -> Result<(), ClientError> {
        self.of::<K>().delete_all_of_with(options, parameters).await
    }

    /// Writes the status of `object`, through the subresource; nothing is sent before [`StatusWriter::patch`].
    pub fn status<'a, K: Object>(&'a self, object: &'a K) -> StatusWriter<'a, K> {
        StatusWriter::new(self, Kind::of::<K>(), object)
    }

    /// A subresource of an object, such as `scale`, `eviction`, `token` or `approval`.
    pub fn subresource<'a, K: Object>(&'a self, object: &K, name: &'a str) -> Subresource<'a> {
        self.of::<K>().into_subresource(ObjectKey::of(object), name)
    }
}
