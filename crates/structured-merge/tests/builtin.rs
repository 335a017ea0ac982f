//! Tests that the table of built-in types equals the server's OpenAPI documents.
#![expect(clippy::unwrap_used, reason = "a missing entry fails the test")]

use serde_json::json;
use structured_merge::builtin::{self, Field, FieldKind, ListType, MapType, Type};

fn core(name: &str) -> &'static Type {
    builtin::types()
        .named(&format!("io.k8s.api.core.v1.{name}"))
        .unwrap()
}

fn field(of: &str, name: &str) -> &'static Field {
    core(of).field(name).unwrap()
}

#[test]
fn every_line_of_the_table_is_understood() {
    assert_eq!(builtin::types().iter().count(), 594);
    let fields: usize = builtin::types().iter().map(|entry| entry.fields().len()).sum();
    assert_eq!(fields, 2500);
    assert!(builtin::types().iter().is_sorted_by_key(|entry| &entry.name));
    for entry in builtin::types().iter() {
        assert!(
            entry.fields().is_sorted_by_key(|field| field.name),
            "{}",
            entry.name
        );
        for required in &entry.required {
            assert!(
                entry.field(required).is_some_and(|field| field.required),
                "{} {required}",
                entry.name
            );
        }
    }
}

#[test]
fn references_lead_from_an_object_to_its_parts() {
    let pod = builtin::types().for_kind("", "v1", "Pod").unwrap();
    let FieldKind::Ref(spec) = pod.field("spec").unwrap().kind else {
        panic!("spec is a struct")
    };
    assert_eq!(spec.resolve().name, "io.k8s.api.core.v1.PodSpec");
    assert_eq!(spec.resolve().required, ["containers"]);
    assert!(builtin::types().for_kind("apps", "v1", "Pod").is_none());
}

#[test]
fn lists_say_how_they_merge() {
    let ports = field("ServiceSpec", "ports");
    assert_eq!(
        (ports.list_type, ports.patch_merge_key),
        (Some(ListType::Map), Some("port"))
    );
    assert_eq!(ports.list_map_keys, ["port", "protocol"]);
    assert_eq!(field("PodSpec", "tolerations").list_type, Some(ListType::Atomic));
    assert_eq!(
        field("PodSpec", "volumes").patch_strategy,
        Some("merge,retainKeys")
    );
    assert_eq!(field("ServiceSpec", "selector").map_type, Some(MapType::Atomic));
    assert!(core("LocalObjectReference").atomic);
}

#[test]
fn scalars_have_their_own_kinds() {
    assert_eq!(field("ServicePort", "targetPort").kind, FieldKind::IntOrString);
    assert_eq!(
        field("Secret", "data").kind,
        FieldKind::Map(Box::new(FieldKind::Bytes))
    );
    assert_eq!(field("PodStatus", "startTime").kind, FieldKind::Time);
    let protocol = field("ContainerPort", "protocol");
    assert_eq!(protocol.default, Some(json!("TCP")));
    assert_eq!(protocol.values, ["SCTP", "TCP", "UDP"]);
    assert_eq!(field("ServiceSpec", "ipFamilies").values, ["", "IPv4", "IPv6"]);
    let csr = builtin::types()
        .named("io.k8s.api.certificates.v1.CertificateSigningRequestSpec")
        .unwrap();
    assert!(csr.field("usages").unwrap().values.contains(&"client auth"));
}
