//! The usage of services.

use apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::pod_resources::Amounts;
use crate::tree::{at, is_zero, list, text};

pub(super) fn covers(name: &str) -> bool {
    matches!(name, "services" | "services.loadbalancers" | "services.nodeports")
}

pub(super) fn usage(service: &Value) -> Amounts {
    let kind = text(service, &["spec", "type"]);
    let ports = list(service, &["spec", "ports"]);
    let chosen = ports
        .iter()
        .filter(|port| !is_zero(at(port, &["nodePort"])))
        .count();
    let allocates = at(service, &["spec", "allocateLoadBalancerNodePorts"]) != &Value::Bool(false);
    let node_ports = match kind {
        "LoadBalancer" if !allocates => chosen,
        "NodePort" | "LoadBalancer" => ports.len(),
        _ => 0,
    };
    Amounts::from(
        [
            ("services", 1),
            ("services.nodeports", node_ports),
            ("services.loadbalancers", usize::from(kind == "LoadBalancer")),
        ]
        .map(|(name, count)| (name.to_owned(), Quantity::from(count))),
    )
}
