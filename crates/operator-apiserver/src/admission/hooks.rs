//! What is configured: policies and webhooks, read when they are written and kept ready for every request.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::policy::validating::Checks;
use super::policy::{self, Bound};
use crate::registry::{Definition, Registry};

/// The policies and webhooks of one server.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    current: RwLock<Arc<Configured>>,
    /// Held while the stored configurations are read, so that an older reading does not replace a newer one.
    reading: Mutex<()>,
}

/// One state of the configuration.
#[derive(Debug, Default)]
pub(crate) struct Configured {
    pub(crate) validating_policies: Vec<Bound<Checks>>,
}

impl Configured {
    /// Whether nobody has to be asked.
    pub(crate) fn is_empty(&self) -> bool {
        self.validating_policies.is_empty()
    }
}

impl Hooks {
    pub(crate) fn current(&self) -> Arc<Configured> {
        self.current.read().clone()
    }
}

/// Whether a resource configures admission.
pub(crate) fn is_configuration(definition: &Definition) -> bool {
    !definition.is_custom() && definition.subject.group == "admissionregistration.k8s.io"
}

/// Takes the stored configurations over.
pub(crate) fn configure(registry: &Registry) {
    let hooks = &registry.hooks;
    let _reading = hooks.reading.lock();
    let known = hooks.current();
    let configured = Configured {
        validating_policies: policy::read(
            registry,
            "validatingadmissionpolicies",
            &known.validating_policies,
        ),
    };
    *hooks.current.write() = Arc::new(configured);
}
