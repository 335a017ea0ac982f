//! Properties that hold for any input; shared by the fuzz targets and the test `fuzz`.

use serde_json::Value;
use structured_merge::{FieldManager, FieldSet, strategic};

/// Checks that formatting and parsing a field set returns the same set.
pub(crate) fn field_set(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let Ok(set) = FieldSet::from_value(&value) else {
        return;
    };
    assert_eq!(FieldSet::from_value(&set.to_value()).as_ref(), Ok(&set));
    let text: Value = serde_json::from_str(&set.to_text()).expect("a field set is written as JSON");
    assert_eq!(text, set.to_value());
    assert!(set.leaves().is_subset(&set));
    assert!(set.difference(&set).is_empty());
}

/// Checks that no object and no configuration makes an apply, an update or a patch panic, and that repeating a
/// successful apply with an owner changes nothing.
pub(crate) fn typed_value(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (Some(live), Some(config)) = (parts.next(), parts.next()) else {
        return;
    };
    let Ok(live) = serde_json::from_slice::<Value>(live) else {
        return;
    };
    let Ok(config) = serde_json::from_slice::<Value>(config) else {
        return;
    };
    let Some(pods) = FieldManager::builtin("", "v1", "Pod") else {
        return;
    };
    let now = "2026-01-01T00:00:00Z";
    if let Some(kind) = structured_merge::builtin::types().for_kind("", "v1", "Pod") {
        let _ = strategic::apply(&live, &config, kind);
    }
    let updated = pods.update(Some(&live), config.clone(), "updater", now);
    let _ = pods.extract(&updated, "applier");
    let Ok(applied) = pods.apply(Some(&live), &config, "applier", true, now) else {
        return;
    };
    let again = pods.apply(Some(&applied), &config, "applier", false, now);
    if structured_merge::managed_fields::entries(&applied).is_some() {
        assert_eq!(again.as_ref(), Ok(&applied));
    } else if let Ok(again) = again {
        // Nobody owned the fields before this apply: an empty list has no field that an applier could own.
        let third = pods.apply(Some(&again), &config, "applier", false, now);
        assert_eq!(third.as_ref(), Ok(&again));
    }
}
