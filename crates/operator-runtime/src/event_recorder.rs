//! Events for people: what the operator did to an object, and why, as `kubectl describe` shows it.
//!
//! Writing an event never delays or fails a reconcile: events go through a bounded queue to a task of the manager.
//! The same event of the same object again within six minutes makes no second object, it counts up a series.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, Patch, PatchParams, PostParams};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::describe;
use crate::object::{Object, ObjectKey};

/// Events that wait for the API server; more are dropped.
const QUEUE: usize = 1000;
/// An event that comes again within this time belongs to the series of the first.
const SERIES: Duration = Duration::from_secs(6 * 60);
/// Limits of events.k8s.io/v1.
const REASON_LENGTH: usize = 128;
const NOTE_LENGTH: usize = 1024;

/// Records events; clones share the queue.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<Entry>,
}

/// One event, about one object.
#[derive(Debug)]
#[must_use = "call `normal` or `warning`"]
pub struct EventWriter<'a> {
    recorder: &'a EventRecorder,
    regarding: ObjectReference,
    action: Option<String>,
}

/// An event that the API server would refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reason {0:?} of an event must have 1 to 128 characters")]
pub struct InvalidReason(String);

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    type_: &'static str,
    regarding: ObjectReference,
    reason: String,
    action: String,
    note: String,
}

/// Sends the events that were recorded.
pub(crate) struct Recorder {
    client: kube::Client,
    queue: mpsc::Receiver<Entry>,
    controller: String,
    instance: String,
    recent: Recent,
}

/// What tells one series from another.
type SeriesKey = (
    &'static str,
    String,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
);

/// The series that may still go on.
#[derive(Debug, Default)]
struct Recent {
    series: HashMap<SeriesKey, Series>,
}

#[derive(Clone, Debug, PartialEq)]
struct Series {
    key: ObjectKey,
    count: i32,
    last: Instant,
}

/// Makes a recorder and what sends its events, as `controller` (the name of the operator) in this process.
pub(crate) fn recorder(client: kube::Client, controller: &str, instance: &str) -> (EventRecorder, Recorder) {
    let (sender, queue) = mpsc::channel(QUEUE);
    let recorder = Recorder {
        client,
        queue,
        controller: controller.to_owned(),
        instance: instance.to_owned(),
        recent: Recent::default(),
    };
    (EventRecorder { queue: sender }, recorder)
}

// === impl EventRecorder ===

impl EventRecorder {
    /// Begins an event about `object`.
    pub fn event<K: Object>(&self, object: &K) -> EventWriter<'_> {
        EventWriter {
            recorder: self,
            regarding: ObjectReference {
                resource_version: object.meta().resource_version.clone(),
                ..object.object_ref(&K::DynamicType::default())
            },
            action: None,
        }
    }
}

// === impl EventWriter ===

impl EventWriter<'_> {
    /// What was done, in CamelCase; the reason unless said otherwise.
    pub fn action(mut self, action: &str) -> Self {
        self.action = Some(action.to_owned());
        self
    }

    /// Records something ordinary. `reason` is for programs, in CamelCase; `note` is for people, and is cut at 1024
    /// characters.
    ///
    /// # Errors
    /// If `reason` is empty or longer than 128 characters. That the API server takes the event is not waited for.
    pub async fn normal(self, reason: &str, note: impl Into<String>) -> Result<(), InvalidReason> {
        self.record("Normal", reason, &note.into())
    }

    /// Records something that people should look at; otherwise as [`EventWriter::normal`].
    ///
    /// # Errors
    /// As [`EventWriter::normal`].
    pub async fn warning(self, reason: &str, note: impl Into<String>) -> Result<(), InvalidReason> {
        self.record("Warning", reason, &note.into())
    }

    fn record(&self, type_: &'static str, reason: &str, note: &str) -> Result<(), InvalidReason> {
        if reason.is_empty() || reason.chars().count() > REASON_LENGTH {
            return Err(InvalidReason(reason.to_owned()));
        }
        tracing::debug!(type_, reason, note, object = self.regarding.name, "Event");
        let entry = Entry {
            type_,
            regarding: self.regarding.clone(),
            reason: reason.to_owned(),
            action: self.action.clone().unwrap_or_else(|| reason.to_owned()),
            note: note.chars().take(NOTE_LENGTH).collect(),
        };
        if self.recorder.queue.try_send(entry).is_err() {
            tracing::warn!(
                reason,
                "Event dropped: too many wait for the API server, or the manager has stopped"
            );
        }
        Ok(())
    }
}

// === impl Recorder ===

impl Recorder {
    /// Sends events until `stop`, and then those that are still queued.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                entry = self.queue.recv() => match entry {
                    Some(entry) => self.send(entry).await,
                    None => return,
                },
                () = stop.cancelled() => break,
            }
        }
        while let Ok(entry) = self.queue.try_recv() {
            self.send(entry).await;
        }
    }

    async fn send(&mut self, entry: Entry) {
        let sent = match self.recent.again(&entry, Instant::now()) {
            Some(series) => self.count_up(&series).await,
            None => self.create(&entry).await,
        };
        if let Err(error) = sent {
            tracing::warn!(reason = entry.reason, error = %describe(&error), "Event not written");
        }
    }

    async fn create(&mut self, entry: &Entry) -> Result<(), kube::Error> {
        let event = entry.event(
            &self.controller,
            &self.instance,
            crate::clock::now(),
            crate::clock::random(),
        );
        let key = ObjectKey::of(&event);
        self.api(&key).create(&PostParams::default(), &event).await?;
        self.recent.begin(entry, key, Instant::now());
        Ok(())
    }

    async fn count_up(&self, series: &Series) -> Result<(), kube::Error> {
        let observed = EventSeries {
            count: series.count,
            last_observed_time: MicroTime(crate::clock::now()),
        };
        let patch = Patch::Merge(serde_json::json!({"series": observed}));
        self.api(&series.key)
            .patch(series.key.name(), &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    fn api(&self, key: &ObjectKey) -> Api<Event> {
        Api::namespaced(self.client.clone(), key.namespace().unwrap_or("default"))
    }
}

// === impl Entry ===

impl Entry {
    fn series(&self) -> SeriesKey {
        let regarding = &self.regarding;
        let place = (
            regarding.namespace.clone(),
            regarding.name.clone(),
            regarding.uid.clone(),
        );
        (
            self.type_,
            self.reason.clone(),
            self.action.clone(),
            place.0,
            place.1,
            place.2,
        )
    }

    /// The object; events about cluster-scoped objects live in the namespace `default`.
    fn event(&self, controller: &str, instance: &str, now: Timestamp, suffix: u64) -> Event {
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
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(controller.to_owned()),
            reporting_instance: Some(instance.to_owned()),
            ..Event::default()
        }
    }
}

// === impl Recent ===

impl Recent {
    /// Counts an event that belongs to a series; `None` if it begins one.
    fn again(&mut self, entry: &Entry, now: Instant) -> Option<Series> {
        self.series
            .retain(|_, series| now.saturating_duration_since(series.last) < SERIES);
        let series = self.series.get_mut(&entry.series())?;
        series.count = series.count.saturating_add(1);
        series.last = now;
        Some(series.clone())
    }

    fn begin(&mut self, entry: &Entry, key: ObjectKey, now: Instant) {
        let (count, last) = (1, now);
        self.series.insert(entry.series(), Series { key, count, last });
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node};

    use super::*;

    fn entry(reason: &str) -> Entry {
        Entry {
            type_: "Normal",
            regarding: ObjectReference {
                name: Some("web".to_owned()),
                ..ObjectReference::default()
            },
            reason: reason.to_owned(),
            action: reason.to_owned(),
            note: "done".to_owned(),
        }
    }

    #[test]
    fn repeated_event_counts_up_its_series() {
        let (mut recent, now) = (Recent::default(), Instant::now());
        assert_eq!(recent.again(&entry("Created"), now), None);
        recent.begin(&entry("Created"), ObjectKey::namespaced("default", "web.1"), now);
        assert_eq!(recent.again(&entry("Created"), now).unwrap().count, 2);
        assert_eq!(recent.again(&entry("Created"), now).unwrap().count, 3);
        assert_eq!(recent.again(&entry("Deleted"), now), None);
    }

    #[test]
    fn series_ends_after_six_quiet_minutes() {
        let (mut recent, now) = (Recent::default(), Instant::now());
        recent.begin(&entry("Created"), ObjectKey::namespaced("default", "web.1"), now);
        assert_eq!(recent.again(&entry("Created"), now + SERIES), None);
    }

    #[test]
    fn event_about_a_cluster_scoped_object_lives_in_default() {
        let event = entry("Created").event("operator", "operator-1", Timestamp::UNIX_EPOCH, 7);
        assert_eq!(
            ObjectKey::of(&event),
            ObjectKey::namespaced("default", "web.0000000000000007")
        );
        assert_eq!(event.reporting_controller.as_deref(), Some("operator"));
    }

    #[tokio::test]
    async fn reason_is_checked_and_note_is_cut() {
        let (sender, mut queue) = mpsc::channel(1);
        let recorder = EventRecorder { queue: sender };
        assert!(recorder.event(&Node::default()).normal("", "note").await.is_err());
        assert!(
            recorder
                .event(&Node::default())
                .normal(&"R".repeat(129), "note")
                .await
                .is_err()
        );
        recorder
            .event(&ConfigMap::default())
            .warning("Long", "n".repeat(5000))
            .await
            .unwrap();
        let entry = queue.recv().await.unwrap();
        assert_eq!((entry.type_, entry.note.len()), ("Warning", NOTE_LENGTH));
        assert_eq!(entry.regarding.kind.as_deref(), Some("ConfigMap"));
    }
}
