//! The patch of the `caBundle` in webhook configurations and conversions.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

/// Returns the patch for the client configurations of an object for which `ours` returns true, or `None` if nothing
/// changes. The patch fails if the object was changed concurrently.
pub(super) fn patch(
    object: &Value,
    authority: &str,
    ours: impl Fn(&Value) -> bool,
) -> Option<json_patch::Patch> {
    let bundle = json!(ByteString(authority.as_bytes().to_vec()));
    let webhooks = object["webhooks"].as_array().map_or(0, Vec::len);
    let places = (0..webhooks).map(|index| format!("/webhooks/{index}/clientConfig"));
    let places = places.chain(["/spec/conversion/webhook/clientConfig".to_owned()]);
    let outdated = places.filter(|place| {
        let config = object.pointer(place);
        config.is_some_and(|config| ours(config) && config["caBundle"] != bundle)
    });
    let mut operations: Vec<Value> = outdated
        .map(|place| json!({"op": "add", "path": format!("{place}/caBundle"), "value": bundle}))
        .collect();
    if operations.is_empty() {
        return None;
    }
    let version = &object["metadata"]["resourceVersion"];
    operations.push(json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version}));
    serde_json::from_value(operations.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_outdated_bundles_are_written() {
        let new = json!(ByteString(b"new".to_vec()));
        let object = json!({"metadata": {"resourceVersion": "7"}, "webhooks": [
            {"clientConfig": {"caBundle": new}}, {"clientConfig": {"caBundle": "b2xk"}}, {"clientConfig": {}},
        ]});
        let wanted = json!([
            {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": new},
            {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": new},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        ]);
        assert_eq!(json!(patch(&object, "new", |_| true).unwrap()), wanted);
    }

    #[test]
    fn definition_without_a_webhook_is_not_changed() {
        assert!(
            patch(
                &json!({"spec": {"conversion": {"strategy": "None"}}}),
                "new",
                |_| true
            )
            .is_none()
        );
        let webhook = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"url": "https://x"}}}}});
        assert!(patch(&webhook, "new", |_| true).is_some());
    }
}
