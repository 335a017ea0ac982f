//! Prepares CertificateSigningRequests.

use std::collections::HashMap;

use serde_json::Value;

use crate::tree::{at, list, object_in, objects_in};

/// Sets the missing times of the conditions of a request.
pub(super) fn stamp_conditions(request: &mut Value, old: &Value, now: &str) {
    let before = list(old, &["status", "conditions"]).to_vec();
    let Some(status) = request.as_object_mut().and_then(|root| object_in(root, "status")) else {
        return;
    };
    let mut known: HashMap<[Option<&Value>; 2], &Value> = HashMap::new();
    for old in &before {
        known
            .entry(["type", "status"].map(|field| old.get(field)))
            .or_insert(old);
    }
    for condition in objects_in(status, "conditions") {
        let unset = |field: &str| condition.get(field).is_none_or(Value::is_null);
        let same = known.get(&["type", "status"].map(|field| condition.get(field)));
        let since = same
            .map(|old| at(old, &["lastTransitionTime"]))
            .filter(|time| !time.is_null());
        let since = since.cloned().unwrap_or_else(|| now.into());
        let (no_update, no_transition) = (unset("lastUpdateTime"), unset("lastTransitionTime"));
        if no_update {
            condition.insert("lastUpdateTime".to_owned(), now.into());
        }
        if no_transition {
            condition.insert("lastTransitionTime".to_owned(), since);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_condition_keeps_the_time_since_which_it_holds() {
        let old = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "lastTransitionTime": "t0"}]}});
        let mut new = json!({"status": {"conditions": [
            {"type": "Approved", "status": "True"}, {"type": "Failed", "status": "True", "lastUpdateTime": "t1"},
        ]}});
        super::stamp_conditions(&mut new, &old, "t2");
        assert_eq!(
            new["status"]["conditions"],
            json!([
                {"type": "Approved", "status": "True", "lastUpdateTime": "t2", "lastTransitionTime": "t0"},
                {"type": "Failed", "status": "True", "lastUpdateTime": "t1", "lastTransitionTime": "t2"},
            ])
        );
    }
}
