//! Operator Lifecycle Manager as far as its API shows it: OLM v0, and OLM v1 in `v1`.
//!
//! Catalogs are read from ConfigMaps; no registry image runs. Each controller is a pure function from the shared index
//! to a plan, like the other controllers of this crate:
//!
//! * `catalog_source` reports the connection of a CatalogSource, `packages` lists its packages as PackageManifests
//! * `operator_group` computes target namespaces and the APIs that a group provides
//! * `subscription` resolves the Subscriptions of a namespace and creates InstallPlans; `install_plan` executes them, and
//!   `unpack` gets the objects of bundles in images
//! * `csv` moves a ClusterServiceVersion through its phases and installs it; `copies` copies it to target namespaces
//! * `operator_condition` maintains the OperatorCondition of each ClusterServiceVersion
//! * `bootstrap` installs the definitions and the objects of an OLM installation

mod bootstrap;
mod catalog;
mod catalog_source;
mod copies;
mod csv;
mod definitions;
mod install_plan;
mod kinds;
mod names;
mod operator_condition;
mod operator_group;
mod packages;
mod properties;
mod resolve;
mod rules;
mod steps;
mod subscription;
#[cfg(test)]
mod tests;
mod unpack;
mod v1;

use std::sync::Arc;

use operator_apiserver::client::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::engine::{Cache, Controller};
use crate::object::Object;
use crate::objects::Objects;

pub use bootstrap::VERSION;
pub use definitions::definitions;
pub use unpack::IMAGE as UNPACK_IMAGE;

/// The namespace of OLM itself; its catalogs serve all namespaces.
pub(crate) const NAMESPACE: &str = "olm";

/// The label of objects that OLM creates.
pub(crate) const MANAGED: &str = "olm.managed";
/// The label of copied ClusterServiceVersions and roles: the namespace of the original.
pub(crate) const COPIED_FROM: &str = "olm.copiedFrom";
const OWNER: &str = "olm.owner";
const OWNER_NAMESPACE: &str = "olm.owner.namespace";
const OWNER_KIND: &str = "olm.owner.kind";

/// Waits until the CRDs of OLM are served and its objects exist. Never returns if OLM does not run.
pub async fn installed(client: &Client) {
    crate::created(client, &kinds::CSV.gvr, NAMESPACE, "packageserver").await;
}

/// Starts to serve the content of catalogs; returns the controllers of OLM.
pub(crate) fn start(tasks: &mut JoinSet<()>, cache: &Arc<Cache>) -> Vec<Controller> {
    let catalogs = catalog::Catalogs::default();
    let mut base = None;
    if let Some((listener, address)) = v1::listen() {
        base = Some(format!("http://{address}"));
        tasks.spawn(v1::serve(listener, cache.clone(), catalogs.clone()));
    }
    let mut controllers = vec![
        bootstrap::controller(),
        catalog_source::controller(catalogs.clone()),
        packages::controller(catalogs.clone()),
        operator_group::controller(),
        subscription::controller(catalogs.clone()),
        install_plan::controller(),
        csv::controller(),
        copies::controller(),
        operator_condition::controller(),
    ];
    controllers.extend(v1::controllers(&catalogs, base));
    controllers
}

/// Returns true if a ClusterServiceVersion is a copy in a target namespace.
pub(crate) fn is_copy(csv: &Value) -> bool {
    csv.label(COPIED_FROM).is_some()
}

/// Returns the labels that identify the owner of an object, which may be in another namespace.
pub(crate) fn owner_labels(kind: &str, owner: &Value) -> Value {
    json!({
        MANAGED: "true",
        OWNER: names::label(owner.name()),
        OWNER_NAMESPACE: owner.namespace(),
        OWNER_KIND: kind,
    })
}

/// Returns true if the labels of an object identify an owner.
pub(crate) fn is_owned(object: &Value, kind: &str, namespace: &str, name: &str) -> bool {
    object.label(OWNER) == Some(&names::label(name))
        && object.label(OWNER_NAMESPACE) == Some(namespace)
        && object.label(OWNER_KIND) == Some(kind)
}

/// Returns an owner reference that is not a controller reference, as OLM sets it.
pub(crate) fn owner_reference(kind: &crate::kind::Kind, owner: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name,
        "name": owner.name(),
        "uid": owner.uid(),
        "controller": false,
        "blockOwnerDeletion": false,
    })
}

/// Returns the ClusterServiceVersions of a namespace (all namespaces if empty) that are neither copies nor being
/// deleted.
pub(crate) fn originals<'a>(
    objects: &'a Objects,
    namespace: &'a str,
) -> impl Iterator<Item = &'a Arc<Value>> {
    objects
        .list(&kinds::CSV, namespace)
        .filter(|csv| !is_copy(csv) && !csv.is_terminating())
}

/// Returns the strings of a list.
pub(crate) fn strings(items: &[Value]) -> Vec<String> {
    items
        .iter()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

/// Replaces the condition of a type in a list; the transition time changes only with the status.
pub(crate) fn set_condition(conditions: &mut Vec<Value>, mut condition: Value, now: &Value) {
    let kind = condition.text("/type").to_owned();
    let known = conditions.iter_mut().find(|known| known.text("/type") == kind);
    let Some(known) = known else {
        condition["lastTransitionTime"] = now.clone();
        conditions.push(condition);
        return;
    };
    let same = known.text("/status") == condition.text("/status");
    condition["lastTransitionTime"] = match known.get("lastTransitionTime") {
        Some(time) if same => time.clone(),
        _ => now.clone(),
    };
    *known = condition;
}

/// Removes the condition of a type from a list.
pub(crate) fn remove_condition(conditions: &mut Vec<Value>, kind: &str) {
    conditions.retain(|condition| condition.text("/type") != kind);
}
