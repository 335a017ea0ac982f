//! EventRateLimit: limits the rate at which events are written. It is off by default.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use apimachinery::object;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::attributes::Attributes;
use super::configuration::EventLimit;
use crate::admission::Operation;
use crate::status::{self, Status};

/// The limits of a server, with their state.
#[derive(Debug, Default)]
pub(crate) struct EventLimits(Vec<Limiter>);

#[derive(Debug)]
struct Limiter {
    limit: EventLimit,
    buckets: Mutex<Buckets>,
}

/// The token buckets by key, with the keys in the order of their first use.
#[derive(Debug, Default)]
struct Buckets {
    by_key: HashMap<String, Bucket>,
    order: VecDeque<String>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    since: Instant,
}

impl EventLimits {
    pub(crate) fn new(limits: &[EventLimit]) -> Self {
        let limiter = |limit: &EventLimit| Limiter {
            limit: limit.clone(),
            buckets: Mutex::default(),
        };
        Self(limits.iter().map(limiter).collect())
    }
}

/// Checks an event of the core group that is created or changed.
pub(super) fn check(limits: &EventLimits, attributes: &Attributes<'_>) -> Result<(), Status> {
    let write = attributes.write;
    let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
    if !is_write || write.dry_run || !write.definition.is("", "events") || !write.subresource.is_empty() {
        return Ok(());
    }
    // All limits are charged, and the last error is the answer.
    let refused = limits.0.iter().filter_map(|limiter| limiter.refuse(attributes));
    refused.last().map_or(Ok(()), Err)
}

impl Limiter {
    fn refuse(&self, attributes: &Attributes<'_>) -> Option<Status> {
        let scope = self.limit.scope.as_str();
        let key = match scope {
            "Namespace" => attributes.write.namespace.clone(),
            "User" => attributes.write.user.name.clone(),
            "SourceAndObject" => source_and_object(attributes.object?),
            _ => String::new(),
        };
        if self.take(&key) {
            return None;
        }
        let why = format!("Too many requests: limit reached on type {scope} for key {key}");
        Some(status::rate_limited(&why))
    }

    /// Takes a token of a key; returns false if its bucket is empty.
    fn take(&self, key: &str) -> bool {
        let now = Instant::now();
        let burst = f64::from(self.limit.burst);
        let Buckets { by_key, order } = &mut *self.buckets.lock();
        let bucket = match by_key.get_mut(key) {
            Some(bucket) => bucket,
            None => {
                if by_key.len() >= self.limit.keys_max
                    && let Some(oldest) = order.pop_front()
                {
                    by_key.remove(&oldest);
                }
                order.push_back(key.to_owned());
                by_key.entry(key.to_owned()).or_insert(Bucket {
                    tokens: burst,
                    since: now,
                })
            }
        };
        let passed: Duration = now.duration_since(bucket.since);
        bucket.tokens = (bucket.tokens + passed.as_secs_f64() * self.limit.qps).min(burst);
        bucket.since = now;
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }
}

fn source_and_object(event: &Value) -> String {
    let source = ["component", "host"].map(|field| object::text(event, &["source", field]));
    let fields = ["kind", "namespace", "name", "uid", "apiVersion"];
    let of_object = fields.map(|field| object::text(event, &["involvedObject", field]));
    source.concat() + &of_object.concat()
}
