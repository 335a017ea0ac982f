//! The flags of the audit log.

use std::str::FromStr;

use operator_apiserver::{AuditLog, AuditOptions, AuditWebhook, Builder};

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
    const MODE: &str = "audit-webhook-mode";
    match given.value(MODE) {
        None | Some("batch") => {}
        Some("blocking" | "blocking-strict") => {
            // Each event is sent immediately; requests do not wait for it.
            webhook.max_size = 1;
        }
        Some(other) => {
            return Err(bad_value(
                MODE,
                other,
                "it must be batch, blocking or blocking-strict",
            ));
        }
    }
    Ok(Some(webhook))
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
