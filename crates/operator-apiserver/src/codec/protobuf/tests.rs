use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Returns an encoded length-delimited field.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap();
    assert!(length < 128, "the test's lengths are one byte long");
    let tag = if number < 16 {
        vec![number << 3 | 2]
    } else {
        vec![number << 3 | 2 | 0x80, number >> 4]
    };
    [&tag[..], &[length], bytes].concat()
}

fn varint(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &type_meta), field(2, raw)].concat()
}

#[test]
fn a_config_map_keeps_names_and_data() {
    let metadata = [field(1, b"settings"), field(3, b"default"), field(8, b"")].concat();
    let entry = [field(1, b"color"), field(2, b"blue")].concat();
    let raw = [field(1, &metadata), field(2, &entry)].concat();
    assert_eq!(
        decode(&body("v1", "ConfigMap", &raw), ("v1", "ConfigMap")).unwrap(),
        json!({"apiVersion": "v1", "kind": "ConfigMap",
               "metadata": {"name": "settings", "namespace": "default"}, "data": {"color": "blue"}})
    );
}

#[test]
fn inlined_sources_stand_in_their_parent() {
    let source = field(19, &field(1, &field(1, b"settings")));
    let volume = [field(1, b"config"), field(2, &source)].concat();
    let raw = field(2, &field(1, &volume));
    let pod = decode(&body("v1", "Pod", &raw), ("v1", "Pod")).unwrap();
    assert_eq!(
        pod["spec"]["volumes"],
        json!([{"name": "config", "configMap": {"name": "settings"}}])
    );
}

#[test]
fn texts_numbers_and_times_have_their_json_form() {
    let metadata = field(8, &varint(1, 60));
    let port = [
        varint(3, 80),
        field(4, &[varint(1, 1), varint(2, 0), field(3, b"http")].concat()),
    ]
    .concat();
    let raw = [field(1, &metadata), field(2, &field(1, &port))].concat();
    let service = decode(&body("v1", "Service", &raw), ("v1", "Service")).unwrap();
    assert_eq!(service["metadata"]["creationTimestamp"], "1970-01-01T00:01:00Z");
    assert_eq!(
        service["spec"]["ports"],
        json!([{"port": 80, "targetPort": "http"}])
    );
}

#[test]
fn delete_options_are_read_under_any_group() {
    let raw = [varint(1, 0), field(4, b"Foreground")].concat();
    let options = decode(&body("apps/v1", "DeleteOptions", &raw), ("v1", "DeleteOptions")).unwrap();
    assert_eq!(options["gracePeriodSeconds"], 0);
    assert_eq!(options["propagationPolicy"], "Foreground");
}

#[test]
fn negative_numbers_survive() {
    let minus_one = [vec![1 << 3], vec![0xff; 9], vec![1]].concat();
    let options = decode(&body("v1", "DeleteOptions", &minus_one), ("", "")).unwrap();
    assert_eq!(options["gracePeriodSeconds"], -1);
}

#[test]
fn durations_are_written_as_go_writes_them() {
    for (nanoseconds, text) in [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (300_000_000, "300ms"),
        (90_000_000_000, "1m30s"),
        (3_600_000_000_000, "1h0m0s"),
        (-2_500_000_000, "-2.5s"),
    ] {
        assert_eq!(go_duration(nanoseconds), text);
    }
}

#[test]
fn malformed_bodies_are_errors() {
    assert_eq!(decode(b"{}", ("v1", "Pod")), Err(Error::Magic));
    assert_eq!(decode(b"k8s\0\x0a\xff", ("v1", "Pod")), Err(Error::UnexpectedEnd));
    let widget = body("example.com/v1", "Widget", b"");
    assert!(matches!(
        decode(&widget, ("", "")),
        Err(Error::UnknownKind { .. })
    ));
    let wrong = body("v1", "ConfigMap", &varint(1, 1));
    assert_eq!(
        decode(&wrong, ("", "")).unwrap_err().to_string(),
        "proto: wrong wireType = 0 for field metadata"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(
        kind in prop::sample::select(vec![("v1", "Pod"), ("apps/v1", "Deployment"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")]),
        raw in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(field(2, &raw));
        let _ = decode(&bytes, kind);
    }
}
