//! The objects of a new cluster.

use apimachinery::object;
use serde_json::{Value, json};

use crate::registry::{Registry, ip_address};
use crate::resource::builtin_catalog;
use builtin_kinds::cluster_objects;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Stores the initial objects, unless the data directory has them.
pub(crate) fn populate(registry: &Registry) {
    for name in NAMESPACES {
        insert(
            registry,
            ("", "v1", "namespaces"),
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            }),
        );
    }
    let now = registry.timestamp();
    for (resource, object) in cluster_objects::objects() {
        let mut object = object.clone();
        set_transition_times(&mut object, &now);
        insert(registry, *resource, object);
    }
    populate_service_network(registry);
    ip_address::complete(registry);
    let today = now.split('T').next().unwrap_or_default();
    insert(
        registry,
        ("", "v1", "configmaps"),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system",
            },
            "data": {"since": today},
        }),
    );
}

/// Sets the range of service addresses, and creates the Service of the server with its address.
fn populate_service_network(registry: &Registry) {
    let address = registry.service_network.kubernetes();
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let address = address.to_string();
    let ranges: Vec<String> = registry
        .service_network
        .ranges()
        .map(|range| range.to_string())
        .collect();
    insert(
        registry,
        ("networking.k8s.io", "v1", "servicecidrs"),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": ranges},
            "status": {"conditions": [{
                "type": "Ready", "status": "True", "reason": "", "lastTransitionTime": registry.timestamp(),
                "message": "Kubernetes default Service CIDR is ready",
            }]},
        }),
    );
    insert(
        registry,
        ("", "v1", "services"),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": address, "clusterIPs": [address], "internalTrafficPolicy": "Cluster",
                "ipFamilies": [family], "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
                "sessionAffinity": "None", "type": "ClusterIP",
            },
            "status": {"loadBalancer": {}},
        }),
    );
}

/// Sets the times of the conditions, which the table does not have.
fn set_transition_times(object: &mut Value, now: &str) {
    let conditions = object.pointer_mut("/status/conditions");
    for condition in conditions.and_then(Value::as_array_mut).into_iter().flatten() {
        condition["lastTransitionTime"] = now.into();
    }
}

fn insert(registry: &Registry, (group, version, resource): (&str, &str, &str), mut object: Value) {
    let Some(definition) = builtin_catalog().find(group, version, resource) else {
        return;
    };
    let key = definition.key(object::namespace(&object), object::name(&object));
    if registry.store.get(&definition.table, &key).is_some() {
        return;
    }
    object::set_meta(&mut object, "uid", Some(registry.random.uuid().into()));
    object::set_meta(
        &mut object,
        "creationTimestamp",
        Some(registry.timestamp().into()),
    );
    let result = registry
        .store
        .create(&definition.table, &definition.storage, &key, object);
    if let Err(error) = result {
        tracing::error!(%key, ?error, "bootstrap object not stored");
    }
}
