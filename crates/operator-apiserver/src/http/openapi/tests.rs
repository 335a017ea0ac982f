use super::*;

const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

fn deployments() -> Resource<'static> {
    let status = Subresource {
        name: "status",
        verbs: SUBRESOURCE_VERBS,
        group: "apps",
        version: "v1",
        kind: "Deployment",
    };
    let scale = Subresource {
        name: "scale",
        verbs: SUBRESOURCE_VERBS,
        group: "autoscaling",
        version: "v1",
        kind: "Scale",
    };
    Resource {
        group: "apps",
        version: "v1",
        plural: "deployments",
        kind: "Deployment",
        namespaced: true,
        verbs: VERBS,
        subresources: vec![status, scale],
        returns_deleted: false,
        schema: None,
        selectable: &[],
    }
}

fn widgets(schema: &Value) -> Resource<'_> {
    Resource {
        group: "example.com",
        version: "v1",
        plural: "widgets",
        kind: "Widget",
        namespaced: false,
        verbs: VERBS,
        subresources: Vec::new(),
        returns_deleted: false,
        schema: Some(schema),
        selectable: &[],
    }
}

fn v3_value(resources: &[Resource<'_>]) -> Value {
    let document = v3_document(resources, &Descriptions::default());
    let value: Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(apimachinery::json::to_string(&value).as_bytes(), document);
    value
}

fn v2_document(resources: &[Resource<'_>]) -> Value {
    let descriptions = Descriptions::default();
    let encode = |encoding| V2Document::new(resources, &[], &descriptions, encoding).encode();
    let document: Value = serde_json::from_slice(&encode(Encoding::Json)).unwrap();
    let compact = apimachinery::json::to_string(&document);
    assert_eq!(encode(Encoding::Json), format!("{compact}\n").into_bytes());
    let pretty = serde_json::to_string_pretty(&document).unwrap();
    assert_eq!(encode(Encoding::PrettyJson), format!("{pretty}\n").into_bytes());
    document
}

/// Returns the `$ref`s of a document that refer to no component of it.
fn dangling_references(document: &Value) -> Vec<String> {
    fn walk<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| walk(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(document, &mut found);
    assert!(!found.is_empty());
    found.retain(|reference| document.pointer(reference.trim_start_matches('#')).is_none());
    found.into_iter().map(str::to_owned).collect()
}

#[test]
fn a_built_in_document_is_closed_and_names_its_operations() {
    let document = v3_value(&[deployments()]);
    assert_eq!(dangling_references(&document), Vec::<String>::new());
    let item = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    assert_eq!(item["patch"]["operationId"], "patchAppsV1NamespacedDeployment");
    assert_eq!(item["patch"]["tags"], json!(["apps_v1"]));
    let parameters = item["patch"]["parameters"].as_array().unwrap();
    assert!(
        parameters
            .iter()
            .any(|parameter| parameter["name"] == "fieldValidation")
    );
    let scale = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"];
    assert_eq!(scale["get"]["operationId"], "readAppsV1NamespacedDeploymentScale");
    let everywhere = &document["paths"]["/apis/apps/v1/deployments"]["get"];
    assert_eq!(everywhere["operationId"], "listAppsV1DeploymentForAllNamespaces");
}

#[test]
fn lists_say_how_they_are_merged() {
    let document = v3_value(&[deployments()]);
    let containers =
        &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
}

#[test]
fn types_with_their_own_format_are_components() {
    let document = v3_value(&[deployments()]);
    let schemas = &document["components"]["schemas"];
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity";
    assert_eq!(
        schemas["io.k8s.api.core.v1.ResourceRequirements"]["properties"]["limits"],
        json!({"type": "object", "additionalProperties": reference(quantity)})
    );
    assert_eq!(
        schemas[quantity],
        json!({"oneOf": [{"type": "string"}, {"type": "number"}]})
    );
    let port = &schemas["io.k8s.api.core.v1.HTTPGetAction"]["properties"]["port"];
    let number_or_text = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
    assert_eq!(*port, reference(number_or_text));
    let v2 = v2_document(&[deployments()]);
    assert_eq!(v2["definitions"][quantity], json!({"type": "string"}));
}

#[test]
fn a_custom_document_carries_the_schema_and_the_fields_of_every_object() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let document = v3_value(&[widgets(&schema)]);
    assert_eq!(dangling_references(&document), Vec::<String>::new());
    let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(widget["properties"]["spec"], json!({"type": "object"}));
    assert_eq!(widget["properties"]["apiVersion"], json!({"type": "string"}));
    let patch = &document["paths"]["/apis/example.com/v1/widgets/{name}"]["patch"];
    assert_eq!(patch["operationId"], "patchExampleComV1Widget");
    assert!(
        patch["requestBody"]["content"]
            .get("application/strategic-merge-patch+json")
            .is_none()
    );
}

#[test]
fn the_v2_document_has_definitions_and_flat_parameters() {
    let schema = json!({"type": "object", "properties": {
        "not": {"type": "string"},
        "size": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
    }});
    let document = v2_document(&[deployments(), widgets(&schema)]);
    assert_eq!(dangling_references(&document), Vec::<String>::new());
    let properties = &document["definitions"]["com.example.v1.Widget"]["properties"];
    assert_eq!(properties["not"], json!({"type": "string"}));
    assert!(properties["size"].get("anyOf").is_none());
    assert!(properties["free"].get("properties").is_none());
    let create = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["post"];
    let body = &create["parameters"][0];
    assert_eq!(create["parameters"][1]["type"], "string");
    assert_eq!(
        body["schema"]["$ref"],
        "#/definitions/io.k8s.api.apps.v1.Deployment"
    );
}

#[test]
fn the_index_names_each_document_with_its_hash() {
    let index = v3_index([("api/v1", "AB"), ("apis/apps/v1", "CD")]);
    assert_eq!(
        index["paths"]["apis/apps/v1"]["serverRelativeURL"],
        "/openapi/v3/apis/apps/v1?hash=CD"
    );
    assert_eq!(group_version_path("", "v1"), "api/v1");
}
