//! [`Subresource`]: subresources other than the status of a custom resource, which has [`Client::update_status`].

use std::fmt;

use kube::api::Patch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::request::Target;
use super::resources::deletion_by_write;
use super::{Client, ClientError};
use crate::object::{Kind, ObjectKey};

/// A subresource of one object. Its requests are always sent, and reads go to the API server, because the cache has no
/// subresources. A response that is the object itself is in the cache before the request returns.
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

    /// Reads the subresource from the server.
    ///
    /// # Errors
    /// Returns an error if the server rejects the request, for example because the kind has no such subresource.
    pub async fn get<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        let target = self.target("get a subresource of")?;
        let request = target.request().get_subresource(self.name, target.key.name());
        self.client.send(&target, request).await
    }

    /// Creates the subresource, such as a `Binding`, an `Eviction` or a `TokenRequest`.
    ///
    /// # Errors
    /// Returns an error if the server rejects the request.
    pub async fn create<T: DeserializeOwned>(&self, body: &impl Serialize) -> Result<T, ClientError> {
        let target = self.target("create a subresource of")?;
        let body = serde_json::to_vec(body).map_err(|source| target.unserializable(source))?;
        let parameters = self.client.options.post();
        let request = target
            .request()
            .create_subresource(self.name, target.key.name(), &parameters, body);
        self.send(&target, self.client.validated(request)).await
    }

    /// Replaces the subresource.
    ///
    /// # Errors
    /// Returns an error if the server rejects the request, for example because of a conflict.
    pub async fn update<T: DeserializeOwned>(&self, body: &impl Serialize) -> Result<T, ClientError> {
        let target = self.target("update a subresource of")?;
        let body = serde_json::to_vec(body).map_err(|source| target.unserializable(source))?;
        let parameters = self.client.options.post();
        let request = target
            .request()
            .replace_subresource(self.name, target.key.name(), &parameters, body);
        self.send(&target, self.client.validated(request)).await
    }

    /// Patches the subresource. An apply takes over the fields of other managers, unless
    /// [`ClientOptions::force`](super::ClientOptions::force) is false.
    ///
    /// # Errors
    /// Returns an error if the server rejects the request.
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
