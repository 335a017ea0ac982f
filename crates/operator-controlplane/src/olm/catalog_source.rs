//! CatalogSource: reports the connection to its registry, or the reason why it is missing.

use apimachinery::time::parse_timeout;
use operator_apiserver::client::Event;
use serde_json::{Value, json};

use super::catalog::{Catalogs, Fault};
use super::kinds::CATALOG_SOURCE;
use super::owner_reference;
use crate::controller::key_of;
use crate::engine::Controller;
use crate::kind::{CONFIG_MAP, SERVICE};
use crate::object::{Object, time};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Plan, World, create, update_status};

const PORT: u16 = 50051;

/// Returns the controller.
pub(crate) fn controller(catalogs: Catalogs) -> Controller {
    Controller {
        name: "olm-catalog-source",
        keys,
        plan: Box::new(move |world, key| plan(world, key, &catalogs)),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&CATALOG_SOURCE, event, keys);
    if CONFIG_MAP.is(&event.gvr) {
        let sources = objects.list(&CATALOG_SOURCE, event.object.namespace());
        keys.extend(sources.map(|source| Key::of(source)));
    }
}

pub(super) fn plan(world: &World<'_>, key: &Key, catalogs: &Catalogs) -> Plan {
    let source = world.objects.get(&CATALOG_SOURCE, &key.namespace, &key.name);
    let Some(source) = source.filter(|source| !source.is_terminating()) else {
        return Plan::done();
    };
    let content = catalogs.content(world.objects, source);
    let is_served = source.text("/spec/address").is_empty() && !matches!(content, Err(Fault::Spec(_)));
    let actions: Vec<Action> = is_served
        .then(|| service(world.objects, source))
        .flatten()
        .into_iter()
        .collect();
    let fault = content.as_ref().err().cloned().or_else(|| interval(source));
    let status = status(world, source, content.is_ok(), fault.as_ref(), is_served);
    Plan {
        actions,
        status: update_status(&CATALOG_SOURCE, source, status),
        after: None,
    }
}

/// Creates the Service of a registry that OLM runs itself.
fn service(objects: &Objects, source: &Value) -> Option<Action> {
    if objects.get(&SERVICE, source.namespace(), source.name()).is_some() {
        return None;
    }
    let selector = json!({"olm.catalogSource": source.name(), "olm.managed": "true"});
    let object = json!({
        "metadata": {
            "name": source.name(),
            "namespace": source.namespace(),
            "labels": {"olm.managed": "true", "olm.catalogSource": source.name()},
            "ownerReferences": [owner_reference(&CATALOG_SOURCE, source)],
        },
        "spec": {
            "selector": selector,
            "ports": [{"name": "grpc", "port": PORT, "targetPort": PORT}],
        },
    });
    Some(create(&SERVICE, object, None))
}

fn interval(source: &Value) -> Option<Fault> {
    let interval = source.text("/spec/updateStrategy/registryPoll/interval");
    let error = parse_timeout(interval).err().filter(|_| !interval.is_empty())?;
    Some(Fault::Spec(format!(
        "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. Error: {error}"
    )))
}

fn status(
    world: &World<'_>,
    source: &Value,
    readable: bool,
    fault: Option<&Fault>,
    is_served: bool,
) -> Value {
    let now = time(world.now);
    let mut status = json!({});
    if let Some(fault) = fault {
        let reason = if readable {
            "InvalidIntervalError"
        } else {
            fault.reason()
        };
        status["reason"] = reason.into();
        status["message"] = fault.message().into();
    }
    if matches!(fault, Some(Fault::Spec(_))) && !readable {
        return status;
    }
    let before = source.text("/status/connectionState/lastObservedState");
    let state = match (readable, before) {
        (true, "") => "CONNECTING",
        (true, _) => "READY",
        (false, _) => "TRANSIENT_FAILURE",
    };
    let address = match source.text("/spec/address") {
        "" => format!("{}.{}.svc:{PORT}", source.name(), source.namespace()),
        address => address.to_owned(),
    };
    let last = source.pointer("/status/connectionState/lastConnect");
    let last = last.filter(|_| before == state).cloned().unwrap_or(now.clone());
    status["connectionState"] = json!({"address": address, "lastObservedState": state, "lastConnect": last});
    if is_served {
        let created = source.pointer("/status/registryService/createdAt").cloned();
        status["registryService"] = json!({
            "protocol": "grpc",
            "serviceName": source.name(),
            "serviceNamespace": source.namespace(),
            "port": PORT.to_string(),
            "createdAt": created.unwrap_or(now),
        });
    }
    status
}
