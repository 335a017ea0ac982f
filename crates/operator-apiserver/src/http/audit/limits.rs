//! Limits of the events of one backend: their size and rate.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

/// The size limits of events, `--audit-*-truncate-*` of kube-apiserver.
///
/// A larger event loses its objects, and gets the annotation `audit.k8s.io/truncated`. If it is still too large, it is
/// dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditTruncation {
    /// The maximum size of the events that are sent together, in bytes. Default: 10 MiB.
    pub max_batch_size: usize,
    /// The maximum size of one event, in bytes. Default: 100 KiB.
    pub max_event_size: usize,
}

impl Default for AuditTruncation {
    fn default() -> Self {
        Self {
            max_batch_size: 10 << 20,
            max_event_size: 100 << 10,
        }
    }
}

impl AuditTruncation {
    /// Truncates an event to its limit; returns `None` if it is still too large.
    pub(super) fn apply(&self, mut event: Value) -> Option<Value> {
        if size(&event) <= self.max_event_size {
            return Some(event);
        }
        let fields = event.as_object_mut()?;
        fields.remove("requestObject");
        fields.remove("responseObject");
        let annotations = fields.entry("annotations").or_insert_with(|| json!({}));
        annotations["audit.k8s.io/truncated"] = "true".into();
        if size(&event) <= self.max_event_size {
            return Some(event);
        }
        tracing::error!("audit event dropped: it is too large");
        None
    }
}

/// Returns the size of an event in JSON, in bytes.
pub(super) fn size(event: &Value) -> usize {
    event.to_string().len()
}

/// The maximum rate of requests to a webhook, `--audit-webhook-batch-throttle-*` of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AuditThrottle {
    /// The average number of requests per second. Default: 10.
    pub qps: f64,
    /// The number of requests that may be sent at once. Default: 15.
    pub burst: u32,
}

impl Default for AuditThrottle {
    fn default() -> Self {
        Self { qps: 10.0, burst: 15 }
    }
}

/// A token bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    throttle: AuditThrottle,
    tokens: f64,
    updated: Instant,
}

impl Bucket {
    pub(super) fn new(throttle: AuditThrottle) -> Self {
        Self {
            throttle,
            tokens: f64::from(throttle.burst.max(1)),
            updated: Instant::now(),
        }
    }

    /// Takes a token; returns the delay after which it may be used.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let qps = self.throttle.qps.max(0.001);
        let added = now.saturating_duration_since(self.updated).as_secs_f64() * qps;
        self.tokens = (self.tokens + added).min(f64::from(self.throttle.burst.max(1))) - 1.0;
        self.updated = now;
        Duration::from_secs_f64((-self.tokens / qps).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_event_loses_its_objects_and_then_itself() {
        let limits = AuditTruncation {
            max_event_size: 150,
            ..AuditTruncation::default()
        };
        let small = json!({"requestObject": {"k": "v"}});
        assert_eq!(limits.apply(small.clone()), Some(small));
        let large = json!({"verb": "get", "requestObject": "x".repeat(200), "annotations": {"a": "b"}});
        let truncated = json!({"verb": "get", "annotations": {"a": "b", "audit.k8s.io/truncated": "true"}});
        assert_eq!(limits.apply(large), Some(truncated));
        assert_eq!(limits.apply(json!({"requestURI": "x".repeat(200)})), None);
    }

    #[test]
    fn a_burst_is_followed_by_the_average_rate() {
        let mut bucket = Bucket::new(AuditThrottle { qps: 10.0, burst: 2 });
        let start = Instant::now();
        let wait = |duration: Duration| duration.as_millis();
        let waits: Vec<u128> = (0..4).map(|_| wait(bucket.take(start))).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        // After a pause, exactly one burst is possible again.
        let later = start + Duration::from_secs(60);
        let waits: Vec<u128> = (0..3).map(|_| wait(bucket.take(later))).collect();
        assert_eq!(waits, [0, 0, 100]);
    }
}
