//! [`Quarantine`]: objects that cannot be decoded. They are reported once in the log and as an Event, and counted until
//! they are repaired or deleted. An object that cannot be decoded as the type of its store is omitted from it. An
//! object that cannot be decoded as the type of one reader is hidden only from that reader.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::ObjectMeta;
use parking_lot::Mutex;

use super::decode::Malformed;
use super::item::{Intake, Item, Representation, Stored, view};
use crate::event::Event;
use crate::event_recorder::EventRecorder;
use crate::metrics::CacheMetrics;
use crate::object::{Kind, ObjectKey, View};

const REASON: &str = "DecodeFailed";

/// A way to read an object from the store.
pub(super) type Read<K> = fn(&Intake, &Stored) -> Result<Arc<K>, String>;

/// The objects of one kind that a reader cannot decode.
pub(super) struct Quarantine {
    intake: Arc<Intake>,
    metrics: CacheMetrics,
    recorder: EventRecorder,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of objects that the store omits.
    omitted: usize,
    /// Objects that readers could not decode.
    complaints: BTreeMap<ObjectKey, Vec<Complaint>>,
}

/// The type of a reader and the error.
struct Complaint {
    type_id: TypeId,
    error: String,
    check: fn(&Arc<dyn Item>, &Intake) -> Result<(), String>,
    /// The last state that could be decoded, which event handlers know.
    last_good: Option<Arc<dyn Any + Send + Sync>>,
}

// === impl Quarantine ===

impl Quarantine {
    pub(super) fn new(intake: Arc<Intake>, metrics: CacheMetrics, recorder: EventRecorder) -> Self {
        let state = Mutex::default();
        Self {
            intake,
            metrics,
            recorder,
            state,
        }
    }

    fn kind(&self) -> &Kind {
        &self.intake.kind
    }

    /// Reads the object in the store as a `K` with `read`.
    ///
    /// # Errors
    /// Returns an error if the object cannot be decoded, which is reported the first time, or if it is not kept
    /// completely.
    pub(super) fn read<K: View>(&self, stored: &Stored, read: Read<K>) -> Result<Arc<K>, String> {
        let seen = read(&self.intake, stored);
        if let Err(error) = seen.as_ref()
            && self.intake.serves::<K>(stored)
        {
            self.complain(&stored.packed.metadata(), Complaint::of::<K>(error));
        }
        seen
    }

    /// Returns the object of an event as a `K`. `before` is its state before the event.
    ///
    /// # Errors
    /// As for [`Quarantine::read`].
    pub(super) fn view<K: View>(
        &self,
        object: &Arc<dyn Item>,
        before: Option<&Arc<dyn Item>>,
    ) -> Result<Arc<K>, String> {
        let seen = view::<K>(object, &self.intake);
        let is_whole = object.representation().serves(&Representation::of::<K>());
        if let Err(error) = seen.as_ref()
            && is_whole
        {
            let last_good = before.and_then(|before| self.peek::<K>(before));
            let complaint = Complaint {
                last_good: last_good.map(|last_good| last_good as _),
                ..Complaint::of::<K>(error)
            };
            self.complain(object.metadata(), complaint);
        }
        seen
    }

    /// Returns the last state of the object that could be decoded as `K`, if a later one cannot.
    pub(super) fn last_good<K: View>(&self, object: &Arc<dyn Item>) -> Option<Arc<K>> {
        let state = self.state.lock();
        let complaints = state.complaints.get(&ObjectKey::of(object.as_ref()))?;
        let own = complaints
            .iter()
            .find(|complaint| complaint.type_id == TypeId::of::<K>());
        own?.last_good.clone()?.downcast().ok()
    }

    /// Returns an earlier state of the object as a `K`, if it can be decoded.
    pub(super) fn peek<K: View>(&self, object: &Arc<dyn Item>) -> Option<Arc<K>> {
        view(object, &self.intake).ok()
    }

    /// Reports an object that the store omits.
    pub(super) fn report_omitted(&self, malformed: &Malformed) {
        self.report(&malformed.metadata, &malformed.error);
    }

    /// Sets the number of objects that the store omits.
    pub(super) fn set_omitted(&self, omitted: usize) {
        let mut state = self.state.lock();
        state.omitted = omitted;
        self.count(&state);
    }

    /// Removes the complaints about a deleted object.
    pub(super) fn forget(&self, key: &ObjectKey) {
        let mut state = self.state.lock();
        if state.complaints.remove(key).is_some() {
            self.count(&state);
        }
    }

    /// Updates the complaints after events of their objects.
    pub(super) fn follow(&self, events: &[Event<dyn Item>]) {
        let mut state = self.state.lock();
        if state.complaints.is_empty() {
            return;
        }
        for event in events {
            let object = event.object();
            let key = ObjectKey::of(object.as_ref());
            let Some(complaints) = state.complaints.get_mut(&key) else {
                continue;
            };
            match event {
                Event::Delete { .. } => complaints.clear(),
                _ => complaints.retain_mut(|complaint| self.still_holds(complaint, object)),
            }
            if complaints.is_empty() {
                state.complaints.remove(&key);
            }
        }
        self.count(&state);
    }

    fn still_holds(&self, complaint: &mut Complaint, object: &Arc<dyn Item>) -> bool {
        let Err(error) = (complaint.check)(object, &self.intake) else {
            return false;
        };
        if complaint.error != error {
            self.report(object.metadata(), &error);
            complaint.error = error;
        }
        true
    }

    fn complain(&self, metadata: &ObjectMeta, complaint: Complaint) {
        let mut state = self.state.lock();
        let key = ObjectKey::new(
            metadata.namespace.as_deref(),
            metadata.name.as_deref().unwrap_or_default(),
        );
        let complaints = state.complaints.entry(key).or_default();
        let known = complaints
            .iter_mut()
            .find(|known| known.type_id == complaint.type_id);
        match known {
            // A reader of an earlier state may be late, and does not know the state before.
            Some(known) => {
                if known.last_good.is_none() {
                    known.last_good = complaint.last_good;
                }
                return;
            }
            None => {
                self.report(metadata, &complaint.error);
                complaints.push(complaint);
            }
        }
        self.count(&state);
    }

    fn count(&self, state: &State) {
        let count = state.omitted + state.complaints.len();
        self.metrics.quarantined(&self.kind().to_string(), count);
    }

    /// Reports in the log and as an Event of the object.
    fn report(&self, metadata: &ObjectMeta, error: &str) {
        let kind = self.kind();
        let name = metadata.name.as_deref().unwrap_or_default();
        let namespace = metadata.namespace.as_deref();
        tracing::error!(%kind, namespace, name, error,
            "Object does not fit its type and is omitted until it changes");
        let note = format!("The operator cannot decode this object and ignores it until it changes: {error}");
        let event = self.recorder.about_object(kind, metadata).action("Quarantine");
        event.warning(REASON, note);
    }
}

// === impl Complaint ===

impl Complaint {
    fn of<K: View>(error: &str) -> Self {
        Self {
            type_id: TypeId::of::<K>(),
            error: error.to_owned(),
            check: |object, intake| view::<K>(object, intake).map(drop),
            last_good: None,
        }
    }
}
