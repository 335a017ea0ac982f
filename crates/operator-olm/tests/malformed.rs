//! Tests that malformed bundles result in errors or findings, with bounded work and without panics.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that fails panics")]

use operator_olm::files::{self, Files, ReadError};
use operator_olm::validator::{self, OPTIONAL, Options};
use operator_olm::{bundle, scorecard};
use serde_json::{Value, json};

mod recording;

use recording::{Recording, on_all_cores};

/// Loads a bundle and runs all functions on it. Returns the number of findings, or `None` if it cannot be loaded.
fn run(files: &Files) -> Option<usize> {
    let format = validator::format(files).len();
    let bundle = bundle::load(files).ok()?;
    let mut findings =
        format + validator::validate(&bundle).len() + validator::validate_objects(&bundle).len();
    for optional in OPTIONAL {
        findings += optional.run(&bundle, &Options::default()).len();
    }
    for test in scorecard::TESTS {
        scorecard::run(test, files, &bundle).unwrap();
    }
    Some(findings)
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

#[test]
fn mutated_bundles_give_findings_or_errors_and_never_panic() {
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
            for (index, pointer) in all.iter().enumerate() {
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
    assert!(ran >= 200, "{ran}");
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
