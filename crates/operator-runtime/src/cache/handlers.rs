//! The event handlers of one kind. A handler that is added late first gets the objects that are there; the events that come
//! meanwhile wait for it.

use std::sync::Arc;

use super::item::Item;
use crate::event::Event;

/// Gets every event of a kind.
pub(super) type Handler = Arc<dyn Fn(&Event<dyn Item>) + Send + Sync>;

/// The handlers, in the order in which they were added.
#[derive(Default)]
pub(super) struct Handlers {
    entries: Vec<Entry>,
    added: u64,
}

pub(super) struct Entry {
    id: u64,
    handler: Handler,
    /// The events that wait until the handler has caught up.
    backlog: Option<Vec<Event<dyn Item>>>,
}

// === impl Handlers ===

impl Handlers {
    /// Adds a handler whose events wait until [`Handlers::backlog`] finds none left.
    pub(super) fn add(&mut self, handler: Handler) -> u64 {
        self.added += 1;
        self.entries.push(Entry {
            id: self.added,
            handler,
            backlog: Some(Vec::new()),
        });
        self.added
    }

    /// Takes the events that wait for a handler. If there are none, it gets later ones directly.
    pub(super) fn backlog(&mut self, id: u64) -> Option<Vec<Event<dyn Item>>> {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id)?;
        let backlog = entry.backlog.take().filter(|backlog| !backlog.is_empty())?;
        entry.backlog = Some(Vec::new());
        Some(backlog)
    }

    /// Removes a handler if it has not caught up.
    pub(super) fn remove_incomplete(&mut self, id: u64) -> Option<Entry> {
        let is_it = |entry: &Entry| entry.id == id && entry.backlog.is_some();
        let place = self.entries.iter().position(is_it)?;
        Some(self.entries.remove(place))
    }

    /// The handlers to call with an event; for the others it waits.
    pub(super) fn take(&mut self, event: &Event<dyn Item>) -> impl Iterator<Item = &Handler> {
        for entry in &mut self.entries {
            if let Some(backlog) = &mut entry.backlog {
                backlog.push(event.clone());
            }
        }
        let ready = self.entries.iter().filter(|entry| entry.backlog.is_none());
        ready.map(|entry| &entry.handler)
    }
}
