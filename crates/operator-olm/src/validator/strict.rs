//! `strict`: reports mistakes that the other validators accept although OLM or a catalog rejects them later.

use std::collections::BTreeSet;

use serde_json::Value;

use super::removed_apis::quoted_list;
use super::{Options, annotations_manifest, crd, escaped};
use crate::bundle::{Bundle, list, text};
use crate::catalog::version::Range;
use crate::catalog::{Property, check_properties};
use crate::finding::{Finding, Findings, Level};

const KIND: &str = "ValidationFailed";

pub(super) fn validate(bundle: &Bundle, _: &Options) -> Vec<Finding> {
    let mut findings = Findings::new("strict");
    check_install_modes(bundle, &mut findings);
    check_labels(bundle, &mut findings);
    check_webhooks(bundle, &mut findings);
    check_upgrades(bundle, &mut findings);
    check_metadata(bundle, &mut findings);
    check_objects(bundle, &mut findings);
    crd::add(bundle, &mut findings, crd::is_schema);
    findings.list
}

/// Checks the files with dependencies and properties, which the loader ignores if it cannot read them.
fn check_metadata(bundle: &Bundle, findings: &mut Findings) {
    for (manifest, reason) in &bundle.ignored {
        let detail = format!("{} is ignored: {reason}", manifest.path);
        findings.add(Level::Error, KIND, None, detail, (manifest, ""));
    }
    let files = [
        (&bundle.dependencies, "dependencies"),
        (&bundle.properties, "properties"),
    ];
    for (file, name) in files {
        let Some(file) = file else { continue };
        for (index, item) in list(file.value(), &format!("/{name}")).iter().enumerate() {
            let pointer = format!("/{name}/{index}");
            let property = Property {
                kind: text(item, "/type").to_owned(),
                value: item.get("value").cloned().unwrap_or_default(),
            };
            let reason = match property.kind.as_str() {
                "" => Some("it has no type".to_owned()),
                _ if property.value.is_null() => Some("it has no value".to_owned()),
                _ => check_properties(&[property]).err(),
            };
            if let Some(reason) = reason {
                let detail = format!("item {index} of {} is invalid: {reason}", file.path);
                findings.add(Level::Error, KIND, None, detail, (file, pointer.as_str()));
            }
        }
    }
}

fn check_objects(bundle: &Bundle, findings: &mut Findings) {
    for manifest in &bundle.manifests {
        if manifest.api_version().is_empty() {
            let detail = format!("the {} {:?} has no apiVersion", manifest.kind(), manifest.name());
            findings.add(Level::Error, KIND, None, detail, (manifest, "/apiVersion"));
        }
    }
}

fn check_install_modes(bundle: &Bundle, findings: &mut Findings) {
    const MODES: [&str; 4] = [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
        "AllNamespaces",
    ];
    let mut seen = BTreeSet::new();
    for (index, mode) in bundle.csv_list("/spec/installModes").iter().enumerate() {
        let (name, pointer) = (text(mode, "/type"), format!("/spec/installModes/{index}"));
        if !MODES.contains(&name) {
            let detail = format!("unknown install mode {name:?}: use one of {}", MODES.join(", "));
            findings.failed(Level::Error, bundle, detail, &pointer);
        } else if !seen.insert(name) {
            let detail = format!("duplicate install mode {name}: OLM rejects the bundle");
            findings.failed(Level::Error, bundle, detail, &pointer);
        }
    }
}

fn check_labels(bundle: &Bundle, findings: &mut Findings) {
    let manifest = annotations_manifest(bundle);
    let annotations = &bundle.annotations;
    let mut add = |level: Level, label: &str, detail: String| {
        let name = format!("operators.operatorframework.io.bundle.{label}");
        let pointer = format!("/annotations/{}", escaped(&name));
        let value = Some(bundle.csv_name().to_owned());
        findings.add(level, KIND, value, detail, (&manifest, pointer.as_str()));
    };
    if annotations.package().is_empty() {
        add(Level::Error, "package.v1", "the package name is empty".to_owned());
    }
    for (label, wanted) in [("manifests.v1", "manifests"), ("metadata.v1", "metadata")] {
        let value = annotations.label(label).unwrap_or_default();
        if crate::files::clean(value) != wanted {
            let detail = format!("the label {label} is {value:?}; OLM expects {wanted:?}");
            add(Level::Warning, label, detail);
        }
    }
    let channels = annotations.channels();
    if channels.iter().any(|channel| channel.trim() != *channel) {
        let detail = "a channel name starts or ends with a space, which becomes a part of the name";
        add(Level::Error, "channels.v1", detail.to_owned());
    }
    let default = annotations.default_channel();
    if !default.is_empty() && !channels.contains(&default) {
        let detail = format!("the default channel {default:?} is not one of the channels of the bundle");
        add(Level::Warning, "channel.default.v1", detail);
    }
    let recommended = ["candidate", "fast", "stable"];
    let others: Vec<String> = channels
        .into_iter()
        .filter(|channel| !recommended.iter().any(|prefix| channel.starts_with(prefix)))
        .map(str::to_owned)
        .collect();
    if !others.is_empty() {
        let detail = format!(
            "channel(s) {} are not following the recommended naming convention: https://olm.operatorframework.io/docs/best-practices/channel-naming",
            quoted_list(&others)
        );
        add(Level::Warning, "channels.v1", detail);
    }
}

fn check_webhooks(bundle: &Bundle, findings: &mut Findings) {
    let deployments = bundle.csv_list("/spec/install/spec/deployments");
    let deployments: BTreeSet<&str> = deployments
        .iter()
        .map(|deployment| text(deployment, "/name"))
        .collect();
    let mut names = BTreeSet::new();
    for (index, webhook) in bundle.csv_list("/spec/webhookdefinitions").iter().enumerate() {
        let pointer = format!("/spec/webhookdefinitions/{index}");
        let mut fail = |field: &str, detail: String| {
            findings.failed(Level::Error, bundle, detail, &format!("{pointer}/{field}"));
        };
        let deployment = text(webhook, "/deploymentName");
        if !deployments.contains(deployment) {
            let detail = format!(
                "the webhook is served by deployment {deployment:?}, which the bundle does not install"
            );
            fail("deploymentName", detail);
        }
        let name = text(webhook, "/generateName");
        if name.is_empty() || !names.insert(name) {
            fail(
                "generateName",
                format!("the webhook needs a unique generateName, not {name:?}"),
            );
        }
        let side_effects = text(webhook, "/sideEffects");
        if !matches!(side_effects, "None" | "NoneOnDryRun") {
            fail(
                "sideEffects",
                format!("sideEffects must be None or NoneOnDryRun, not {side_effects:?}"),
            );
        }
        if list(webhook, "/admissionReviewVersions").is_empty() {
            fail(
                "admissionReviewVersions",
                "admissionReviewVersions must not be empty".to_owned(),
            );
        }
        let timeout = webhook.get("timeoutSeconds").and_then(Value::as_i64);
        if timeout.is_some_and(|timeout| !(1..=30).contains(&timeout)) {
            fail(
                "timeoutSeconds",
                "timeoutSeconds must be between 1 and 30".to_owned(),
            );
        }
        let port = webhook.get("containerPort").and_then(Value::as_i64);
        if port.is_some_and(|port| !(1..=65535).contains(&port)) {
            fail(
                "containerPort",
                "containerPort must be between 1 and 65535".to_owned(),
            );
        }
    }
}

fn check_upgrades(bundle: &Bundle, findings: &mut Findings) {
    if let Some(range) = bundle.csv_annotation("olm.skipRange")
        && let Err(reason) = Range::parse(range)
    {
        let detail = format!("olm.skipRange {range:?} is not a range of versions: {reason}");
        findings.failed(
            Level::Error,
            bundle,
            detail,
            "/metadata/annotations/olm.skipRange",
        );
    }
    let replaces = text(&bundle.csv, "/spec/replaces");
    if !replaces.is_empty() && replaces == bundle.csv_name() {
        let detail = "the bundle replaces itself";
        findings.failed(Level::Error, bundle, detail, "/spec/replaces");
    }
}
