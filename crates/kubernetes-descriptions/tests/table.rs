//! Tests of the table that the build script writes.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::io::Read;

fn table() -> BTreeMap<String, String> {
    let mut text = String::new();
    flate2::read::ZlibDecoder::new(kubernetes_descriptions::TABLE)
        .read_to_string(&mut text)
        .unwrap();
    let parts: Vec<&str> = text.strip_suffix('\0').unwrap().split('\0').collect();
    let pairs = parts
        .chunks(2)
        .map(|pair| (pair[0].to_owned(), pair[1].to_owned()));
    pairs.collect()
}

#[test]
fn types_and_fields_have_their_descriptions() {
    let table = table();
    // Compared with the source, because the repository does not contain these texts.
    let spec = schema::<k8s_openapi::api::core::v1::Toleration>();
    let name = "io.k8s.api.core.v1.Toleration";
    assert_eq!(table[name], spec["description"].as_str().unwrap());
    for (field, schema) in spec["properties"].as_object().unwrap() {
        let expected = schema["description"].as_str().unwrap();
        assert_eq!(table[&format!("{name}/{field}")], expected, "{field}");
    }
    assert!(table.values().all(|text| !text.is_empty()));
    assert!(!table.contains_key("io.k8s.api.core.v1.Toleration/"));
}

#[test]
fn fields_of_other_types_have_their_own_description() {
    let table = table();
    let own = &table["io.k8s.api.core.v1.PodSpec/affinity"];
    assert_ne!(own, &table["io.k8s.api.core.v1.Affinity"]);
}

fn schema<T: schemars::JsonSchema>() -> serde_json::Value {
    schemars::SchemaGenerator::default()
        .into_root_schema_for::<T>()
        .to_value()
}
