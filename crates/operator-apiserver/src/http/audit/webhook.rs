//! The audit webhook: sends events in batches from its own task, and drops events if the queue is full.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::limits::{self, Bucket};
use super::{AuditMode, AuditThrottle, AuditTruncation};
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
    /// The maximum number of queued events; further ones are dropped. Default: 10,000.
    pub buffer_size: usize,
    /// The maximum number of events of a batch. Default: 400.
    pub max_size: usize,
    /// The maximum time that an event waits for its batch to fill. Default: 30 seconds.
    pub max_wait: Duration,
    /// The delay before a failed batch is sent again; it grows by half with each attempt. Default: 10 seconds.
    pub initial_backoff: Duration,
    /// The mode. Default: [`AuditMode::Batch`].
    pub mode: AuditMode,
    /// The size limits of events. Default: none.
    pub truncation: Option<AuditTruncation>,
    /// The maximum rate of batches. Default: 10 per second, with bursts of 15.
    pub throttle: Option<AuditThrottle>,
}

impl AuditWebhook {
    /// Returns options for the webhook of a kubeconfig, with the defaults of kube-apiserver.
    pub fn new(kubeconfig: impl Into<String>) -> Self {
        Self {
            kubeconfig: kubeconfig.into(),
            buffer_size: 10_000,
            max_size: 400,
            max_wait: Duration::from_secs(30),
            initial_backoff: Duration::from_secs(10),
            mode: AuditMode::Batch,
            truncation: None,
            throttle: Some(AuditThrottle::default()),
        }
    }
}

/// The channel to the sending task, which starts with the first event.
#[derive(Debug)]
pub(super) struct Sender {
    options: AuditWebhook,
    client: Arc<WebhookClient>,
    queue: OnceLock<mpsc::Sender<Value>>,
}

impl Sender {
    pub(super) fn new(options: AuditWebhook) -> Result<Self, String> {
        let client = WebhookClient::from_kubeconfig(&options.kubeconfig)?;
        Ok(Self {
            options,
            client: Arc::new(client),
            queue: OnceLock::new(),
        })
    }

    pub(super) fn mode(&self) -> AuditMode {
        self.options.mode
    }

    /// Queues an event, or drops it if the queue is full. In a blocking mode, the event is sent at once, and the
    /// receiver gets true if it has arrived.
    pub(super) fn send(&self, services: &Weak<Services>, event: Value) -> Option<oneshot::Receiver<bool>> {
        let event = match self.options.truncation {
            Some(truncation) => truncation.apply(event)?,
            None => event,
        };
        let (services, options) = (services.clone(), self.options.clone());
        let client = self.client.clone();
        if options.mode != AuditMode::Batch {
            let (done, wait) = oneshot::channel();
            // A stream may end outside a runtime.
            let runtime = tokio::runtime::Handle::try_current().ok()?;
            runtime.spawn(async move {
                let is_sent = deliver(&client, &services, &options, &[event]).await;
                let _ = done.send(is_sent);
            });
            return Some(wait);
        }
        let queue = self.queue.get_or_init(|| {
            let (sender, events) = mpsc::channel(self.options.buffer_size.max(1));
            tokio::spawn(run(client, services, options, events));
            sender
        });
        if queue.try_send(event).is_err() {
            tracing::error!("audit event dropped: the webhook is too slow");
        }
        None
    }
}

async fn run(
    client: Arc<WebhookClient>,
    services: Weak<Services>,
    options: AuditWebhook,
    mut events: mpsc::Receiver<Value>,
) {
    let mut bucket = options.throttle.map(Bucket::new);
    while let Some(batch) = batch(&options, &mut events).await {
        if let Some(bucket) = &mut bucket {
            tokio::time::sleep(bucket.take(Instant::now())).await;
        }
        let limit = options
            .truncation
            .map_or(usize::MAX, |limits| limits.max_batch_size);
        for part in parts(&batch, limit) {
            deliver(&client, &services, &options, part).await;
        }
        if services.strong_count() == 0 {
            return;
        }
    }
}

/// Splits events into parts of at most `limit` bytes; each part has at least one event.
fn parts(events: &[Value], limit: usize) -> Vec<&[Value]> {
    let mut parts = Vec::new();
    let (mut start, mut total) = (0, 0_usize);
    for (index, event) in events.iter().enumerate() {
        let size = if limit == usize::MAX {
            0
        } else {
            limits::size(event)
        };
        if index > start && total.saturating_add(size) > limit {
            parts.extend(events.get(start..index));
            (start, total) = (index, 0);
        }
        total = total.saturating_add(size);
    }
    parts.extend(events.get(start..));
    parts
}

/// Sends events, with retries; returns true if they have arrived.
async fn deliver(
    client: &WebhookClient,
    services: &Weak<Services>,
    options: &AuditWebhook,
    events: &[Value],
) -> bool {
    let body = json!({
        "kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": events,
    });
    let mut wait = options.initial_backoff;
    for attempt in 1..=TRIES {
        let Some(services) = services.upgrade() else {
            return false;
        };
        let sent = client
            .send(&services, USER_AGENT, body.to_string(), TIMEOUT)
            .await;
        drop(services);
        let why = match sent {
            Ok((code, _)) if code < 300 => return true,
            // Other client errors are permanent.
            Ok((code, _)) if code < 500 && code != 429 => {
                tracing::error!(code, "the audit webhook rejected events");
                return false;
            }
            Ok((code, _)) => format!("it responded with the status code {code}"),
            Err(error) => error.to_string(),
        };
        if attempt == TRIES {
            tracing::error!(why, "audit events lost: the webhook failed too often");
            break;
        }
        tokio::time::sleep(wait).await;
        wait = wait.saturating_mul(3) / 2;
    }
    false
}

/// Returns the next batch: it is full, or its first event has waited for the maximum time.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_split_by_their_size() {
        let events: Vec<Value> = ["a", "bb", "cccccccc", "d"]
            .into_iter()
            .map(Value::from)
            .collect();
        let sizes =
            |limit: usize| -> Vec<usize> { parts(&events, limit).iter().map(|part| part.len()).collect() };
        assert_eq!(sizes(usize::MAX), [4]);
        assert_eq!(sizes(7), [2, 1, 1]);
        assert_eq!(sizes(1), [1, 1, 1, 1]);
    }
}
