//! TaintNodesByCondition: taints a new node until it is ready.

use apimachinery::object;
use serde_json::{Value, json};

const KEY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

pub(super) fn admit(node: &mut Value) {
    let taints = object::child_mut(node, "spec")
        .entry("taints".to_owned())
        .or_insert(Value::Null);
    if taints.is_null() {
        *taints = json!([]);
    }
    let Some(list) = taints.as_array_mut() else {
        return;
    };
    let is_this =
        |taint: &Value| object::text(taint, &["key"]) == KEY && object::text(taint, &["effect"]) == EFFECT;
    if !list.iter().any(is_this) {
        list.push(json!({"key": KEY, "effect": EFFECT}));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_new_node_is_tainted_once() {
        let mut node = json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}});
        super::admit(&mut node);
        super::admit(&mut node);
        let want = json!([
            {"key": "a", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        ]);
        assert_eq!(node["spec"]["taints"], want);
    }
}
