//! Watches: convert events of the store to the frames of a client.
//!
//! A watcher is a cursor in the history: nothing is buffered for it. A watcher that falls behind the horizon ends with
//! an `ERROR` event.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apimachinery::object;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::codec::protobuf;
use crate::codec::{Form, Transform};
use crate::http::call::Body;
use crate::http::table::{IncludeObject, Rows};
use crate::http::verb::options::WatchOptions;
use crate::registry::{ListOptions, Registry};
use crate::resource::Definition;
use crate::resource::crd::conversion;
use crate::status::{self, Status};
use crate::store::{Changes, Event, EventType, Stored};

/// The number of events that are taken from the history at once.
const BATCH: usize = 256;
/// The period of bookmarks.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// The time before the end of a watch at which the last bookmark is sent.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// The default minimum duration of a watch without a timeout.
const TIMEOUT_SECONDS_MIN: u64 = 1800;
/// The maximum timeout of a client: a year, so that times do not overflow.
const TIMEOUT_SECONDS_MAX: u64 = 365 * 24 * 3600;

/// The selection of a watch, and its position in the history.
#[derive(Debug)]
pub(crate) struct Subscription {
    registry: Arc<Registry>,
    definition: Arc<Definition>,
    prefix: String,
    options: ListOptions,
    form: Form,
    cursor: u64,
    /// The initial events: their frames are encoded one after the other.
    pending: VecDeque<Pending>,
    /// True if the pending frames are the last ones.
    ended: bool,
    include: IncludeObject,
    columns_told: AtomicBool,
    changes: Changes,
}

/// A frame to be sent.
#[derive(Debug)]
enum Pending {
    /// An object that existed when the watch started.
    Initial(Arc<Stored>),
    /// The bookmark after the initial objects, with the revision of the list.
    InitialEnd(u64),
    Frame(Bytes),
}

/// Returns the type of an event.
fn event_name(kind: EventType) -> &'static str {
    match kind {
        EventType::Added => "ADDED",
        EventType::Modified => "MODIFIED",
        EventType::Deleted => "DELETED",
    }
}

impl Subscription {
    pub(crate) fn open(
        registry: Arc<Registry>,
        definition: Arc<Definition>,
        namespace: &str,
        options: ListOptions,
        watch: &WatchOptions,
        form: Form,
        include: IncludeObject,
    ) -> Self {
        let changes = registry.store.subscribe(&definition.table, &definition.storage);
        let mut subscription = Self {
            prefix: definition.key_prefix(namespace),
            cursor: options.revision.unwrap_or_default(),
            registry,
            definition,
            options,
            form,
            pending: VecDeque::new(),
            ended: false,
            include,
            columns_told: AtomicBool::new(false),
            changes,
        };
        subscription.start(watch);
        subscription
    }

    fn start(&mut self, watch: &WatchOptions) {
        let current = self.registry.store.revision();
        let from = self.options.revision.unwrap_or_default();
        if !watch.send_initial_events.unwrap_or(from == 0) {
            if from == 0 {
                self.cursor = current;
            }
            return;
        }
        if from > current {
            self.fail(&status::too_large_revision(from, current));
            return;
        }
        let listing = self.registry.store.list(&self.definition.table, &self.prefix);
        self.cursor = listing.revision;
        for stored in listing.objects {
            if self.selects(&stored) {
                self.pending.push_back(Pending::Initial(stored));
            }
        }
        if watch.bookmarks {
            self.pending.push_back(Pending::InitialEnd(self.cursor));
        }
    }

    fn fail(&mut self, status: &Status) {
        let frame = self.encode_event("ERROR", &status.body);
        self.pending.push_back(Pending::Frame(frame));
        self.ended = true;
    }

    fn selects(&self, stored: &Stored) -> bool {
        !self.options.has_selector() || self.options.matches(&self.definition, &stored.value)
    }

    /// Returns the next few frames, and moves the cursor. Returns nothing at the end.
    async fn take(&mut self) -> Vec<Bytes> {
        loop {
            if !self.pending.is_empty() {
                let initial: Vec<Arc<Value>> = self
                    .pending
                    .iter()
                    .take(BATCH)
                    .filter_map(|pending| match pending {
                        Pending::Initial(stored) => Some(stored.value.clone()),
                        Pending::InitialEnd(_) | Pending::Frame(_) => None,
                    })
                    .collect();
                if let Err(status) = self.prepare(&initial).await {
                    self.pending.clear();
                    self.fail(&status);
                }
                return self.take_pending();
            }
            self.changes.mark_seen();
            let store = &self.registry.store;
            let events = match store.events(&self.definition.table, self.cursor, BATCH) {
                Ok(events) => events,
                Err(compacted) => {
                    let (cursor, oldest) = (self.cursor, compacted.oldest);
                    self.fail(&status::expired(format!(
                        "too old resource version: {cursor} ({oldest})"
                    )));
                    continue;
                }
            };
            let Some(last) = events.last() else {
                return Vec::new();
            };
            self.cursor = last.revision;
            if let Err(status) = self.prepare_events(&events).await {
                self.fail(&status);
                continue;
            }
            let frames: Vec<Bytes> = events
                .iter()
                .filter(|event| event.object.key.starts_with(&self.prefix))
                .filter_map(|event| self.event_frame(event))
                .collect();
            // Events that the client did not select produce no frame.
            if !frames.is_empty() {
                return frames;
            }
        }
    }

    /// Converts objects before their events are sent.
    async fn prepare(&self, stored: &[Arc<Value>]) -> Result<(), Status> {
        conversion::prepare(&self.registry.converter, &self.definition, stored).await
    }

    async fn prepare_events(&self, events: &[Arc<Event>]) -> Result<(), Status> {
        let mut values: Vec<Arc<Value>> = Vec::new();
        if self.definition.is_custom() {
            for event in events
                .iter()
                .filter(|event| event.object.key.starts_with(&self.prefix))
            {
                values.push(event.object.value.clone());
                values.extend(event.old.as_ref().map(|old| old.value.clone()));
            }
        }
        self.prepare(&values).await
    }

    fn take_pending(&mut self) -> Vec<Bytes> {
        let count = self.pending.len().min(BATCH);
        let pending: Vec<Pending> = self.pending.drain(..count).collect();
        let frames = pending.into_iter().map(|pending| match pending {
            Pending::Initial(stored) => self.frame("ADDED", &stored),
            Pending::InitialEnd(revision) => self.bookmark(revision, true),
            Pending::Frame(frame) => frame,
        });
        frames.collect()
    }

    /// Returns an event for this client. An object that starts or stops matching is reported as added or deleted.
    fn event_frame(&self, event: &Event) -> Option<Bytes> {
        let before = event.old.as_ref().is_some_and(|old| self.selects(old));
        let now = event.kind != EventType::Deleted && self.selects(&event.object);
        let kind = match (before, now) {
            (false, false) => return None,
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) => EventType::Deleted,
        };
        if kind != EventType::Deleted || event.kind == EventType::Deleted {
            return Some(self.frame(event_name(kind), &event.object));
        }
        let mut last = Arc::unwrap_or_clone(self.definition.serve(&event.old.as_ref()?.value));
        object::set_meta(
            &mut last,
            "resourceVersion",
            Some(event.revision.to_string().into()),
        );
        Some(self.value_frame("DELETED", &last))
    }

    fn frame(&self, kind: &str, stored: &Stored) -> Bytes {
        let object = self.definition.serve(&stored.value);
        if self.form.transform == Transform::None && Arc::ptr_eq(&object, &stored.value) {
            if self.form.protobuf {
                let envelope = protobuf::encode::envelope(
                    (&*self.definition.api_version(), &*self.definition.subject.kind),
                    stored.protobuf(),
                );
                return protobuf::encode::watch_frame(kind, &envelope).into();
            }
            let bytes = stored.bytes();
            let mut frame = BytesMut::with_capacity(bytes.len() + 40);
            frame.put_slice(b"{\"type\":\"");
            frame.put_slice(kind.as_bytes());
            frame.put_slice(b"\",\"object\":");
            frame.put_slice(bytes);
            frame.put_slice(b"}\n");
            return frame.freeze();
        }
        self.value_frame(kind, &object)
    }

    fn value_frame(&self, kind: &str, object: &Value) -> Bytes {
        let object = match self.form.transform {
            Transform::PartialObjectMetadata | Transform::PartialObjectMetadataList => {
                crate::http::verb::partial(object, self.form)
            }
            Transform::Table => match self.table(object) {
                Ok(table) => table,
                Err(refused) => return self.encode_event("ERROR", &refused.body),
            },
            Transform::None => return self.encode_event(kind, object),
        };
        self.encode_event(kind, &object)
    }

    fn encode_event(&self, kind: &str, object: &Value) -> Bytes {
        if self.form.protobuf {
            return protobuf::encode::watch_frame(kind, &protobuf::encode::encode(object)).into();
        }
        line(&json!({"type": kind, "object": object}).to_string())
    }

    /// Renders an event's object as a Table. The columns are sent only once.
    fn table(&self, object: &Value) -> Result<Value, Status> {
        let mut rows = Rows::new(&self.registry, &self.definition, self.form, self.include);
        let mut rendered = rows.single(object)?;
        if self.columns_told.swap(true, Ordering::Relaxed) {
            rendered["columnDefinitions"] = Value::Null;
        }
        Ok(rendered)
    }

    fn bookmark(&self, revision: u64, initial_events_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_events_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = json!({
            "kind": self.definition.subject.kind, "apiVersion": self.definition.api_version(),
            "metadata": metadata,
        });
        if !self.definition.is_custom() {
            // An empty object of the kind, with the fields that are always present; decoding cannot fail.
            let _ = self.definition.decode(&mut object);
            self.set_internal_zeros(&mut object);
        }
        self.value_frame("BOOKMARK", &object)
    }

    /// Sets the fields that an empty object has because the internal type of the real server has no pointer for them.
    fn set_internal_zeros(&self, object: &mut Value) {
        let subject = &self.definition.subject;
        match (subject.group.as_str(), subject.kind.as_str()) {
            ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") => object["spec"]["replicas"] = 0.into(),
            ("apps", "DaemonSet") => {
                object["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = "0".into();
            }
            _ => {}
        }
    }

    /// Returns a bookmark at the newest revision without pending events; `None` if there are pending events.
    fn idle_bookmark(&mut self) -> Option<Bytes> {
        let current = self.registry.store.revision();
        let rest = self.registry.store.events(&self.definition.table, self.cursor, 1);
        if !rest.is_ok_and(|events| events.is_empty()) {
            return None;
        }
        self.cursor = self.cursor.max(current);
        Some(self.bookmark(self.cursor, false))
    }
}

fn line(text: &str) -> Bytes {
    let mut line = BytesMut::with_capacity(text.len() + 1);
    line.put_slice(text.as_bytes());
    line.put_u8(b'\n');
    line.freeze()
}

/// A subscription and the timers of its stream.
struct Stream {
    subscription: Subscription,
    bookmarks: bool,
    next_bookmark: Instant,
    last_bookmark: bool,
    end: Instant,
    drain: CancellationToken,
    frames: VecDeque<Bytes>,
}

/// Returns the body of a watch: frames as they occur, until the timeout or the end of the server.
pub(crate) fn stream(subscription: Subscription, watch: &WatchOptions, drain: CancellationToken) -> Body {
    let spread = subscription.registry.random.next() % TIMEOUT_SECONDS_MIN;
    let seconds = watch.timeout_seconds.unwrap_or(TIMEOUT_SECONDS_MIN + spread);
    let seconds = seconds.min(TIMEOUT_SECONDS_MAX);
    let now = Instant::now();
    let end = now + Duration::from_secs(seconds);
    let state = Stream {
        subscription,
        bookmarks: watch.bookmarks,
        next_bookmark: now + BOOKMARK_PERIOD,
        // A shorter watch gets no bookmark before its end.
        last_bookmark: end <= now + BOOKMARK_BEFORE_END,
        end,
        drain,
        frames: VecDeque::new(),
    };
    let frames = stream::unfold(state, |mut state| async move {
        let bytes = state.next().await?;
        Some((Ok(Frame::data(bytes)), state))
    });
    StreamBody::new(frames).boxed_unsync()
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            let subscription = &mut self.subscription;
            if subscription.ended && subscription.pending.is_empty() {
                return None;
            }
            // Read before the events, so that the events before the end are still sent.
            let is_last = subscription.definition.is_retired();
            self.frames.extend(subscription.take().await);
            // No event can be represented as a list: the real server ends the watch at the first one.
            if subscription.form.transform == Transform::PartialObjectMetadataList && !self.frames.is_empty()
            {
                return None;
            }
            if self.frames.is_empty() && (is_last || !self.wait().await) {
                return None;
            }
        }
    }

    /// Waits until there is more to send; returns false at the end.
    async fn wait(&mut self) -> bool {
        let before_end = self.end - BOOKMARK_BEFORE_END;
        let bookmark = if self.last_bookmark {
            self.end
        } else {
            self.next_bookmark.min(before_end)
        };
        let stop = self.subscription.registry.stop.clone();
        let definition = self.subscription.definition.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = self.drain.cancelled() => false,
            () = tokio::time::sleep_until(self.end) => false,
            () = tokio::time::sleep_until(bookmark), if self.bookmarks && !self.last_bookmark => {
                self.last_bookmark = bookmark == before_end;
                self.next_bookmark = bookmark + BOOKMARK_PERIOD;
                self.frames.extend(self.subscription.idle_bookmark());
                true
            }
            () = definition.retired() => true,
            changed = self.subscription.changes.changed() => changed.is_ok(),
        }
    }
}
