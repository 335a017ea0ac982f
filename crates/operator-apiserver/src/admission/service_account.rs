//! ServiceAccount: sets the service account of a pod, and mounts the account's token.

use apimachinery::object;
use serde_json::{Value, json};

use crate::admission::Admission;
use crate::status::Status;
use crate::write::Write;

const TABLE: &str = "serviceaccounts";
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_SECONDS: i64 = 3607;
/// The annotation of mirror pods, which have no service account.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

pub(super) fn admit(admission: &Admission, write: &Write, pod: &mut Value) -> Result<(), Status> {
    if object::get(pod, &["metadata", "annotations", MIRROR_ANNOTATION]).is_some() {
        return Ok(());
    }
    let spec = object::child_mut(pod, "spec");
    let given = spec
        .get("serviceAccountName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let name = if given.is_empty() { "default" } else { given }.to_owned();
    spec.insert("serviceAccountName".to_owned(), name.as_str().into());
    spec.insert("serviceAccount".to_owned(), name.as_str().into());
    let key = format!("{}/{name}", write.namespace);
    let Some(account) = admission.store.get(TABLE, &key) else {
        let quoted = apimachinery::go::quote(&name);
        let faults = apimachinery::names::path_segment(&name);
        let why = if faults.is_empty() {
            format!("serviceaccount {quoted} not found")
        } else {
            format!("invalid resource name {quoted}: [{}]", faults.join(" "))
        };
        let why = format!("error looking up service account {key}: {why}");
        return Err(write.forbidden(Some(pod), &why));
    };
    if mounts_token(pod, &account.value) {
        mount_token(admission, pod);
    }
    add_pull_secrets(pod, &account.value);
    Ok(())
}

/// Returns true if the token is mounted. The pod's setting takes precedence over the account's; the default is true.
fn mounts_token(pod: &Value, account: &Value) -> bool {
    let wish = object::get(pod, &["spec", "automountServiceAccountToken"])
        .or_else(|| account.get("automountServiceAccountToken"))
        .and_then(Value::as_bool);
    wish.unwrap_or(true)
}

fn mount_token(admission: &Admission, pod: &mut Value) {
    let volume = format!("kube-api-access-{}", admission.random.suffix());
    let mut mounted = false;
    let spec = object::child_mut(pod, "spec");
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            mounted |= mount_in(container, &volume);
        }
    }
    if !mounted {
        return;
    }
    let volumes = spec.entry("volumes".to_owned()).or_insert_with(|| json!([]));
    if volumes.is_null() {
        *volumes = json!([]);
    }
    if let Some(volumes) = volumes.as_array_mut() {
        volumes.push(token_volume(&volume));
    }
}

fn mount_in(container: &mut Value, volume: &str) -> bool {
    let Some(container) = container.as_object_mut() else {
        return false;
    };
    let mounts = container
        .entry("volumeMounts".to_owned())
        .or_insert_with(|| json!([]));
    if mounts.is_null() {
        *mounts = json!([]);
    }
    let Some(mounts) = mounts.as_array_mut() else {
        return false;
    };
    if mounts
        .iter()
        .any(|mount| mount.get("mountPath") == Some(&json!(TOKEN_PATH)))
    {
        return false;
    }
    mounts.push(json!({"name": volume, "readOnly": true, "mountPath": TOKEN_PATH}));
    true
}

fn token_volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }},
                {"downwardAPI": {"items": [{
                    "path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                }]}},
                {"configMap": {
                    "name": "openshift-service-ca.crt",
                    "items": [{"key": "service-ca.crt", "path": "service-ca.crt"}],
                }},
            ],
        },
    })
}

fn add_pull_secrets(pod: &mut Value, account: &Value) {
    let Some(secrets) = account.get("imagePullSecrets").filter(|list| !list.is_null()) else {
        return;
    };
    let spec = object::child_mut(pod, "spec");
    let own = spec.get("imagePullSecrets").and_then(Value::as_array);
    if own.is_none_or(Vec::is_empty) {
        spec.insert("imagePullSecrets".to_owned(), secrets.clone());
    }
}
