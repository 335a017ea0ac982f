//! What exists in a new cluster.

mod policy;

use serde_json::{Value, json};

use crate::object;
use crate::registry::{Registry, builtin_catalog};

const RBAC: &str = "rbac.authorization.k8s.io";
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Puts the first objects into the store, unless it came with them.
pub(crate) fn populate(registry: &Registry) {
    populate_roles(registry);
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
    let address = registry.service_network.host(1).to_string();
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
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
                "sessionAffinity": "None", "type": "ClusterIP",
            },
            "status": {"loadBalancer": {}},
        }),
    );
}

/// Puts the first roles and bindings into the store.
fn populate_roles(registry: &Registry) {
    for role in policy::cluster_roles() {
        insert(registry, (RBAC, "v1", "clusterroles"), role);
    }
    for binding in policy::cluster_role_bindings() {
        insert(registry, (RBAC, "v1", "clusterrolebindings"), binding);
    }
}

fn insert(registry: &Registry, (group, version, resource): (&str, &str, &str), mut object: Value) {
    let Some(definition) = builtin_catalog().find(group, version, resource) else {
        return;
    };
    object::set_meta(&mut object, "uid", Some(registry.random.uuid().into()));
    object::set_meta(
        &mut object,
        "creationTimestamp",
        Some(registry.timestamp().into()),
    );
    let key = definition.key(object::namespace(&object), object::name(&object));
    if registry.store.get(&definition.table, &key).is_some() {
        return;
    }
    let result = registry
        .store
        .create(&definition.table, &definition.storage, &key, object);
    if let Err(error) = result {
        tracing::error!(%key, ?error, "a first object could not be stored");
    }
}
