//! The generic registry: what is served, and the rules by which objects are created, changed, deleted and listed.
//!
//! Knows no HTTP. Where kinds differ it asks the [`Definition`] (tables of `builtin`, or a CRD's version).

pub(crate) mod aggregation;
pub(crate) mod binding;
pub(crate) mod create;
mod delete;
pub(crate) mod escalation;
pub(crate) mod establish;
pub(crate) mod expiry;
mod list;
pub(crate) mod metadata;
pub(crate) mod patch;
mod service_address;
mod service_network;
mod storable;
mod update;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

use self::aggregation::Aggregation;
pub(crate) use self::create::check_namespace;
pub(crate) use self::delete::DeleteOptions;
use self::expiry::Expiry;
pub(crate) use self::list::{ListOptions, Page, RevisionMatch};
pub use self::service_network::{NetworkError, ServiceNetwork};
use crate::admission;
use crate::clock::{self, Clock};
use crate::http::audit::Audit;
use crate::http::in_flight::InFlight;
use crate::http::offload::Offload;
use crate::identity::authn::User;
use crate::identity::authz;
use crate::identity::keyring::Keyring;
use crate::identity::token::Issuer;
use crate::metrics::Metrics;
use crate::random::Random;
use crate::resource::crd;
use crate::resource::{Definition, builtin_catalog};
use crate::status::{self, Status};
use crate::store::{Store, Stored};
use crate::webhook_client::Routes;
use crate::write::Write;

/// One server's state.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Random,
    custom: RwLock<Arc<crd::CustomCatalog>>,
    /// Held while a changed CRD is taken into the catalogue, so that two changes do not undo each other.
    pub(crate) establishing: Mutex<establish::Established>,
    /// Where the next cluster address and node port are looked for.
    pub(crate) addresses: service_address::Cursor,
    /// Cancelled when the server ends: watches end with it.
    pub(crate) stop: CancellationToken,
    /// Who signs the tokens of service accounts.
    pub(crate) issuer: Arc<Issuer>,
    /// Tokens that never change, with their users.
    pub(crate) static_tokens: HashMap<String, User>,
    /// Who decides what users may do, in order.
    pub(crate) authorizers: Vec<authz::Authorization>,
    /// Where the addresses of services come from.
    pub(crate) service_network: ServiceNetwork,
    /// Whether requests without credentials are answered.
    pub(crate) anonymous: bool,
    /// The admission plug-ins that are off, by name.
    pub(crate) disabled_plugins: BTreeSet<String>,
    /// The admission plug-ins that are on besides those that are on by default.
    pub(crate) enabled_plugins: BTreeSet<String>,
    /// Where keys and certificates are kept.
    pub(crate) keyring: Keyring,
    /// The policies and webhooks that are asked about writes.
    pub(crate) hooks: admission::Hooks,
    /// Where the Services lead that webhooks are called by.
    pub(crate) routes: Routes,
    /// When the server was made.
    pub(crate) started: SystemTime,
    /// The flags that the server was started with, for `/flagz`.
    pub(crate) flags: BTreeMap<String, String>,
    /// The least time of a watch that asks for none; zero is without an end.
    pub(crate) min_request_timeout: Duration,
    /// The servers of extension APIs.
    pub(crate) aggregation: Aggregation,
    /// Records requests, if it is asked to.
    pub(crate) audit: Option<Arc<Audit>>,
    /// Counts requests and admission.
    pub(crate) metrics: Metrics,
    /// When events expire.
    pub(crate) expiry: Expiry,
    /// Limits requests and the memory of their bodies.
    pub(crate) in_flight: InFlight,
    /// Runs the work of large requests.
    pub(crate) offload: Offload,
    /// This registry, for what outlives a borrow of it.
    pub(crate) this: Weak<Registry>,
}

impl Registry {
    pub(crate) fn new(store: Store, clock: Arc<dyn Clock>, random: Random) -> Self {
        Self {
            started: clock.now(),
            flags: BTreeMap::new(),
            min_request_timeout: Duration::ZERO,
            store,
            clock,
            random,
            custom: RwLock::default(),
            establishing: Mutex::default(),
            addresses: service_address::Cursor::default(),
            stop: CancellationToken::new(),
            issuer: Arc::default(),
            static_tokens: HashMap::new(),
            authorizers: vec![authz::Authorization::default()],
            service_network: ServiceNetwork::default(),
            anonymous: true,
            disabled_plugins: BTreeSet::new(),
            enabled_plugins: BTreeSet::new(),
            keyring: Keyring::default(),
            hooks: admission::Hooks::default(),
            routes: Routes::default(),
            aggregation: Aggregation::default(),
            audit: None,
            metrics: Metrics::default(),
            expiry: Expiry::default(),
            in_flight: InFlight::default(),
            offload: Offload::default(),
            this: Weak::new(),
        }
    }

    /// The resource served at a path.
    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Definition>> {
        builtin_catalog()
            .find(group, version, resource)
            .or_else(|| self.custom().find(group, version, resource))
    }

    /// The resources that CRDs define.
    pub(crate) fn custom(&self) -> Arc<crd::CustomCatalog> {
        self.custom.read().clone()
    }

    pub(crate) fn set_custom(&self, catalog: crd::CustomCatalog) {
        *self.custom.write() = Arc::new(catalog);
    }

    /// The time as objects carry it.
    pub(crate) fn timestamp(&self) -> String {
        clock::rfc3339(self.clock.now())
    }

    pub(crate) fn load(&self, write: &Write) -> Result<Arc<Stored>, Status> {
        self.store
            .get(&write.definition.table, &write.key())
            .ok_or_else(|| write.not_found())
    }

    /// An object as it is served.
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

    /// Serves what the stored CRDs define, and asks the stored policies and webhooks: the store may have come with some.
    pub(crate) fn establish_stored(&self) {
        establish::establish(self);
        admission::configure(self);
        aggregation::update(self);
        expiry::begin(self);
    }

    /// What a commit changes beyond the object itself: a CRD changes what is served.
    fn committed(&self, definition: &Definition, key: &str) {
        if crd::is_definition_table(definition) {
            establish::establish(self);
            aggregation::update_custom(self);
        } else if definition.is_custom() {
            establish::finish_deletions(self, definition, key);
            aggregation::update_custom(self);
        } else if admission::is_configuration(definition) {
            admission::configure(self);
        } else if expiry::is_expiring(definition) {
            expiry::expire(self);
            expiry::written(self, key);
        }
        if aggregation::concerns(self, definition) {
            aggregation::update(self);
        }
    }
}
