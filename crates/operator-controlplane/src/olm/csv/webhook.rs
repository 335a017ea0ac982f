//! Webhooks of a ClusterServiceVersion: Services, certificates, configurations and conversions.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::certificate::VALID;
use super::install::merge_named;
use super::{Certificates, Member};
use crate::kind::{CUSTOM_RESOURCE_DEFINITION, Kind, SERVICE};
use crate::object::{Object, set, time};
use crate::olm::kinds::{CSV, MUTATING_WEBHOOK, VALIDATING_WEBHOOK};
use crate::olm::kinds::{ROLE, ROLE_BINDING, SECRET};
use crate::olm::names::{hash, label};
use crate::olm::operator_group::UID_LABEL;
use crate::olm::{is_owned, owner_labels, owner_reference};
use crate::plan::{Action, create, delete, update};

const GENERATE_NAME: &str = "olm.webhook-description-generate-name";
const HASH: &str = "olm.webhook-description-hash";
/// The annotation of a Secret with the time after which its certificate is renewed.
const ROTATE: &str = "olm.certificate-rotate-at";
/// The time before its expiry at which a certificate is renewed.
const RENEWAL: SignedDuration = SignedDuration::from_hours(24);

/// Returns the webhook descriptions of a ClusterServiceVersion.
pub(in crate::olm) fn descriptions(csv: &Value) -> &[Value] {
    csv.items("/spec/webhookdefinitions")
}

/// Returns the name of the Service of a Deployment that serves webhooks.
pub(in crate::olm) fn service_name(deployment: &str) -> String {
    format!("{}-service", deployment.replace('.', "-"))
}

/// Returns the name of the Secret with the certificate of a Deployment that serves webhooks.
pub(in crate::olm) fn secret_name(deployment: &str) -> String {
    format!("{}-cert", service_name(deployment))
}

/// Returns the Deployments that serve webhooks or owned API services.
pub(in crate::olm) fn served(csv: &Value) -> BTreeSet<&str> {
    let services = csv.items("/spec/apiservicedefinitions/owned").iter();
    descriptions(csv)
        .iter()
        .chain(services)
        .map(|description| description.text("/deploymentName"))
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns the first error of the descriptions.
pub(super) fn fault(csv: &Value) -> Option<&'static str> {
    let mut names = BTreeSet::new();
    if !descriptions(csv)
        .iter()
        .all(|description| names.insert(description.text("/generateName")))
    {
        return Some("CSV contains repeated WebhookDescription name");
    }
    let rules = descriptions(csv)
        .iter()
        .flat_map(|description| description.items("/rules"));
    for rule in rules {
        for group in rule.items("/apiGroups").iter().filter_map(Value::as_str) {
            match group {
                "*" => return Some("webhook rules cannot include all groups"),
                "operators.coreos.com" => return Some("webhook rules cannot include the OLM group"),
                "admissionregistration.k8s.io" => {
                    let configurations = [
                        "*",
                        "mutatingwebhookconfigurations",
                        "validatingwebhookconfigurations",
                    ];
                    let resources = rule.items("/resources").iter().filter_map(Value::as_str);
                    if resources
                        .into_iter()
                        .any(|resource| configurations.contains(&resource))
                    {
                        return Some(
                            "webhook rules cannot include MutatingWebhookConfiguration or \
                             ValidatingWebhookConfiguration resources",
                        );
                    }
                }
                _ => {}
            }
        }
    }
    None
}

/// Mounts the certificate in the containers of a Deployment that serves webhooks.
pub(in crate::olm) fn mount(csv: &Value, deployment: &str, spec: &mut Value) {
    if !served(csv).contains(deployment) {
        return;
    }
    let secret = secret_name(deployment);
    let volume = |name: &str, certificate: &str, key: &str| {
        json!({"name": name, "secret": {"secretName": secret, "items": [
            {"key": "tls.crt", "path": certificate}, {"key": "tls.key", "path": key},
        ]}})
    };
    let Some(pod) = spec.pointer_mut("/template/spec") else {
        return;
    };
    let volumes = [
        volume("apiservice-cert", "apiserver.crt", "apiserver.key"),
        volume("webhook-cert", "tls.crt", "tls.key"),
    ];
    merge_named(pod, "volumes", &volumes);
    let mounts = [
        json!({"name": "apiservice-cert", "mountPath": "/apiserver.local.config/certificates"}),
        json!({"name": "webhook-cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs"}),
    ];
    let containers = pod.get_mut("containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        if let Some(Value::Array(known)) = container.get_mut("volumeMounts") {
            known.retain(|known| {
                mounts
                    .iter()
                    .all(|mount| mount.text("/mountPath") != known.text("/mountPath"))
            });
        }
        merge_named(container, "volumeMounts", &mounts);
    }
}

/// Creates the missing Services, Secrets, roles and bindings of the Deployments that serve webhooks.
pub(super) fn services(
    member: &Member<'_>,
    certificates: &mut Certificates<'_>,
) -> Result<Vec<Action>, String> {
    let csv = member.csv;
    let namespace = csv.namespace();
    let mut actions = Vec::new();
    for deployment in served(csv) {
        let service = service_name(deployment);
        let secret = secret_name(deployment);
        let metadata = |name: &str| {
            json!({
                "name": name, "namespace": namespace, "ownerReferences": [owner_reference(&CSV, csv)],
                "labels": owner_labels(CSV.name, csv),
            })
        };
        let wanted = json!({
            "metadata": metadata(&service),
            "spec": {"ports": ports(csv, deployment), "selector": selector(csv, deployment)?},
        });
        actions.extend(ensure(member, &SERVICE, &service, wanted, &["spec"]));
        let known = member.objects().get(&SECRET, namespace, &secret);
        let is_valid = known
            .and_then(|known| rotation(known))
            .is_some_and(|rotate| member.world.now < rotate);
        if !is_valid {
            let mut object = certificate(&service, namespace, member.world.now, certificates)?;
            actions.push(match known {
                None => {
                    let annotations = object["metadata"]["annotations"].take();
                    object["metadata"] = metadata(&secret);
                    object["metadata"]["annotations"] = annotations;
                    create(&SECRET, object, None)
                }
                Some(known) => {
                    let mut changed = Value::clone(known);
                    changed["data"] = object["data"].take();
                    changed["metadata"]["annotations"] = object["metadata"]["annotations"].take();
                    update(&SECRET, changed, None)
                }
            });
        }
        let account = account(csv, deployment);
        let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get"]}]);
        let role = json!({"metadata": metadata(&secret), "rules": rules});
        actions.extend(ensure(member, &ROLE, &secret, role, &["rules"]));
        let reference = json!({"apiGroup": ROLE.gvr.group, "kind": ROLE.name, "name": secret});
        let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
        let binding = json!({"metadata": metadata(&secret), "subjects": subjects, "roleRef": reference});
        actions.extend(ensure(member, &ROLE_BINDING, &secret, binding, &[]));
    }
    Ok(actions)
}

/// Creates a certificate for a Service; returns the Secret without its name.
pub(in crate::olm) fn certificate(
    service: &str,
    namespace: &str,
    now: Timestamp,
    certificates: &mut Certificates<'_>,
) -> Result<Value, String> {
    let names = [
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
    ];
    let pair = certificates(&names, now).ok_or_else(|| "cannot create a certificate".to_owned())?;
    let rotate = now.checked_add(VALID - RENEWAL).unwrap_or(now);
    Ok(json!({
        "metadata": {"annotations": {ROTATE: time(rotate)}},
        "type": "kubernetes.io/tls",
        "data": {
            "tls.crt": STANDARD.encode(&pair.certificate), "tls.key": STANDARD.encode(&pair.key),
            "olmCAKey": STANDARD.encode(&pair.authority),
        },
    }))
}

/// Creates an object, or takes over an existing object with the same name.
fn ensure(member: &Member<'_>, kind: &Kind, name: &str, wanted: Value, fields: &[&str]) -> Option<Action> {
    let Some(known) = member.objects().get(kind, member.csv.namespace(), name) else {
        return Some(create(kind, wanted, None));
    };
    let owned = known.items("/metadata/ownerReferences").iter();
    let mut changed = Value::clone(known);
    if !owned
        .map(|owner| owner.text("/uid"))
        .any(|uid| uid == member.csv.uid())
    {
        for field in ["ownerReferences", "labels"] {
            set(
                &mut changed,
                &["metadata", field],
                wanted["metadata"][field].clone(),
            );
        }
        for field in fields {
            if *field == "spec" {
                set(
                    &mut changed,
                    &["spec", "selector"],
                    wanted["spec"]["selector"].clone(),
                );
                set(&mut changed, &["spec", "ports"], wanted["spec"]["ports"].clone());
            } else {
                changed[*field] = wanted[*field].clone();
            }
        }
    }
    (changed != **known).then(|| update(kind, changed, None))
}

/// Returns the ports of the Service of a Deployment.
pub(in crate::olm) fn ports(csv: &Value, deployment: &str) -> Vec<Value> {
    let services = csv.items("/spec/apiservicedefinitions/owned").iter();
    let of_deployment = descriptions(csv)
        .iter()
        .chain(services)
        .filter(|description| description.text("/deploymentName") == deployment);
    let mut ports: Vec<Value> = Vec::new();
    for description in of_deployment {
        let port = description.int("/containerPort").unwrap_or(443);
        let target = description.get("targetPort").cloned().unwrap_or(json!(port));
        if !ports.iter().any(|known| known.int("/port") == Some(port)) {
            ports.push(json!({"name": port.to_string(), "port": port, "targetPort": target}));
        }
    }
    ports
}

fn strategy<'a>(csv: &'a Value, deployment: &str) -> Option<&'a Value> {
    let mut all = csv.items("/spec/install/spec/deployments").iter();
    all.find(|entry| entry.text("/name") == deployment)
}

/// Returns the labels of the pods of a Deployment.
pub(in crate::olm) fn selector(csv: &Value, deployment: &str) -> Result<Value, String> {
    let entry = strategy(csv, deployment)
        .ok_or_else(|| format!("no deployment named \"{deployment}\" in the install strategy"))?;
    Ok(entry
        .pointer("/spec/selector/matchLabels")
        .cloned()
        .unwrap_or(json!({})))
}

fn account<'a>(csv: &'a Value, deployment: &str) -> &'a str {
    let account =
        strategy(csv, deployment).map_or("", |entry| entry.text("/spec/template/spec/serviceAccountName"));
    if account.is_empty() { "default" } else { account }
}

/// Returns the time after which the certificate in a Secret is renewed.
pub(in crate::olm) fn rotation(secret: &Value) -> Option<Timestamp> {
    secret.annotation(ROTATE)?.parse().ok()
}

/// Returns the times at which the certificates were created and will be renewed.
pub(super) fn times(member: &Member<'_>) -> Option<(Value, Value)> {
    let csv = member.csv;
    let first = served(csv).into_iter().next()?;
    let secret = member
        .objects()
        .get(&SECRET, csv.namespace(), &secret_name(first))?;
    let rotate = rotation(secret)?;
    let made = rotate.checked_sub(VALID - RENEWAL).ok()?;
    Some((time(made), time(rotate)))
}

/// Returns true if a certificate expires soon.
pub(super) fn is_certificate_due(member: &Member<'_>) -> bool {
    secrets(member).any(|secret| rotation(secret).is_some_and(|rotate| member.world.now >= rotate))
}

fn secrets<'a>(member: &'a Member<'_>) -> impl Iterator<Item = &'a std::sync::Arc<Value>> {
    let names = served(member.csv).into_iter().map(secret_name);
    names.filter_map(|name| member.objects().get(&SECRET, member.csv.namespace(), &name))
}

/// Deletes the certificates that expire soon. The installation creates new ones.
pub(super) fn expired(member: &Member<'_>) -> Vec<Action> {
    secrets(member)
        .filter(|secret| rotation(secret).is_some_and(|rotate| member.world.now >= rotate))
        .map(|secret| delete(&SECRET, secret, None))
        .collect()
}

/// Writes missing or outdated webhook configurations and conversions.
pub(super) fn configurations(member: &Member<'_>) -> Result<Vec<Action>, String> {
    let csv = member.csv;
    let mut actions = Vec::new();
    let mut wanted = BTreeSet::new();
    for description in descriptions(csv) {
        let deployment = description.text("/deploymentName");
        let secret = member
            .objects()
            .get(&SECRET, csv.namespace(), &secret_name(deployment));
        let authority = secret.map_or("", |secret| secret.text("/data/olmCAKey"));
        if authority.is_empty() {
            return Ok(services_missing(member));
        }
        let kind = match description.text("/type") {
            "MutatingAdmissionWebhook" => &*MUTATING_WEBHOOK,
            "ValidatingAdmissionWebhook" => &*VALIDATING_WEBHOOK,
            _ => {
                actions.extend(conversions(member, description, authority)?);
                continue;
            }
        };
        let generate = description.text("/generateName");
        wanted.insert(generate);
        let object = configuration(member, description, authority);
        let hash = object.label(HASH).unwrap_or_default().to_owned();
        let mut known =
            owned(member, kind).filter(|known| known.label(GENERATE_NAME) == Some(&label(generate)));
        match known.next() {
            None => actions.push(create(kind, object, None)),
            Some(known) if known.label(HASH) != Some(&hash) => {
                let mut changed = Value::clone(known);
                changed["webhooks"] = object["webhooks"].clone();
                set(&mut changed, &["metadata", "labels", HASH], hash.into());
                actions.push(update(kind, changed, None));
            }
            Some(_) => {}
        }
    }
    for kind in [&*MUTATING_WEBHOOK, &*VALIDATING_WEBHOOK] {
        let stale = owned(member, kind).filter(|known| {
            let name = known.label(GENERATE_NAME).unwrap_or_default();
            !wanted.iter().any(|wanted| label(wanted) == name)
        });
        actions.extend(stale.map(|stale| delete(kind, stale, None)));
    }
    Ok(actions)
}

/// Returns the action for missing Services and Secrets: the installation has to run again.
fn services_missing(member: &Member<'_>) -> Vec<Action> {
    let note = crate::plan::Note::normal(
        "operator-lifecycle-manager",
        &CSV,
        member.csv,
        "NeedsReinstall",
        "certificate of a webhook is missing".to_owned(),
    );
    vec![Action::Record(note)]
}

fn owned<'a>(member: &'a Member<'_>, kind: &Kind) -> impl Iterator<Item = &'a std::sync::Arc<Value>> {
    let csv = member.csv;
    let all = member.objects().list(kind, "");
    all.filter(|known| is_owned(known, CSV.name, csv.namespace(), csv.name()))
}

fn client(member: &Member<'_>, description: &Value, authority: &str) -> Value {
    let port = description.int("/containerPort").unwrap_or(443);
    json!({
        "service": {
            "name": service_name(description.text("/deploymentName")), "namespace": member.csv.namespace(),
            "path": path(description), "port": port,
        },
        "caBundle": authority,
    })
}

/// Returns the path of a webhook.
pub(in crate::olm) fn path(description: &Value) -> &str {
    match description.text("/webhookPath") {
        "" => "/",
        path => path,
    }
}

/// Returns the entry of a webhook in its configuration, without the namespace selector.
pub(in crate::olm) fn entry(description: &Value, client: Value) -> Value {
    let mut webhook = Map::new();
    webhook.insert("name".to_owned(), description.text("/generateName").into());
    webhook.insert("clientConfig".to_owned(), client);
    for field in [
        "rules",
        "failurePolicy",
        "matchPolicy",
        "objectSelector",
        "sideEffects",
        "timeoutSeconds",
        "admissionReviewVersions",
        "reinvocationPolicy",
    ] {
        if let Some(value) = description.get(field) {
            webhook.insert(field.to_owned(), value.clone());
        }
    }
    Value::Object(webhook)
}

fn configuration(member: &Member<'_>, description: &Value, authority: &str) -> Value {
    let generate = description.text("/generateName");
    let mut webhook = entry(description, client(member, description, authority));
    if let Some(selector) = namespaces(member) {
        webhook["namespaceSelector"] = selector;
    }
    let webhooks = json!([webhook]);
    let mut labels = owner_labels(CSV.name, member.csv);
    labels[GENERATE_NAME] = label(generate).into();
    labels[HASH] = label(&hash(&webhooks)).into();
    json!({"metadata": {"generateName": format!("{generate}-"), "labels": labels}, "webhooks": webhooks})
}

/// Returns the namespace selector of a webhook; `None` for all namespaces.
fn namespaces(member: &Member<'_>) -> Option<Value> {
    if member.is_global() {
        return None;
    }
    let named = !member.group.items("/spec/targetNamespaces").is_empty();
    if let Some(selector) = member.group.pointer("/spec/selector").filter(|_| !named) {
        return Some(selector.clone());
    }
    let label = format!("{UID_LABEL}{}", member.group.uid());
    Some(json!({"matchLabels": {label: ""}}))
}

/// Sets the conversion of the CRDs in a webhook description.
fn conversions(member: &Member<'_>, description: &Value, authority: &str) -> Result<Vec<Action>, String> {
    let csv = member.csv;
    let global_only = csv
        .items("/spec/installModes")
        .iter()
        .all(|mode| mode.flag("/supported") == (mode.text("/type") == "AllNamespaces"));
    if !global_only {
        return Err(
            "unable to manage conversion webhook: CSVs with conversion webhooks must support only AllNamespaces"
                .to_owned(),
        );
    }
    let names = description.items("/conversionCRDs");
    if names.is_empty() {
        return Err(
            "unable to manager conversion webhook: conversion webhook must have at least one CRD specified"
                .to_owned(),
        );
    }
    let mut actions = Vec::new();
    for name in names.iter().filter_map(Value::as_str) {
        let owned = csv
            .items("/spec/customresourcedefinitions/owned")
            .iter()
            .any(|owned| owned.text("/name") == name);
        if !owned {
            return Err(format!("csv {} does not own CRD {name}", csv.name()));
        }
        let Some(definition) = member.objects().get(&CUSTOM_RESOURCE_DEFINITION, "", name) else {
            return Err(format!(
                "unable to get CRD {name} specified in Conversion Webhook: not found"
            ));
        };
        if definition.flag("/spec/preserveUnknownFields") {
            return Err(
                "crd.Spec.PreserveUnknownFields must be false to let API Server call webhook to do the conversion"
                    .to_owned(),
            );
        }
        let conversion = json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": client(member, description, authority),
                "conversionReviewVersions": description.items("/admissionReviewVersions"),
            },
        });
        if definition.pointer("/spec/conversion") != Some(&conversion) {
            let mut changed = Value::clone(definition);
            set(&mut changed, &["spec", "conversion"], conversion);
            actions.push(update(&CUSTOM_RESOURCE_DEFINITION, changed, None));
        }
    }
    Ok(actions)
}
