//! Registers the webhooks of an operator under test, with the address at which the test serves them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use k8s_openapi::ByteString;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::file::{self, FileError};

const MANAGER: &str = "operator-envtest";

/// An error of installing webhooks.
///
/// ```
/// # use operator_envtest::TestEnv;
/// use operator_envtest::{Error, WebhookError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let env = TestEnv::start().await?;
/// # let folder = tempfile::tempdir()?;
/// # let config = folder.path();
/// // `config` has no webhooks.
/// let refused = env.install_webhooks(config, "127.0.0.1:9443".parse()?, "").await;
/// assert!(matches!(refused, Err(Error::Webhook(WebhookError::Nothing { .. }))));
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The manifests could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The manifests have no webhooks.
    #[error(
        "no webhook configuration and no conversion in {}: run `operator-sdk generate manifests`",
        .path.display()
    )]
    Nothing {
        /// The file or directory.
        path: PathBuf,
    },
    /// The API server rejected a configuration, or has no definition for a conversion.
    #[error("the API server rejected the webhooks of {name}")]
    Refused {
        /// The name of the configuration or of the definition.
        name: String,
        /// The error of the server.
        #[source]
        source: Box<kube::Error>,
    },
}

/// The address of the webhooks, and the certificate authority of their server.
pub(crate) struct Endpoint<'a> {
    pub(crate) address: SocketAddr,
    /// The certificate of the authority as PEM.
    pub(crate) authority: &'a str,
}

/// Registers the webhook configurations and conversions in a file or a directory tree.
pub(crate) async fn install(
    client: &Client,
    path: &Path,
    endpoint: &Endpoint<'_>,
) -> Result<(), WebhookError> {
    let mut found = false;
    for document in file::documents(path, true)? {
        found |= register(client, document, endpoint).await?;
    }
    let path = path.to_owned();
    found.then_some(()).ok_or(WebhookError::Nothing { path })
}

/// Registers the webhooks of a document. Returns false if it has none.
async fn register(client: &Client, document: Value, endpoint: &Endpoint<'_>) -> Result<bool, WebhookError> {
    let kind = document["kind"].as_str().unwrap_or_default();
    match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            let api = api(client, "admissionregistration.k8s.io", kind);
            let patch = Patch::Apply(endpoint.configuration(&document));
            write(&api, &document, &PatchParams::apply(MANAGER).force(), &patch).await?;
        }
        "CustomResourceDefinition" if document["spec"]["conversion"]["webhook"].is_object() => {
            let api = api(client, "apiextensions.k8s.io", kind);
            let patch = Patch::Merge(endpoint.conversion(&document));
            write(&api, &document, &PatchParams::default(), &patch).await?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn api(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::all_with(client.clone(), &resource)
}

async fn write(
    api: &Api<DynamicObject>,
    document: &Value,
    parameters: &PatchParams,
    patch: &Patch<Value>,
) -> Result<(), WebhookError> {
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    let written = api.patch(name, parameters, patch).await;
    written.map(drop).map_err(|source| WebhookError::Refused {
        name: name.to_owned(),
        source: Box::new(source),
    })
}

// === impl Endpoint ===

impl Endpoint<'_> {
    fn configuration(&self, document: &Value) -> Value {
        let mut document = document.clone();
        let webhooks = document.get_mut("webhooks").and_then(Value::as_array_mut);
        for webhook in webhooks.into_iter().flatten() {
            let config = self.client_config(&webhook["clientConfig"]);
            // The API server rejects other values.
            if let Some(webhook) = webhook.as_object_mut() {
                webhook.insert("clientConfig".to_owned(), config);
            }
        }
        document
    }

    fn conversion(&self, document: &Value) -> Value {
        let mut conversion = document["spec"]["conversion"].clone();
        // A merge patch keeps the other fields.
        let mut config = self.client_config(&conversion["webhook"]["clientConfig"]);
        config["service"] = Value::Null;
        conversion["webhook"]["clientConfig"] = config;
        json!({"spec": {"conversion": conversion}})
    }

    /// Replaces the Service by a URL.
    fn client_config(&self, there: &Value) -> Value {
        let path = there.pointer("/service/path").and_then(Value::as_str);
        json!({
            "url": format!("https://{}{}", self.reachable(), path.unwrap_or("/")),
            "caBundle": ByteString(self.authority.as_bytes().to_vec()),
        })
    }

    /// Returns an address that can be dialed: the loopback address for a server that listens on all addresses.
    fn reachable(&self) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            });
        }
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(address: &str) -> Endpoint<'static> {
        Endpoint {
            address: address.parse().unwrap(),
            authority: "pem",
        }
    }

    #[test]
    fn a_configuration_names_the_address_and_the_authority() {
        let entry = json!({"name": "m.kb.io", "clientConfig": {"service": {"name": "s", "path": "/mutate"}}});
        let changed = endpoint("127.0.0.1:9443").configuration(&json!({"webhooks": [entry]}));
        let wanted = json!({"url": "https://127.0.0.1:9443/mutate", "caBundle": "cGVt"});
        assert_eq!(changed["webhooks"][0]["clientConfig"], wanted);
        assert_eq!(changed["webhooks"][0]["name"], "m.kb.io");
    }

    #[test]
    fn entries_that_are_not_objects_are_left_to_the_api_server() {
        let document = json!({"webhooks": [5, null, "text"]});
        assert_eq!(endpoint("127.0.0.1:1").configuration(&document), document);
    }

    #[test]
    fn unspecified_address_is_dialed_on_the_loopback_interface() {
        assert_eq!(endpoint("0.0.0.0:1").reachable().to_string(), "127.0.0.1:1");
        assert_eq!(endpoint("[::]:1").reachable().to_string(), "[::1]:1");
    }
}
