//! Creates the definitions of the resources of a CustomResourceDefinition.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::jsonpath::JsonPath;
use apimachinery::object;
use serde_json::{Value, json};
use structured_merge::scale::ReplicasPaths;
use structured_merge::{PathElement, Schema};
use tokio_util::sync::CancellationToken;

use super::condition::is_true;
use super::conversion::Conversion;
use super::names::Names;
use super::scale::Scale;
use super::version::{CustomVersion, PrinterColumn};
use crate::resource::{Definition, FieldManagers, Source, Subresource, version_priority};
use crate::status::NamedResource;
use apimachinery::gvk::Gvr;
use builtin_kinds::Column;

const ALL_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// Returns the resources of a CRD: one for every served version, in discovery order.
pub(crate) fn definitions(crd: &Value, since: u64, retired: &CancellationToken) -> Vec<Definition> {
    let spec = &crd["spec"];
    let names = Names::read(&crd["status"]["acceptedNames"]);
    let group = object::text(spec, &["group"]);
    let versions: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().collect();
    let Some(storage) = versions.iter().find(|version| version["storage"] == true) else {
        return Vec::new();
    };
    let Some(storage_schema) = compiled(storage) else {
        return Vec::new();
    };
    let storage = Arc::new(Gvr::new(group, object::text(storage, &["name"]), &names.plural));
    let mut served: Vec<&Value> = versions
        .iter()
        .copied()
        .filter(|version| version["served"] == true)
        .collect();
    served.sort_by_key(|version| version_priority(object::text(version, &["name"])));
    let current = served.iter().filter(|version| version["deprecated"] != true);
    let family = Family {
        current: current
            .map(|version| object::text(version, &["name"]).to_owned())
            .collect(),
        namespaced: spec["scope"] == "Namespaced",
        merge_schemas: merge_schemas(group, &versions),
        replicas_paths: replicas_paths(group, &versions),
        storage_schema,
        since,
        uid: object::uid(crd).to_owned(),
        terminating: is_true(crd, "Terminating"),
        retired: retired.clone(),
        conversion: Conversion::read(spec),
    };
    served
        .into_iter()
        .filter_map(|version| definition(version, &names, &storage, &family))
        .collect()
}

/// The common properties of the versions of a CRD.
struct Family {
    /// The served versions that are not deprecated, the preferred one first.
    current: Vec<String>,
    namespaced: bool,
    merge_schemas: BTreeMap<String, Schema>,
    replicas_paths: ReplicasPaths,
    storage_schema: structural_schema::Schema,
    since: u64,
    uid: String,
    terminating: bool,
    retired: CancellationToken,
    conversion: Option<Arc<Conversion>>,
}

/// Returns the schema of a version; `None` if it is invalid, which the validation of CRDs rejects.
fn compiled(version: &Value) -> Option<structural_schema::Schema> {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&anything);
    structural_schema::Schema::compile(schema).ok()
}

/// Returns the server-side apply schemas of all versions, by apiVersion.
fn merge_schemas(group: &str, versions: &[&Value]) -> BTreeMap<String, Schema> {
    versions
        .iter()
        .map(|version| {
            let api_version = format!("{group}/{}", object::text(version, &["name"]));
            let schema = match version.pointer("/schema/openAPIV3Schema") {
                Some(schema) => Schema::structural(schema),
                None => Schema::deduced(),
            };
            (api_version, schema)
        })
        .collect()
}

/// Returns the paths of the replicas in all versions, by apiVersion; `None` for versions without a scale subresource.
fn replicas_paths(group: &str, versions: &[&Value]) -> ReplicasPaths {
    let path = |version: &Value| {
        let scale = version.pointer("/subresources/scale").and_then(scale)?;
        Some(
            scale
                .spec_replicas
                .split('.')
                .skip(1)
                .map(PathElement::field)
                .collect(),
        )
    };
    let named = |version: &&Value| {
        (
            format!("{group}/{}", object::text(version, &["name"])),
            path(version),
        )
    };
    versions.iter().map(named).collect()
}

fn definition(version: &Value, names: &Names, storage: &Arc<Gvr>, family: &Family) -> Option<Definition> {
    let custom = custom_version(version, names, storage, family)?;
    let subject = NamedResource {
        group: storage.group.clone(),
        resource: names.plural.clone(),
        kind: names.kind.clone(),
    };
    let version_name = object::text(version, &["name"]).to_owned();
    let mut subresources = Vec::new();
    let subresource = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.to_owned(),
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
    };
    if custom.has_status {
        subresources.push(subresource("status", &storage.group, &version_name, &names.kind));
    }
    if custom.scale.is_some() {
        subresources.push(subresource("scale", "autoscaling", "v1", "Scale"));
    }
    Some(Definition {
        table: subject.resource_name().into(),
        storage: storage.clone(),
        version: version_name,
        singular: names.singular_or_default(),
        list_kind: names.list_kind_or_default(),
        namespaced: family.namespaced,
        verbs: ALL_VERBS.map(str::to_owned).to_vec(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        field_managers: FieldManagers::new(subresources.iter().map(|sub| sub.name.as_str())),
        subresources,
        source: Source::Custom(Arc::new(custom)),
        subject,
    })
}

fn custom_version(version: &Value, names: &Names, storage: &Gvr, family: &Family) -> Option<CustomVersion> {
    let group = &storage.group;
    let name = object::text(version, &["name"]);
    let deprecated = version["deprecated"] == true;
    Some(CustomVersion {
        api_version: format!("{group}/{name}"),
        storage_api_version: format!("{group}/{}", storage.version),
        merge_schemas: family.merge_schemas.clone(),
        has_status: version
            .pointer("/subresources/status")
            .is_some_and(|status| !status.is_null()),
        scale: version.pointer("/subresources/scale").and_then(scale),
        replicas_paths: family.replicas_paths.clone(),
        columns: printer_columns(version),
        selectable_fields: version["selectableFields"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|field| object::text(field, &["jsonPath"]).to_owned())
            .collect(),
        schema: compiled(version)?,
        storage_schema: family.storage_schema.clone(),
        since: family.since,
        identity: format!("{} {}", family.uid, family.since),
        terminating: family.terminating,
        retired: family.retired.clone(),
        conversion: family.conversion.clone(),
        deprecation: deprecated.then(|| {
            version["deprecationWarning"]
                .as_str()
                .map(str::to_owned)
                .unwrap_or_else(|| deprecation_warning(group, name, &names.kind, &family.current))
        }),
    })
}

/// Returns the default warning for a deprecated version. It names the preferred newer version.
fn deprecation_warning(group: &str, version: &str, kind: &str, current: &[String]) -> String {
    let priority = version_priority;
    let better = current.iter().find(|other| priority(other) < priority(version));
    let hint = better.map(|other| format!("; use {group}/{other} {kind}"));
    format!(
        "{group}/{version} {kind} is deprecated{}",
        hint.unwrap_or_default()
    )
}

fn scale(scale: &Value) -> Option<Scale> {
    Some(Scale {
        spec_replicas: scale["specReplicasPath"].as_str()?.to_owned(),
        status_replicas: scale["statusReplicasPath"].as_str()?.to_owned(),
        label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
    })
}

fn printer_columns(version: &Value) -> Vec<PrinterColumn> {
    let given = version["additionalPrinterColumns"].as_array();
    // The API server ends the table at the first column whose path it cannot parse.
    let columns = given
        .into_iter()
        .flatten()
        .map_while(|column| {
            let text = |field: &str| object::text(column, &[field]).to_owned();
            let mut description = text("description");
            if description.is_empty() {
                let path = text("jsonPath");
                description = format!("Custom resource definition column (in JSONPath format): {path}");
            }
            let json_path = JsonPath::parse(&text("jsonPath")).ok()?;
            Some(PrinterColumn {
                column: Column {
                    name: text("name"),
                    kind: text("type"),
                    format: text("format"),
                    description,
                    priority: column["priority"]
                        .as_i64()
                        .and_then(|priority| i32::try_from(priority).ok())
                        .unwrap_or_default(),
                },
                json_path: Some(json_path),
            })
        })
        .collect();
    if given.is_some_and(|given| !given.is_empty()) {
        return columns;
    }
    vec![PrinterColumn {
        column: Column {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata".to_owned(),
            priority: 0,
        },
        json_path: JsonPath::parse(".metadata.creationTimestamp").ok(),
    }]
}
