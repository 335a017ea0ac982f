//! ClusterCatalog: reports the content that it serves, or the reason why it serves nothing.

use operator_apiserver::client::Event;
use serde_json::{Value, json};

use super::NAMESPACE;
use super::condition::put;
use crate::controller::key_of;
use crate::engine::Controller;
use crate::kind::CONFIG_MAP;
use crate::object::{Object, time};
use crate::objects::{Key, Objects};
use crate::olm::catalog::Catalogs;
use crate::olm::kinds::CLUSTER_CATALOG;
use crate::plan::{Plan, World, patch_metadata, update_status};

/// The label with the name of a catalog, by which extensions select it.
const NAME: &str = "olm.operatorframework.io/metadata.name";

/// Returns the controller.
pub(super) fn controller(catalogs: Catalogs, base: Option<String>) -> Controller {
    let base = base.unwrap_or_else(|| format!("https://catalogd-service.{NAMESPACE}.svc"));
    Controller {
        name: "olmv1-cluster-catalog",
        keys,
        plan: Box::new(move |world, key| plan(world, key, &catalogs, &base)),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&CLUSTER_CATALOG, event, keys);
    if CONFIG_MAP.is(&event.gvr) && event.object.namespace() == NAMESPACE {
        keys.extend(objects.list(&CLUSTER_CATALOG, "").map(|catalog| Key::of(catalog)));
    }
}

fn plan(world: &World<'_>, key: &Key, catalogs: &Catalogs, base: &str) -> Plan {
    let catalog = world.objects.get(&CLUSTER_CATALOG, "", &key.name);
    let Some(catalog) = catalog.filter(|catalog| !catalog.is_terminating()) else {
        return Plan::done();
    };
    if catalog.label(NAME) != Some(catalog.name()) {
        return Plan::act(patch_metadata(
            &CLUSTER_CATALOG.gvr,
            catalog,
            json!({"labels": {NAME: catalog.name()}}),
        ));
    }
    Plan {
        status: update_status(&CLUSTER_CATALOG, catalog, status(world, catalog, catalogs, base)),
        ..Plan::default()
    }
}

/// Returns true if extensions can use a catalog.
pub(super) fn is_available(catalog: &Value) -> bool {
    catalog.text("/spec/availabilityMode") != "Unavailable" && !catalog.is_terminating()
}

fn status(world: &World<'_>, catalog: &Value, catalogs: &Catalogs, base: &str) -> Value {
    let now = time(world.now);
    let mut status = catalog.get("status").cloned().unwrap_or(json!({}));
    if !is_available(catalog) {
        const MESSAGE: &str = "Catalog availability mode is set to Unavailable";
        status = json!({"conditions": status.items("/conditions")});
        put(
            &mut status,
            catalog,
            "Progressing",
            "True",
            "Succeeded",
            MESSAGE,
            &now,
        );
        put(
            &mut status,
            catalog,
            "Serving",
            "False",
            "UserSpecifiedUnavailable",
            MESSAGE,
            &now,
        );
        return status;
    }
    match catalogs.of_cluster(world.objects, catalog) {
        Ok(content) => {
            let message = "Successfully unpacked and stored content from resolved source";
            put(
                &mut status,
                catalog,
                "Progressing",
                "True",
                "Succeeded",
                message,
                &now,
            );
            let message = "Serving desired content from resolved source";
            put(
                &mut status,
                catalog,
                "Serving",
                "True",
                "Available",
                message,
                &now,
            );
            let image = catalog.text("/spec/source/image/ref");
            let digest = content.digest.as_str();
            let name = image.split('@').next().unwrap_or_default();
            let (path, tag) = name.rsplit_once(':').unwrap_or((name, ""));
            let name = if tag.contains('/') { name } else { path };
            let resolved = format!("{name}@sha256:{digest}");
            if status.text("/resolvedSource/image/ref") != resolved {
                status["resolvedSource"] = json!({"type": "Image", "image": {"ref": resolved}});
                status["lastUnpacked"] = now;
            }
            status["urls"] = json!({"base": format!("{base}/catalogs/{}", catalog.name())});
        }
        Err(fault) => {
            put(
                &mut status,
                catalog,
                "Progressing",
                "True",
                "Retrying",
                fault.message(),
                &now,
            );
            status = json!({"conditions": status.items("/conditions")});
            put(&mut status, catalog, "Serving", "False", "Unavailable", "", &now);
        }
    }
    status
}
