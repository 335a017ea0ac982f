//! [`Defaulter`] and [`Validator`], the traits of admission webhooks, and the calls of their functions.

use std::marker::PhantomData;

use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::Value;

use super::denied::Denied;
use super::patch::patch;
use super::registration::WebhookOptions;
use super::review::{AdmissionRequest, AdmissionResponse, Operation};
use crate::object::Object;

/// Warnings that `kubectl` and other clients show although the request is allowed. Each should have at most 120
/// characters.
pub type Warnings = Vec<String>;

/// Sets defaults in new and changed objects.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap as Memcached;
/// use operator_runtime::webhook::{AdmissionRequest, Defaulter, Denied};
///
/// struct Defaults;
///
/// impl Defaulter<Memcached> for Defaults {
///     async fn default(&self, request: &AdmissionRequest, memcached: &mut Memcached) -> Result<(), Denied> {
///         let creator = request.user_info.username.clone().unwrap_or_default();
///         memcached.metadata.annotations.get_or_insert_default().entry("creator".to_owned()).or_insert(creator);
///         Ok(())
///     }
/// }
/// ```
pub trait Defaulter<K>: Send + Sync + 'static {
    /// Changes an object that is being created or updated. Fields that `K` lacks are kept.
    ///
    /// It may be called twice for one request, and must be idempotent.
    ///
    /// # Errors
    /// Denies the request with a [`Denied`].
    fn default(
        &self,
        request: &AdmissionRequest,
        object: &mut K,
    ) -> impl Future<Output = Result<(), Denied>> + Send;

    /// Returns the options of the webhook: its path, its operations, its failure policy and so on.
    fn options(&self) -> WebhookOptions {
        WebhookOptions::default()
    }
}

/// Validates objects by rules that a schema cannot express. Prefer the schema or a CEL rule of the CRD, which need no
/// server.
///
/// ```
/// use k8s_openapi::api::core::v1::Secret;
/// use operator_runtime::webhook::{AdmissionRequest, Denied, Validator, Warnings};
///
/// /// Secrets named `release-…` are immutable.
/// struct Frozen;
///
/// impl Validator<Secret> for Frozen {
///     async fn validate_create(&self, _: &AdmissionRequest, _: &Secret) -> Result<Warnings, Denied> {
///         Ok(Warnings::new())
///     }
///
///     async fn validate_update(&self, _: &AdmissionRequest, old: &Secret, new: &Secret) -> Result<Warnings, Denied> {
///         let is_release = new.metadata.name.as_deref().is_some_and(|name| name.starts_with("release-"));
///         match is_release && old.data != new.data {
///             true => Err(Denied::new("a release does not change")),
///             false => Ok(Warnings::new()),
///         }
///     }
/// }
/// ```
pub trait Validator<K>: Send + Sync + 'static {
    /// Validates an object that is being created.
    ///
    /// # Errors
    /// Denies the request with a [`Denied`].
    fn validate_create(
        &self,
        request: &AdmissionRequest,
        object: &K,
    ) -> impl Future<Output = Result<Warnings, Denied>> + Send;

    /// Validates a change, possibly only of metadata. Allow changes of objects that are being deleted, otherwise their
    /// finalizers cannot be removed.
    ///
    /// # Errors
    /// Denies the request with a [`Denied`].
    fn validate_update(
        &self,
        request: &AdmissionRequest,
        old: &K,
        new: &K,
    ) -> impl Future<Output = Result<Warnings, Denied>> + Send;

    /// Validates a deletion. Default: allowed. It is called only if the webhook is registered for
    /// [`Operation::Delete`], which is not the default.
    ///
    /// # Errors
    /// Denies the request with a [`Denied`].
    fn validate_delete(
        &self,
        request: &AdmissionRequest,
        object: &K,
    ) -> impl Future<Output = Result<Warnings, Denied>> + Send {
        let _ = (request, object);
        std::future::ready(Ok(Warnings::new()))
    }

    /// Returns the options of the webhook, such as the operations that it validates.
    fn options(&self) -> WebhookOptions {
        WebhookOptions::default()
    }
}

/// Handles admission requests of any kind, for webhooks of several kinds or of subresources.
///
/// ```
/// use operator_runtime::webhook::{AdmissionHandler, AdmissionRequest, AdmissionResponse, Denied};
///
/// /// Denies more replicas than the license allows, for any kind.
/// struct Limit(u64);
///
/// impl AdmissionHandler for Limit {
///     async fn handle(&self, request: AdmissionRequest) -> AdmissionResponse {
///         let replicas = request.object.as_ref().and_then(|scale| scale["spec"]["replicas"].as_u64());
///         match replicas.unwrap_or_default() > self.0 {
///             true => AdmissionResponse::denied(Denied::new("more replicas than the license allows")),
///             false => AdmissionResponse::allowed(),
///         }
///     }
/// }
/// ```
pub trait AdmissionHandler: Send + Sync + 'static {
    /// Answers a request. A panic is answered with 500 and counted.
    fn handle(&self, request: AdmissionRequest) -> impl Future<Output = AdmissionResponse> + Send;
}

/// An [`AdmissionHandler`] as a trait object.
pub(super) trait DynAdmissionHandler: Send + Sync {
    fn handle_boxed(&self, request: AdmissionRequest) -> BoxFuture<'_, AdmissionResponse>;
}

impl<H: AdmissionHandler> DynAdmissionHandler for H {
    fn handle_boxed(&self, request: AdmissionRequest) -> BoxFuture<'_, AdmissionResponse> {
        Box::pin(self.handle(request))
    }
}

pub(super) struct Defaulting<K, D> {
    defaulter: D,
    remove_unknown_fields: bool,
    kind: PhantomData<fn() -> K>,
}

pub(super) struct Validating<K, V>(V, PhantomData<fn() -> K>);

// === impl Defaulting ===

impl<K, D> Defaulting<K, D> {
    pub(super) fn new(defaulter: D, remove_unknown_fields: bool) -> Self {
        Self {
            defaulter,
            remove_unknown_fields,
            kind: PhantomData,
        }
    }
}

impl<K: Object, D: Defaulter<K>> Defaulting<K, D> {
    async fn default(&self, request: &AdmissionRequest) -> Result<AdmissionResponse, AdmissionResponse> {
        let sent = required(request.object.as_ref(), "object")?;
        let mut object: K = typed(sent)?;
        let before = untyped(&object)?;
        self.defaulter
            .default(request, &mut object)
            .await
            .map_err(AdmissionResponse::denied)?;
        let after = untyped(&object)?;
        let patch = match self.remove_unknown_fields {
            true => json_patch::diff(sent, &after),
            false => patch(sent, &before, &after),
        };
        Ok(AdmissionResponse::patched(patch))
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
            // The request has no object.
            Operation::Connect => Ok(Warnings::new()),
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
        AdmissionResponse::errored(
            StatusCode::BAD_REQUEST,
            format!("the request has no {field} to decode"),
        )
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
