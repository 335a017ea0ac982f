//! Transformations of all objects of a kustomization: namespace, names, labels, annotations, images, replicas.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::build::{map_at, visit};
use super::kustomization::{ImageRule, LabelRule, ReplicaRule, split_tag};
use super::reference::References;
use super::resource::Resource;

/// Kinds whose names are defined outside the tree, so that they get no prefix.
const KEEP_NAME: [&str; 3] = ["CustomResourceDefinition", "APIService", "Namespace"];

/// The paths of pod templates by kind.
const TEMPLATES: [(&str, &[&str]); 8] = [
    ("Pod", &[]),
    ("Deployment", &["spec", "template"]),
    ("ReplicaSet", &["spec", "template"]),
    ("ReplicationController", &["spec", "template"]),
    ("DaemonSet", &["spec", "template"]),
    ("StatefulSet", &["spec", "template"]),
    ("Job", &["spec", "template"]),
    ("CronJob", &["spec", "jobTemplate", "spec", "template"]),
];

pub(super) fn template_path(kind: &str) -> Option<&'static [&'static str]> {
    let entry = TEMPLATES.iter().find(|(there, _)| *there == kind);
    entry.map(|(_, path)| *path)
}

pub(super) fn namespace(resources: &mut [Resource], namespace: &str, references: &References) {
    for resource in resources {
        if resource.kind() == "Namespace" {
            resource.set_name(namespace.to_owned());
        } else if resource.is_namespaced() {
            resource.set_namespace(namespace);
        }
        if ["RoleBinding", "ClusterRoleBinding"].contains(&resource.kind()) {
            visit(&mut resource.value, &["subjects"], &mut |subject| {
                // The default service account exists in every namespace.
                if subject["kind"] == "ServiceAccount" && subject["name"] == "default" {
                    subject["namespace"] = json!(namespace);
                }
            });
        }
        references.set_namespace(resource, namespace);
    }
}

pub(super) fn rename(resources: &mut [Resource], prefix: &str, suffix: &str) {
    if prefix.is_empty() && suffix.is_empty() {
        return;
    }
    for resource in resources {
        if !KEEP_NAME.contains(&resource.kind()) {
            resource.set_name(format!("{prefix}{}{suffix}", resource.name()));
        }
    }
}

pub(super) fn labels(resources: &mut [Resource], rule: &LabelRule) {
    for resource in resources {
        add_pairs(&mut resource.value, &["metadata"], "labels", &rule.pairs);
        let kind = resource.kind().to_owned();
        if rule.include_templates || rule.include_selectors {
            in_templates(&mut resource.value, &kind, "labels", &rule.pairs);
        }
        if rule.include_selectors {
            selectors(&mut resource.value, &kind, &rule.pairs);
        }
    }
}

fn selectors(value: &mut Value, kind: &str, pairs: &BTreeMap<String, String>) {
    match kind {
        "Service" | "ReplicationController" => add_pairs(value, &["spec"], "selector", pairs),
        "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet" => {
            ensure(value, &["spec", "selector"]);
            add_pairs(value, &["spec", "selector"], "matchLabels", pairs);
        }
        "NetworkPolicy" => {
            // An empty selector matches all pods and is not extended.
            visit(value, &["spec", "podSelector", "matchLabels"], &mut |labels| {
                for (key, text) in pairs {
                    labels[key.as_str()] = json!(text);
                }
            });
        }
        "PodDisruptionBudget" | "Job" => {
            visit(value, &["spec", "selector", "matchLabels"], &mut |labels| {
                for (key, text) in pairs {
                    labels[key.as_str()] = json!(text);
                }
            });
        }
        _ => {}
    }
}

fn ensure(value: &mut Value, path: &[&str]) {
    if let Some((key, rest)) = path.split_first() {
        map_at(value, key);
        if let Some(next) = value.get_mut(*key) {
            ensure(next, rest);
        }
    }
}

fn add_pairs(value: &mut Value, path: &[&str], key: &str, pairs: &BTreeMap<String, String>) {
    if pairs.is_empty() {
        return;
    }
    visit(value, path, &mut |at| {
        if let Some(map) = map_at(at, key) {
            map.extend(pairs.iter().map(|(key, text)| (key.clone(), json!(text))));
        }
    });
}

pub(super) fn annotations(resources: &mut [Resource], pairs: &BTreeMap<String, String>) {
    for resource in resources {
        add_pairs(&mut resource.value, &["metadata"], "annotations", pairs);
        let kind = resource.kind().to_owned();
        in_templates(&mut resource.value, &kind, "annotations", pairs);
    }
}

/// Adds pairs to the metadata of the templates from which the objects of a kind create other objects.
fn in_templates(value: &mut Value, kind: &str, key: &str, pairs: &BTreeMap<String, String>) {
    let jobs: &[&str] = &["spec", "jobTemplate"];
    let paths = [template_path(kind), (kind == "CronJob").then_some(jobs)];
    for path in paths
        .into_iter()
        .flatten()
        .filter(|path| !path.is_empty() && !pairs.is_empty())
    {
        let metadata = [path, &["metadata"]].concat();
        ensure(value, &metadata);
        add_pairs(value, &metadata, key, pairs);
    }
}

pub(super) fn replicas(resources: &mut [Resource], rules: &[ReplicaRule]) {
    let scaled = ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"];
    for rule in rules {
        let named = resources.iter_mut().filter(|resource| {
            scaled.contains(&resource.kind()) && resource.names().any(|name| name == rule.name)
        });
        for resource in named {
            if let Some(spec) = map_at(&mut resource.value, "spec") {
                spec.insert("replicas".to_owned(), json!(rule.count));
            }
        }
    }
}

pub(super) fn images(resources: &mut [Resource], rules: &[ImageRule]) {
    for resource in resources {
        let Some(template) = template_path(resource.kind()) else {
            continue;
        };
        for containers in ["containers", "initContainers"] {
            let path = [template, &["spec", containers, "image"]].concat();
            visit(&mut resource.value, &path, &mut |image| {
                for rule in rules {
                    if let Some(text) = image.as_str().and_then(|text| replaced(text, rule)) {
                        *image = Value::String(text);
                    }
                }
            });
        }
    }
}

/// Returns the image after a rule, or `None` if the rule is for another image.
fn replaced(image: &str, rule: &ImageRule) -> Option<String> {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let (name, tag) = split_tag(rest);
    if name != rule.name {
        return None;
    }
    let name = rule.new_name.as_deref().unwrap_or(name);
    Some(match (&rule.digest, &rule.new_tag) {
        (Some(digest), None) => format!("{name}@{digest}"),
        (Some(digest), Some(tag)) => format!("{name}:{}@{digest}", tag.text()),
        (None, Some(tag)) => format!("{name}:{}", tag.text()),
        (None, None) => {
            let tag = tag.map(|tag| format!(":{tag}")).unwrap_or_default();
            let digest = digest.map(|digest| format!("@{digest}")).unwrap_or_default();
            format!("{name}{tag}{digest}")
        }
    })
}
