//! The audit log: writes an event for each stage of a request to a file and to a webhook, as the audit policy demands.
//!
//! A full disk or a webhook that does not respond does not delay a request, unless the mode of the backend is blocking:
//! events are dropped and logged.

mod limits;
mod log;
mod policy;
mod webhook;

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, USER_AGENT};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

pub use self::limits::{AuditThrottle, AuditTruncation};
pub use self::log::AuditLog;
use self::policy::{Level, Policy, Stage, Verdict};
pub use self::webhook::AuditWebhook;
use crate::http::call::{Answer, Call, Content, hold};
use crate::http::handler::Handler;
use crate::identity::authn::User;
use crate::status::Status;
use crate::webhook_client::Services;
use apimachinery::object;

/// Options of the audit log: the policy, and the backends that events are written to.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AuditOptions {
    /// The Policy of `audit.k8s.io/v1`, in YAML or JSON; without one, nothing is recorded.
    pub policy: String,
    /// The file to write to.
    pub log: Option<AuditLog>,
    /// The webhook to send to.
    pub webhook: Option<AuditWebhook>,
}

impl AuditOptions {
    /// Returns options with this policy and no backend.
    pub fn new(policy: impl Into<String>) -> Self {
        Self {
            policy: policy.into(),
            ..Self::default()
        }
    }
}

/// The time at which a backend receives the events: `--audit-*-mode` of kube-apiserver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditMode {
    /// In the background. A log file is written at once in this mode, too.
    #[default]
    Batch,
    /// Before the request is handled, and before the response.
    Blocking,
    /// Like `Blocking`; in addition, a request is rejected if its first event cannot be stored.
    BlockingStrict,
}

/// The events that a request waits for; each results in true if it was stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits(Arc<Mutex<Vec<oneshot::Receiver<bool>>>>);

impl Waits {
    fn push(&self, wait: oneshot::Receiver<bool>) {
        self.0.lock().push(wait);
    }

    /// Waits for all events so far; returns false if one of them was not stored.
    pub(crate) async fn wait(&self) -> bool {
        let waits = std::mem::take(&mut *self.0.lock());
        let mut all = true;
        for wait in waits {
            all &= wait.await.unwrap_or(false);
        }
        all
    }
}

/// The audit log of one server.
#[derive(Debug)]
pub(crate) struct Audit {
    policy: Policy,
    log: Option<Mutex<log::Writer>>,
    webhook: Option<webhook::Sender>,
}

impl Audit {
    /// Opens the backends.
    ///
    /// # Errors
    /// Returns an error if the policy is invalid, the file cannot be written, or the webhook's configuration cannot be
    /// read.
    pub(crate) fn new(options: AuditOptions) -> Result<Self, String> {
        let policy = Policy::parse(&options.policy).map_err(|why| format!("the audit policy: {why}"))?;
        let log = options.log.map(|log| {
            let path = log.path.display().to_string();
            log::Writer::open(log).map_err(|error| format!("the audit log {path}: {error}"))
        });
        let webhook = options
            .webhook
            .map(|webhook| webhook::Sender::new(webhook).map_err(|why| format!("the audit webhook: {why}")));
        Ok(Self {
            policy,
            log: log.transpose()?.map(Mutex::new),
            webhook: webhook.transpose()?,
        })
    }

    /// Sends an event to the backends. Returns false if the request must be rejected because the event cannot be
    /// stored.
    fn emit(&self, services: &Weak<Services>, event: Value, waits: &Waits) -> bool {
        let mut is_stored = true;
        if let Some(log) = &self.log {
            let mut log = log.lock();
            if let Err(error) = log.write(&event) {
                tracing::error!(%error, "audit event not written");
                is_stored = log.mode() != AuditMode::BlockingStrict;
            }
        }
        if let Some(webhook) = &self.webhook {
            let wait = webhook.send(services, event);
            if let Some(wait) = wait {
                waits.push(wait);
            }
        }
        is_stored
    }

    /// Returns true if a request must be rejected when its first event was not sent.
    pub(crate) fn is_strict(&self) -> bool {
        let webhook = self.webhook.as_ref();
        webhook.is_some_and(|webhook| webhook.mode() == AuditMode::BlockingStrict)
    }
}

/// The audit record of one request.
#[derive(Debug)]
pub(crate) struct Record {
    services: Weak<Services>,
    audit: Arc<Audit>,
    verdict: Verdict,
    /// The common fields of the events of all stages.
    base: Map<String, Value>,
    request_object: Mutex<Option<Value>>,
    pub(crate) waits: Waits,
}

/// The URI and the client address of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) uri: String,
    pub(crate) address: Option<IpAddr>,
}

/// Starts the record of a request whose user is known, and writes its first stage. Returns `None` if the policy does
/// not record the request.
///
/// # Errors
/// Returns an error if the event cannot be stored and the mode is [`AuditMode::BlockingStrict`].
pub(crate) async fn begin(handler: &Handler, call: &Call) -> Result<Option<Arc<Record>>, Answer> {
    let Some(record) = Record::new(handler, call, &call.user) else {
        return Ok(None);
    };
    let is_written = record.emit(Stage::RequestReceived, record.base.clone());
    let is_sent = record.waits.wait().await || !record.audit.is_strict();
    if is_written && is_sent {
        return Ok(Some(Arc::new(record)));
    }
    let path = apimachinery::go::quote(&call.info.path);
    let text = format!("Internal Server Error: {path}: failed to store audit event\n");
    Err(Answer::text(StatusCode::INTERNAL_SERVER_ERROR, &text))
}

/// Writes the only stage of a request whose user is not known.
pub(crate) fn unauthenticated(handler: &Handler, call: &Call, refusal: &Status) {
    let Some(record) = Record::new(handler, call, &User::default()) else {
        return;
    };
    let mut event = record.base.clone();
    event.insert(
        "responseStatus".to_owned(),
        response_status(refusal.code, Some(&refusal.body)),
    );
    record.emit(Stage::ResponseStarted, event);
}

/// Writes the last stages of a request; for a stream, they are written when the stream ends.
pub(crate) fn complete(call: &Call, answer: &mut Answer) {
    let Some(record) = &call.audit else { return };
    let response = match &answer.content {
        Content::Whole(bytes) if is_json(answer) && record.wants_response(answer.code.as_u16()) => {
            serde_json::from_slice(bytes).ok()
        }
        _ => None,
    };
    let event = record.completed(call, answer.code.as_u16(), response);
    let content = std::mem::replace(&mut answer.content, Content::Whole(Bytes::new()));
    answer.content = match content {
        Content::Whole(bytes) => {
            record.emit(Stage::ResponseComplete, event);
            Content::Whole(bytes)
        }
        Content::Stream(body) => {
            record.emit(Stage::ResponseStarted, event.clone());
            let last = Last {
                record: record.clone(),
                event,
            };
            Content::Stream(hold(body, last))
        }
    };
}

fn is_json(answer: &Answer) -> bool {
    let media = answer.headers.get(CONTENT_TYPE);
    media
        .and_then(|media| media.to_str().ok())
        .is_some_and(|media| media.starts_with("application/json"))
}

impl Record {
    fn new(handler: &Handler, call: &Call, user: &User) -> Option<Self> {
        let audit = handler.audit.clone()?;
        let verdict = audit.policy.verdict(user, &call.info);
        if verdict.level == Level::None {
            return None;
        }
        let level = verdict.level;
        let mut base = Map::new();
        let mut put = |field: &str, value: Value| {
            if !value.is_null() {
                base.insert(field.to_owned(), value);
            }
        };
        put("kind", "Event".into());
        put("apiVersion", "audit.k8s.io/v1".into());
        put("level", level.name().into());
        put("auditID", call.audit_id.as_str().into());
        put("requestURI", call.origin.uri.as_str().into());
        put("verb", call.info.verb.into());
        put("user", user.info());
        put("sourceIPs", sources(call));
        match call.header(USER_AGENT) {
            "" => {}
            agent => put("userAgent", agent.into()),
        }
        put("objectRef", object_reference(call));
        put("requestReceivedTimestamp", now().into());
        Some(Self {
            services: Arc::downgrade(&handler.registry.services),
            audit,
            verdict,
            base,
            request_object: Mutex::default(),
            waits: call.audit_waits.clone(),
        })
    }

    /// Returns true if the audit policy records the object of the request.
    pub(crate) fn wants_request(&self) -> bool {
        self.verdict.level >= Level::Request
    }

    /// Records the object of the request, as it was decoded.
    pub(crate) fn request_object(&self, object: &Value) {
        if self.wants_request() {
            *self.request_object.lock() = Some(object.clone());
        }
    }

    /// Returns true if the audit policy records the object of the response. Errors are recorded with their Status at
    /// each level.
    fn wants_response(&self, code: u16) -> bool {
        self.verdict.level == Level::RequestResponse || code >= 400 || code == 200
    }

    fn completed(&self, call: &Call, code: u16, response: Option<Value>) -> Map<String, Value> {
        let mut event = self.base.clone();
        if let Some(user) = &call.impersonated {
            event.insert("impersonatedUser".to_owned(), user.info());
        }
        let is_status = response.as_ref().is_some_and(is_status);
        let status = response.as_ref().filter(|_| is_status);
        event.insert("responseStatus".to_owned(), response_status(code, status));
        let mut request = self.request_object.lock().take();
        self.complete_reference(
            &mut event,
            request.as_ref(),
            response.as_ref().filter(|_| !is_status),
        );
        if let Some(request) = &mut request {
            self.strip(request);
            event.insert("requestObject".to_owned(), request.take());
        }
        if let Some(mut response) = response.filter(|_| self.verdict.level == Level::RequestResponse) {
            self.strip(&mut response);
            event.insert("responseObject".to_owned(), response);
        }
        let annotations: Map<String, Value> = call
            .warnings
            .annotations()
            .into_iter()
            .map(|(key, value)| (key, value.into()))
            .collect();
        if !annotations.is_empty() {
            event.insert("annotations".to_owned(), annotations.into());
        }
        event
    }

    /// Completes the object reference from the metadata of the request object and the response object.
    fn complete_reference(
        &self,
        event: &mut Map<String, Value>,
        request: Option<&Value>,
        response: Option<&Value>,
    ) {
        let Some(reference) = event.get_mut("objectRef").and_then(Value::as_object_mut) else {
            return;
        };
        let sources = [(request, true), (response, false)];
        for (object, is_request) in sources {
            let Some(object) = object.filter(|object| object.is_object()) else {
                continue;
            };
            let fields: &[&str] = if is_request {
                &["name", "namespace", "uid", "resourceVersion"]
            } else {
                &["name"]
            };
            for field in fields {
                let text = object::text(object, &["metadata", field]);
                if !text.is_empty() && !reference.contains_key(*field) {
                    reference.insert((*field).to_owned(), text.into());
                }
            }
        }
    }

    /// Removes managed fields from an object or the items of a list, if the policy omits them.
    fn strip(&self, object: &mut Value) {
        if !self.verdict.omits_managed_fields {
            return;
        }
        let remove = |object: &mut Value| {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
        };
        remove(object);
        let items = object.get_mut("items").and_then(Value::as_array_mut);
        items.into_iter().flatten().for_each(remove);
    }

    /// Writes an event. Returns false if it could not be written and the mode demands it.
    fn emit(&self, stage: Stage, mut event: Map<String, Value>) -> bool {
        if self.verdict.omitted.contains(&stage) {
            return true;
        }
        event.insert("stage".to_owned(), stage.name().into());
        event.insert("stageTimestamp".to_owned(), now().into());
        self.audit.emit(&self.services, event.into(), &self.waits)
    }
}

fn is_status(value: &Value) -> bool {
    object::text(value, &["kind"]) == "Status" && object::text(value, &["apiVersion"]) == "v1"
}

/// Returns the status of a response, without its type.
fn response_status(code: u16, status: Option<&Value>) -> Value {
    let mut response = match status {
        Some(Value::Object(status)) => status.clone(),
        _ => Map::new(),
    };
    for field in ["kind", "apiVersion"] {
        response.remove(field);
    }
    response.entry("metadata").or_insert_with(|| json!({}));
    response.insert("code".to_owned(), code.into());
    response.into()
}

fn object_reference(call: &Call) -> Value {
    let info = &call.info;
    if !info.is_resource {
        return Value::Null;
    }
    let mut reference = Map::new();
    for (field, text) in [
        ("resource", &info.resource),
        ("namespace", &info.namespace),
        ("name", &info.name),
        ("apiGroup", &info.group),
        ("apiVersion", &info.version),
        ("subresource", &info.subresource),
    ] {
        if !text.is_empty() {
            reference.insert(field.to_owned(), text.as_str().into());
        }
    }
    reference.into()
}

/// Returns the addresses in `X-Forwarded-For`, followed by the address of the connection.
fn sources(call: &Call) -> Value {
    let mut addresses: Vec<String> = Vec::new();
    if let Some(forwarded) = call
        .headers
        .get("x-forwarded-for")
        .and_then(|value| value.to_str().ok())
    {
        let given = forwarded.split(',').map(str::trim);
        let given = given.filter(|address| address.parse::<IpAddr>().is_ok());
        addresses.extend(given.map(str::to_owned));
    }
    let own = call.origin.address.map(|address| address.to_string());
    addresses.extend(own.filter(|own| addresses.last() != Some(own)));
    if addresses.is_empty() {
        return Value::Null;
    }
    addresses.into()
}

/// Returns the current time in microseconds, in the format of events.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// The last event of a stream, written when the stream is dropped.
struct Last {
    record: Arc<Record>,
    event: Map<String, Value>,
}

impl Drop for Last {
    fn drop(&mut self) {
        let event = std::mem::take(&mut self.event);
        self.record.emit(Stage::ResponseComplete, event);
    }
}
