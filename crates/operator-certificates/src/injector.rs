//! [`Injector`] keeps the `caBundle` up to date in the webhook configurations and conversions that call this operator.

use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::ca_bundle::patch;

/// Delay after a failed write other than a conflict.
const PAUSE: Duration = Duration::from_secs(5);
/// The prefix of cert-manager's annotations. Objects with such an annotation are not changed.
const CERT_MANAGER: &str = "cert-manager.io/inject-";

/// The webhooks into whose configurations the bundle is written.
pub(super) struct Injector {
    pub(super) client: kube::Client,
    /// The namespace of the operator's Service.
    pub(super) namespace: String,
    /// The possible names of the webhooks' Service.
    pub(super) services: Vec<String>,
    /// The paths that the operator serves.
    pub(super) paths: Vec<String>,
    /// The names of the CRDs that it converts.
    pub(super) crds: Vec<String>,
}

// === impl Injector ===

impl Injector {
    /// Writes the bundle wherever it is missing. Never completes.
    pub(super) async fn run(self, bundle: watch::Receiver<String>) {
        let configurations = [
            ApiResource::erase::<MutatingWebhookConfiguration>(&()),
            ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        ];
        let configurations = configurations.map(|resource| (resource, watcher::Config::default()));
        let crds = self.crds.iter().map(|name| {
            let one = watcher::Config::default().fields(&format!("metadata.name={name}"));
            (ApiResource::erase::<CustomResourceDefinition>(&()), one)
        });
        let watches = configurations.into_iter().chain(crds);
        let watches = watches.map(|(resource, config)| {
            let api = Api::all_with(self.client.clone(), &resource);
            self.keep(api, config, bundle.clone())
        });
        join_all(watches).await;
    }

    /// Watches one kind. Restarts when the bundle changes or a write fails.
    async fn keep(
        &self,
        api: Api<DynamicObject>,
        config: watcher::Config,
        mut bundle: watch::Receiver<String>,
    ) {
        loop {
            let current = bundle.borrow_and_update().clone();
            tokio::select! {
                error = self.watch(&api, config.clone(), &current) => {
                    tracing::error!(%error, "Failed to write the caBundle of the webhooks");
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(()) = bundle.changed() => {}
            }
        }
    }

    async fn watch(&self, api: &Api<DynamicObject>, config: watcher::Config, bundle: &str) -> kube::Error {
        let mut events = std::pin::pin!(watcher(api.clone(), config).default_backoff());
        while let Some(event) = events.next().await {
            let object = match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => object,
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(%error, "Failed to watch webhook configurations");
                    continue;
                }
            };
            if let Err(error) = self.inject(api, &object, bundle).await {
                return error;
            }
        }
        // A watcher never ends by itself.
        std::future::pending().await
    }

    async fn inject(
        &self,
        api: &Api<DynamicObject>,
        object: &DynamicObject,
        bundle: &str,
    ) -> Result<(), kube::Error> {
        let mut annotations = object.metadata.annotations.iter().flatten();
        if annotations.any(|(key, _)| key.starts_with(CERT_MANAGER)) {
            return Ok(());
        }
        let Some(patch) = patch(&json!(object), bundle, |config| self.is_ours(config)) else {
            return Ok(());
        };
        let name = object.metadata.name.as_deref().unwrap_or_default();
        match api
            .patch(name, &PatchParams::default(), &Patch::Json::<()>(patch))
            .await
        {
            Ok(_) => {
                tracing::info!(name, "Updated the caBundle of the webhooks");
                Ok(())
            }
            // The object was changed or deleted: the next event has its new state.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns true if a webhook's client configuration calls this operator.
    fn is_ours(&self, config: &Value) -> bool {
        let service = &config["service"];
        let path = service["path"].as_str().unwrap_or("/");
        if service["namespace"] != self.namespace.as_str() || !self.paths.iter().any(|ours| ours == path) {
            return false;
        }
        let name = service["name"].as_str().unwrap_or_default();
        let is_ours = self.services.iter().any(|ours| ours == name);
        if !is_ours {
            tracing::info!(
                service = name,
                path,
                expected = ?self.services,
                "A webhook of another Service has a path of this operator: set WEBHOOK_SERVICE if the Service is the operator's"
            );
        }
        is_ours
    }
}
