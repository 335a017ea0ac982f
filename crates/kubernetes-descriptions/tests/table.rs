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
    // Compared with the source, because this crate does not contain these texts.
    let spec = schema::<k8s_openapi::api::core::v1::Toleration>();
    let name = "io.k8s.api.core.v1.Toleration";
    assert_eq!(table[name], spec["description"].as_str().unwrap());
    for (field, schema) in spec["properties"].as_object().unwrap() {
        let expected = schema["description"].as_str().unwrap();
        // The possible values follow the description of an enumeration.
        let text = &table[&format!("{name}/{field}")];
        assert!(text.starts_with(expected), "{field}: {text}");
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

#[test]
fn enumerations_parameters_and_lists_have_the_texts_of_the_additions() {
    let table = table();
    let toleration = "io.k8s.api.core.v1.Toleration";
    let spec = schema::<k8s_openapi::api::core::v1::Toleration>();
    for field in ["effect", "operator"] {
        let text = &table[&format!("{toleration}/{field}")];
        let described = spec["properties"][field]["description"].as_str().unwrap();
        let values = text.strip_prefix(described).unwrap();
        assert!(
            values.starts_with("\n\nPossible enum values:\n - `\""),
            "{values}"
        );
    }
    let key = format!("{toleration}/key");
    assert_eq!(
        table[&key],
        spec["properties"]["key"]["description"].as_str().unwrap()
    );
    for key in [
        "io.k8s.apimachinery.pkg.apis.meta.v1.ListOptions/continue",
        "io.k8s.apimachinery.pkg.apis.meta.v1.PatchOptions/force",
        "io.k8s.api.core.v1.PodExecOptions/command",
        "parameter/pretty",
        "parameter/namespace",
        "io.k8s.api.core.v1.PodList",
        "io.k8s.api.core.v1.PodList/items",
    ] {
        assert!(table.contains_key(key), "{key}");
    }
}

fn schema<T: schemars::JsonSchema>() -> serde_json::Value {
    schemars::SchemaGenerator::default()
        .into_root_schema_for::<T>()
        .to_value()
}
