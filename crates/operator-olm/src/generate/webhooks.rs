//! Converts webhook configurations to the webhook definitions of a ClusterServiceVersion.

use std::collections::BTreeMap;

use apimachinery::go::quote;
use apimachinery::object::name;
use serde_json::{Map, Value, json};

use super::collect::Objects;
use super::{Level, Message, set_or_remove};

/// The default port of a Service that a webhook calls.
const PORT: i64 = 443;

/// The fields that are equal in a configuration and in a definition.
const SAME: [&str; 6] = [
    "rules",
    "failurePolicy",
    "matchPolicy",
    "objectSelector",
    "timeoutSeconds",
    "reinvocationPolicy",
];

/// Returns the definitions of all webhooks, sorted by name.
pub(super) fn definitions(objects: &Objects, log: &mut Vec<Message>) -> Vec<Value> {
    let mut definitions = Vec::new();
    for (webhooks, kind, word) in [
        (
            &objects.validating_webhooks,
            "ValidatingAdmissionWebhook",
            "validating",
        ),
        (&objects.mutating_webhooks, "MutatingAdmissionWebhook", "mutating"),
    ] {
        let webhooks = webhooks.iter();
        definitions.extend(webhooks.map(|webhook| admission(objects, webhook, kind, word, log)));
    }
    for service in &objects.services {
        definitions.extend(conversions(objects, service));
    }
    definitions.sort_by(|left, right| generate_name(left).cmp(generate_name(right)));
    definitions
}

fn generate_name(definition: &Value) -> &str {
    text(definition, "generateName")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn admission(objects: &Objects, webhook: &Value, kind: &str, word: &str, log: &mut Vec<Message>) -> Value {
    let reference = webhook
        .pointer("/clientConfig/service")
        .filter(|value| !value.is_null());
    let (service, deployment) = reference.map_or((None, ""), |reference| find(objects, reference));
    let quoted = quote(text(webhook, "name"));
    match (service, deployment) {
        (None, _) => log.push(Message::new(
            Level::Info,
            format!("No service found for {word} webhook {quoted}"),
        )),
        (Some(service), "") => {
            let service = quote(name(service));
            let text = format!("No deployment is selected by service {service} for {word} webhook {quoted}");
            log.push(Message::new(Level::Info, text));
        }
        _ => {}
    }
    let mut fields = Map::new();
    for field in SAME {
        let value = webhook.get(field).cloned().unwrap_or_default();
        if field == "objectSelector" && value.is_object() {
            fields.insert(field.to_owned(), value);
        } else {
            set_or_remove(&mut fields, field, value);
        }
    }
    fields.insert("type".to_owned(), kind.into());
    fields.insert("generateName".to_owned(), text(webhook, "name").into());
    let effects = webhook
        .get("sideEffects")
        .and_then(Value::as_str)
        .unwrap_or("None");
    fields.insert("sideEffects".to_owned(), effects.into());
    let versions = webhook
        .get("admissionReviewVersions")
        .filter(|versions| is_filled(versions));
    let versions = versions.cloned().unwrap_or_else(|| json!(["v1beta1"]));
    fields.insert("admissionReviewVersions".to_owned(), versions);
    if let Some(reference) = reference {
        set_service(&mut fields, reference, service, deployment);
        if let Some(path) = reference.get("path").filter(|path| path.is_string()) {
            fields.insert("webhookPath".to_owned(), path.clone());
        }
    }
    fields.into()
}

fn is_filled(value: &Value) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty())
}

/// Sets the Deployment and the ports of a webhook definition.
fn set_service(
    fields: &mut Map<String, Value>,
    reference: &Value,
    service: Option<&Value>,
    deployment: &str,
) {
    let wanted = reference.get("port").and_then(Value::as_i64).unwrap_or(PORT);
    let ports = service
        .and_then(|service| service.pointer("/spec/ports"))
        .and_then(Value::as_array);
    let mut ports = ports.into_iter().flatten();
    let port = ports.find(|port| port.get("port").and_then(Value::as_i64) == Some(wanted));
    if let Some(port) = port {
        fields.insert("containerPort".to_owned(), wanted.into());
        let target = port.get("targetPort").cloned().unwrap_or_else(|| json!(0));
        fields.insert("targetPort".to_owned(), target);
    }
    let service_name = text(reference, "name");
    let deployment = match deployment {
        "" => service_name.strip_suffix("-service").unwrap_or(service_name),
        found => found,
    };
    fields.insert("deploymentName".to_owned(), deployment.into());
}

/// Returns the Service of a reference if it selects pods, and the name of the Deployment of these pods.
fn find<'a>(objects: &'a Objects, reference: &Value) -> (Option<&'a Value>, &'a str) {
    let mut services = objects.services.iter();
    let service = services.find(|service| name(service) == text(reference, "name"));
    let Some(service) = service else {
        return (None, "");
    };
    let is_external = service.pointer("/spec/type").and_then(Value::as_str) == Some("ExternalName");
    let selector = service.pointer("/spec/selector").and_then(Value::as_object);
    if is_external || selector.is_none_or(Map::is_empty) {
        return (None, "");
    }
    (Some(service), selected(objects, service))
}

fn selected<'a>(objects: &'a Objects, service: &Value) -> &'a str {
    let selector = service.pointer("/spec/selector").and_then(Value::as_object);
    let matches = |deployment: &&Value| {
        let labels = deployment.pointer("/spec/template/metadata/labels");
        let labels = labels
            .and_then(Value::as_object)
            .filter(|labels| !labels.is_empty());
        let mut pairs = selector.into_iter().flatten();
        labels.is_some_and(|labels| pairs.all(|(key, value)| labels.get(key) == Some(value)))
    };
    objects.deployments.iter().find(matches).map_or("", name)
}

/// The name of a CRD, and its conversion webhook.
type Conversion<'a> = (&'a str, &'a Value);

/// Returns the conversion webhooks that a Service serves: one for each port and path.
fn conversions(objects: &Objects, service: &Value) -> Vec<Value> {
    let mut groups: BTreeMap<(Option<i64>, &str), Vec<Conversion<'_>>> = BTreeMap::new();
    for definition in &objects.definitions {
        let Some(webhook) = definition.pointer("/spec/conversion/webhook") else {
            continue;
        };
        let reference = webhook
            .pointer("/clientConfig/service")
            .filter(|value| !value.is_null());
        if let Some(reference) = reference.filter(|reference| text(reference, "name") == name(service)) {
            let port = reference.get("port").and_then(Value::as_i64);
            let group = groups.entry((port, text(reference, "path"))).or_default();
            group.push((name(definition), webhook));
        }
    }
    let groups = groups.into_iter().filter_map(|((_, path), mut definitions)| {
        let versions = definitions.first()?.1.get("conversionReviewVersions").cloned();
        let reference = definitions.first()?.1.pointer("/clientConfig/service")?;
        definitions.sort_by_key(|(name, _)| *name);
        let names: Vec<&str> = definitions.iter().map(|(name, _)| *name).collect();
        let plurals = names
            .iter()
            .map(|name| name.split('.').next().unwrap_or_default());
        let mut fields = Map::new();
        fields.insert("type".to_owned(), "ConversionWebhook".into());
        fields.insert("admissionReviewVersions".to_owned(), versions.unwrap_or_default());
        fields.insert(
            "generateName".to_owned(),
            format!("c{}.kb.io", plurals.collect::<String>()).into(),
        );
        fields.insert("sideEffects".to_owned(), "None".into());
        fields.insert("conversionCRDs".to_owned(), names.into());
        fields.insert("webhookPath".to_owned(), path.into());
        set_service(&mut fields, reference, Some(service), selected(objects, service));
        Some(Value::Object(fields))
    });
    groups.collect()
}
