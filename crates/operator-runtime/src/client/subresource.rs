//! Subresources other than the status, which has a writer of its own.

use std::fmt;

use kube::api::Patch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::request::Target;
use super::resources::deletion_by_write;
use super::{Client, ClientError};
use crate::object::{Kind, ObjectKey};

/// A subresource of one object. Its requests are always sent, and reads come from the server: the cache does not know
/// subresources. An answer that is the object itself is in the cache before the request returns.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
/// # fn main() -> Result<()> { cluster(async |_, ctx| {
/// # use k8s_openapi::api::autoscaling::v1::Scale;
/// # let web = ctx.create(deployment("web")).await?;
/// # use kube::api::Patch;
/// let scale: Scale = ctx.subresource(&*web, "scale").get().await?;
/// let three = Patch::Merge(serde_json::json!({"spec": {"replicas": 3}}));
/// let scale: Scale = ctx.subresource(&*web, "scale").patch(&three).await?;
/// # Ok(()) }) }
/// ```
pub struct Subresource<'a> {
    client: &'a Client,
    kind: Kind,
    key: ObjectKey,
    name: &'a str,
}

// === impl Subresource ===

impl<'a> Subresource<'a> {
    pub(super) fn new(client: &'a Client, kind: Kind, key: ObjectKey, name: &'a str) -> Self {
        Self {
            client,
            kind,
            key,
            name,
        }
    }

    /// Reads it, from the server.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |_, ctx| {
    /// use k8s_openapi::api::autoscaling::v1::Scale;
    ///
    /// let web = ctx.create(deployment("web")).await?;
    /// let scale: Scale = ctx.subresource(&*web, "scale").get().await?;
    /// assert_eq!(scale.metadata.name.as_deref(), Some("web"));
    /// # Ok(()) }) }
    /// ```
    ///
    /// # Errors
    /// If the server refuses, for one because the kind has no such subresource.
    pub async fn get<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        let target = self.target("get a subresource of")?;
        let request = target.request().get_subresource(self.name, target.key.name());
        self.client.send(&target, request).await
    }

    /// Creates it, as a `Binding`, an `Eviction` or a `TokenRequest` is.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |_, ctx| {
    /// use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
    /// use k8s_openapi::api::core::v1::ServiceAccount;
    ///
    /// # let builder: ServiceAccount = object(serde_json::json!({"metadata": {"name": "builder", "namespace": "default"}}));
    /// let account = ctx.create(builder).await?;
    /// let hour = TokenRequestSpec { expiration_seconds: Some(3600), ..Default::default() };
    /// let request = TokenRequest { spec: Some(hour), ..Default::default() };
    /// let answer: TokenRequest = ctx.subresource(&*account, "token").create(&request).await?;
    /// assert!(answer.status.is_some_and(|status| status.token.is_some()));
    /// # Ok(()) }) }
    /// ```
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn create<T: DeserializeOwned>(&self, body: &impl Serialize) -> Result<T, ClientError> {
        let target = self.target("create a subresource of")?;
        let body = serde_json::to_vec(body).map_err(|source| target.unserializable(source))?;
        let parameters = self.client.options.post();
        let request = target
            .request()
            .create_subresource(self.name, target.key.name(), &parameters, body);
        self.send(&target, self.client.validated(request)).await
    }

    /// Replaces it.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |_, ctx| {
    /// use k8s_openapi::api::autoscaling::v1::Scale;
    ///
    /// let web = ctx.create(deployment("web")).await?;
    /// let mut scale: Scale = ctx.subresource(&*web, "scale").get().await?;
    /// scale.spec.get_or_insert_default().replicas = Some(2);
    /// let scale: Scale = ctx.subresource(&*web, "scale").update(&scale).await?;
    /// assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(2));
    /// # Ok(()) }) }
    /// ```
    ///
    /// # Errors
    /// If the server refuses, for one because it changed meanwhile.
    pub async fn update<T: DeserializeOwned>(&self, body: &impl Serialize) -> Result<T, ClientError> {
        let target = self.target("update a subresource of")?;
        let body = serde_json::to_vec(body).map_err(|source| target.unserializable(source))?;
        let parameters = self.client.options.post();
        let request = target
            .request()
            .replace_subresource(self.name, target.key.name(), &parameters, body);
        self.send(&target, self.client.validated(request)).await
    }

    /// Patches it. An apply takes over what others hold, unless the client is [without force](Client::without_force).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/cluster.rs"));
    /// # fn main() -> Result<()> { cluster(async |_, ctx| {
    /// use k8s_openapi::api::autoscaling::v1::Scale;
    /// use kube::api::Patch;
    ///
    /// let web = ctx.create(deployment("web")).await?;
    /// let two = Patch::Merge(serde_json::json!({"spec": {"replicas": 2}}));
    /// let scale: Scale = ctx.subresource(&*web, "scale").patch(&two).await?;
    /// assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(2));
    /// # Ok(()) }) }
    /// ```
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn patch<T: DeserializeOwned, P: Serialize + fmt::Debug>(
        &self,
        patch: &Patch<P>,
    ) -> Result<T, ClientError> {
        let target = self.target("patch a subresource of")?;
        let mut parameters = self.client.options.patch();
        parameters.force = matches!(patch, Patch::Apply(_)) && self.client.options.force;
        let request = target
            .request()
            .patch_subresource(self.name, target.key.name(), &parameters, patch);
        self.send(&target, request).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        target: &Target,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, ClientError> {
        let answer: Value = self.client.send(target, request).await?;
        let is_object =
            answer["kind"] == target.kind.kind && answer["apiVersion"] == target.kind.api_version();
        if is_object
            && !self.client.options.dry_run
            && let Some(informer) = self.client.cache.existing(&target.kind)
        {
            match deletion_by_write(&answer) {
                Some((uid, at)) => informer.deleted(&target.key, &uid, at),
                None => informer.write(answer.clone()),
            }
        }
        serde_json::from_value(answer).map_err(|error| target.malformed(error.to_string()))
    }

    fn target(&self, verb: &'static str) -> Result<Target, ClientError> {
        let target = self.client.target(verb, &self.kind, self.key.clone())?;
        target.check()?;
        Ok(target)
    }
}
