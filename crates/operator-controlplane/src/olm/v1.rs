//! OLM v1: ClusterCatalogs and ClusterExtensions.
//!
//! * `catalog` reports the content of a ClusterCatalog, `content` serves it over HTTP
//! * `extension` installs the bundle of a ClusterExtension: `resolve` selects the bundle, `config` reads the settings
//!   of
//!   the user, `preflight` checks updates of CRDs, `render` creates plain objects, `apply` compares them with the
//!   cluster
//! * `revision` records each installed version; `condition` contains the texts of the status

mod apply;
mod catalog;
mod condition;
mod config;
mod content;
mod definitions;
mod extension;
mod preflight;
mod render;
mod resolve;
mod revision;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::catalog::Catalogs;
use super::kinds::CLUSTER_EXTENSION;
use crate::engine::Controller;
use crate::object::Object;

pub(super) use content::{listen, serve};
pub(super) use definitions::definitions;

/// The namespace of OLM v1.
pub(crate) const NAMESPACE: &str = "olmv1-system";
/// The labels of managed objects.
const OWNER_KIND: &str = "olm.operatorframework.io/owner-kind";
const OWNER_NAME: &str = "olm.operatorframework.io/owner-name";
/// The annotation of a managed object with the revision for which it was written.
const REVISION: &str = "olm.operatorframework.io/revision";

/// Returns the controllers. `base` is the address at which the content of catalogs is served.
pub(super) fn controllers(catalogs: &Catalogs, base: Option<String>) -> Vec<Controller> {
    vec![
        catalog::controller(catalogs.clone(), base),
        extension::controller(catalogs.clone()),
    ]
}

fn owner_labels(extension: &Value) -> Value {
    json!({OWNER_KIND: CLUSTER_EXTENSION.name, OWNER_NAME: super::names::label(extension.name())})
}

fn owner_reference(extension: &Value) -> Value {
    json!({
        "apiVersion": CLUSTER_EXTENSION.api_version(),
        "kind": CLUSTER_EXTENSION.name,
        "name": extension.name(),
        "uid": extension.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Returns true if an object belongs to an extension.
fn is_owned(object: &Value, extension: &Value) -> bool {
    let owners = object.items("/metadata/ownerReferences").iter();
    owners
        .map(|owner| owner.text("/uid"))
        .any(|uid| uid == extension.uid())
}
