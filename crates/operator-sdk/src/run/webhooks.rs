//! Registers the webhooks of an operator on this machine in a cluster, by URL, while it runs.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::failure::{Failure, Hinted};
use crate::process::api::{Api, ApiError};
use crate::process::temporary::TemporaryDirectory;
use crate::process::tls;
use crate::report::Report;

/// The time limit for the operator to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// The default address of this machine, as seen from the cluster.
pub(crate) const THIS_MACHINE: &str = "127.0.0.1";

#[derive(Debug, thiserror::Error)]
pub(crate) enum WebhookError {
    #[error("no free port for webhooks: {0}")]
    Port(std::io::Error),
    #[error("the operator does not serve its webhooks on port {0}")]
    Silent(u16),
    #[error("the cluster has no CRD {0} for its conversion webhook")]
    NoDefinition(String),
}

impl Hinted for WebhookError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Port(_) => "stop programs that listen on this machine".to_owned(),
            Self::Silent(_) => {
                "check that `operator()` adds the webhooks; ENABLE_WEBHOOKS is set to `true`".to_owned()
            }
            Self::NoDefinition(_) => "install the kinds with `operator-sdk install` first".to_owned(),
        })
    }
}

/// The webhooks of the operator, with their address.
pub(crate) struct Webhooks {
    name: String,
    host: String,
    port: u16,
    authority: String,
    described: Value,
    certificates: TemporaryDirectory,
    /// The registrations to undo.
    registered: Vec<Registered>,
}

enum Registered {
    /// The path of a created object.
    Object(String),
    /// The previous conversion of a CRD.
    Conversion { path: String, before: Value },
}

// === impl Webhooks ===

impl Webhooks {
    /// Prepares the webhooks in an operator's description (the JSON of `<operator> manifests`). Returns `None` if it
    /// has no webhooks.
    pub(crate) fn prepare(
        project: &str,
        host: Option<&str>,
        described: &str,
    ) -> Result<Option<Self>, Failure> {
        let described: Value = serde_json::from_str(described).unwrap_or_default();
        let lists = ["mutatingWebhooks", "validatingWebhooks", "conversions"];
        if lists.iter().all(|list| entries(&described, list).is_empty()) {
            return Ok(None);
        }
        let host = host.unwrap_or(THIS_MACHINE);
        let certificates = TemporaryDirectory::create()?;
        let authority = tls::issue(certificates.path(), host)?;
        Ok(Some(Self {
            name: project.to_owned(),
            host: host.to_owned(),
            port: free_port()?,
            authority,
            described,
            certificates,
            registered: Vec::new(),
        }))
    }

    /// Returns the operator's flags for its webhook server, which listens on the loopback interface unless the cluster
    /// is on another machine.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--webhook-cert-path={}", self.certificates.path().display()),
            format!("--webhook-port={}", self.port),
        ];
        if self.host == THIS_MACHINE {
            arguments.push(format!("--webhook-host={THIS_MACHINE}"));
        }
        arguments
    }

    /// Returns the requirement on an existing cluster.
    pub(crate) fn requirement(&self) -> String {
        let Self { host, port, .. } = self;
        let means = if host == THIS_MACHINE {
            "it must run on this machine, outside of containers; if it does not, set an address of this machine that it can reach with `--webhook-host`"
        } else {
            "the name must resolve there, and no firewall may block the port"
        };
        format!("The API server must be able to connect to https://{host}:{port}: {means}.")
    }

    /// Registers the webhooks after the operator listens.
    pub(crate) async fn register(&mut self, api: &Api, report: &Report) -> Result<(), Failure> {
        self.listening().await?;
        for (list, kind, plural) in [
            (
                "mutatingWebhooks",
                "MutatingWebhookConfiguration",
                "mutatingwebhookconfigurations",
            ),
            (
                "validatingWebhooks",
                "ValidatingWebhookConfiguration",
                "validatingwebhookconfigurations",
            ),
        ] {
            let webhooks: Vec<Value> = entries(&self.described, list)
                .iter()
                .map(|entry| self.by_url(entry))
                .collect();
            if webhooks.is_empty() {
                continue;
            }
            let name = format!("{}-local", self.name);
            let collection = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
            let path = format!("{collection}/{name}");
            // Left over from a run that was not stopped properly.
            api.remove(&path).await?;
            let object = json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": name},
                "webhooks": webhooks,
            });
            api.create(&collection, &object).await?;
            self.registered.push(Registered::Object(path));
            report.progress(&format!("{} {name} calls {}:{}", kind, self.host, self.port));
        }
        for entry in entries(&self.described, "conversions") {
            self.convert(api, &entry).await?;
        }
        Ok(())
    }

    async fn convert(&mut self, api: &Api, entry: &Value) -> Result<(), Failure> {
        let name = entry["crd"].as_str().unwrap_or_default();
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        let Some(definition) = api.get(&path).await? else {
            return Err(WebhookError::NoDefinition(name.to_owned()).into());
        };
        let mut conversion = entry["conversion"].clone();
        let client = &mut conversion["webhook"]["clientConfig"];
        *client = self.client_config(client);
        api.merge_patch(&path, &json!({"spec": {"conversion": conversion}}))
            .await?;
        self.registered.push(Registered::Conversion {
            path,
            before: definition["spec"]["conversion"].clone(),
        });
        Ok(())
    }

    /// Undoes all registrations, and returns the first error.
    pub(crate) async fn unregister(&mut self, api: &Api) -> Result<(), ApiError> {
        let mut outcome = Ok(());
        for registered in self.registered.drain(..).rev() {
            let taken = match registered {
                Registered::Object(path) => api.remove(&path).await.map(drop),
                Registered::Conversion { path, before } => {
                    // A merge patch would keep the webhook next to the strategy None.
                    let webhook = before.get("webhook").cloned().unwrap_or_default();
                    let patch =
                        json!({"spec": {"conversion": {"strategy": before["strategy"], "webhook": webhook}}});
                    api.merge_patch(&path, &patch).await.map(drop)
                }
            };
            outcome = outcome.and(taken);
        }
        outcome
    }

    fn by_url(&self, entry: &Value) -> Value {
        let mut entry = entry.clone();
        let config = self.client_config(&entry["clientConfig"]);
        // The API server rejects other values.
        if let Some(entry) = entry.as_object_mut() {
            entry.insert("clientConfig".to_owned(), config);
        }
        entry
    }

    fn client_config(&self, service: &Value) -> Value {
        let path = service
            .pointer("/service/path")
            .and_then(Value::as_str)
            .unwrap_or("/");
        json!({
            "url": format!("https://{}:{}{path}", self.host, self.port),
            "caBundle": BASE64_STANDARD.encode(&self.authority),
        })
    }

    async fn listening(&self) -> Result<(), WebhookError> {
        let connect = async {
            // Only a connection shows that the operator listens.
            while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))
                .await
                .is_err()
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let connected = tokio::time::timeout(PATIENCE, connect).await;
        connected.map_err(|_| WebhookError::Silent(self.port))
    }
}

fn entries(described: &Value, list: &str) -> Vec<Value> {
    described
        .get(list)
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}

fn free_port() -> Result<u16, WebhookError> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(WebhookError::Port)?;
    Ok(listener.local_addr().map_err(WebhookError::Port)?.port())
}
