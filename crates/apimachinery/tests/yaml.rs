//! Tests that strings are formatted as kube-apiserver 1.36.2 formats them, in the data of a ConfigMap that was read as
//! YAML.
//!
//! Strings that are formatted differently on purpose are excluded: `<<` and `=`, which some parsers interpret, a single
//! line break, and Unicode line separators.

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
