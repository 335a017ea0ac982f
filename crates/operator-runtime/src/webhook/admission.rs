//! Defaulting and validating: the traits that an author implements, and how a review becomes their calls.

use std::marker::PhantomData;

use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::Value;

use super::denied::Denied;
use super::patch::patch;
use super::review::{AdmissionRequest, AdmissionResponse, Operation};
use crate::object::Object;

/// Shown to the user by `kubectl` and other clients; the request passes nevertheless.
pub type Warnings = Vec<String>;

/// Fills in what the author of an object left out.
pub trait Defaulter<K>: Send + Sync + 'static {
    /// Changes the object that is about to be created or updated. Fields that `K` does not know stay as they are.
    ///
    /// It may be called twice for one request, and must give the same result for its own result.
    ///
    /// # Errors
    /// The request is refused.
    fn default(
        &self,
        request: &AdmissionRequest,
        object: &mut K,
    ) -> impl Future<Output = Result<(), Denied>> + Send;
}

/// Checks what a schema cannot say.
pub trait Validator<K>: Send + Sync + 'static {
    /// Checks an object that is about to be created.
    ///
    /// # Errors
    /// The request is refused.
    fn validate_create(
        &self,
        request: &AdmissionRequest,
        object: &K,
    ) -> impl Future<Output = Result<Warnings, Denied>> + Send;

    /// Checks a change.
    ///
    /// # Errors
    /// The request is refused.
    fn validate_update(
        &self,
        request: &AdmissionRequest,
        old: &K,
        new: &K,
    ) -> impl Future<Output = Result<Warnings, Denied>> + Send;

    /// Checks a deletion; allowed unless said otherwise. It is called only if the webhook is registered for `DELETE`.
    ///
    /// # Errors
    /// The request is refused.
    fn validate_delete(
        &self,
        request: &AdmissionRequest,
        object: &K,
    ) -> impl Future<Output = Result<Warnings, Denied>> + Send {
        let _ = (request, object);
        std::future::ready(Ok(Warnings::new()))
    }
}

/// Answers any admission request; for webhooks that are about several kinds, or about subresources.
pub trait AdmissionHandler: Send + Sync + 'static {
    /// Judges a request.
    fn handle(&self, request: AdmissionRequest) -> impl Future<Output = AdmissionResponse> + Send;
}

/// An [`AdmissionHandler`] whose type nobody needs to know.
pub(super) trait Endpoint: Send + Sync {
    fn answer(&self, request: AdmissionRequest) -> BoxFuture<'_, AdmissionResponse>;
}

impl<H: AdmissionHandler> Endpoint for H {
    fn answer(&self, request: AdmissionRequest) -> BoxFuture<'_, AdmissionResponse> {
        Box::pin(self.handle(request))
    }
}

pub(super) struct Defaulting<K, D>(D, PhantomData<fn() -> K>);

pub(super) struct Validating<K, V>(V, PhantomData<fn() -> K>);

// === impl Defaulting ===

impl<K, D> Defaulting<K, D> {
    pub(super) fn new(defaulter: D) -> Self {
        Self(defaulter, PhantomData)
    }
}

impl<K: Object, D: Defaulter<K>> Defaulting<K, D> {
    async fn default(&self, request: &AdmissionRequest) -> Result<AdmissionResponse, AdmissionResponse> {
        let sent = required(request.object.as_ref(), "object")?;
        let mut object: K = typed(sent)?;
        let before = untyped(&object)?;
        self.0
            .default(request, &mut object)
            .await
            .map_err(AdmissionResponse::denied)?;
        Ok(AdmissionResponse::patched(patch(
            sent,
            &before,
            &untyped(&object)?,
        )))
    }
}

impl<K: Object, D: Defaulter<K>> AdmissionHandler for Defaulting<K, D> {
    async fn handle(&self, request: AdmissionRequest) -> AdmissionResponse {
        if request.operation == Operation::Delete {
            return AdmissionResponse::allowed();
        }
        self.default(&request).await.unwrap_or_else(|refused| refused)
    }
}

// === impl Validating ===

impl<K, V> Validating<K, V> {
    pub(super) fn new(validator: V) -> Self {
        Self(validator, PhantomData)
    }
}

impl<K: Object, V: Validator<K>> Validating<K, V> {
    async fn validate(&self, request: &AdmissionRequest) -> Result<AdmissionResponse, AdmissionResponse> {
        let object = || typed::<K>(required(request.object.as_ref(), "object")?);
        let old = || typed::<K>(required(request.old_object.as_ref(), "oldObject")?);
        let validated = match request.operation {
            Operation::Create => self.0.validate_create(request, &object()?).await,
            Operation::Update => self.0.validate_update(request, &old()?, &object()?).await,
            Operation::Delete => self.0.validate_delete(request, &old()?).await,
            Operation::Connect => {
                return Err(AdmissionResponse::errored(
                    StatusCode::BAD_REQUEST,
                    "unknown operation \"CONNECT\"",
                ));
            }
        };
        let warnings = validated.map_err(AdmissionResponse::denied)?;
        Ok(AdmissionResponse::allowed().warnings(warnings))
    }
}

impl<K: Object, V: Validator<K>> AdmissionHandler for Validating<K, V> {
    async fn handle(&self, request: AdmissionRequest) -> AdmissionResponse {
        self.validate(&request).await.unwrap_or_else(|refused| refused)
    }
}

fn required<'a>(object: Option<&'a Value>, field: &str) -> Result<&'a Value, AdmissionResponse> {
    let object = object.filter(|object| !object.is_null());
    object.ok_or_else(|| {
        AdmissionResponse::errored(StatusCode::BAD_REQUEST, format!("there is no {field} to decode"))
    })
}

fn typed<K: Object>(object: &Value) -> Result<K, AdmissionResponse> {
    K::deserialize(object)
        .map_err(|error| AdmissionResponse::errored(StatusCode::BAD_REQUEST, error.to_string()))
}

fn untyped<K: Object>(object: &K) -> Result<Value, AdmissionResponse> {
    serde_json::to_value(object)
        .map_err(|error| AdmissionResponse::errored(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
