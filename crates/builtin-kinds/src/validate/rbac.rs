//! Validates roles and bindings.

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::{Check, GoPrint, render_go, selector_is_valid};
use crate::tree::{at, list, text};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(check: &mut Check, object: &Value, namespaced: bool) {
    for (index, rule) in list(object, &["rules"]).iter().enumerate() {
        policy_rule(check, rule, namespaced, &Path::new("rules").index(index));
    }
    let aggregation = at(object, &["aggregationRule"]);
    if aggregation.is_null() {
        return;
    }
    let path = Path::new("aggregationRule").child("clusterRoleSelectors");
    let selectors = list(aggregation, &["clusterRoleSelectors"]);
    if selectors.is_empty() {
        check.required(
            path.clone(),
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        );
    }
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        check.label_selector(selector, &path);
        if !selector_is_valid(selector) {
            check.invalid(path, &Value::Null, "invalid label selector.");
        }
    }
}

fn policy_rule(check: &mut Check, rule: &Value, namespaced: bool, path: &Path) {
    let is_given = |field: &str| !list(rule, &[field]).is_empty();
    if !is_given("verbs") {
        check.required(path.child("verbs"), "verbs must contain at least one value");
    }
    if is_given("nonResourceURLs") {
        let urls = at(rule, &["nonResourceURLs"]);
        let path = path.child("nonResourceURLs");
        if namespaced {
            check.invalid(
                path.clone(),
                urls,
                "namespaced rules cannot apply to non-resource URLs",
            );
        }
        if ["apiGroups", "resources", "resourceNames"]
            .into_iter()
            .any(is_given)
        {
            check.invalid(
                path,
                urls,
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        return;
    }
    if !is_given("apiGroups") {
        check.required(
            path.child("apiGroups"),
            "resource rules must supply at least one api group",
        );
    }
    if !is_given("resources") {
        check.required(
            path.child("resources"),
            "resource rules must supply at least one resource",
        );
    }
}

pub(super) fn binding(check: &mut Check, object: &Value, namespaced: bool) {
    let reference = at(object, &["roleRef"]);
    let path = Path::new("roleRef");
    check.one_of(reference, &path, "apiGroup", &[GROUP]);
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    check.one_of(reference, &path, "kind", kinds);
    check.required_form(reference, &path, "name", names::path_segment);
    for (index, subject) in list(object, &["subjects"]).iter().enumerate() {
        binding_subject(check, subject, namespaced, &Path::new("subjects").index(index));
    }
}

fn binding_subject(check: &mut Check, subject: &Value, namespaced: bool, path: &Path) {
    check.required_text(subject, path, "name");
    match text(subject, &["kind"]) {
        "ServiceAccount" => {
            check.optional_form(subject, path, "name", names::dns1123_subdomain);
            check.one_of(subject, path, "apiGroup", &[""]);
            if !namespaced {
                check.required_text(subject, path, "namespace");
            }
        }
        "User" | "Group" => check.one_of(subject, path, "apiGroup", &[GROUP]),
        kind => check.errors.push(Error::not_supported(
            path.child("kind"),
            &kind.into(),
            &["ServiceAccount", "User", "Group"],
        )),
    }
}

const ROLE_REFERENCE: &[GoPrint] = &[
    GoPrint("APIGroup", "apiGroup", &[]),
    GoPrint("Kind", "kind", &[]),
    GoPrint("Name", "name", &[]),
];

pub(super) fn binding_update(check: &mut Check, object: &Value, old: &Value) {
    let reference = at(object, &["roleRef"]);
    if reference != at(old, &["roleRef"]) {
        check.invalid_text(
            Path::new("roleRef"),
            render_go(reference, ROLE_REFERENCE),
            "cannot change roleRef",
        );
    }
}
