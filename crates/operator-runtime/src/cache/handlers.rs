//! [`Handlers`], the event handlers of one kind. A handler that is added late first gets the existing objects, while
//! newer events are queued for it.

use std::sync::Arc;

use super::item::Item;
use crate::event::Event;

/// Receives every event of a kind.
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
    /// The queued events, until the handler has got the existing objects.
    backlog: Option<Vec<Event<dyn Item>>>,
}

// === impl Handlers ===

impl Handlers {
    /// Adds a handler. Its events are queued until [`Handlers::backlog`] returns `None`.
    pub(super) fn add(&mut self, handler: Handler) -> u64 {
        self.added += 1;
        self.entries.push(Entry {
            id: self.added,
            handler,
            backlog: Some(Vec::new()),
        });
        self.added
    }

    /// Takes the queued events of a handler. If there are none, the handler gets later events directly.
    pub(super) fn backlog(&mut self, id: u64) -> Option<Vec<Event<dyn Item>>> {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id)?;
        let backlog = entry.backlog.take().filter(|backlog| !backlog.is_empty())?;
        entry.backlog = Some(Vec::new());
        Some(backlog)
    }

    /// Removes a handler that still has a backlog.
    pub(super) fn remove_incomplete(&mut self, id: u64) -> Option<Entry> {
        let is_it = |entry: &Entry| entry.id == id && entry.backlog.is_some();
        let place = self.entries.iter().position(is_it)?;
        Some(self.entries.remove(place))
    }

    /// Returns the handlers to call with an event, and adds it to the backlog of the others.
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
