//! PodSecurity: rejects pods that violate the standard of their namespace, or warns about them.

use serde_json::Value;

use super::Operation;
use super::attributes::Attributes;
use crate::status::{self, Status};
use builtin_kinds::pod_security::{self, Level, Policy, Standard};
use builtin_kinds::tree::{at, list, text};

/// Subresources of pods that do not change their permissions.
const HARMLESS: [&str; 8] = [
    "attach",
    "binding",
    "eviction",
    "exec",
    "log",
    "portforward",
    "proxy",
    "status",
];

pub(super) fn check(attributes: &Attributes<'_>) -> Result<(), Status> {
    let write = attributes.write;
    let Some(object) = attributes.object.filter(|_| !write.definition.is_custom()) else {
        return Ok(());
    };
    let subject = &write.definition.subject;
    match (subject.group.as_str(), subject.resource.as_str()) {
        ("", "namespaces") if write.subresource.is_empty() => check_namespace(attributes, object),
        ("", "pods") if !HARMLESS.contains(&write.subresource.as_str()) => check_pod(attributes, object),
        _ if write.subresource.is_empty() => {
            if let Some(template) = template(&subject.group, &subject.resource, object)
                && !is_exempt(attributes, template)
            {
                let policy = policy_of(attributes);
                audit(attributes, policy.audit, template);
                warn(attributes, policy.warn, template);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns the pod template of an object that has one.
fn template<'a>(group: &str, resource: &str, object: &'a Value) -> Option<&'a Value> {
    let path: &[&str] = match (group, resource) {
        ("", "podtemplates") => &["template"],
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template"],
        ("", "replicationcontrollers")
        | ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
        | ("batch", "jobs") => &["spec", "template"],
        _ => return None,
    };
    Some(at(object, path)).filter(|template| template.is_object())
}

fn policy_of(attributes: &Attributes<'_>) -> Policy {
    let namespace = attributes
        .admission
        .store
        .get("namespaces", &attributes.write.namespace);
    let namespace = namespace.map(|namespace| namespace.value.clone());
    let defaults = &attributes.admission.configuration.pod_security.defaults;
    Policy::with_defaults(namespace.as_deref().unwrap_or(&Value::Null), defaults).0
}

/// Returns true if the configuration exempts the user, the namespace or the runtime class of a pod.
fn is_exempt(attributes: &Attributes<'_>, pod: &Value) -> bool {
    let exemptions = &attributes.admission.configuration.pod_security;
    let is_in = |list: &[String], text: &str| !text.is_empty() && list.iter().any(|known| known == text);
    let write = attributes.write;
    let reason = if is_in(&exemptions.namespaces, &write.namespace) {
        "namespace"
    } else if is_in(&exemptions.users, &write.user.name) {
        "user"
    } else if is_in(
        &exemptions.runtime_classes,
        text(pod, &["spec", "runtimeClassName"]),
    ) {
        "runtimeClass"
    } else {
        return false;
    };
    write.warnings.annotate(EXEMPT, reason);
    true
}

fn check_pod(attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    if is_exempt(attributes, pod) {
        return Ok(());
    }
    let policy = policy_of(attributes);
    let enforced = policy.enforce.to_string();
    attributes.write.warnings.annotate(ENFORCE_POLICY, &enforced);
    let levels = [policy.enforce.level, policy.audit.level, policy.warn.level];
    if levels.iter().all(|level| *level == Level::Privileged) {
        return Ok(());
    }
    if attributes.old.is_some_and(|old| !differs(pod, old)) {
        return Ok(());
    }
    audit(attributes, policy.audit, pod);
    let violations = pod_security::violations(policy.enforce, pod);
    if violations.is_empty() {
        warn(attributes, policy.warn, pod);
        return Ok(());
    }
    Err(attributes.forbidden(&format!(
        "violates PodSecurity \"{}\": {}",
        policy.enforce,
        pod_security::details(&violations)
    )))
}

/// The audit annotations with the applied standards.
const ENFORCE_POLICY: &str = "pod-security.kubernetes.io/enforce-policy";
const EXEMPT: &str = "pod-security.kubernetes.io/exempt";
const AUDIT_VIOLATIONS: &str = "pod-security.kubernetes.io/audit-violations";

fn audit(attributes: &Attributes<'_>, standard: Standard, pod: &Value) {
    let violations = pod_security::violations(standard, pod);
    if !violations.is_empty() {
        let details = pod_security::details(&violations);
        let text = format!("would violate PodSecurity \"{standard}\": {details}");
        attributes.write.warnings.annotate(AUDIT_VIOLATIONS, &text);
    }
}

fn warn(attributes: &Attributes<'_>, standard: Standard, pod: &Value) {
    let violations = pod_security::violations(standard, pod);
    if !violations.is_empty() {
        let details = pod_security::details(&violations);
        let warnings = &attributes.write.warnings;
        warnings.add(format!("would violate PodSecurity \"{standard}\": {details}"));
    }
}

/// Returns true if a change of a pod can affect a standard: most fields are immutable.
fn differs(pod: &Value, old: &Value) -> bool {
    let lists = ["containers", "initContainers"];
    let container = |pod: &Value, container: &Value| {
        let name = text(container, &["name"]).to_owned();
        let annotation =
            |prefix: &str| at(pod, &["metadata", "annotations", &format!("{prefix}{name}")]).clone();
        let annotations = [
            annotation("container.seccomp.security.alpha.kubernetes.io/"),
            annotation("container.apparmor.security.beta.kubernetes.io/"),
        ];
        (at(container, &["image"]).clone(), annotations)
    };
    let watched = |pod: &Value| {
        let containers = lists.map(|field| {
            let containers = list(pod, &["spec", field]).iter();
            containers.map(|one| container(pod, one)).collect::<Vec<_>>()
        });
        let annotation = at(
            pod,
            &[
                "metadata",
                "annotations",
                "seccomp.security.alpha.kubernetes.io/pod",
            ],
        );
        (containers, annotation.clone())
    };
    let ephemeral = |pod: &Value| list(pod, &["spec", "ephemeralContainers"]).len();
    watched(pod) != watched(old) || ephemeral(pod) != ephemeral(old)
}

fn check_namespace(attributes: &Attributes<'_>, namespace: &Value) -> Result<(), Status> {
    let defaults = &attributes.admission.configuration.pod_security.defaults;
    let (policy, errors) = Policy::with_defaults(namespace, defaults);
    let before = attributes.old.map(|old| Policy::with_defaults(old, defaults));
    let is_news = before.as_ref().is_none_or(|(_, before)| *before != errors);
    let name = attributes.name();
    if !errors.is_empty() && is_news {
        return Err(status::invalid(
            &attributes.write.definition.subject,
            name,
            &errors,
        ));
    }
    let Some((before, _)) = before.filter(|_| attributes.operation == Operation::Update) else {
        return Ok(());
    };
    let enforce = policy.enforce;
    if enforce == before.enforce || enforce.level == Level::Privileged || enforce.is_within(&before.enforce) {
        return Ok(());
    }
    let pods = attributes
        .admission
        .store
        .list("pods", &format!("{name}/"))
        .objects;
    for warning in pod_security::existing(name, enforce, pods.iter().map(|pod| &*pod.value)) {
        attributes.write.warnings.add(warning);
    }
    Ok(())
}
