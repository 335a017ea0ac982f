//! The client: reads from the cache, writes to the API server, and does not write what is so already.
//! It never knows controllers.

use std::fmt;
use std::sync::Arc;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ObjectList, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cache::decode::{Decoded, with_owners};
use crate::cache::store::Stored;
use crate::cache::{Cache, CacheError, ListOptions};
use crate::finalizer::Finalizers;
use crate::metrics::ClientMetrics;
use crate::object::{Kind, Object, ObjectKey};
use crate::owner::{OwnerError, set_controller_reference};

mod noop;
mod status;

pub use status::StatusWriter;

/// Reads from the cache and writes to the API server, as one field manager. Clones are cheap.
///
/// * A read after an own write sees it: the answer to the write is in the cache before the write returns.
/// * [`Client::apply`] and [`StatusWriter::patch`] send nothing if the object is so already.
/// * [`Client::live`] reads past the cache.
#[derive(Clone)]
pub struct Client {
    kube: kube::Client,
    cache: Cache,
    metrics: ClientMetrics,
}

/// Why a request of the client failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The cache has no answer.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The owner cannot own the object.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The object cannot be written because it has no name, or no namespace though its kind has them.
    #[error("cannot {verb} {kind}: metadata.{field} is empty")]
    Incomplete {
        /// What was to be done.
        verb: &'static str,
        /// The kind.
        kind: String,
        /// The empty field of the metadata.
        field: &'static str,
    },
    /// The object, or a value for its status, is no JSON.
    #[error("cannot {what}: it does not serialize")]
    Serialize {
        /// What was to be done, such as `apply Deployment.apps default/web`.
        what: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// The API server refused, or could not be reached.
    #[error("cannot {what}")]
    Request {
        /// What was to be done, such as `apply Deployment.apps default/web`.
        what: String,
        /// What the server or the network said.
        #[source]
        source: kube::Error,
    },
}

/// Reads from the API server itself, for the rare case in which the cache is not enough.
pub struct LiveReader<'a>(&'a Client);

// === impl Client ===

impl Client {
    pub(crate) fn new(kube: kube::Client, cache: Cache, metrics: ClientMetrics) -> Self {
        Self { kube, cache, metrics }
    }

    /// The client of kube underneath, for what this one does not offer.
    pub fn kube(&self) -> &kube::Client {
        &self.kube
    }

    /// The cache that reads come from.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The field manager of the writes: the name of the manager.
    pub fn field_manager(&self) -> &str {
        self.cache.manager()
    }

    /// The object, from the cache; `None` if there is none.
    ///
    /// The first read of a kind starts watching it, which needs the permission to list and watch, and waits for the
    /// first list.
    ///
    /// # Errors
    /// If the kind cannot be listed in time, the namespace is not watched, or the object does not fit its type.
    pub async fn get<K: Object>(&self, key: impl Into<ObjectKey>) -> Result<Option<Arc<K>>, ClientError> {
        Ok(self.cache.get(key).await?)
    }

    /// The objects that `options` name, from the cache, sorted by namespace and name: `None` for all, `Some(namespace)`,
    /// or [`ListOptions`].
    ///
    /// # Errors
    /// If the kind cannot be listed in time.
    pub async fn list<K: Object>(&self, options: impl Into<ListOptions>) -> Result<Vec<Arc<K>>, ClientError> {
        Ok(self.cache.list(options).await?)
    }

    /// Reads past the cache.
    pub fn live(&self) -> LiveReader<'_> {
        LiveReader(self)
    }

    /// Makes the cluster agree with `desired` by server-side apply, and returns the object as it is then.
    ///
    /// What `desired` leaves out belongs to others, or to defaults, and stays as it is; what an earlier apply set and
    /// this one leaves out is removed. Fields that others hold are taken over. Nothing is sent if the object in the
    /// cache has exactly these fields, as the operator's, with these values: an apply at rest costs no request.
    ///
    /// # Errors
    /// If the object has no name, or the server refuses it.
    pub async fn apply<K: Object>(&self, desired: K) -> Result<Arc<K>, ClientError> {
        let target = Target::of("apply", &desired)?;
        let configuration = self.configuration(&target, &desired)?;
        if let Some(known) = self.cache.known::<K>(&target.key)
            && self.is_applied(&target, &configuration, &known)?
        {
            self.skip(&target);
            return Ok(known.object);
        }
        let parameters = PatchParams::apply(self.field_manager()).force();
        let patch = Patch::Apply(&configuration);
        let request = request::<K>(&target.key).patch(target.key.name(), &parameters, &patch);
        self.write(&target, request).await
    }

    /// [`Client::apply`] of an object that belongs to `owner`: with a controller reference, so that it is deleted with
    /// its owner and its changes reconcile the owner (`owns`), and in the owner's namespace if it names none.
    ///
    /// # Errors
    /// As [`Client::apply`], and if `owner` cannot own the object.
    pub async fn apply_owned<O: Object, K: Object>(
        &self,
        owner: &O,
        mut desired: K,
    ) -> Result<Arc<K>, ClientError> {
        if Kind::of::<K>().namespaced && desired.meta().namespace.is_none() {
            desired.meta_mut().namespace = owner.meta().namespace.clone();
        }
        set_controller_reference(owner, &mut desired)?;
        self.apply(desired).await
    }

    /// Creates an object; its name may be left to the server (`generateName`).
    ///
    /// # Errors
    /// If the server refuses it, for one because it exists already (`is_already_exists`).
    pub async fn create<K: Object>(&self, object: K) -> Result<Arc<K>, ClientError> {
        let target = Target::unnamed("create", &object);
        let body = serde_json::to_vec(&object).map_err(|source| target.unserializable(source))?;
        let parameters = PostParams {
            field_manager: Some(self.field_manager().to_owned()),
            ..PostParams::default()
        };
        self.write(&target, request::<K>(&target.key).create(&parameters, body))
            .await
    }

    /// Sends a patch of any kind; [`Client::apply`] is the better choice wherever it fits.
    ///
    /// # Errors
    /// If the server refuses it.
    pub async fn patch<K: Object, P: Serialize + fmt::Debug>(
        &self,
        key: impl Into<ObjectKey>,
        patch: &Patch<P>,
    ) -> Result<Arc<K>, ClientError> {
        let target = Target::new::<K>("patch", key.into());
        let parameters = PatchParams {
            field_manager: Some(self.field_manager().to_owned()),
            ..PatchParams::default()
        };
        let request = request::<K>(&target.key).patch(target.key.name(), &parameters, patch);
        self.write(&target, request).await
    }

    /// Deletes the object if it is still there and still the same one (by its uid); what it owns follows in the
    /// background. An object that is gone already is no error.
    ///
    /// # Errors
    /// If the server refuses it, for one because an object with the same name took its place.
    pub async fn delete<K: Object>(&self, object: &K) -> Result<(), ClientError> {
        let target = Target::of("delete", object)?;
        let uid = object.meta().uid.clone();
        let preconditions = Preconditions {
            uid: uid.clone(),
            resource_version: None,
        };
        let parameters = DeleteParams::background().preconditions(preconditions);
        let request = request::<K>(&target.key).delete(target.key.name(), &parameters);
        let answer: Value = match self.send(&target, request).await {
            Err(error) if error.is_not_found() => return Ok(()),
            answer => answer?,
        };
        if answer["kind"] == "Status" {
            self.cache
                .deleted::<K>(&target.key, uid.as_deref().unwrap_or_default());
        } else if let Ok(remaining) = serde_json::from_value::<Decoded<K>>(answer) {
            // Finalizers keep it: the answer is the object with its deletion timestamp.
            // If it does not fit its type, the watch will say so; the deletion was accepted all the same.
            let _ = self.take(remaining);
        }
        Ok(())
    }

    /// Writes the status of `object`, through the subresource; nothing is sent before [`StatusWriter::patch`].
    pub fn status<'a, K: Object>(&'a self, object: &'a K) -> StatusWriter<'a, K> {
        StatusWriter::new(self, object)
    }

    /// Work that must be done before `object` may go; nothing happens before [`Finalizers::run`].
    pub fn finalizers<'a, K: Object>(&'a self, object: &'a K) -> Finalizers<'a, K> {
        Finalizers::new(self, object)
    }

    /// What is sent in an apply: no nulls, which are `None`s that were not skipped and say nothing, and no status,
    /// which has its own subresource.
    fn configuration<K: Object>(&self, target: &Target, desired: &K) -> Result<Value, ClientError> {
        let mut value = serde_json::to_value(desired).map_err(|source| target.unserializable(source))?;
        noop::remove_nulls(&mut value);
        if let Some(object) = value.as_object_mut() {
            object.insert("apiVersion".to_owned(), target.kind.api_version().into());
            object.insert("kind".to_owned(), target.kind.kind.clone().into());
            object.remove("status");
        }
        Ok(value)
    }

    fn is_applied<K: Object>(
        &self,
        target: &Target,
        configuration: &Value,
        known: &Stored<K>,
    ) -> Result<bool, ClientError> {
        let Some(applied) = &known.applied else {
            return Ok(false);
        };
        let live =
            serde_json::to_value(known.object.as_ref()).map_err(|source| target.unserializable(source))?;
        let applied = with_owners(applied, known.object.as_ref());
        Ok(noop::is_applied(configuration, &applied, &live))
    }

    fn skip(&self, target: &Target) {
        self.metrics.write_skipped(&target.kind.to_string());
        tracing::trace!(kind = %target.kind, object = %target.key, verb = target.verb, "Nothing to write");
    }

    async fn write<K: Object>(
        &self,
        target: &Target,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Arc<K>, ClientError> {
        let answer: Decoded<K> = self.send(target, request).await?;
        let malformed = |error: String| {
            ClientError::Cache(CacheError::Malformed {
                kind: target.kind.to_string(),
                key: target.key.clone(),
                error,
            })
        };
        self.take(answer).map_err(malformed)
    }

    /// Puts the answer to a write into the cache.
    fn take<K: Object>(&self, answer: Decoded<K>) -> Result<Arc<K>, String> {
        let stored = answer
            .into_stored(self.field_manager())
            .map_err(|malformed| malformed.error)?;
        self.cache.write(stored.clone());
        Ok(stored.object)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        target: &Target,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, ClientError> {
        let request = request.map_err(kube::Error::BuildRequest);
        let answer = match request {
            Ok(request) => self.kube.request(request).await,
            Err(error) => Err(error),
        };
        answer.map_err(|source| target.failed(source))
    }
}

// === impl LiveReader ===

impl LiveReader<'_> {
    /// The object, from the API server; `None` if there is none.
    ///
    /// # Errors
    /// If the server refuses the request or the object does not fit its type.
    pub async fn get<K: Object>(&self, key: impl Into<ObjectKey>) -> Result<Option<Arc<K>>, ClientError> {
        let target = Target::new::<K>("get", key.into());
        let request = request::<K>(&target.key).get(target.key.name(), &kube::api::GetParams::default());
        match self.0.send::<K>(&target, request).await {
            Err(error) if error.is_not_found() => Ok(None),
            object => Ok(Some(Arc::new(object?))),
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
        let target = Target::new::<K>("list", ObjectKey::new(namespace, ""));
        self.0
            .send(&target, request::<K>(&target.key).list(parameters))
            .await
    }
}

// === impl ClientError ===

impl ClientError {
    /// The `Status` that the API server refused with, if it did.
    pub fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Request {
                source: kube::Error::Api(status),
                ..
            } => Some(status),
            _ => None,
        }
    }

    /// Whether the server said that the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_not_found)
    }

    /// Whether the server said that the object had changed meanwhile.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_conflict)
    }

    /// Whether the server said that an object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(kube::core::Status::is_already_exists)
    }
}

/// What a request is about, for its errors.
struct Target {
    verb: &'static str,
    kind: Kind,
    key: ObjectKey,
}

// === impl Target ===

impl Target {
    fn new<K: Object>(verb: &'static str, key: ObjectKey) -> Self {
        let kind = Kind::of::<K>();
        Self { verb, kind, key }
    }

    fn unnamed<K: Object>(verb: &'static str, object: &K) -> Self {
        Self::new::<K>(verb, ObjectKey::of(object))
    }

    /// The target that an object names.
    fn of<K: Object>(verb: &'static str, object: &K) -> Result<Self, ClientError> {
        let target = Self::unnamed(verb, object);
        let incomplete = |field| ClientError::Incomplete {
            verb,
            kind: target.kind.to_string(),
            field,
        };
        if target.key.name().is_empty() {
            return Err(incomplete("name"));
        }
        if target.kind.namespaced && target.key.namespace().is_none() {
            return Err(incomplete("namespace"));
        }
        Ok(target)
    }

    fn unserializable(&self, source: serde_json::Error) -> ClientError {
        let what = self.to_string();
        ClientError::Serialize { what, source }
    }

    fn failed(&self, source: kube::Error) -> ClientError {
        let what = self.to_string();
        ClientError::Request { what, source }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.verb, self.kind, self.key)
    }
}

/// Builds requests for the objects beside `key`.
fn request<K: Object>(key: &ObjectKey) -> Request {
    Request::new(K::url_path(&K::DynamicType::default(), key.namespace()))
}
