//! The CustomResourceDefinitions of OLM v1.

use serde_json::{Value, json};

const GROUP: &str = "olm.operatorframework.io";

/// Returns the definitions of ClusterCatalog and ClusterExtension.
pub(in crate::olm) fn definitions() -> Vec<Value> {
    vec![
        definition(
            "ClusterCatalog",
            "clustercatalogs",
            &json!([
                {"name": "LastUnpacked", "type": "date", "jsonPath": ".status.lastUnpacked"},
                {"name": "Serving", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Serving')].status"},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            ]),
            catalog(),
        ),
        definition(
            "ClusterExtension",
            "clusterextensions",
            &json!([
                {"name": "Installed Bundle", "type": "string", "jsonPath": ".status.install.bundle.name"},
                {"name": "Version", "type": "string", "jsonPath": ".status.install.bundle.version"},
                {"name": "Installed", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Installed')].status"},
                {"name": "Progressing", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Progressing')].status"},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            ]),
            extension(),
        ),
    ]
}

fn definition(kind: &str, plural: &str, columns: &Value, spec: Value) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut schema = json!({"type": "object", "required": ["spec"]});
    schema["properties"] = json!({
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}, "status": open,
    });
    schema["properties"]["spec"] = spec;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(),
            },
            "scope": "Cluster",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
}

/// Returns the schema of a field that cannot be changed.
fn immutable(mut schema: Value, name: &str) -> Value {
    schema["x-kubernetes-validations"] =
        json!([{"rule": "self == oldSelf", "message": format!("{name} is immutable")}]);
    schema
}

fn object(required: &[&str], properties: Value) -> Value {
    let mut schema = json!({"type": "object", "required": required});
    schema["properties"] = properties;
    schema
}

fn catalog() -> Value {
    let image = object(
        &["ref"],
        json!({
            "ref": {"type": "string", "minLength": 1, "maxLength": 1000},
            "pollIntervalMinutes": {"type": "integer", "minimum": 1},
        }),
    );
    let mut source = object(
        &["type"],
        json!({"type": {"type": "string", "enum": ["Image"]}, "image": image}),
    );
    source["x-kubernetes-validations"] = json!([{
        "rule": "has(self.type) && self.type == 'Image' ? has(self.image) : !has(self.image)",
        "message": "image is required when source type is Image, and forbidden otherwise",
    }]);
    object(
        &["source"],
        json!({
            "source": source,
            "priority": {
                "type": "integer", "format": "int32", "default": 0, "minimum": -2_147_483_648_i64, "maximum": 2_147_483_647,
            },
            "availabilityMode": {"type": "string", "enum": ["Unavailable", "Available"], "default": "Available"},
        }),
    )
}

fn extension() -> Value {
    let name = json!({
        "type": "string", "minLength": 1, "maxLength": 253,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    });
    let namespace = json!({
        "type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    });
    let strings = json!({"type": "array", "items": {"type": "string"}});
    let expression = object(
        &["key", "operator"],
        json!({"key": {"type": "string"}, "operator": {"type": "string"}, "values": strings}),
    );
    let selector = object(
        &[],
        json!({
            "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
            "matchExpressions": {"type": "array", "items": expression},
        }),
    );
    let filter = object(
        &["packageName"],
        json!({
            "packageName": immutable(name, "packageName"),
            "version": {"type": "string", "maxLength": 64},
            "channels": {"type": "array", "maxItems": 256, "items": {"type": "string", "maxLength": 253}},
            "selector": selector,
            "upgradeConstraintPolicy": {
                "type": "string", "enum": ["CatalogProvided", "SelfCertified"], "default": "CatalogProvided",
            },
        }),
    );
    let mut source = object(
        &["sourceType"],
        json!({"sourceType": {"type": "string", "enum": ["Catalog"]}, "catalog": filter}),
    );
    source["x-kubernetes-validations"] = json!([{
        "rule": "has(self.sourceType) && self.sourceType == 'Catalog' ? has(self.catalog) : !has(self.catalog)",
        "message": "catalog is required when sourceType is Catalog, and forbidden otherwise",
    }]);
    let safety = object(
        &["enforcement"],
        json!({"enforcement": {"type": "string", "enum": ["None", "Strict"]}}),
    );
    let preflight = object(&["crdUpgradeSafety"], json!({"crdUpgradeSafety": safety}));
    let inline = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut config = object(
        &["configType"],
        json!({"configType": {"type": "string", "enum": ["Inline"]}, "inline": inline}),
    );
    config["x-kubernetes-validations"] = json!([{
        "rule": "has(self.configType) && self.configType == 'Inline' ? has(self.inline) : !has(self.inline)",
        "message": "inline is required when configType is Inline, and forbidden otherwise",
    }]);
    let account = object(&["name"], json!({"name": {"type": "string", "maxLength": 253}}));
    object(
        &["namespace", "source"],
        json!({
            "namespace": immutable(namespace, "namespace"),
            "serviceAccount": account,
            "source": source,
            "install": object(&[], json!({"preflight": preflight})),
            "config": config,
            "progressDeadlineMinutes": {"type": "integer", "format": "int32", "minimum": 10, "maximum": 720},
        }),
    )
}
