//! [`EventRecorder`] records Kubernetes events, which `kubectl describe` shows.
//!
//! Recording an event never delays or fails a reconcile: a task of the manager sends the events from a bounded queue.
//! An event that recurs within six minutes increases the count of a series. The rate of different events about an
//! object is limited, so that a loop cannot flood the API server.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, Patch, PatchParams, PostParams};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::correlation::{Correlator, Series, Verdict};
use crate::error::describe;
use crate::object::{Kind, Object, ObjectKey};

mod correlation;

/// The capacity of the queue. Further events are dropped.
const QUEUE: usize = 1000;
/// The interval at which series are updated.
const LOOK: Duration = Duration::from_secs(60);
/// The number of attempts while the API server is unreachable, and the delay between them.
const TRIES: usize = 12;
const PAUSE: Duration = Duration::from_secs(10);
/// Limits of events.k8s.io/v1.
const REASON_LENGTH: usize = 128;
const NOTE_LENGTH: usize = 1024;

/// Records events. Clones share the queue.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<Entry>,
    controller: Arc<str>,
}

/// An event about one object. [`EventWriter::normal`] and [`EventWriter::warning`] record it.
#[derive(Debug)]
#[must_use = "call `normal` or `warning`"]
pub struct EventWriter<'a> {
    recorder: &'a EventRecorder,
    regarding: ObjectReference,
    related: Option<ObjectReference>,
    action: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    /// The reporting controller.
    controller: Arc<str>,
    type_: &'static str,
    regarding: ObjectReference,
    related: Option<ObjectReference>,
    reason: String,
    action: String,
    note: String,
}

/// Sends recorded events.
pub(crate) struct Recorder {
    client: kube::Client,
    queue: mpsc::Receiver<Entry>,
    instance: String,
    correlator: Correlator,
    pause: Duration,
}

/// Creates a recorder and the task that sends its events, with `controller` (the name of the operator) as the reporter.
pub(crate) fn recorder(client: kube::Client, controller: &str, instance: &str) -> (EventRecorder, Recorder) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let recorder = Recorder {
        client,
        queue,
        instance: instance.to_owned(),
        correlator: Correlator::default(),
        pause: PAUSE,
    };
    let recorder_of_operator = EventRecorder {
        queue: sender,
        controller: controller.into(),
    };
    (recorder_of_operator, recorder)
}

// === impl EventRecorder ===

impl EventRecorder {
    /// Starts an event about `object`. The event is in the namespace of the object, or in `default` if the object is
    /// cluster-scoped.
    pub fn event<K: Object>(&self, object: &K) -> EventWriter<'_> {
        self.about_object(&Kind::of::<K>(), object.meta())
    }

    /// Starts an event about an object whose type may not define its kind.
    pub(crate) fn about_object(&self, kind: &Kind, metadata: &ObjectMeta) -> EventWriter<'_> {
        self.about(reference(kind, metadata))
    }

    /// Returns a recorder of the same queue whose events are reported by a controller, such as `memcached-controller`,
    /// instead of the operator.
    #[must_use]
    pub fn named(&self, controller: &str) -> Self {
        Self {
            queue: self.queue.clone(),
            controller: controller.into(),
        }
    }

    /// Starts an event about the referenced object. Use it for kinds without a Rust type, and for objects that are not
    /// in memory.
    pub fn about(&self, regarding: ObjectReference) -> EventWriter<'_> {
        EventWriter {
            recorder: self,
            regarding,
            related: None,
            action: None,
        }
    }
}

fn reference(kind: &Kind, metadata: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some(kind.api_version()),
        kind: Some(kind.kind.clone()),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        ..ObjectReference::default()
    }
}

// === impl EventWriter ===

impl EventWriter<'_> {
    /// Sets the action, in CamelCase. Default: the reason.
    pub fn action(mut self, action: &str) -> Self {
        self.action = Some(action.to_owned());
        self
    }

    /// Sets a related object, such as one that was created.
    pub fn related<K: Object>(mut self, object: &K) -> Self {
        self.related = Some(reference(&Kind::of::<K>(), object.meta()));
        self
    }

    /// Records an event of type `Normal`. `reason` is a machine-readable word in CamelCase of at most 128 characters.
    /// `note` is a human-readable sentence, truncated to 1,024 characters.
    ///
    /// The event is sent in the background: this never waits and never fails. An event is dropped and logged if its
    /// reason is empty or too long, or if 1,000 events are already queued.
    pub fn normal(self, reason: &str, note: impl Into<String>) {
        self.record("Normal", reason, &note.into());
    }

    /// Records an event of type `Warning`, like [`EventWriter::normal`].
    pub fn warning(self, reason: &str, note: impl Into<String>) {
        self.record("Warning", reason, &note.into());
    }

    fn record(self, type_: &'static str, reason: &str, note: &str) {
        if reason.is_empty() || reason.chars().count() > REASON_LENGTH {
            tracing::error!(
                reason,
                note,
                "Event dropped: the reason must have 1 to 128 characters"
            );
            return;
        }
        tracing::debug!(
            r#type = type_,
            reason,
            note,
            object = self.regarding.name,
            "Event"
        );
        let entry = Entry {
            controller: self.recorder.controller.clone(),
            type_,
            regarding: self.regarding,
            related: self.related,
            reason: reason.to_owned(),
            action: self.action.unwrap_or_else(|| reason.to_owned()),
            note: note.chars().take(NOTE_LENGTH).collect(),
        };
        if self.recorder.queue.try_send(entry).is_err() {
            tracing::warn!(
                reason,
                "Event dropped: the queue is full, or the manager has stopped"
            );
        }
    }
}

// === impl Recorder ===

impl Recorder {
    /// Sends events until `stop`, and then those that are still queued.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = look.tick() => {
                    for series in self.correlator.due(crate::clock::instant()) {
                        self.write(&series, &stop).await;
                    }
                }
                entry = self.queue.recv() => match entry {
                    Some(entry) => self.record(&entry, &stop).await,
                    None => break,
                },
            }
        }
        while let Ok(entry) = self.queue.try_recv() {
            self.record(&entry, &stop).await;
        }
        for series in self.correlator.finish() {
            self.write(&series, &stop).await;
        }
    }

    async fn record(&mut self, entry: &Entry, stop: &CancellationToken) {
        let wall = crate::clock::now();
        match self.correlator.judge(entry, crate::clock::instant(), wall) {
            Verdict::Create => self.create(entry, wall, stop).await,
            Verdict::Write(series) => self.write(&series, stop).await,
            Verdict::Count => {}
            Verdict::Drop => {
                tracing::debug!(
                    reason = entry.reason,
                    object = entry.regarding.name,
                    "Event dropped: too many events of this object"
                );
            }
        }
    }

    async fn create(&mut self, entry: &Entry, wall: Timestamp, stop: &CancellationToken) {
        let event = entry.event(&self.instance, wall, crate::clock::random());
        let key = ObjectKey::of(&event);
        let (api, params) = (self.api(&key), PostParams::default());
        match patiently(stop, self.pause, || api.create(&params, &event)).await {
            Ok(_) => self.correlator.created(entry, key, crate::clock::instant(), wall),
            Err(error) => {
                tracing::warn!(reason = entry.reason, error = %describe(&error), "Event not written");
            }
        }
    }

    async fn write(&mut self, series: &Series, stop: &CancellationToken) {
        let observed = EventSeries {
            count: series.count,
            last_observed_time: MicroTime(series.last_observed),
        };
        let patch = Patch::Merge(serde_json::json!({"series": observed}));
        let (api, params, name) = (self.api(&series.key), PatchParams::default(), series.key.name());
        match patiently(stop, self.pause, || api.patch(name, &params, &patch)).await {
            Ok(_) => self.correlator.wrote(series, crate::clock::instant()),
            Err(kube::Error::Api(status)) if status.is_not_found() => self.correlator.gone(series),
            Err(error) => {
                tracing::warn!(event = name, error = %describe(&error), "Event series not written");
            }
        }
    }

    fn api(&self, key: &ObjectKey) -> Api<Event> {
        Api::namespaced(self.client.clone(), key.namespace().unwrap_or("default"))
    }
}

/// Sends a request until the API server responds, a limited number of times, and only once after `stop`.
async fn patiently<T, F>(
    stop: &CancellationToken,
    pause: Duration,
    send: impl Fn() -> F,
) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    for _ in 1..TRIES {
        match send().await {
            Err(error) if !matches!(error, kube::Error::Api(_)) && !stop.is_cancelled() => {
                tracing::debug!(%error, "No response from the API server to an event");
            }
            answered => return answered,
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => break,
        }
    }
    send().await
}

// === impl Entry ===

impl Entry {
    /// Returns the object. Events about cluster-scoped objects are in the namespace `default`.
    fn event(&self, instance: &str, now: Timestamp, suffix: u64) -> Event {
        let subject = self.regarding.name.as_deref().unwrap_or_default();
        let namespace = self.regarding.namespace.as_deref().unwrap_or("default");
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{subject}.{suffix:016x}")),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some(self.type_.to_owned()),
            reason: Some(self.reason.clone()),
            action: Some(self.action.clone()),
            note: Some(self.note.clone()),
            regarding: Some(self.regarding.clone()),
            related: self.related.clone(),
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.controller.as_ref().to_owned()),
            reporting_instance: Some(instance.to_owned()),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node};

    use super::*;

    fn entry(reason: &str) -> Entry {
        Entry {
            controller: "operator".into(),
            type_: "Normal",
            regarding: ObjectReference {
                name: Some("web".to_owned()),
                ..ObjectReference::default()
            },
            related: None,
            reason: reason.to_owned(),
            action: reason.to_owned(),
            note: "done".to_owned(),
        }
    }

    fn queued(queue: mpsc::Sender<Entry>) -> EventRecorder {
        EventRecorder {
            queue,
            controller: "operator".into(),
        }
    }

    #[test]
    fn event_of_a_cluster_scoped_object_is_in_default() {
        let event = entry("Created").event("operator-1", Timestamp::UNIX_EPOCH, 7);
        assert_eq!(
            ObjectKey::of(&event),
            ObjectKey::namespaced("default", "web.0000000000000007")
        );
        assert_eq!(event.reporting_controller.as_deref(), Some("operator"));
    }

    /// Returns the number of attempts with a server that responds from the given attempt on, or rejects the first one.
    async fn attempts(answers_from: usize, refuses: bool) -> usize {
        use std::sync::atomic::{AtomicUsize, Ordering};

        let sent = Arc::new(AtomicUsize::new(0));
        let counted = sent.clone();
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let attempt = counted.fetch_add(1, Ordering::Relaxed) + 1;
            let code = if refuses { 403 } else { 201 };
            let answer = http::Response::builder().status(code);
            std::future::ready(match attempt >= answers_from {
                true => Ok(answer
                    .body(r#"{"metadata":{},"eventTime":null}"#.to_owned())
                    .unwrap()),
                false => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)),
            })
        });
        let client = kube::Client::new(service, "default");
        let (recorder, mut sender) = recorder(client, "operator", "operator-1");
        sender.pause = Duration::from_millis(1);
        recorder.event(&Node::default()).normal("Created", "note");
        drop(recorder);
        sender.run(CancellationToken::new()).await;
        sent.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn event_is_retried_a_limited_number_of_times() {
        assert_eq!(attempts(4, false).await, 4);
        assert_eq!(attempts(usize::MAX, false).await, TRIES);
        assert_eq!(attempts(1, true).await, 1, "rejected events are not retried");
    }

    #[tokio::test]
    async fn events_beyond_the_queue_are_dropped() {
        let (sender, mut queue) = mpsc::channel(2);
        let recorder = queued(sender);
        for reason in ["A", "B", "C"] {
            recorder.event(&Node::default()).normal(reason, "note");
        }
        drop(recorder);
        let mut reasons = Vec::new();
        while let Some(entry) = queue.recv().await {
            reasons.push(entry.reason);
        }
        assert_eq!(reasons, ["A", "B"]);
    }

    #[tokio::test]
    async fn reason_is_checked_and_note_is_cut() {
        let (sender, mut queue) = mpsc::channel(1);
        let recorder = queued(sender);
        recorder.event(&Node::default()).normal("", "note");
        recorder.event(&Node::default()).normal(&"R".repeat(129), "note");
        recorder
            .event(&ConfigMap::default())
            .warning("Long", "n".repeat(5000));
        let entry = queue.recv().await.unwrap();
        assert_eq!((entry.type_, entry.note.len()), ("Warning", NOTE_LENGTH));
        assert_eq!(entry.regarding.kind.as_deref(), Some("ConfigMap"));
    }
}
