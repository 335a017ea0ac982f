//! Strings are written as by kube-apiserver 1.36.2, in the data of a ConfigMap that was read as YAML.
//!
//! Excluded are strings that are written in another form on purpose: `<<` and `=`, which some readers interpret, a
//! single line break, and line separators of Unicode.

use apimachinery::yaml;
use serde_json::Value;

#[test]
fn strings_are_written_as_the_server_writes_them() {
    let data: Value = serde_json::from_str(include_str!("recorded/strings.json")).unwrap();
    let written = yaml::to_string(&data);
    let recorded = include_str!("recorded/strings.yaml");
    for (ours, theirs) in written.lines().zip(recorded.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(written, recorded);
    assert_eq!(yaml::parse(&written).unwrap().value, data);
}
