//! The flags of the audit log.

use std::str::FromStr;

use operator_apiserver::{
    AuditLog, AuditMode, AuditOptions, AuditThrottle, AuditTruncation, AuditWebhook, Builder,
};

use super::{bad_value, duration, text};
use crate::args::go_flags::GoFlags;
use crate::failure::Failure;

const POLICY: &str = "audit-policy-file";
const LOG: &str = "audit-log-path";
const WEBHOOK: &str = "audit-webhook-config-file";

/// Enables auditing if there is a policy and a destination.
pub(super) fn configure(builder: Builder, given: &GoFlags) -> Result<Builder, Failure> {
    let (log, webhook) = (log(given)?, webhook(given)?);
    if log.is_none() && webhook.is_none() {
        return Ok(builder);
    }
    let Some(path) = given.value(POLICY) else {
        // As in kube-apiserver, nothing is recorded without a policy.
        return Ok(builder);
    };
    let mut options = AuditOptions::new(text(POLICY, path)?);
    options.log = log;
    options.webhook = webhook;
    Ok(builder.audit(options))
}

fn log(given: &GoFlags) -> Result<Option<AuditLog>, Failure> {
    let Some(path) = given.value(LOG) else {
        return Ok(None);
    };
    let mut log = AuditLog::new(path);
    log.max_age_days = number(given, "audit-log-maxage", 0)?;
    log.max_backups = number(given, "audit-log-maxbackup", 0)?;
    log.max_size_megabytes = number(given, "audit-log-maxsize", 0)?;
    const FORMAT: &str = "audit-log-format";
    log.legacy = match given.value(FORMAT) {
        None | Some("json") => false,
        Some("legacy") => true,
        Some(other) => return Err(bad_value(FORMAT, other, "it must be json or legacy")),
    };
    log.mode = mode(given, "audit-log-mode", log.mode)?;
    log.truncation = truncation(given, &LOG_TRUNCATION)?;
    Ok(Some(log))
}

fn webhook(given: &GoFlags) -> Result<Option<AuditWebhook>, Failure> {
    let Some(path) = given.value(WEBHOOK) else {
        return Ok(None);
    };
    let mut webhook = AuditWebhook::new(text(WEBHOOK, path)?);
    webhook.buffer_size = number(given, "audit-webhook-batch-buffer-size", webhook.buffer_size)?;
    webhook.max_size = number(given, "audit-webhook-batch-max-size", webhook.max_size)?;
    webhook.max_wait = duration(given, "audit-webhook-batch-max-wait", webhook.max_wait)?;
    webhook.initial_backoff = duration(given, "audit-webhook-initial-backoff", webhook.initial_backoff)?;
    webhook.mode = mode(given, "audit-webhook-mode", webhook.mode)?;
    webhook.truncation = truncation(given, &WEBHOOK_TRUNCATION)?;
    webhook.throttle = throttle(given)?;
    Ok(Some(webhook))
}

fn mode(given: &GoFlags, flag: &'static str, default: AuditMode) -> Result<AuditMode, Failure> {
    match given.value(flag) {
        None => Ok(default),
        Some("batch") => Ok(AuditMode::Batch),
        Some("blocking") => Ok(AuditMode::Blocking),
        Some("blocking-strict") => Ok(AuditMode::BlockingStrict),
        Some(other) => {
            let why = "it must be batch, blocking or blocking-strict";
            Err(bad_value(flag, other, why))
        }
    }
}

/// The flags of truncation: enabled, batch size, event size.
type TruncationFlags = [&'static str; 3];

const LOG_TRUNCATION: TruncationFlags = [
    "audit-log-truncate-enabled",
    "audit-log-truncate-max-batch-size",
    "audit-log-truncate-max-event-size",
];
const WEBHOOK_TRUNCATION: TruncationFlags = [
    "audit-webhook-truncate-enabled",
    "audit-webhook-truncate-max-batch-size",
    "audit-webhook-truncate-max-event-size",
];

fn truncation(given: &GoFlags, flags: &TruncationFlags) -> Result<Option<AuditTruncation>, Failure> {
    let [enabled, batch, event] = *flags;
    if given.value(enabled) != Some("true") {
        return Ok(None);
    }
    let mut limits = AuditTruncation::default();
    limits.max_batch_size = number(given, batch, limits.max_batch_size)?;
    limits.max_event_size = number(given, event, limits.max_event_size)?;
    if limits.max_event_size > limits.max_batch_size {
        let why = format!("it is larger than --{batch}");
        return Err(bad_value(event, given.value(event).unwrap_or_default(), why));
    }
    Ok(Some(limits))
}

fn throttle(given: &GoFlags) -> Result<Option<AuditThrottle>, Failure> {
    const QPS: &str = "audit-webhook-batch-throttle-qps";
    if given.value("audit-webhook-batch-throttle-enable") == Some("false") {
        return Ok(None);
    }
    let mut limits = AuditThrottle::default();
    limits.burst = number(given, "audit-webhook-batch-throttle-burst", limits.burst)?;
    if let Some(text) = given.value(QPS) {
        limits.qps = text.parse().map_err(|error| bad_value(QPS, text, error))?;
    }
    Ok(Some(limits))
}

fn number<T>(given: &GoFlags, flag: &'static str, default: T) -> Result<T, Failure>
where
    T: FromStr<Err = std::num::ParseIntError>,
{
    match given.value(flag) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|error| bad_value(flag, text, error)),
    }
}
