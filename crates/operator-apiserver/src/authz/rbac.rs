//! Roles and their bindings, read from the store with each request.

use std::sync::Arc;

use serde_json::Value;

use crate::authn::User;
use crate::object;
use crate::registry::Registry;
use crate::request_info::RequestInfo;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Whether a binding gives the user a rule that covers the request.
pub(super) fn allows(registry: &Registry, user: &User, info: &RequestInfo) -> bool {
    let cluster = bindings(registry, "clusterrolebindings", "");
    if grants(registry, &cluster, user, info) {
        return true;
    }
    if info.namespace.is_empty() {
        return false;
    }
    let local = bindings(registry, "rolebindings", &format!("{}/", info.namespace));
    grants(registry, &local, user, info)
}

fn bindings(registry: &Registry, resource: &str, prefix: &str) -> Vec<Arc<Value>> {
    let listing = registry.store.list(&format!("{resource}.{GROUP}"), prefix);
    listing
        .objects
        .iter()
        .map(|stored| stored.value.clone())
        .collect()
}

fn grants(registry: &Registry, bindings: &[Arc<Value>], user: &User, info: &RequestInfo) -> bool {
    bindings
        .iter()
        .filter(|binding| {
            list(binding, "subjects")
                .iter()
                .any(|subject| is_subject(subject, user, binding))
        })
        .any(|binding| {
            let rules = rules(registry, binding);
            rules.iter().any(|rule| covers(rule, info))
        })
}

fn is_subject(subject: &Value, user: &User, binding: &Value) -> bool {
    let name = object::text(subject, &["name"]);
    match object::text(subject, &["kind"]) {
        "User" => user.name == name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let given = object::text(subject, &["namespace"]);
            let namespace = if given.is_empty() {
                object::namespace(binding)
            } else {
                given
            };
            user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

/// The rules of the role that a binding refers to; `cluster-admin` exists without being stored.
fn rules(registry: &Registry, binding: &Value) -> Vec<Value> {
    let name = object::text(binding, &["roleRef", "name"]);
    let (table, key) = match object::text(binding, &["roleRef", "kind"]) {
        "Role" => ("roles", format!("{}/{name}", object::namespace(binding))),
        _ => ("clusterroles", name.to_owned()),
    };
    match registry.store.get(&format!("{table}.{GROUP}"), &key) {
        Some(role) => list(&role.value, "rules").to_vec(),
        None if table == "clusterroles" && name == "cluster-admin" => vec![serde_json::json!({
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"],
        })],
        None => Vec::new(),
    }
}

fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value
        .get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn has(rule: &Value, field: &str, wanted: &str) -> bool {
    list(rule, field)
        .iter()
        .any(|known| known == "*" || known == wanted)
}

fn covers(rule: &Value, info: &RequestInfo) -> bool {
    if !has(rule, "verbs", info.verb) {
        return false;
    }
    if !info.is_resource {
        return list(rule, "nonResourceURLs")
            .iter()
            .filter_map(Value::as_str)
            .any(|url| url_covers(url, &info.path));
    }
    let names = list(rule, "resourceNames");
    has(rule, "apiGroups", &info.group)
        && resource_covers(rule, info)
        && (names.is_empty() || names.iter().any(|name| *name == info.name))
}

fn resource_covers(rule: &Value, info: &RequestInfo) -> bool {
    if info.subresource.is_empty() {
        return has(rule, "resources", &info.resource);
    }
    let full = format!("{}/{}", info.resource, info.subresource);
    let any = format!("*/{}", info.subresource);
    has(rule, "resources", &full) || list(rule, "resources").iter().any(|known| *known == any)
}

fn url_covers(url: &str, path: &str) -> bool {
    match url.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => url == path,
    }
}
