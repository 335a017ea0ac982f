//! Errors and warnings of objects with unusual fields, most of them pods, as in kube-apiserver 1.36.

use std::collections::BTreeSet;

use apimachinery::gvk::Gvk;
use serde_json::Value;

use crate::tree::{list, text};
use crate::{default, prepare_for_create, validate_create, warnings};

const RECORDED: &str = include_str!("unusual.json");
/// The kinds of the recorded objects.
const KINDS: [(&str, &str, &str); 8] = [
    ("", "v1", "Pod"),
    ("", "v1", "PersistentVolume"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "ResourceQuota"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("certificates.k8s.io", "v1", "CertificateSigningRequest"),
    ("storage.k8s.io", "v1", "VolumeAttachment"),
];
/// The length at which the recorded server cut warnings.
const CUT: usize = 256;

fn texts(value: &Value, field: &str) -> Vec<String> {
    let texts = list(value, &[field]).iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

#[test]
fn unusual_objects_get_the_recorded_errors_and_warnings() {
    let recorded: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    for case in &recorded {
        let mut object = case["object"].clone();
        let kind = text(&object, &["kind"]);
        let Some((group, version, kind)) = KINDS.into_iter().find(|(.., known)| *known == kind) else {
            panic!("add {kind} to KINDS");
        };
        let gvk = Gvk { group, version, kind };
        let name = text(&object, &["metadata", "name"]).to_owned();
        default(&gvk, &mut object);
        let mut found = prepare_for_create(&gvk, &mut object);
        let errors = validate_create(&gvk, &object);
        if errors.is_empty() {
            found.extend(warnings(&gvk, &object, None));
        }
        for warning in &mut found {
            let end = warning
                .char_indices()
                .nth(CUT)
                .map_or(warning.len(), |(at, _)| at);
            warning.truncate(end);
        }
        // Labels of node selectors are in the random order of Go's maps.
        found.sort();
        let mut wanted = texts(case, "warnings");
        wanted.sort();
        let shown: Vec<&str> = found.iter().map(String::as_str).collect();
        for (found, wanted) in shown.iter().zip(&wanted) {
            assert!(found.starts_with(wanted.trim_end()), "{name}: {found}\n{wanted}");
        }
        assert_eq!(shown.len(), wanted.len(), "{name}");
        let found: BTreeSet<String> = errors
            .iter()
            .map(|error| format!("{}: {}", error.field, error.message()))
            .collect();
        let wanted: BTreeSet<String> = texts(case, "causes").into_iter().collect();
        assert_eq!(found, wanted, "{name}");
    }
}
