//! The CustomResourceDefinitions of OLM: names, printer columns, and the parts of the schemas that the controllers
//! use.

use serde_json::{Map, Value, json};

/// One definition; the schema is `(spec, status)`.
struct Definition {
    kind: &'static str,
    group: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    version: &'static str,
    cluster: bool,
    columns: &'static [(&'static str, &'static str, &'static str)],
    required: &'static [&'static str],
    spec: Value,
}

const OPERATORS: &str = "operators.coreos.com";

/// Returns the CRDs of OLM v0 and v1. They include PackageManifest, which the real OLM serves by an extension API
/// server.
///
/// ```
/// let definitions = operator_controlplane::olm::definitions();
/// let names = definitions.iter().map(|definition| definition["metadata"]["name"].as_str().unwrap_or_default());
/// assert!(names.into_iter().any(|name| name == "subscriptions.operators.coreos.com"));
/// ```
pub fn definitions() -> Vec<Value> {
    let mut definitions: Vec<Value> = all().iter().map(Definition::object).collect();
    definitions.extend(super::v1::definitions());
    definitions
}

impl Definition {
    fn object(&self) -> Value {
        let columns: Vec<Value> = self
            .columns
            .iter()
            .map(|(name, kind, path)| json!({"name": name, "type": kind, "jsonPath": path}))
            .collect();
        let mut schema = object(json!({
            "apiVersion": text(),
            "kind": text(),
            "metadata": {"type": "object"},
            "spec": self.spec,
            "status": open(),
        }));
        schema["required"] = json!(self.required);
        let singular = self.kind.to_lowercase();
        // PackageManifests have no status subresource, because they are written as a whole.
        let subresources = if self.kind == "PackageManifest" {
            json!({})
        } else {
            json!({"status": {}})
        };
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{}.{}", self.plural, self.group),
                "labels": {"olm.version": super::VERSION},
            },
            "spec": {
                "group": self.group,
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "singular": singular,
                    "shortNames": self.short,
                    "categories": ["olm"],
                },
                "scope": if self.cluster { "Cluster" } else { "Namespaced" },
                "versions": [{
                    "name": self.version,
                    "served": true,
                    "storage": true,
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": subresources,
                }],
            },
        })
    }
}

fn text() -> Value {
    json!({"type": "string"})
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

fn integer() -> Value {
    json!({"type": "integer"})
}

fn choice(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

fn texts() -> Value {
    list(text())
}

fn list(items: Value) -> Value {
    let mut schema = json!({"type": "array"});
    schema["items"] = items;
    schema
}

fn object(properties: Value) -> Value {
    let mut schema = json!({"type": "object"});
    schema["properties"] = properties;
    schema
}

/// Returns the schema of an object with arbitrary optional fields.
fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn opens() -> Value {
    list(open())
}

fn requiring(mut schema: Value, required: &[&str]) -> Value {
    schema["required"] = json!(required);
    schema
}

/// Returns the schema of an object with typed fields that also allows other fields.
fn loose(properties: Value) -> Value {
    let mut schema = object(properties);
    schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
    schema
}

fn all() -> Vec<Definition> {
    vec![
        catalog_source(),
        cluster_service_version(),
        install_plan(),
        olm_config(),
        operator_condition(),
        operator_group(),
        operator(),
        package_manifest(),
        subscription(),
    ]
}

fn catalog_source() -> Definition {
    let poll = object(json!({"registryPoll": object(json!({"interval": text()}))}));
    let spec = object(json!({
        "sourceType": text(), "priority": integer(), "configMap": text(), "address": text(), "image": text(),
        "grpcPodConfig": open(), "runAsRoot": boolean(), "updateStrategy": poll, "secrets": texts(),
        "displayName": text(), "description": text(), "publisher": text(), "icon": open(),
    }));
    Definition {
        kind: "CatalogSource",
        group: OPERATORS,
        plural: "catalogsources",
        short: &["catsrc"],
        version: "v1alpha1",
        cluster: false,
        columns: &[
            ("Display", "string", ".spec.displayName"),
            ("Type", "string", ".spec.sourceType"),
            ("Publisher", "string", ".spec.publisher"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
        required: &["spec"],
        spec: requiring(spec, &["sourceType"]),
    }
}

fn cluster_service_version() -> Definition {
    let mode = requiring(
        object(json!({"type": text(), "supported": boolean()})),
        &["supported", "type"],
    );
    let permission = requiring(
        object(json!({"serviceAccountName": text(), "rules": opens()})),
        &["rules", "serviceAccountName"],
    );
    let label = json!({"type": "object", "additionalProperties": text()});
    let deployment = requiring(
        object(json!({"name": text(), "label": label, "spec": open()})),
        &["name", "spec"],
    );
    let strategy = requiring(
        object(json!({
            "deployments": list(deployment), "permissions": list(permission.clone()),
            "clusterPermissions": list(permission),
        })),
        &["deployments"],
    );
    let install = requiring(
        object(json!({"strategy": text(), "spec": strategy})),
        &["strategy"],
    );
    let api = requiring(
        loose(json!({"name": text(), "version": text(), "kind": text()})),
        &["kind", "name", "version"],
    );
    let service = requiring(
        loose(json!({"name": text(), "group": text(), "version": text(), "kind": text()})),
        &["group", "kind", "name", "version"],
    );
    let webhook = requiring(
        loose(json!({
            "generateName": text(), "webhookPath": text(), "deploymentName": text(),
            "type": choice(&["ValidatingAdmissionWebhook", "MutatingAdmissionWebhook", "ConversionWebhook"]),
            "containerPort": {"type": "integer", "minimum": 1, "maximum": 65535},
            "admissionReviewVersions": texts(), "conversionCRDs": texts(), "sideEffects": text(),
        })),
        &["admissionReviewVersions", "generateName", "sideEffects", "type"],
    );
    let string_map = json!({"type": "object", "additionalProperties": text()});
    let spec = loose(json!({
        "displayName": text(), "description": text(), "version": text(), "minKubeVersion": text(), "maturity": text(),
        "replaces": text(), "skips": texts(), "keywords": texts(), "annotations": string_map.clone(), "labels": string_map,
        "install": install, "installModes": list(mode), "webhookdefinitions": list(webhook),
        "customresourcedefinitions": object(json!({"owned": list(api.clone()), "required": list(api)})),
        "apiservicedefinitions": object(json!({"owned": list(service.clone()), "required": list(service)})),
        "nativeAPIs": list(object(json!({"group": text(), "version": text(), "kind": text()}))),
        "relatedImages": list(object(json!({"name": text(), "image": text()}))),
        "cleanup": requiring(object(json!({"enabled": boolean()})), &["enabled"]),
    }));
    Definition {
        kind: "ClusterServiceVersion",
        group: OPERATORS,
        plural: "clusterserviceversions",
        short: &["csv", "csvs"],
        version: "v1alpha1",
        cluster: false,
        columns: &[
            ("Display", "string", ".spec.displayName"),
            ("Version", "string", ".spec.version"),
            ("Replaces", "string", ".spec.replaces"),
            ("Phase", "string", ".status.phase"),
        ],
        required: &["spec"],
        spec: requiring(spec, &["displayName", "install"]),
    }
}

fn install_plan() -> Definition {
    let spec = object(json!({
        "approval": text(), "approved": boolean(), "generation": integer(), "source": text(), "sourceNamespace": text(),
        "clusterServiceVersionNames": texts(),
    }));
    Definition {
        kind: "InstallPlan",
        group: OPERATORS,
        plural: "installplans",
        short: &["ip"],
        version: "v1alpha1",
        cluster: false,
        columns: &[
            ("CSV", "string", ".spec.clusterServiceVersionNames[0]"),
            ("Approval", "string", ".spec.approval"),
            ("Approved", "boolean", ".spec.approved"),
        ],
        required: &["spec"],
        spec: requiring(spec, &["approval", "approved", "clusterServiceVersionNames"]),
    }
}

fn olm_config() -> Definition {
    let features = object(json!({"disableCopiedCSVs": boolean(), "packageServerSyncInterval": text()}));
    Definition {
        kind: "OLMConfig",
        group: OPERATORS,
        plural: "olmconfigs",
        short: &[],
        version: "v1",
        cluster: true,
        columns: &[],
        required: &[],
        spec: object(json!({"features": features})),
    }
}

fn operator_condition() -> Definition {
    let condition = requiring(
        object(json!({
            "type": text(), "status": choice(&["True", "False", "Unknown"]), "reason": text(), "message": text(),
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        })),
        &["message", "reason", "status", "type"],
    );
    let spec = object(json!({
        "serviceAccounts": texts(), "deployments": texts(), "conditions": list(condition.clone()),
        "overrides": list(condition),
    }));
    Definition {
        kind: "OperatorCondition",
        group: OPERATORS,
        plural: "operatorconditions",
        short: &["condition"],
        version: "v2",
        cluster: false,
        columns: &[],
        required: &[],
        spec,
    }
}

fn operator_group() -> Definition {
    let spec = object(json!({
        "targetNamespaces": texts(), "selector": open(), "serviceAccountName": text(), "staticProvidedAPIs": boolean(),
        "upgradeStrategy": choice(&["Default", "TechPreviewUnsafeFailForward"]),
    }));
    Definition {
        kind: "OperatorGroup",
        group: OPERATORS,
        plural: "operatorgroups",
        short: &["og"],
        version: "v1",
        cluster: false,
        columns: &[],
        required: &[],
        spec,
    }
}

fn operator() -> Definition {
    Definition {
        kind: "Operator",
        group: OPERATORS,
        plural: "operators",
        short: &[],
        version: "v1",
        cluster: true,
        columns: &[],
        required: &[],
        spec: open(),
    }
}

fn package_manifest() -> Definition {
    Definition {
        kind: "PackageManifest",
        group: "packages.operators.coreos.com",
        plural: "packagemanifests",
        short: &[],
        version: "v1",
        cluster: false,
        columns: &[
            ("Catalog", "string", ".status.catalogSourceDisplayName"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
        required: &[],
        spec: open(),
    }
}

fn subscription() -> Definition {
    let config = loose(json!({
        "env": opens(), "envFrom": opens(), "volumes": opens(), "volumeMounts": opens(), "tolerations": opens(),
        "resources": open(), "nodeSelector": {"type": "object", "additionalProperties": text()}, "affinity": open(),
        "annotations": {"type": "object", "additionalProperties": text()},
    }));
    let spec = object(Value::Object(Map::from_iter([
        ("name".to_owned(), text()),
        ("channel".to_owned(), text()),
        ("source".to_owned(), text()),
        ("sourceNamespace".to_owned(), text()),
        ("startingCSV".to_owned(), text()),
        ("installPlanApproval".to_owned(), text()),
        ("config".to_owned(), config),
    ])));
    Definition {
        kind: "Subscription",
        group: OPERATORS,
        plural: "subscriptions",
        short: &["sub", "subs"],
        version: "v1alpha1",
        cluster: false,
        columns: &[
            ("Package", "string", ".spec.name"),
            ("Source", "string", ".spec.source"),
            ("Channel", "string", ".spec.channel"),
        ],
        required: &["spec"],
        spec: requiring(spec, &["name", "source", "sourceNamespace"]),
    }
}
