//! The certificate of the webhook server of a bundle, which Operator Lifecycle Manager creates and mounts.

use serde_json::{Value, json};

use crate::process::objects::text;

/// The directory in which OLM mounts the certificate.
const DIRECTORY: &str = "/tmp/k8s-webhook-server/serving-certs";
const FLAG: &str = "--webhook-cert-path";

/// Adds the directory of the certificate to the arguments of the operator, if OLM will mount one and the arguments
/// contain no other directory. Without the flag, the operator would issue a certificate that OLM's webhook
/// configurations do not trust.
pub(super) fn use_those_of_olm(objects: &mut [Value]) {
    if !objects.iter().any(calls_webhooks) {
        return;
    }
    for deployment in objects.iter_mut().filter(|object| object["kind"] == "Deployment") {
        let containers = deployment
            .pointer_mut("/spec/template/spec/containers")
            .and_then(Value::as_array_mut);
        let Some(containers) = containers else { continue };
        let manager = containers
            .iter()
            .position(|container| container["name"] == "manager")
            .unwrap_or_default();
        if let Some(container) = containers.get_mut(manager) {
            add_flag(container);
        }
    }
}

/// Returns true if the API server calls webhooks of an object's operator.
fn calls_webhooks(object: &Value) -> bool {
    match text(object, "/kind") {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => true,
        "CustomResourceDefinition" => text(object, "/spec/conversion/strategy") == "Webhook",
        _ => false,
    }
}

fn add_flag(container: &mut Value) {
    let words = ["command", "args"].map(|field| container[field].as_array().cloned().unwrap_or_default());
    let mut words = words.iter().flatten().filter_map(Value::as_str);
    if words.any(|word| word.split('=').next() == Some(FLAG)) {
        return;
    }
    if !container["args"].is_array() {
        container["args"] = json!([]);
    }
    if let Some(arguments) = container["args"].as_array_mut() {
        arguments.push(format!("{FLAG}={DIRECTORY}").into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(arguments: &Value, others: &[Value]) -> Value {
        let deployment = json!({"kind": "Deployment", "spec": {"template": {"spec": {"containers": [
            {"name": "proxy"}, {"name": "manager", "args": arguments},
        ]}}}});
        let mut objects = vec![deployment];
        objects.extend_from_slice(others);
        use_those_of_olm(&mut objects);
        objects[0]["spec"]["template"]["spec"]["containers"][1]["args"].clone()
    }

    #[test]
    fn the_flag_is_added_once_and_only_with_webhooks() {
        let webhooks = [json!({"kind": "ValidatingWebhookConfiguration"})];
        let given = json!(["--a"]);
        let expected = json!(["--a", "--webhook-cert-path=/tmp/k8s-webhook-server/serving-certs"]);
        assert_eq!(arguments(&given, &[]), given);
        assert_eq!(arguments(&given, &webhooks), expected);
        assert_eq!(arguments(&expected, &webhooks), expected);
        let own = json!(["--webhook-cert-path=/certs"]);
        assert_eq!(arguments(&own, &webhooks), own);
    }
}
