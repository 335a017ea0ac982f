//! DefaultTolerationSeconds: pods tolerate a node that is not ready or not reachable for five minutes.

use apimachinery::object;
use serde_json::{Value, json};

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const SECONDS: i64 = 300;

pub(super) fn admit(pod: &mut Value) {
    let tolerations = object::child_mut(pod, "spec")
        .entry("tolerations".to_owned())
        .or_insert_with(|| json!([]));
    if tolerations.is_null() {
        *tolerations = json!([]);
    }
    let Some(list) = tolerations.as_array_mut() else {
        return;
    };
    let missing: Vec<&str> = TAINTS
        .into_iter()
        .filter(|taint| !list.iter().any(|toleration| tolerates(toleration, taint)))
        .collect();
    for taint in missing {
        list.push(json!({
            "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS,
        }));
    }
}

/// Returns true if a toleration is for the taint, with any duration.
fn tolerates(toleration: &Value, taint: &str) -> bool {
    let key = object::text(toleration, &["key"]);
    let effect = object::text(toleration, &["effect"]);
    (key == taint || key.is_empty()) && matches!(effect, "" | "NoExecute")
}
