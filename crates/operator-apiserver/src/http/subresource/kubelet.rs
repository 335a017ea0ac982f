//! The responses of a node's kubelet about a pod. There are no kubelets: nodes are simulated or created by users.

use std::sync::Arc;

use apimachinery::object;
use serde_json::Value;

use crate::registry::Registry;
use crate::resource::builtin_catalog;
use crate::status::{self, Status};
use builtin_kinds::tree::{list, text};

/// Returns the name of the selected container: the requested one, or the only one.
pub(super) fn container_of(pod: &Value, wanted: &str) -> Result<String, Status> {
    let name = object::name(pod);
    let names = |field: &str| -> Vec<&str> {
        let containers = list(pod, &["spec", field]).iter();
        containers.map(|container| text(container, &["name"])).collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    if !wanted.is_empty() {
        let known = containers.contains(&wanted)
            || init.contains(&wanted)
            || names("ephemeralContainers").contains(&wanted);
        return match known {
            true => Ok(wanted.to_owned()),
            false => Err(status::bad_request(format!(
                "container {wanted} is not valid for pod {name}"
            ))),
        };
    }
    match containers.as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => Err(status::bad_request(format!(
            "a container name must be specified for pod {name}"
        ))),
        _ => {
            let mut why = format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                containers.join(" ")
            );
            if !init.is_empty() {
                why.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            Err(status::bad_request(why))
        }
    }
}

/// Returns the node with a name, if it has an address.
pub(super) fn reachable_node(registry: &Registry, name: &str) -> Result<Arc<Value>, Status> {
    let definition = builtin_catalog()
        .find("", "v1", "nodes")
        .ok_or_else(status::unknown_resource)?;
    let node = registry.get(&definition, "", name)?.value.clone();
    if list(&node, &["status", "addresses"]).is_empty() {
        return Err(status::plain("no preferred addresses found; known addresses: []"));
    }
    Ok(node)
}

/// Returns the status of a container.
pub(super) fn container_status<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    let lists = [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ];
    lists
        .iter()
        .flat_map(|field| list(pod, &["status", field]))
        .find(|status| text(status, &["name"]) == container)
}
