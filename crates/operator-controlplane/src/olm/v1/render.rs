//! Renders a registry+v1 bundle to plain objects.

use std::collections::{BTreeMap, BTreeSet};

use operator_apiserver::client::{Gvr, ServedResource};
use serde_json::{Value, json};

use super::config::Config;
use crate::kind::{CLUSTER_ROLE, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, Kind, SERVICE, SERVICE_ACCOUNT};
use crate::object::{Object, set, unset};
use crate::olm::csv::install;
use crate::olm::csv::webhook;
use crate::olm::kinds::{CLUSTER_ROLE_BINDING, MUTATING_WEBHOOK, ROLE, ROLE_BINDING, VALIDATING_WEBHOOK};
use crate::olm::names::{hash, hashed};

/// A bundle to render.
pub(super) struct Input<'a> {
    pub(super) csv: &'a Value,
    /// The other objects of the bundle.
    pub(super) others: &'a [Value],
    pub(super) namespace: &'a str,
    pub(super) config: &'a Config,
    /// The certificate authorities of the Deployments that serve webhooks, in base64.
    pub(super) authorities: &'a BTreeMap<String, String>,
    pub(super) resources: &'a [ServedResource],
}

/// A rendered object with its resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rendered {
    pub(super) gvr: Gvr,
    pub(super) object: Value,
}

fn rendered(kind: &Kind, mut object: Value) -> Rendered {
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.name.into();
    Rendered {
        gvr: kind.gvr.clone(),
        object,
    }
}

/// Returns the objects in the order in which they are created.
///
/// # Errors
/// Returns an error if the cluster does not serve a kind of the bundle.
pub(super) fn render(input: &Input<'_>) -> Result<Vec<Rendered>, String> {
    let mut objects = permissions(input);
    let (definitions, others): (Vec<&Value>, Vec<&Value>) = input
        .others
        .iter()
        .partition(|object| object.text("/kind") == CUSTOM_RESOURCE_DEFINITION.name);
    objects.extend(
        definitions
            .into_iter()
            .map(|definition| converted(input, definition)),
    );
    for object in others {
        objects.push(other(input, object)?);
    }
    objects.extend(services(input));
    objects.extend(deployments(input));
    objects.extend(webhooks(input));
    Ok(objects)
}

fn is_global(input: &Input<'_>) -> bool {
    input.config.targets == [""]
}

/// Returns the service accounts, roles and bindings.
fn permissions(input: &Input<'_>) -> Vec<Rendered> {
    let strategy = "/spec/install/spec";
    let local = input.csv.items(&format!("{strategy}/permissions"));
    let cluster = input.csv.items(&format!("{strategy}/clusterPermissions"));
    let accounts: BTreeSet<&str> = local
        .iter()
        .chain(cluster)
        .map(|permission| permission.text("/serviceAccountName"))
        .filter(|account| !["", "default"].contains(account))
        .collect();
    let mut objects: Vec<Rendered> = accounts
        .into_iter()
        .map(|account| {
            rendered(
                &SERVICE_ACCOUNT,
                json!({"metadata": {"name": account, "namespace": input.namespace}}),
            )
        })
        .collect();
    for permission in local {
        if is_global(input) {
            // An operator for all namespaces must be able to list namespaces.
            let mut rules = permission.items("/rules").to_vec();
            rules.push(
                json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}),
            );
            objects.extend(pair(input, permission, &rules, None));
        } else {
            for target in &input.config.targets {
                objects.extend(pair(input, permission, permission.items("/rules"), Some(target)));
            }
        }
    }
    for permission in cluster {
        objects.extend(pair(input, permission, permission.items("/rules"), None));
    }
    objects
}

/// Returns a role and its binding, in a namespace or cluster-wide.
fn pair(input: &Input<'_>, permission: &Value, rules: &[Value], namespace: Option<&str>) -> [Rendered; 2] {
    let account = match permission.text("/serviceAccountName") {
        "" => "default",
        account => account,
    };
    let base = format!("{}-{account}", input.csv.name());
    let name = hashed(&base, &hash(&json!([input.csv.name(), permission, namespace])));
    let mut metadata = json!({"name": name});
    let (role, binding) = match namespace {
        Some(namespace) => {
            metadata["namespace"] = namespace.into();
            (&*ROLE, &*ROLE_BINDING)
        }
        None => (&*CLUSTER_ROLE, &*CLUSTER_ROLE_BINDING),
    };
    let reference = json!({"apiGroup": role.gvr.group, "kind": role.name, "name": name});
    let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": input.namespace}]);
    [
        rendered(role, json!({"metadata": metadata, "rules": rules})),
        rendered(
            binding,
            json!({"metadata": metadata, "subjects": subjects, "roleRef": reference}),
        ),
    ]
}

/// Returns a CRD with the conversion that a webhook of the bundle serves.
fn converted(input: &Input<'_>, definition: &Value) -> Rendered {
    let mut definition = definition.clone();
    unset(&mut definition, &["status"]);
    let webhook = webhook::descriptions(input.csv).iter().find(|description| {
        let mut names = description.items("/conversionCRDs").iter();
        description.text("/type") == "ConversionWebhook" && names.any(|name| name == definition.name())
    });
    if let Some(description) = webhook {
        let conversion = json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": client(input, description),
                "conversionReviewVersions": description.items("/admissionReviewVersions"),
            },
        });
        set(&mut definition, &["spec", "conversion"], conversion);
    }
    rendered(&CUSTOM_RESOURCE_DEFINITION, definition)
}

fn other(input: &Input<'_>, object: &Value) -> Result<Rendered, String> {
    let (group, version) = object
        .text("/apiVersion")
        .split_once('/')
        .unwrap_or(("", object.text("/apiVersion")));
    let kind = object.text("/kind");
    let served = input.resources.iter().find(|served| {
        (
            served.gvr.group.as_str(),
            served.gvr.version.as_str(),
            served.kind.as_str(),
        ) == (group, version, kind)
    });
    let Some(served) = served else {
        let api = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        return Err(format!("no matches for kind \"{kind}\" in version \"{api}\""));
    };
    let mut object = object.clone();
    unset(&mut object, &["status"]);
    if served.namespaced {
        set(&mut object, &["metadata", "namespace"], input.namespace.into());
    }
    Ok(Rendered {
        gvr: (*served.gvr).clone(),
        object,
    })
}

/// Returns the Services of the webhooks.
fn services(input: &Input<'_>) -> Vec<Rendered> {
    let served = webhook::served(input.csv).into_iter();
    served
        .map(|deployment| {
            let selector = webhook::selector(input.csv, deployment).unwrap_or(json!({}));
            let metadata = json!({"name": webhook::service_name(deployment), "namespace": input.namespace});
            let spec = json!({"ports": webhook::ports(input.csv, deployment), "selector": selector});
            rendered(&SERVICE, json!({"metadata": metadata, "spec": spec}))
        })
        .collect()
}

fn deployments(input: &Input<'_>) -> Vec<Rendered> {
    let csv = input.csv;
    let entries = csv.items("/spec/install/spec/deployments").iter();
    entries
        .map(|entry| {
            let name = entry.text("/name");
            let mut spec = entry.get("spec").cloned().unwrap_or_default();
            spec["revisionHistoryLimit"] = json!(1);
            let annotate = |spec: &mut Value, name: &str, value: &str| {
                set(spec, &["template", "metadata", "annotations", name], value.into());
            };
            let own: Vec<(String, String)> = spec
                .texts("/template/metadata/annotations")
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            for (name, value) in csv.texts("/metadata/annotations") {
                annotate(&mut spec, name, value);
            }
            for (name, value) in own {
                annotate(&mut spec, &name, &value);
            }
            annotate(&mut spec, "olm.targetNamespaces", &input.config.targets.join(","));
            webhook::mount(csv, name, &mut spec);
            if let Some(config) = &input.config.deployment {
                install::configure(&mut spec, config);
            }
            let mut metadata = json!({"name": name, "namespace": input.namespace});
            if let Some(labels) = entry.get("label") {
                metadata["labels"] = labels.clone();
            }
            rendered(&DEPLOYMENT, json!({"metadata": metadata, "spec": spec}))
        })
        .collect()
}

fn client(input: &Input<'_>, description: &Value) -> Value {
    let deployment = description.text("/deploymentName");
    let authority = input.authorities.get(deployment).map_or("", String::as_str);
    json!({
        "service": {
            "name": webhook::service_name(deployment), "namespace": input.namespace,
            "path": webhook::path(description), "port": description.int("/containerPort").unwrap_or(443),
        },
        "caBundle": authority,
    })
}

/// Returns the configurations of the admission webhooks.
fn webhooks(input: &Input<'_>) -> Vec<Rendered> {
    let descriptions = webhook::descriptions(input.csv).iter();
    descriptions
        .filter_map(|description| {
            let kind = match description.text("/type") {
                "MutatingAdmissionWebhook" => &*MUTATING_WEBHOOK,
                "ValidatingAdmissionWebhook" => &*VALIDATING_WEBHOOK,
                _ => return None,
            };
            let generate = description.text("/generateName");
            let mut entry = webhook::entry(description, client(input, description));
            if !is_global(input) {
                entry["namespaceSelector"] = json!({"matchExpressions": [{
                    "key": "kubernetes.io/metadata.name", "operator": "In", "values": input.config.targets,
                }]});
            }
            let name = generate.trim_end_matches('-');
            Some(rendered(
                kind,
                json!({"metadata": {"name": name}, "webhooks": [entry]}),
            ))
        })
        .collect()
}
