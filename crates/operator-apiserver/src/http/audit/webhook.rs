//! The audit webhook: sends events in batches from its own task; drops them if there are too many.

use std::sync::{OnceLock, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::webhook_client::{Services, WebhookClient};

const USER_AGENT: &str = "kube-apiserver-audit";
/// The time limit of one request to the webhook.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The number of attempts to send a batch before it is dropped.
const TRIES: u32 = 5;

/// The webhook that events are sent to: `--audit-webhook-*` of kube-apiserver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditWebhook {
    /// The kubeconfig with the address and the credentials of the webhook.
    pub kubeconfig: String,
    /// The maximum number of queued events; further ones are dropped; 10,000.
    pub buffer_size: usize,
    /// The number of events of a batch; 400.
    pub max_size: usize,
    /// The maximum time that an event waits for its batch to fill; 30 seconds.
    pub max_wait: Duration,
    /// The delay before a failed batch is sent again; 10 seconds. It grows by half each time.
    pub initial_backoff: Duration,
}

impl AuditWebhook {
    /// Returns the webhook of a kubeconfig, with the defaults of kube-apiserver.
    pub fn new(kubeconfig: impl Into<String>) -> Self {
        Self {
            kubeconfig: kubeconfig.into(),
            buffer_size: 10_000,
            max_size: 400,
            max_wait: Duration::from_secs(30),
            initial_backoff: Duration::from_secs(10),
        }
    }
}

/// The channel to the sending task, which starts with the first event.
#[derive(Debug)]
pub(super) struct Sender {
    options: AuditWebhook,
    queue: OnceLock<mpsc::Sender<Value>>,
}

impl Sender {
    pub(super) fn new(options: AuditWebhook) -> Result<Self, String> {
        WebhookClient::from_kubeconfig(&options.kubeconfig)?;
        Ok(Self {
            options,
            queue: OnceLock::new(),
        })
    }

    /// Queues an event; drops it if the queue is full.
    pub(super) fn send(&self, services: &Weak<Services>, event: Value) {
        let queue = self.queue.get_or_init(|| {
            let (sender, events) = mpsc::channel(self.options.buffer_size.max(1));
            tokio::spawn(run(services.clone(), self.options.clone(), events));
            sender
        });
        if queue.try_send(event).is_err() {
            tracing::error!("audit event dropped: the webhook is too slow");
        }
    }
}

async fn run(services: Weak<Services>, options: AuditWebhook, mut events: mpsc::Receiver<Value>) {
    let Ok(client) = WebhookClient::from_kubeconfig(&options.kubeconfig) else {
        return;
    };
    while let Some(batch) = batch(&options, &mut events).await {
        let body = json!({
            "kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": batch,
        });
        let mut wait = options.initial_backoff;
        for attempt in 1..=TRIES {
            let Some(services) = services.upgrade() else {
                return;
            };
            let sent = client
                .send(&services, USER_AGENT, body.to_string(), TIMEOUT)
                .await;
            drop(services);
            let why = match sent {
                Ok((code, _)) if code < 300 => break,
                // A refusal stays one.
                Ok((code, _)) if code < 500 && code != 429 => {
                    tracing::error!(code, "the audit webhook rejected events");
                    break;
                }
                Ok((code, _)) => format!("it answered with the code {code}"),
                Err(error) => error.to_string(),
            };
            if attempt == TRIES {
                tracing::error!(why, "audit events lost: the webhook failed too often");
                break;
            }
            tokio::time::sleep(wait).await;
            wait = wait.saturating_mul(3) / 2;
        }
    }
}

/// Returns the next batch: as many events as its limit, or those that came before the first one reached the maximum
/// wait.
async fn batch(options: &AuditWebhook, events: &mut mpsc::Receiver<Value>) -> Option<Vec<Value>> {
    let mut batch = vec![events.recv().await?];
    let end = Instant::now() + options.max_wait;
    while batch.len() < options.max_size.max(1) {
        match tokio::time::timeout_at(end, events.recv()).await {
            Ok(Some(event)) => batch.push(event),
            Ok(None) | Err(_) => break,
        }
    }
    Some(batch)
}
