//! API aggregation: the APIService objects, their condition `Available`, and the servers of extension APIs.
//!
//! The conditions are computed when an APIService, a Service or its endpoints are written. If a server has an address,
//! its discovery document is requested; see [`check`].

pub(crate) mod check;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use apimachinery::object;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};

use self::check::Entry;
use crate::registry::Registry;
use crate::resource::{Definition, beta_catalog, builtin_catalog};
use crate::store::{Store, Stored};
use crate::webhook_client::extension::{ClientIdentity, Endpoint};
use builtin_kinds::cluster_objects::{AUTOMANAGED, api_services, local_api_service};
use builtin_kinds::tree::{at, list, text};

const GROUP: &str = "apiregistration.k8s.io";
const TABLE: &str = "apiservices.apiregistration.k8s.io";
const LOCAL: &str = "Local APIServices are always available";
const CUSTOM_GROUP_PRIORITY: i64 = 1000;
const CUSTOM_VERSION_PRIORITY: i64 = 100;

/// The group versions that extension API servers serve.
#[derive(Debug, Default)]
pub(crate) struct Aggregation {
    remotes: RwLock<Arc<Remotes>>,
    /// The client certificate for connections to the servers.
    identity: Option<ClientIdentity>,
    /// Held while the objects are updated.
    updating: Mutex<()>,
    custom: Mutex<Custom>,
}

/// The groups and versions of the served definitions.
#[derive(Debug, Default)]
struct Custom {
    /// The number of resources of each group version.
    counts: BTreeMap<(String, String), usize>,
    /// The group versions whose number has changed from or to zero since the last update of the objects.
    changed: BTreeSet<(String, String)>,
}

/// The servers by group and version.
type Remotes = BTreeMap<(String, String), Arc<Entry>>;

/// A server of an extension API.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) endpoint: Endpoint,
}

impl Aggregation {
    pub(crate) fn new(identity: Option<ClientIdentity>) -> Self {
        Self {
            identity,
            ..Self::default()
        }
    }

    pub(crate) fn identity(&self) -> Option<&ClientIdentity> {
        self.identity.as_ref()
    }

    /// Returns the servers of extension APIs.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        self.remotes.read().values().cloned().collect()
    }

    /// Returns the server of a group version.
    pub(crate) fn of(&self, group: &str, version: &str) -> Option<Arc<Entry>> {
        let key = (group.to_owned(), version.to_owned());
        self.remotes.read().get(&key).cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.remotes.read().is_empty()
    }

    /// Updates the counts of served definitions after some definitions replaced others.
    pub(crate) fn served(&self, before: &[Arc<Definition>], after: &[Arc<Definition>]) {
        let key = |definition: &Arc<Definition>| {
            let subject = &definition.subject;
            (subject.group.clone(), definition.version.clone())
        };
        let Custom { counts, changed } = &mut *self.custom.lock();
        for definition in after {
            let count = counts.entry(key(definition)).or_default();
            *count += 1;
            if *count == 1 {
                changed.insert(key(definition));
            }
        }
        for definition in before {
            let key = key(definition);
            let left = counts.get(&key).map_or(0, |count| count.saturating_sub(1));
            if left == 0 {
                counts.remove(&key);
                changed.insert(key);
            } else {
                counts.insert(key, left);
            }
        }
    }

    /// Returns the server of a path below `/apis/GROUP/VERSION`.
    pub(crate) fn find(&self, path: &str) -> Option<Arc<Entry>> {
        let remotes = self.remotes.read();
        if remotes.is_empty() {
            return None;
        }
        let mut parts = path.strip_prefix("/apis/")?.split('/');
        let key = (parts.next()?.to_owned(), parts.next()?.to_owned());
        remotes.get(&key).cloned()
    }

    /// Returns the groups of extension API servers, with their versions.
    pub(crate) fn groups(&self) -> BTreeMap<String, Vec<String>> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (group, version) in self.remotes.read().keys() {
            groups.entry(group.clone()).or_default().push(version.clone());
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|version| crate::resource::version_priority(version));
        }
        groups
    }
}

/// Returns true if a write to the resource may change an APIService or its condition.
pub(crate) fn concerns(registry: &Registry, definition: &Definition) -> bool {
    let is = |group: &str, resource: &str| definition.is(group, resource);
    is(GROUP, "apiservices")
        || (!registry.aggregation.is_empty()
            && (is("", "services") || is("", "endpoints") || is("discovery.k8s.io", "endpointslices")))
}

/// Updates the APIService objects, their conditions and the table of servers.
pub(crate) fn update(registry: &Registry) {
    let Some(definition) = builtin_catalog().find(GROUP, "v1", "apiservices") else {
        return;
    };
    let _updating = registry.aggregation.updating.lock();
    keep_automatic(registry, &definition);
    let previous = registry.aggregation.remotes.read().clone();
    let mut remotes = Remotes::new();
    for stored in registry.store.list(TABLE, "").objects {
        let condition = match remote(registry, &stored.value) {
            None => condition(true, "Local", LOCAL),
            Some((remote, state)) => {
                let key = (remote.group.clone(), remote.version.clone());
                let known = previous.get(&key).filter(|entry| *entry.remote == remote);
                let entry = known.cloned().unwrap_or_else(|| Arc::new(Entry::new(remote)));
                remotes.insert(key, entry.clone());
                match state {
                    State::Reachable(_) => {
                        entry.start(registry);
                        continue;
                    }
                    State::Simulated(message) => condition(true, "Simulated", &message),
                    State::Faulty(reason, message) => condition(false, reason, &message),
                }
            }
        };
        set_condition(
            &registry.store,
            &registry.timestamp(),
            &definition,
            &stored,
            condition,
        );
    }
    *registry.aggregation.remotes.write() = Arc::new(remotes);
}

/// Creates and deletes the objects of the groups whose definitions were added or removed. The cost does not depend on
/// the number of definitions.
pub(crate) fn update_custom(registry: &Registry) {
    if registry.aggregation.custom.lock().changed.is_empty() {
        return;
    }
    let Some(definition) = builtin_catalog().find(GROUP, "v1", "apiservices") else {
        return;
    };
    let _updating = registry.aggregation.updating.lock();
    let changed: Vec<_> = {
        let Custom { counts, changed } = &mut *registry.aggregation.custom.lock();
        let changed = std::mem::take(changed);
        changed
            .into_iter()
            .map(|key| (counts.contains_key(&key), key))
            .collect()
    };
    for (is_served, key) in changed {
        if is_served {
            keep(registry, &definition, &custom_service(&key));
        } else if let Some(stored) = registry.store.get(TABLE, &format!("{}.{}", key.1, key.0))
            && is_automatic(&stored)
        {
            let _ = registry
                .store
                .delete(&definition.table, &definition.storage, &stored);
        }
    }
}

fn custom_service((group, version): &(String, String)) -> Value {
    local_api_service(
        group,
        version,
        "true",
        CUSTOM_GROUP_PRIORITY,
        CUSTOM_VERSION_PRIORITY,
    )
}

fn is_automatic(stored: &Stored) -> bool {
    text(&stored.value, &["metadata", "labels", AUTOMANAGED]) == "true"
}

/// Creates the missing objects of built-in groups and of definitions, and deletes the objects of groups that are no
/// longer served.
fn keep_automatic(registry: &Registry, definition: &Definition) {
    let served = {
        let custom = &mut *registry.aggregation.custom.lock();
        custom.changed.clear();
        custom.counts.clone()
    };
    for stored in registry.store.list(TABLE, "").objects {
        let key = |field: &str| text(&stored.value, &["spec", field]).to_owned();
        if is_automatic(&stored) && !served.contains_key(&(key("group"), key("version"))) {
            let _ = registry
                .store
                .delete(&definition.table, &definition.storage, &stored);
        }
    }
    let is_served = |service: &Value| {
        let (group, version) = (
            text(service, &["spec", "group"]),
            text(service, &["spec", "version"]),
        );
        // As in a real server, groups without resources are listed, too.
        registry.resources.builtin().has_version(group, version)
            || !builtin_catalog().has_version(group, version) && !beta_catalog().has_version(group, version)
    };
    for service in api_services().iter().filter(|service| is_served(service)) {
        keep(registry, definition, service);
    }
    for service in served.keys().map(custom_service) {
        keep(registry, definition, &service);
    }
}

/// Creates the object of a group that this server serves, unless it exists.
fn keep(registry: &Registry, definition: &Definition, service: &Value) {
    let name = object::name(service);
    if registry.store.get(TABLE, name).is_some() {
        return;
    }
    let mut service = service.clone();
    let now = registry.timestamp();
    let mut condition = condition(true, "Local", LOCAL);
    condition["lastTransitionTime"] = now.as_str().into();
    service["status"] = json!({"conditions": [condition]});
    object::set_meta(&mut service, "uid", Some(registry.random.uuid().into()));
    object::set_meta(&mut service, "creationTimestamp", Some(now.into()));
    let created = registry
        .store
        .create(&definition.table, &definition.storage, name, service);
    if let Err(error) = created {
        tracing::error!(name, ?error, "cannot store an APIService");
    }
}

fn condition(available: bool, reason: &str, message: &str) -> Value {
    json!({
        "type": "Available", "status": if available { "True" } else { "False" },
        "reason": reason, "message": message,
    })
}

/// Writes a condition if it has changed.
fn set_condition(
    store: &Store,
    now: &str,
    definition: &Definition,
    stored: &Arc<Stored>,
    mut condition: Value,
) {
    let conditions = list(&stored.value, &["status", "conditions"]);
    let old = conditions
        .iter()
        .find(|known| text(known, &["type"]) == "Available");
    let same = |field: &str| old.is_some_and(|old| text(old, &[field]) == text(&condition, &[field]));
    if same("status") && same("reason") && same("message") {
        return;
    }
    let since = old
        .filter(|_| same("status"))
        .map(|old| at(old, &["lastTransitionTime"]).clone());
    condition["lastTransitionTime"] = since.unwrap_or_else(|| now.into());
    let mut service = (*stored.value).clone();
    service["status"] = json!({"conditions": [condition]});
    // If the object was changed in the meantime, it is processed again after that change.
    let _ = store.update(&definition.table, &definition.storage, stored, service);
}

/// The state of a server before the first discovery request.
enum State {
    /// Its address. The answer to a discovery request decides if it is available.
    Reachable(SocketAddr),
    /// Its endpoints are simulated pods, which answer no request. It counts as available, as these pods count as ready.
    Simulated(String),
    /// It is not available: reason and message.
    Faulty(&'static str, String),
}

/// Returns the server of an APIService that has one.
fn remote(registry: &Registry, service: &Value) -> Option<(Remote, State)> {
    let reference = at(service, &["spec", "service"]);
    if !reference.is_object() {
        return None;
    }
    let (namespace, name) = (text(reference, &["namespace"]), text(reference, &["name"]));
    let port = at(reference, &["port"]).as_u64().unwrap_or(443);
    let state = locate(registry, namespace, name, port);
    let bundle = crate::webhook_client::bundle(at(service, &["spec"]));
    let address = match state {
        State::Reachable(address) => Some(address),
        State::Simulated(_) | State::Faulty(..) => None,
    };
    let remote = Remote {
        group: text(service, &["spec", "group"]).to_owned(),
        version: text(service, &["spec", "version"]).to_owned(),
        endpoint: Endpoint {
            address,
            host: format!("{name}.{namespace}.svc"),
            authorities: bundle,
            is_insecure: at(service, &["spec", "insecureSkipTLSVerify"]) == &Value::Bool(true),
        },
    };
    Some((remote, state))
}

/// Finds the address of a Service.
fn locate(registry: &Registry, namespace: &str, name: &str, port: u64) -> State {
    if let Some(address) = registry.services.routes.get(namespace, name) {
        return State::Reachable(address);
    }
    let key = format!("{namespace}/{name}");
    let place = format!("service/{name} in {namespace:?}");
    let Some(service) = registry.store.get("services", &key) else {
        return State::Faulty("ServiceNotFound", format!("{place} is not present"));
    };
    let ports = list(&service.value, &["spec", "ports"]);
    let Some(found) = ports
        .iter()
        .find(|known| at(known, &["port"]).as_u64() == Some(port))
    else {
        return State::Faulty(
            "ServicePortError",
            format!("{place} is not listening on port {port}"),
        );
    };
    let port_name = text(found, &["name"]);
    match crate::webhook_client::endpoint_of(&registry.services, namespace, name, port_name) {
        Some(endpoint) if endpoint.is_simulated => State::Simulated(format!(
            "the endpoints of {place} are simulated pods, which do not answer requests"
        )),
        Some(endpoint) => State::Reachable(endpoint.address),
        None => State::Faulty(
            "MissingEndpoints",
            format!("endpoints for {place} have no addresses with port name {port_name:?}"),
        ),
    }
}
