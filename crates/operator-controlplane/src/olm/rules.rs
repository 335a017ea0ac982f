//! Permissions: checks that a service account has the permissions of a policy rule, by the roles in the index.

use serde_json::Value;

use crate::kind::CLUSTER_ROLE;
use crate::object::Object;
use crate::objects::Objects;
use crate::olm::kinds::{CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING};

/// Returns true if roles grant all permissions of a rule to a service account, in a namespace or (`None`) everywhere.
pub(crate) fn allowed(
    objects: &Objects,
    account: (&str, &str),
    namespace: Option<&str>,
    rule: &Value,
) -> bool {
    let granted = granted(objects, account, namespace);
    requests(rule).all(|request| granted.iter().any(|rule| covers(rule, &request)))
}

/// One verb on one resource or path.
struct Request<'a> {
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    /// The name of the object; `None` for all names.
    name: Option<&'a str>,
    /// The path of a non-resource request.
    path: Option<&'a str>,
}

fn texts<'a>(rule: &'a Value, pointer: &str) -> Vec<&'a str> {
    rule.items(pointer).iter().filter_map(Value::as_str).collect()
}

/// Returns the individual requests that a rule covers.
fn requests(rule: &Value) -> impl Iterator<Item = Request<'_>> {
    let names: Vec<Option<&str>> = match texts(rule, "/resourceNames") {
        names if names.is_empty() => vec![None],
        names => names.into_iter().map(Some).collect(),
    };
    let mut found = Vec::new();
    for verb in texts(rule, "/verbs") {
        for path in texts(rule, "/nonResourceURLs") {
            found.push(Request {
                verb,
                group: "",
                resource: "",
                name: None,
                path: Some(path),
            });
        }
        for group in texts(rule, "/apiGroups") {
            for resource in texts(rule, "/resources") {
                found.extend(names.iter().map(|name| Request {
                    verb,
                    group,
                    resource,
                    name: *name,
                    path: None,
                }));
            }
        }
    }
    found.into_iter()
}

fn covers(rule: &Value, request: &Request<'_>) -> bool {
    let has = |pointer: &str, wanted: &str| {
        let all = texts(rule, pointer);
        all.contains(&"*") || all.contains(&wanted)
    };
    if !has("/verbs", request.verb) {
        return false;
    }
    if let Some(path) = request.path {
        let covers = |known: &str| {
            known == path
                || known
                    .strip_suffix('*')
                    .is_some_and(|prefix| path.starts_with(prefix))
        };
        return texts(rule, "/nonResourceURLs").into_iter().any(covers);
    }
    let names = texts(rule, "/resourceNames");
    let subresource = || {
        let name = request.resource.split_once('/').map(|(_, name)| name);
        name.is_some_and(|name| texts(rule, "/resources").contains(&format!("*/{name}").as_str()))
    };
    has("/apiGroups", request.group)
        && (has("/resources", request.resource) || subresource())
        && (names.is_empty() || request.name.is_some_and(|name| names.contains(&name)))
}

/// Returns the rules that bindings grant to a service account.
fn granted<'a>(objects: &'a Objects, account: (&str, &str), namespace: Option<&'a str>) -> Vec<&'a Value> {
    let (account_namespace, name) = account;
    let group = format!("system:serviceaccounts:{account_namespace}");
    let user = format!("system:serviceaccount:{account_namespace}:{name}");
    let is_subject = |binding: &Value| {
        let subjects = binding.items("/subjects").iter();
        let mut matching = subjects.filter(|subject| match subject.text("/kind") {
            "ServiceAccount" => {
                subject.text("/name") == name && subject.text("/namespace") == account_namespace
            }
            "Group" => {
                let group = (subject.text("/name"), group.as_str());
                matches!(group.0, "system:serviceaccounts" | "system:authenticated") || group.0 == group.1
            }
            _ => subject.text("/name") == user,
        });
        matching.next().is_some()
    };
    let mut rules = Vec::new();
    for binding in objects
        .list(&CLUSTER_ROLE_BINDING, "")
        .filter(|binding| is_subject(binding))
    {
        let role = objects.get(&CLUSTER_ROLE, "", binding.text("/roleRef/name"));
        rules.extend(role.into_iter().flat_map(|role| role.items("/rules")));
    }
    let bindings = namespace
        .into_iter()
        .flat_map(|namespace| objects.list(&ROLE_BINDING, namespace));
    for binding in bindings.filter(|binding| is_subject(binding)) {
        let name = binding.text("/roleRef/name");
        let role = match binding.text("/roleRef/kind") {
            "ClusterRole" => objects.get(&CLUSTER_ROLE, "", name),
            _ => objects.get(&ROLE, binding.namespace(), name),
        };
        rules.extend(role.into_iter().flat_map(|role| role.items("/rules")));
    }
    rules
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Scene;

    #[test]
    fn a_rule_is_covered_only_in_whole() {
        let mut scene = Scene::new();
        let role = json!({
            "metadata": {"name": "r", "namespace": "a", "uid": "r"},
            "rules": [
                {"apiGroups": ["apps"], "resources": ["deployments", "*/status"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["*"]},
            ],
        });
        scene.put(&ROLE, role);
        let subjects = json!([{"kind": "ServiceAccount", "name": "sa", "namespace": "a"}]);
        let binding = json!({
            "metadata": {"name": "b", "namespace": "a", "uid": "b"}, "subjects": subjects,
            "roleRef": {"kind": "Role", "name": "r"},
        });
        scene.put(&ROLE_BINDING, binding);
        let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
        let cases = [
            (rule(&["apps"], &["deployments"], &["get"]), true),
            (rule(&["apps"], &["deployments"], &["get", "delete"]), false),
            (rule(&["apps"], &["statefulsets/status"], &["list"]), true),
            (rule(&["apps"], &["statefulsets"], &["list"]), false),
            (rule(&[""], &["secrets"], &["get"]), false),
            (
                json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["one"]}),
                true,
            ),
            (json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}), false),
        ];
        for (rule, expected) in cases {
            assert_eq!(
                allowed(&scene.objects, ("a", "sa"), Some("a"), &rule),
                expected,
                "{rule}"
            );
        }
        let rule = rule(&["apps"], &["deployments"], &["get"]);
        assert!(!allowed(&scene.objects, ("a", "sa"), None, &rule));
        assert!(!allowed(&scene.objects, ("a", "other"), Some("a"), &rule));
    }
}
