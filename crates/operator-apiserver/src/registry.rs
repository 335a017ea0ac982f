//! The generic registry: the served resources, and the rules for creating, changing, deleting and listing objects
//! ([`Registry`]).
//!
//! It is independent of HTTP. The differences between kinds are methods of [`Definition`].

pub(crate) mod aggregation;
pub(crate) mod binding;
pub(crate) mod create;
mod delete;
pub(crate) mod escalation;
pub(crate) mod establish;
pub(crate) mod expiry;
pub(crate) mod ip_address;
mod list;
pub(crate) mod metadata;
pub(crate) mod patch;
pub(crate) mod pod_logs;
mod request_signature;
mod service_address;
mod service_families;
mod service_network;
mod storable;
mod update;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::aggregation::Aggregation;
pub(crate) use self::create::check_namespace;
pub(crate) use self::delete::DeleteOptions;
use self::expiry::Expiry;
pub(crate) use self::list::{ListOptions, Page, RevisionMatch};
use self::pod_logs::PodLogs;
pub use self::service_network::{NetworkError, ServiceNetwork};
use crate::admission::{self, Admission, AdmissionConfiguration};
use crate::clock::{self, Clock};
use crate::identity::authz::Authorizer;
use crate::metrics::Metrics;
use crate::random::Random;
use crate::resource::crd;
use crate::resource::crd::conversion::Converter;
use crate::resource::{Definition, Resources, RuntimeConfig};
use crate::status::{self, Status};
use crate::store::{Store, Stored};
use crate::webhook_client::Services;
use crate::webhook_client::extension::ClientIdentity;
use crate::write::Write;

/// Options of a registry.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The range of the addresses of Services.
    pub(crate) service_network: ServiceNetwork,
    /// The names of the disabled admission plug-ins.
    pub(crate) disabled_plugins: BTreeSet<String>,
    /// The names of the enabled admission plug-ins that are off by default.
    pub(crate) enabled_plugins: BTreeSet<String>,
    /// The configuration of the admission plug-ins.
    pub(crate) admission: AdmissionConfiguration,
    /// The retention time of events.
    pub(crate) event_ttl: Duration,
    /// The client certificate for extension API servers.
    pub(crate) proxy_identity: Option<ClientIdentity>,
    /// The built-in APIs that are served.
    pub(crate) runtime_config: RuntimeConfig,
}

/// The objects of one server, and all parts that a write needs.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<Random>,
    pub(crate) resources: Arc<Resources>,
    pub(crate) services: Arc<Services>,
    pub(crate) converter: Arc<Converter>,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) admission: Admission,
    /// Locked while the served resources are updated after a CRD changed, so that two updates do not overwrite each
    /// other.
    pub(crate) establishing: Mutex<establish::Established>,
    /// The position of the search for the next cluster address and node port.
    pub(crate) addresses: service_address::Cursor,
    /// The range of the addresses of Services.
    pub(crate) service_network: ServiceNetwork,
    /// The APIService objects and the servers of extension APIs.
    pub(crate) aggregation: Aggregation,
    /// The expiry of events.
    pub(crate) expiry: Expiry,
    /// The logs of pods that run as local processes.
    pub(crate) pod_logs: Arc<PodLogs>,
    /// Cancelled when the server stops; ends all watches.
    pub(crate) stop: CancellationToken,
}

impl Registry {
    pub(crate) fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        random: Random,
        metrics: Arc<Metrics>,
        options: Options,
    ) -> Self {
        let (store, random) = (Arc::new(store), Arc::new(random));
        let resources = Arc::new(Resources::new(&options.runtime_config));
        let services = Arc::new(Services::new(store.clone()));
        let converter = Arc::new(Converter {
            services: services.clone(),
            random: random.clone(),
        });
        let authorizer = Authorizer::new(store.clone(), services.clone(), metrics.clone());
        let authorizer = Arc::new(authorizer);
        let admission = Admission {
            store: store.clone(),
            clock: clock.clone(),
            random: random.clone(),
            resources: resources.clone(),
            services: services.clone(),
            converter: converter.clone(),
            authorizer: authorizer.clone(),
            metrics,
            hooks: admission::Hooks::default(),
            disabled_plugins: options.disabled_plugins,
            enabled_plugins: options.enabled_plugins,
            event_limits: admission::EventLimits::new(&options.admission.event_limits),
            image_reviewer: options
                .admission
                .image_policy
                .as_ref()
                .map(admission::ImageReviewer::new),
            configuration: options.admission,
        };
        let mut expiry = Expiry::default();
        expiry.ttl = options.event_ttl;
        Self {
            store,
            clock,
            random,
            resources,
            services,
            converter,
            authorizer,
            admission,
            establishing: Mutex::default(),
            addresses: service_address::Cursor::default(),
            service_network: options.service_network,
            aggregation: Aggregation::new(options.proxy_identity),
            expiry,
            pod_logs: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Returns the resource served at a path.
    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Definition>> {
        self.resources.find(group, version, resource)
    }

    /// Returns the current time in the format of `metadata`.
    pub(crate) fn timestamp(&self) -> String {
        clock::rfc3339(self.clock.now())
    }

    pub(crate) fn load(&self, write: &Write) -> Result<Arc<Stored>, Status> {
        self.store
            .get(&write.definition.table, &write.key())
            .ok_or_else(|| write.not_found())
    }

    /// Returns an object in its served form.
    pub(crate) fn get(
        &self,
        definition: &Definition,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Stored>, Status> {
        self.store
            .get(&definition.table, &definition.key(namespace, name))
            .ok_or_else(|| status::not_found(&definition.subject, name))
    }

    /// Serves the stored CRDs, and activates the stored policies and webhooks. They exist if the store was loaded from
    /// disk.
    pub(crate) fn establish_stored(&self) {
        establish::establish(self);
        admission::configure(&self.admission);
        aggregation::update(self);
        expiry::begin(self);
    }

    /// Updates derived state after a commit: a CRD changes the served resources. `before` is the object before the
    /// write.
    fn committed(&self, definition: &Definition, key: &str, before: Option<&Value>) {
        if definition.is("", "services")
            && let Some(service) = key.split_once('/')
        {
            let _commits = self.addresses.commit.lock();
            ip_address::update(self, service, &before.map(ip_address::of).unwrap_or_default());
        }
        if crd::is_definition_table(definition) {
            establish::establish(self);
            aggregation::update_custom(self);
        } else if definition.is_custom() {
            establish::finish_deletions(self, definition, key);
            aggregation::update_custom(self);
        } else if admission::is_configuration(definition) {
            admission::configure(&self.admission);
        } else if expiry::is_expiring(definition) {
            expiry::expire(self);
            expiry::written(self, key);
        }
        if aggregation::concerns(self, definition) {
            aggregation::update(self);
        }
    }
}
