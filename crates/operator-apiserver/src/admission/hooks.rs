//! The configured policies and webhooks, parsed when they are written.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::policy::mutating::Mutations;
use super::policy::validating::Checks;
use super::policy::{self, Bound};
use super::webhook::{self, Webhook};
use crate::admission::Admission;
use crate::resource::Definition;

/// The policies and webhooks of one server.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    current: RwLock<Arc<Configured>>,
    /// Held while the stored configurations are read, so that an older result does not replace a newer one.
    reading: Mutex<()>,
}

/// A snapshot of the parsed configuration.
#[derive(Debug, Default)]
pub(crate) struct Configured {
    pub(crate) mutating_policies: Vec<Bound<Mutations>>,
    pub(crate) mutating_webhooks: Vec<Arc<Webhook>>,
    pub(crate) validating_policies: Vec<Bound<Checks>>,
    pub(crate) validating_webhooks: Vec<Arc<Webhook>>,
}

impl Configured {
    /// Returns true if a hook may change objects.
    pub(crate) fn mutates(&self) -> bool {
        !self.mutating_policies.is_empty() || !self.mutating_webhooks.is_empty()
    }

    /// Returns true if a hook validates objects.
    pub(crate) fn validates(&self) -> bool {
        !self.validating_policies.is_empty() || !self.validating_webhooks.is_empty()
    }
}

impl Hooks {
    pub(crate) fn current(&self) -> Arc<Configured> {
        self.current.read().clone()
    }
}

/// Returns true if a resource configures admission.
pub(crate) fn is_configuration(definition: &Definition) -> bool {
    !definition.is_custom() && definition.subject.group == "admissionregistration.k8s.io"
}

/// Loads the stored configurations.
pub(crate) fn configure(admission: &Admission) {
    let hooks = &admission.hooks;
    let _reading = hooks.reading.lock();
    let known = hooks.current();
    let is_enabled = |plugin: &str| !admission.disabled_plugins.contains(plugin);
    let mut configured = Configured::default();
    if is_enabled("MutatingAdmissionPolicy") {
        configured.mutating_policies =
            policy::read(admission, "mutatingadmissionpolicies", &known.mutating_policies);
    }
    if is_enabled("MutatingAdmissionWebhook") {
        configured.mutating_webhooks = webhook::read(
            admission,
            "mutatingwebhookconfigurations",
            &known.mutating_webhooks,
        );
    }
    if is_enabled("ValidatingAdmissionPolicy") {
        configured.validating_policies = policy::read(
            admission,
            "validatingadmissionpolicies",
            &known.validating_policies,
        );
    }
    if is_enabled("ValidatingAdmissionWebhook") {
        configured.validating_webhooks = webhook::read(
            admission,
            "validatingwebhookconfigurations",
            &known.validating_webhooks,
        );
    }
    *hooks.current.write() = Arc::new(configured);
}
