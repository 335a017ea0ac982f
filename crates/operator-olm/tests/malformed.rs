//! Tests that malformed bundles result in errors or findings, with bounded work and without panics.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that fails panics")]

use std::collections::BTreeSet;

use operator_olm::files::{self, Files, ReadError};
use operator_olm::finding::Finding;
use operator_olm::validator::{self, Options, Validator};
use operator_olm::{bundle, scorecard};
use serde_json::{Value, json};

mod recording;

use recording::{Recording, on_all_cores};

/// Loads a bundle and runs all functions on it. Returns the findings, or `None` if it cannot be loaded.
fn run(files: &Files) -> Option<BTreeSet<String>> {
    let mut findings = validator::format(files);
    let bundle = bundle::load(files).ok()?;
    findings.extend(validator::validate(&bundle));
    for validator in Validator::ALL {
        findings.extend(validator.run(&bundle, &Options::default()));
    }
    for test in scorecard::TESTS {
        scorecard::run(test, files, &bundle).unwrap();
    }
    Some(findings.iter().map(Finding::message).collect())
}

fn with(base: &[(String, Vec<u8>)], path: &str, content: Vec<u8>) -> Files {
    let mut files = Files::new("bundle");
    for (path, content) in base {
        files.insert(path, content.clone());
    }
    files.insert(path, content);
    files
}

/// Collects all JSON pointers of a tree.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointers(item, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers(value, &format!("{at}/{key}"), found);
            }
        }
        _ => {}
    }
}

/// Fields that accept every value in a bundle: prefixes of their places, with the reasons.
const ACCEPTED: [(&str, &str); 8] = [
    (
        "manifests/cache.example.com_memcacheds.yaml /status",
        "the API server sets the status",
    ),
    (
        "manifests/net.example.org_gateways.yaml /status",
        "the API server sets the status",
    ),
    (
        "manifests/net.example.org_routes.yaml /status",
        "the API server sets the status",
    ),
    (
        "manifests/memcached-operator-metrics-service_v1_service.yaml",
        "only the API server knows the fields of this kind",
    ),
    (
        "manifests/gateway-config_v1_configmap.yaml /data",
        "only the API server knows the fields of this kind",
    ),
    (
        "manifests/gateway-np_networking.k8s.io_v1_networkpolicy.yaml /spec",
        "only the API server knows the fields of this kind",
    ),
    (
        "metadata/properties.yaml /properties/0/value",
        "only OpenShift reads the property",
    ),
    (
        "metadata/properties.yaml /properties/1/value",
        "the type of the property is not a known one",
    ),
];

/// Returns a value that a field with the given value does not accept, because of its type.
fn of_another_type(value: &Value) -> Value {
    match value {
        Value::Object(_) | Value::Array(_) => json!("text"),
        _ => json!([["list"]]),
    }
}

#[test]
fn bundles_with_values_of_wrong_types_give_errors_or_findings() {
    let recording = Recording::read();
    let mut bundles = Vec::new();
    for name in ["memcached", "gateway"] {
        let base = recording.base(name);
        let mut files = Files::new("bundle");
        for (path, content) in &base {
            files.insert(path, content.clone());
        }
        let known = run(&files).unwrap();
        for (path, content) in base.iter().filter(|(path, _)| !path.starts_with("tests/")) {
            let tree = apimachinery::yaml::parse(std::str::from_utf8(content).unwrap())
                .unwrap()
                .value;
            let mut all = Vec::new();
            pointers(&tree, "", &mut all);
            for pointer in all {
                let mut changed = tree.clone();
                let node = changed.pointer_mut(&pointer).unwrap();
                *node = of_another_type(node);
                let place = format!("{path} {pointer}");
                bundles.push((
                    place,
                    with(&base, path, changed.to_string().into_bytes()),
                    known.clone(),
                ));
            }
        }
    }
    let silent = on_all_cores(&bundles, |(place, bundle, known)| {
        let is_silent = run(bundle).is_some_and(|findings| findings.is_subset(known));
        is_silent.then_some(place)
    });
    let is_accepted = |place: &&String| ACCEPTED.iter().any(|(prefix, _)| place.starts_with(prefix));
    let (accepted, silent): (Vec<&String>, Vec<&String>) =
        silent.into_iter().flatten().partition(is_accepted);
    assert!(silent.is_empty(), "no findings: {silent:#?}");
    let malformed = bundles.len() - accepted.len();
    assert!(malformed >= 200, "{malformed}");
    for (prefix, _) in ACCEPTED {
        assert!(
            accepted.iter().any(|place| place.starts_with(prefix)),
            "{prefix} gives findings: remove it from the list"
        );
    }
}

#[test]
fn mutated_bundles_are_bounded_and_never_panic() {
    let recording = Recording::read();
    let mut bundles = Vec::new();
    for name in ["memcached", "gateway"] {
        let base = recording.base(name);
        for (path, content) in base.iter().filter(|(path, _)| !path.starts_with("tests/")) {
            let text = std::str::from_utf8(content).unwrap();
            let tree = apimachinery::yaml::parse(text).unwrap().value;
            let mut all = Vec::new();
            pointers(&tree, "", &mut all);
            let values = [
                json!(null),
                json!(-1),
                json!("\u{0}"),
                json!([[]]),
                json!({"a": {}}),
                json!(1e300),
            ];
            for (index, pointer) in all.iter().enumerate().step_by(2) {
                let mut changed = tree.clone();
                *changed.pointer_mut(pointer).unwrap() = values[index % values.len()].clone();
                bundles.push(with(&base, path, changed.to_string().into_bytes()));
            }
            for part in 1..8 {
                bundles.push(with(&base, path, content[..content.len() * part / 8].to_vec()));
            }
        }
    }
    let ran = bundles.len();
    let refused = on_all_cores(&bundles, |bundle| run(bundle).is_none());
    let refused = refused.into_iter().filter(|refused| *refused).count();
    assert!(refused > 0 && refused < ran, "{refused} of {ran}");
}

#[test]
fn deep_yaml_and_alias_bombs_are_errors() {
    let base = Recording::read().base("memcached");
    let deep = format!(
        "kind: ConfigMap\na: {}{}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let mut bomb = "kind: ConfigMap\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{items}]\n");
    }
    for text in [deep, bomb] {
        let files = with(&base, "manifests/extra.yaml", text.into_bytes());
        let error = bundle::load(&files).unwrap_err();
        assert!(error.message.contains("error converting YAML to JSON"), "{error}");
        assert_eq!(error.path.as_deref(), Some("manifests/extra.yaml"));
    }
}

#[cfg(unix)]
#[test]
fn directories_are_read_within_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let secret = tempfile::NamedTempFile::new().unwrap();
    let inside = dir.path().join("metadata");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("a.yaml"), "annotations: {}").unwrap();
    std::os::unix::fs::symlink(inside.join("a.yaml"), inside.join("b.yaml")).unwrap();
    let read = files::read(dir.path()).unwrap();
    assert_eq!(
        read.content("metadata/b.yaml"),
        Some(b"annotations: {}".as_slice())
    );

    let link = inside.join("c.yaml");
    std::os::unix::fs::symlink(secret.path(), &link).unwrap();
    assert!(matches!(files::read(dir.path()), Err(ReadError::Link(_))));
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    assert!(matches!(files::read(dir.path()), Err(ReadError::Link(_))));
    std::fs::remove_file(&link).unwrap();

    let large = std::fs::File::create(inside.join("large")).unwrap();
    large.set_len(files::BYTES_MAX + 1).unwrap();
    assert!(matches!(files::read(dir.path()), Err(ReadError::TooLarge { .. })));
}
