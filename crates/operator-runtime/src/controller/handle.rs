//! [`ControllerHandle`] adds sources to a controller of a manager.

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::{ControllerError, Mapped, Source, Watch};
use crate::client::Client;
use crate::object::{Kind, View};

/// A handle to a controller, returned by [`Manager::add_controller`](crate::Manager::add_controller). It adds sources
/// to the controller, even while it runs. Clones are handles to the same controller.
#[derive(Clone)]
pub struct ControllerHandle {
    pub(super) name: Arc<str>,
    pub(super) client: Client,
    pub(super) primary: Option<Kind>,
    pub(super) late: mpsc::UnboundedSender<Source>,
}

// === impl ControllerHandle ===

impl ControllerHandle {
    /// Returns the name of the controller.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Adds a watch, as [`Controller::watches`](super::Controller::watches) does. A running controller does not wait
    /// for its first list. Its permissions are not derived: add an `#[rbac]` attribute.
    ///
    /// # Errors
    /// Returns an error if the controller has stopped.
    pub fn watch<C: View>(&self, watch: Watch<C, Mapped<C>>) -> Result<(), ControllerError> {
        self.add(watch.source(&self.client, self.primary.as_ref(), Arc::new([]))?)
    }

    fn add(&self, source: Source) -> Result<(), ControllerError> {
        let added = self.late.send(source);
        added.map_err(|_| ControllerError::Stopped(self.name.to_string()))
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut handle = formatter.debug_struct("ControllerHandle");
        handle.field("name", &self.name).finish_non_exhaustive()
    }
}
