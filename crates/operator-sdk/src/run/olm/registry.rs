//! The pod that serves the catalog of a bundle.

use serde_json::{Value, json};

use crate::args::{RegistryArgs, SecurityContextArg};
use crate::process::objects::text;

const PORT: u16 = 50051;
/// The maximum length of a pod name that is a DNS label.
const NAME_MAX: usize = 63;

/// Returns the name of the pod for a bundle: its last 63 characters as a DNS label.
pub(super) fn name(csv: &str) -> String {
    let text = format!("{csv}-registry").to_lowercase();
    let label: String = text
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() {
                character
            } else {
                '-'
            }
        })
        .collect();
    let start = label.len().saturating_sub(NAME_MAX);
    label[start..].trim_matches('-').to_owned()
}

/// Returns the address of the catalog that a pod serves.
pub(super) fn address(pod: &Value) -> String {
    format!("{}:{PORT}", text(pod, "/status/podIP"))
}

/// Returns the pod, which reads the catalog from the given number of ConfigMaps.
pub(super) fn pod(name: &str, source: &Value, config_maps: usize, args: &RegistryArgs) -> Value {
    let catalog = text(source, "/metadata/name");
    let names: Vec<String> = (1..=config_maps)
        .map(|index| super::part_name(catalog, index))
        .collect();
    let root = format!("/{catalog}-configs");
    let unpack: Vec<String> = names
        .iter()
        .map(|part| {
            format!("mkdir -p {root}/{part} && gunzip -c /compressed/{part}/extraFBC > {root}/{part}/extraFBC.yaml")
        })
        .collect();
    let mut volumes: Vec<Value> = names
        .iter()
        .map(|part| json!({"name": part, "configMap": {"name": part}}))
        .collect();
    volumes.push(json!({"name": "configs", "emptyDir": {}}));
    let mut mounts: Vec<Value> = names
        .iter()
        .map(|part| json!({"name": part, "mountPath": format!("/compressed/{part}")}))
        .collect();
    mounts.push(json!({"name": "configs", "mountPath": root}));
    let serve = json!([
        "opm",
        "serve",
        root,
        "-p",
        PORT.to_string(),
        "--cache-enforce-integrity=false"
    ]);
    let mut init = json!({
        "name": "registry-grpc-init", "image": args.decompression_image, "imagePullPolicy": args.image_pull_policy,
        "command": ["sh", "-c", unpack.join(" && ")], "volumeMounts": mounts,
    });
    let mut container = json!({
        "name": "registry-grpc", "image": args.index_image, "imagePullPolicy": args.image_pull_policy,
        "command": serve, "ports": [{"name": "grpc", "containerPort": PORT}],
        "volumeMounts": [{"name": "configs", "mountPath": root}],
    });
    let mut spec = json!({"serviceAccountName": args.service_account, "volumes": volumes});
    if args.security_context_config == SecurityContextArg::Restricted {
        spec["securityContext"] =
            json!({"runAsNonRoot": true, "runAsUser": 1001, "seccompProfile": {"type": "RuntimeDefault"}});
        for container in [&mut init, &mut container] {
            container["securityContext"] =
                json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        }
    }
    if let Some(secret) = &args.pull_secret_name {
        spec["imagePullSecrets"] = json!([{"name": secret}]);
    }
    spec["initContainers"] = json!([init]);
    spec["containers"] = json!([container]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "ownerReferences": [owner(source)]},
        "spec": spec,
    })
}

/// Returns the owner reference of the catalog's objects to a CatalogSource.
fn owner(source: &Value) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "name": source["metadata"]["name"], "uid": source["metadata"]["uid"],
    })
}

/// Returns the reason why a pod is not running, if there is one.
pub(crate) fn fault(pod: &Value) -> Option<String> {
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let mut waiting = statuses.iter().flat_map(|pointer| {
        let all = pod.pointer(pointer).and_then(Value::as_array);
        all.into_iter().flatten()
    });
    let found = waiting.find_map(|status| {
        let state = ["/state/waiting", "/state/terminated", "/lastState/terminated"];
        state.iter().find_map(|state| {
            let reason = text(status, &format!("{state}/reason"));
            let plain = ["", "PodInitializing", "ContainerCreating", "Completed"];
            (!plain.contains(&reason)).then(|| {
                let message = text(status, &format!("{state}/message"));
                format!("container {} has {reason} {message}", text(status, "/name"))
            })
        })
    });
    let unscheduled = || {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        let condition = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False")?;
        Some(text(condition, "/message").to_owned())
    };
    found.or_else(unscheduled).map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_pod_is_a_label() {
        assert_eq!(name("Op.v1.0.0+x"), "op-v1-0-0-x-registry");
        assert_eq!(name(&"a".repeat(80)).len(), 63);
    }

    #[test]
    fn a_pod_says_why_it_does_not_run() {
        let pulling = json!({"status": {"containerStatuses": [
            {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
        ]}});
        assert_eq!(
            fault(&pulling).as_deref(),
            Some("container c has ImagePullBackOff no such image")
        );
        let creating = json!({"status": {"containerStatuses": [
            {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}},
        ]}});
        assert_eq!(fault(&creating), None);
    }
}
