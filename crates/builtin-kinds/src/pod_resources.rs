//! The total requests and limits of a pod (`k8s.io/component-helpers/resource`).

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::tree::{at, entries, list, text};

/// Quantities by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// Parses a map of quantities; invalid quantities are omitted.
pub fn amounts(quantities: &Value) -> Amounts {
    entries(quantities, &[])
        .filter_map(|(name, quantity)| Some((name.clone(), Quantity::from_json(quantity).ok()?)))
        .collect()
}

/// Adds amounts to a total.
pub fn add(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let sum = total
            .get(name)
            .map_or_else(|| amount.clone(), |known| known.plus(amount));
        total.insert(name.clone(), sum);
    }
}

/// Raises each amount of a total to at least the other amount.
pub fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if total.get(name).is_none_or(|known| known < amount) {
            total.insert(name.clone(), amount.clone());
        }
    }
}

/// Returns true if a resource can be set at the pod level.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Returns true if a pod has pod-level resources.
pub fn has_pod_level(spec: &Value) -> bool {
    ["requests", "limits"]
        .iter()
        .flat_map(|field| entries(spec, &["resources", field]))
        .any(|(name, _)| is_pod_level(name))
}

/// Returns the `requests` or `limits` of a pod: its pod-level resources, or else the sum of its containers.
pub fn of_pod(spec: &Value, field: &str, of: impl Fn(&Value) -> Amounts) -> Amounts {
    let mut total = of_containers(list(spec, &["containers"]), list(spec, &["initContainers"]), of);
    let own = amounts(at(spec, &["resources", field]));
    total.extend(own.into_iter().filter(|(name, _)| is_pod_level(name)));
    total
}

/// Returns the total of a pod's containers: the sum of the containers that run in parallel, or the maximum of an init
/// container if that is higher. `of` returns the resources of one container.
pub fn of_containers(
    containers: &[Value],
    init_containers: &[Value],
    of: impl Fn(&Value) -> Amounts,
) -> Amounts {
    let mut total = Amounts::new();
    for container in containers {
        add(&mut total, &of(container));
    }
    let (mut started, mut peak) = (Amounts::new(), Amounts::new());
    for container in init_containers {
        let mut needed = of(container);
        if text(container, &["restartPolicy"]) == "Always" {
            add(&mut total, &needed);
            add(&mut started, &needed);
            raise(&mut peak, &started);
        } else {
            add(&mut needed, &started);
            raise(&mut peak, &needed);
        }
    }
    raise(&mut total, &peak);
    total
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cpu(spec: &Value) -> String {
        let of = |container: &Value| amounts(at(container, &["resources", "requests"]));
        of_pod(spec, "requests", of)["cpu"].to_string()
    }

    fn container(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn containers_that_prepare_count_where_they_need_more_than_those_that_run() {
        let mut spec =
            json!({"containers": [container("1"), container("500m")], "initContainers": [container("1")]});
        assert_eq!(cpu(&spec), "1500m");
        spec["initContainers"] = json!([container("4")]);
        assert_eq!(cpu(&spec), "4");
        let mut sidecar = container("1");
        sidecar["restartPolicy"] = "Always".into();
        spec["initContainers"] = json!([sidecar, container("4")]);
        assert_eq!(cpu(&spec), "5");
        spec["initContainers"] = json!([sidecar]);
        assert_eq!(cpu(&spec), "2500m");
    }

    #[test]
    fn pod_level_resources_take_precedence_over_containers() {
        let spec = json!({
            "containers": [container("1")], "resources": {"requests": {"cpu": "300m"}, "limits": {"memory": "1Gi"}},
        });
        assert_eq!(cpu(&spec), "300m");
        assert!(has_pod_level(&spec));
        assert!(!has_pod_level(&json!({"containers": [container("1")]})));
    }
}
