//! [`Target`], the object or list of a request, and the functions that send requests.

use std::fmt;
use std::sync::Arc;

use http::Uri;
use kube::Resource;
use kube::api::{ApiResource, DynamicObject};
use kube::core::{ObjectMeta, Request};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::leadership::NotLeader;
use super::resources::deletion_by_write;
use super::{Client, ClientError};
use crate::cache::decode::Ingested;
use crate::cache::informer::Informer;
use crate::cache::item::{Intake, from_value, prepare, view};
use crate::cache::{CacheError, Transforms};
use crate::object::{Kind, ObjectKey, View};

type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// The verb, kind and key of a request, for its path and its errors.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) verb: &'static str,
    pub(super) kind: Kind,
    pub(super) key: ObjectKey,
}

// === impl Target ===

impl Target {
    /// # Errors
    /// Returns an error if the key has no name, or no namespace although its kind is namespace-scoped.
    pub(super) fn check(&self) -> Result<(), ClientError> {
        let incomplete = |field| ClientError::Incomplete {
            verb: self.verb,
            kind: self.kind.to_string(),
            field,
        };
        if self.key.name().is_empty() {
            return Err(incomplete("name"));
        }
        if self.kind.namespaced && self.key.namespace().is_none() {
            return Err(incomplete("namespace"));
        }
        Ok(())
    }

    /// Returns a builder of requests for the target.
    pub(super) fn request(&self) -> Request {
        let namespace = self.key.namespace().filter(|_| self.kind.namespaced);
        Request::new(DynamicObject::url_path(&ApiResource::from(&self.kind), namespace))
    }

    pub(super) fn unserializable(&self, source: serde_json::Error) -> ClientError {
        let what = self.to_string();
        ClientError::Serialize { what, source }
    }

    pub(super) fn malformed(&self, error: String) -> ClientError {
        ClientError::Cache(CacheError::Malformed {
            kind: self.kind.to_string(),
            key: self.key.clone(),
            error,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.verb, self.kind, self.key)
    }
}

// === impl Client ===

impl Client {
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        target: &Target,
        request: Built,
    ) -> Result<T, ClientError> {
        let answer = match request.map_err(kube::Error::BuildRequest) {
            Ok(request) => self.kube.request(request).await,
            Err(error) => Err(error),
        };
        answer.map_err(|source| {
            let what = target.to_string();
            match NotLeader::of(&source) {
                Some(reason) => ClientError::NotLeader {
                    what,
                    reason: reason.to_string(),
                },
                None => ClientError::Request { what, source },
            }
        })
    }

    /// Sends a write and stores its response in the cache.
    pub(super) async fn write<K: View>(
        &self,
        target: &Target,
        request: Built,
    ) -> Result<Arc<K>, ClientError> {
        let informer = self.cached(target);
        if let Some(informer) = informer.filter(|informer| informer.keeps::<K>()) {
            // Decoded like an object from the watch, without a JSON tree.
            let answer: Ingested<K> = self.send(target, request).await?;
            let intake = informer.intake();
            // The watch may be faster. The response to a write that removes the last finalizer has the previous
            // revision.
            if !answer.is_deleting()
                && let Some(object) = informer.watched_as(answer.meta())
            {
                return Ok(object);
            }
            let arrived = answer.finish(intake);
            let arrived = arrived.map_err(|malformed| target.malformed(malformed.error))?;
            let object = view(&arrived.object, intake).map_err(|error| target.malformed(error))?;
            match intake.deletion(&arrived) {
                Some((uid, at)) => informer.deleted(&target.key, &uid, at),
                None => informer.write_arrived(arrived),
            }
            return Ok(object);
        }
        let answer: Value = self.send(target, request).await?;
        match (self.cached(target), deletion_by_write(&answer)) {
            (Some(informer), Some((uid, at))) => informer.deleted(&target.key, &uid, at),
            (Some(informer), None) => informer.write(answer.clone()),
            (None, _) => {}
        }
        self.read_answer(target, answer)
    }

    /// Returns the informer of the kind, which stores the responses to writes.
    fn cached(&self, target: &Target) -> Option<Arc<Informer>> {
        let informer = self.cache.existing(&target.kind);
        informer.filter(|_| !self.options.dry_run)
    }

    /// Records a deletion after which the object with this UID is gone.
    pub(super) fn take_deleted(&self, target: &Target, uid: &str, at: Option<u64>) {
        if let Some(informer) = self.cache.existing(&target.kind) {
            informer.deleted(&target.key, uid, at);
        }
    }

    /// Records that the server no longer has this object. The watch may deliver its deletion much later, and until then
    /// every reconcile would create objects for an owner that does not exist.
    pub(super) fn take_gone(&self, target: &Target, object: &ObjectMeta) {
        if let Some(uid) = &object.uid {
            self.take_deleted(target, uid, None);
        }
    }

    /// Stores an object that the server has changed in the cache.
    pub(super) fn take_changed(&self, target: &Target, answer: Value) {
        if let Some(informer) = self.cache.existing(&target.kind) {
            informer.write(answer);
        }
    }

    /// Returns a response as a `K`.
    fn read_answer<K: View>(&self, target: &Target, answer: Value) -> Result<Arc<K>, ClientError> {
        if let Some(informer) = self.cached(target) {
            return read(target, answer, informer.intake());
        }
        let (kind, manager) = (target.kind.clone(), self.options.field_manager.clone());
        let intake = Intake::new(kind, manager, &Transforms::default(), false);
        read(target, answer, &intake)
    }

    /// Adds `fieldValidation` to a create or an update.
    pub(super) fn validated(&self, request: Built) -> Built {
        let query = self.options.post_query();
        let mut request = request?;
        if !query.is_empty()
            && let Ok(uri) = format!("{}{query}", request.uri()).parse::<Uri>()
        {
            *request.uri_mut() = uri;
        }
        Ok(request)
    }
}

fn read<K: View>(target: &Target, answer: Value, intake: &Intake) -> Result<Arc<K>, ClientError> {
    let mut object: K = from_value(answer).map_err(|error| target.malformed(error))?;
    object.meta_mut().managed_fields = None;
    prepare(&mut object, intake);
    Ok(Arc::new(object))
}
