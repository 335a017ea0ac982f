//! Node objects, and the addresses of nodes and pods.

use serde_json::{Value, json};

use crate::kind::{LEASE, NODE};
use crate::object::{Object, time};
use crate::plan::{Action, World, create, update_status};

const LEASES: &str = "kube-node-lease";
const VERSION: &str = "v1.36.2";

/// Returns the address of a node.
pub(crate) fn address(index: usize) -> String {
    format!("10.127.{}.{}", index / 250, index % 250 + 1)
}

/// Returns the address of the n-th pod of a node, within the node's `podCIDR`.
pub(crate) fn pod_address(index: usize, number: u32) -> String {
    let [_, _, high, low] = (number % 65_534 + 1).to_be_bytes();
    format!("10.{}.{high}.{low}", 128 + index % 128)
}

/// Creates the Node and its Lease, and reports the Node as ready. An existing Node is reused.
pub(super) fn register(world: &World<'_>, name: &str, index: usize) -> Vec<Action> {
    let Some(node) = world.objects.get(&NODE, "", name) else {
        return vec![
            create(&NODE, node(name, index), None),
            create(&LEASE, lease(world, name), None),
        ];
    };
    if node.is_condition_true("Ready") {
        return Vec::new();
    }
    update_status(&NODE, node, status(world, name, index))
        .into_iter()
        .collect()
}

fn node(name: &str, index: usize) -> Value {
    let range = format!("10.{}.0.0/16", 128 + index % 128);
    let arch = std::env::consts::ARCH
        .replace("x86_64", "amd64")
        .replace("aarch64", "arm64");
    json!({
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": arch,
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": arch,
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
            },
        },
        "spec": {"podCIDR": range, "podCIDRs": [range]},
    })
}

fn lease(world: &World<'_>, name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": LEASES},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": world.now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        },
    })
}

fn status(world: &World<'_>, name: &str, index: usize) -> Value {
    let resources = json!({"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "65000"});
    json!({
        "capacity": resources,
        "allocatable": resources,
        "conditions": conditions(world),
        "addresses": [
            {"type": "InternalIP", "address": address(index)},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": std::env::consts::ARCH.replace("x86_64", "amd64").replace("aarch64", "arm64"),
            "bootID": "",
            "containerRuntimeVersion": "simulated://1",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": VERSION,
            "machineID": name,
            "operatingSystem": "linux",
            "osImage": "Simulated",
            "systemUUID": name,
        },
    })
}

fn conditions(world: &World<'_>) -> Vec<Value> {
    let pressures = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let condition = |(kind, status, reason, message)| {
        json!({
            "type": kind,
            "status": status,
            "lastHeartbeatTime": time(world.now),
            "lastTransitionTime": time(world.now),
            "reason": reason,
            "message": message,
        })
    };
    pressures.map(condition).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, names};

    #[test]
    fn addresses_differ_and_stay_in_range() {
        assert_eq!(address(0), "10.127.0.1");
        assert_eq!(pod_address(0, 1), "10.128.0.2");
        assert_eq!(pod_address(1, 255), "10.129.1.0");
    }

    #[test]
    fn a_node_registers_and_becomes_ready_once() {
        let mut scene = Scene::new();
        let step = |scene: &Scene| {
            scene
                .plan(
                    |world, key| crate::plan::Plan::actions(register(world, &key.name, 0)),
                    "",
                    "node-1",
                )
                .actions
        };
        assert_eq!(
            names(&step(&scene)),
            ["create nodes/node-1", "create leases/node-1"]
        );
        scene.put(&NODE, node("node-1", 0));
        let Some(Action::Update { object, .. }) = step(&scene).pop() else {
            panic!("an update")
        };
        assert!(object.is_condition_true("Ready"));
        scene.put(&NODE, *object);
        assert!(step(&scene).is_empty());
    }
}
