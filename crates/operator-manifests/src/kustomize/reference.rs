//! [`References`] by name, which are updated when their object is renamed or moved.

use serde::Deserialize;
use serde_json::{Value, json};

use super::build::{BuildError, documents, invalid, visit};
use super::resource::Resource;
use super::transform::template_path;

/// The name references: the referenced kind, the referring kind, and the path of the name.
///
/// A path to a mapping with `name`, and possibly `namespace`, is written without these keys and with a trailing `/`.
const BUILT_IN: [(&str, &str, &str); 24] = [
    ("Role", "RoleBinding", "roleRef/"),
    ("ClusterRole", "RoleBinding", "roleRef/"),
    ("ClusterRole", "ClusterRoleBinding", "roleRef/"),
    ("ServiceAccount", "RoleBinding", "subjects/"),
    ("ServiceAccount", "ClusterRoleBinding", "subjects/"),
    ("Service", "StatefulSet", "spec/serviceName"),
    ("Service", "Ingress", "spec/rules/http/paths/backend/service/name"),
    ("Service", "Ingress", "spec/defaultBackend/service/name"),
    ("Service", "APIService", "spec/service/"),
    (
        "Service",
        "ValidatingWebhookConfiguration",
        "webhooks/clientConfig/service/",
    ),
    (
        "Service",
        "MutatingWebhookConfiguration",
        "webhooks/clientConfig/service/",
    ),
    ("Secret", "Ingress", "spec/tls/secretName"),
    ("Secret", "ServiceAccount", "imagePullSecrets/name"),
    ("Secret", "ServiceAccount", "secrets/name"),
    (
        "Deployment",
        "HorizontalPodAutoscaler",
        "spec/scaleTargetRef/name",
    ),
    (
        "StatefulSet",
        "HorizontalPodAutoscaler",
        "spec/scaleTargetRef/name",
    ),
    ("PersistentVolume", "PersistentVolumeClaim", "spec/volumeName"),
    ("StorageClass", "PersistentVolumeClaim", "spec/storageClassName"),
    (
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "spec/policyName",
    ),
    (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "spec/policyName",
    ),
    ("IngressClass", "Ingress", "spec/ingressClassName"),
    ("Node", "VolumeAttachment", "spec/nodeName"),
    ("ConfigMap", "Node", "spec/configSource/configMap/"),
    ("PriorityClass", "Pod", "spec/priorityClassName"),
];

/// The name references of every kind with pods, relative to the `spec` of the pod.
const IN_PODS: [(&str, &str); 19] = [
    ("ServiceAccount", "serviceAccountName"),
    (
        "ServiceAccount",
        "volumes/projected/sources/serviceAccountToken/name",
    ),
    ("PriorityClass", "priorityClassName"),
    ("ConfigMap", "volumes/configMap/name"),
    ("ConfigMap", "volumes/projected/sources/configMap/name"),
    ("ConfigMap", "containers/env/valueFrom/configMapKeyRef/name"),
    ("ConfigMap", "containers/envFrom/configMapRef/name"),
    ("ConfigMap", "initContainers/env/valueFrom/configMapKeyRef/name"),
    ("ConfigMap", "initContainers/envFrom/configMapRef/name"),
    ("Secret", "volumes/secret/secretName"),
    ("Secret", "volumes/projected/sources/secret/name"),
    ("Secret", "containers/env/valueFrom/secretKeyRef/name"),
    ("Secret", "containers/envFrom/secretRef/name"),
    ("Secret", "initContainers/env/valueFrom/secretKeyRef/name"),
    ("Secret", "initContainers/envFrom/secretRef/name"),
    ("Secret", "imagePullSecrets/name"),
    ("PersistentVolumeClaim", "volumes/persistentVolumeClaim/claimName"),
    ("Secret", "volumes/csi/nodePublishSecretRef/name"),
    (
        "StorageClass",
        "volumes/ephemeral/volumeClaimTemplate/spec/storageClassName",
    ),
];

/// Additional references from `configurations`.
#[derive(Clone, Debug, Default)]
pub(super) struct References {
    names: Vec<Field>,
    namespaces: Vec<Field>,
}

/// One reference field of one kind.
#[derive(Clone, Debug, PartialEq)]
struct Field {
    /// The referenced kind; empty for a namespace.
    target: String,
    kind: String,
    group: Option<String>,
    path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Configuration {
    #[serde(default)]
    name_reference: Vec<NameReference>,
    #[serde(default)]
    namespace: Vec<FieldSpec>,
    // For variables, which kustomize has removed.
    #[serde(default, rename = "varReference")]
    _var_reference: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NameReference {
    kind: String,
    #[serde(default)]
    field_specs: Vec<FieldSpec>,
}

#[derive(Deserialize)]
struct FieldSpec {
    #[serde(default)]
    kind: String,
    group: Option<String>,
    path: String,
}

// === impl References ===

impl References {
    pub(super) fn merge(&mut self, other: Self) {
        let new = |there: &[Field], field: &Field| !there.contains(field);
        let names: Vec<Field> = other
            .names
            .into_iter()
            .filter(|field| new(&self.names, field))
            .collect();
        self.names.extend(names);
        let namespaces: Vec<Field> = other
            .namespaces
            .into_iter()
            .filter(|field| new(&self.namespaces, field))
            .collect();
        self.namespaces.extend(namespaces);
    }

    /// Reads a file of `configurations`.
    pub(super) fn configure(&mut self, path: &str, text: &str) -> Result<(), BuildError> {
        for document in documents(path, text)? {
            let configuration: Configuration =
                serde_json::from_value(document).map_err(|error| invalid(path, error.to_string()))?;
            for reference in configuration.name_reference {
                let fields = reference
                    .field_specs
                    .into_iter()
                    .map(|spec| spec.field(&reference.kind));
                self.names.extend(fields);
            }
            self.namespaces
                .extend(configuration.namespace.into_iter().map(|spec| spec.field("")));
        }
        Ok(())
    }

    /// Sets the namespace in the fields of an object that `configurations` list.
    pub(super) fn set_namespace(&self, resource: &mut Resource, namespace: &str) {
        for field in &self.namespaces {
            if !field.is_in(resource) {
                continue;
            }
            let path: Vec<&str> = field.path.split('/').collect();
            visit(&mut resource.value, &path, &mut |at| *at = json!(namespace));
        }
    }

    /// Updates every reference to the current name of the referenced object.
    pub(super) fn resolve(&self, resources: &mut [Resource]) -> Result<(), BuildError> {
        let all = resources.to_vec();
        for resource in resources {
            let fields = self.fields_of(resource);
            let namespace = resource.namespace().to_owned();
            let mut clash = None;
            for (target, path) in fields {
                let whole = path.ends_with('/');
                let keys: Vec<&str> = path.split('/').filter(|key| !key.is_empty()).collect();
                visit(&mut resource.value, &keys, &mut |at| {
                    let followed = if whole {
                        follow_object(&all, &target, at)
                    } else {
                        follow_name(&all, &target, &namespace, at)
                    };
                    clash = clash.take().or(followed.err());
                });
            }
            if let Some(name) = clash {
                let reason = format!("it names {name:?}, and several objects had that name");
                return Err(invalid(&resource.describe(), reason));
            }
        }
        Ok(())
    }

    fn fields_of(&self, resource: &Resource) -> Vec<(String, String)> {
        let kind = resource.kind();
        let built_in = BUILT_IN.iter().filter(|(_, there, _)| *there == kind);
        let mut fields: Vec<(String, String)> = built_in
            .map(|(target, _, path)| ((*target).to_owned(), (*path).to_owned()))
            .collect();
        if let Some(template) = template_path(kind) {
            let below = [template, &["spec"]].concat().join("/");
            fields.extend(
                IN_PODS
                    .iter()
                    .map(|(target, path)| ((*target).to_owned(), format!("{below}/{path}"))),
            );
        }
        let configured = self.names.iter().filter(|field| field.is_in(resource));
        for field in configured {
            let entry = (field.target.clone(), field.path.clone());
            let covered = |there: &(String, String)| {
                there.0 == entry.0 && (there.1 == entry.1 || format!("{}name", there.1) == entry.1)
            };
            if !fields.iter().any(covered) {
                fields.push(entry);
            }
        }
        fields
    }
}

impl FieldSpec {
    fn field(self, target: &str) -> Field {
        Field {
            target: target.to_owned(),
            kind: self.kind,
            group: self.group,
            path: self.path,
        }
    }
}

impl Field {
    fn is_in(&self, resource: &Resource) -> bool {
        (self.kind.is_empty() || self.kind == resource.kind())
            && self
                .group
                .as_deref()
                .is_none_or(|group| group == resource.group())
    }
}

/// Updates a mapping with a name, and possibly a kind and a namespace: `roleRef`, a subject, a service.
fn follow_object(all: &[Resource], target: &str, at: &mut Value) -> Result<(), String> {
    if at.get("kind").is_some_and(|kind| kind != target) {
        return Ok(());
    }
    let namespace = at.get("namespace").and_then(Value::as_str).map(str::to_owned);
    let Some(name) = at.get("name").and_then(Value::as_str).map(str::to_owned) else {
        return Ok(());
    };
    if let Some(found) = find(all, target, namespace.as_deref(), &name)? {
        let (name, moved) = (found.name().to_owned(), found.namespace().to_owned());
        at["name"] = json!(name);
        if namespace.is_some() && !moved.is_empty() {
            at["namespace"] = json!(moved);
        }
    }
    Ok(())
}

fn follow_name(all: &[Resource], target: &str, namespace: &str, at: &mut Value) -> Result<(), String> {
    let Some(name) = at.as_str().map(str::to_owned) else {
        return Ok(());
    };
    if let Some(found) = find(all, target, Some(namespace), &name)? {
        *at = json!(found.name());
    }
    Ok(())
}

/// Returns the object of a kind that has or had a name, preferably one in the same namespace.
fn find<'a>(
    all: &'a [Resource],
    kind: &str,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<&'a Resource>, String> {
    let named = |resource: &&Resource| resource.kind() == kind && resource.names().any(|there| there == name);
    let mut found: Vec<&Resource> = all.iter().filter(named).collect();
    if let Some(namespace) = namespace.filter(|_| found.len() > 1) {
        let near = |resource: &&Resource| resource.namespaces().any(|there| there == namespace);
        if found.iter().any(near) {
            found.retain(near);
        }
    }
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        [first, rest @ ..] if rest.iter().all(|other| other.name() == first.name()) => Ok(Some(first)),
        _ => Err(name.to_owned()),
    }
}
