//! Tests the findings about types that no definition can express, with their type and field.

#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may fail, and reads better with its schemas in place"
)]

use operator_manifests::operator::TypeSchema;
use operator_manifests::types::{fields_at, lint};
use serde_json::{Value, json};

/// Returns a kind whose spec has one field, with more types.
fn types(field: Value, more: Value) -> TypeSchema {
    let mut definitions = json!({"StoreSpec": {"type": "object", "properties": {"field": field}}});
    for (name, schema) in more.as_object().unwrap() {
        definitions[name] = schema.clone();
    }
    TypeSchema {
        crd: "stores.example.com".to_owned(),
        version: "v1".to_owned(),
        type_name: "store_operator::api::v1::Store".to_owned(),
        schema: json!({
            "type": "object", "title": "Store",
            "properties": {"spec": {"$ref": "#/$defs/StoreSpec"}},
            "$defs": definitions,
        }),
    }
}

/// Returns `rule field` of each finding.
fn found(field: Value, more: Value) -> Vec<String> {
    let findings = lint(&types(field, more)).into_iter();
    findings
        .map(|found| {
            format!(
                "{} {}{}",
                found.rule,
                found.field,
                if found.is_error { "" } else { " (warning)" }
            )
        })
        .collect()
}

fn one_of(variants: Value) -> Vec<String> {
    found(
        json!({"$ref": "#/$defs/Backend"}),
        json!({"Backend": {"oneOf": variants}}),
    )
}

#[test]
fn enums_that_have_no_structural_schema() {
    let tagged = |name: &str, more: Value| {
        let mut properties = json!({"type": {"const": name, "type": "string"}});
        for (key, value) in more.as_object().unwrap() {
            properties[key] = value.clone();
        }
        json!({"type": "object", "properties": properties})
    };
    let number = json!({"type": "integer", "format": "int32"});
    let text = json!({"type": "string"});
    let variant = |name: &str| json!({"type": "object", "properties": {name: text}});

    let internally = json!([tagged("A", json!({"x": number})), tagged("B", json!({"y": text}))]);
    assert_eq!(one_of(internally), ["tagged-enum Backend"]);
    let adjacently = json!([tagged("A", json!({"c": number})), tagged("B", json!({"c": text}))]);
    assert_eq!(one_of(adjacently), ["tagged-enum Backend"]);
    let mixed = json!([{"enum": ["A"], "type": "string"}, variant("B")]);
    assert_eq!(one_of(mixed), ["mixed-enum Backend"]);

    let external = json!([variant("A"), variant("B")]);
    assert_eq!(one_of(external), [""; 0]);
    let documented = json!([{"enum": ["B"], "type": "string"}, {"const": "A", "type": "string"}]);
    assert_eq!(one_of(documented), [""; 0]);
}

#[test]
fn untagged_enums_are_of_objects() {
    let any_of = |variants: Value| {
        found(
            json!({"$ref": "#/$defs/Port"}),
            json!({"Port": {"anyOf": variants}}),
        )
    };
    let (number, text) = (json!({"type": "integer"}), json!({"type": "string"}));
    assert_eq!(any_of(json!([number, text])), ["untagged-enum Port"]);
    let object = json!({"type": "object", "properties": {"x": number}});
    assert_eq!(any_of(json!([object, object])), [""; 0]);
    assert_eq!(any_of(json!([text, {"type": "null"}])), [""; 0], "an Option");
}

#[test]
fn fields_that_are_refused_are_named() {
    let cases = [
        (json!(true), "any-value"),
        (json!({"description": "whatever"}), "any-value"),
        (
            json!({"type": "array", "prefixItems": [{"type": "string"}]}),
            "tuple",
        ),
        (json!({"type": "array", "items": {"prefixItems": []}}), "tuple"),
        (
            json!({"type": "object", "additionalProperties": false, "patternProperties": {"^\\d+$": {"type": "string"}}}),
            "map-key",
        ),
        (json!({"type": "null"}), "unit"),
    ];
    for (schema, rule) in cases {
        assert_eq!(
            found(schema.clone(), json!({})),
            [format!("{rule} StoreSpec.field")],
            "{schema}"
        );
    }
    assert_eq!(
        found(
            json!({"type": "integer", "format": "uint64", "minimum": 0}),
            json!({})
        ),
        ["large-integer StoreSpec.field (warning)"]
    );
    for fine in [
        json!({"type": "integer", "format": "uint32"}),
        json!({"type": "integer", "format": "uint64", "maximum": 100}),
        json!({"x-kubernetes-preserve-unknown-fields": true}),
        json!({"x-kubernetes-int-or-string": true}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
    ] {
        assert_eq!(found(fine.clone(), json!({})), [""; 0], "{fine}");
    }
}

#[test]
fn type_that_holds_itself_is_named_with_all_that_are_in_the_circle() {
    let through =
        |next: &str| json!({"type": "object", "properties": {"next": {"$ref": format!("#/$defs/{next}")}}});
    let more = json!({"Left": through("Right"), "Right": through("Left"), "Apart": through("Left")});
    let found = found(json!({"$ref": "#/$defs/Apart"}), more);
    assert_eq!(found, ["recursive-type Left", "recursive-type Right"]);
}

#[test]
fn flattened_map_is_reported_and_types_of_kubernetes_are_skipped() {
    let open = json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}});
    let more = json!({"Open": open, "io.k8s.api.core.v1.Thing": open});
    assert_eq!(
        found(json!({"$ref": "#/$defs/Open"}), more),
        ["flattened-map Open"]
    );
}

#[test]
fn paths_of_a_definition_lead_through_options_lists_maps_enums_and_flattened_types() {
    let reference = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
    let more = json!({
        "Outer": {"type": "object", "properties": {
            "list": {"type": "array", "items": reference("Inner")},
            "map": {"type": "object", "additionalProperties": reference("Inner")},
            "choice": {"anyOf": [reference("Choice"), {"type": "null"}]},
        }},
        "Choice": {"oneOf": [
            {"type": "object", "properties": {"disk": reference("Inner")}},
            {"type": "object", "properties": {"memory": {"type": "object", "properties": {"size": {"type": "integer"}}}}},
        ]},
        "Inner": {"type": "object", "properties": {"size": {"type": "integer"}}},
    });
    let types = types(reference("Outer"), more);
    let named = |path: &str| {
        let path =
            format!("spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[field]{path}");
        let fields = fields_at(&types, &path);
        fields
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(named(""), "Store.spec StoreSpec.field");
    let size = ".properties[size].format";
    assert_eq!(
        named(&format!(".properties[list].items{size}")),
        "Store.spec StoreSpec.field Outer.list Inner.size"
    );
    assert_eq!(
        named(&format!(".properties[map].additionalProperties{size}")),
        "Store.spec StoreSpec.field Outer.map Inner.size"
    );
    assert_eq!(
        named(&format!(".properties[choice].properties[disk]{size}")),
        "Store.spec StoreSpec.field Outer.choice Choice.disk Inner.size"
    );
    assert_eq!(
        named(&format!(".properties[choice].properties[memory]{size}")),
        "Store.spec StoreSpec.field Outer.choice Choice.memory Choice.size"
    );
    assert_eq!(named(".properties[nowhere].items"), "Store.spec StoreSpec.field");
}
