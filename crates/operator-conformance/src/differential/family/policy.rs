//! Requests about admission and authorization.

use serde_json::{Value, json};

use super::Making;
use crate::differential::catalog::Kind;
use crate::differential::sequence::{Sequence, request, send};
use crate::scenario::{Retry, Step};

/// Creates a namespace with restrictions, then creates pods and claims in it.
pub(super) fn admission(making: &mut Making<'_>) -> Sequence {
    let namespace = format!("{}-{}", making.namespace, making.number);
    let mut labels = json!({});
    for mode in ["enforce", "warn", "audit"] {
        if making.random.chance(50) {
            let level = making.random.text(&["baseline", "restricted", "privileged"]);
            labels[format!("pod-security.kubernetes.io/{mode}")] = level.into();
            if making.random.chance(30) {
                let version = making.random.text(&["latest", "v1.24", "v1.30", "x"]);
                labels[format!("pod-security.kubernetes.io/{mode}-version")] = version.into();
            }
        }
    }
    let mut sequence = Sequence {
        subject: "admission".to_owned(),
        steps: vec![
            send(
                "POST",
                "/api/v1/namespaces",
                json!({"metadata": {"name": namespace, "labels": labels}}),
            ),
            send(
                "POST",
                format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
                json!({"metadata": {"name": "default"}}),
            ),
        ],
        cleanup: vec![format!("/api/v1/namespaces/{namespace}")],
    };
    for (resource, chance) in [("limitranges", 50), ("resourcequotas", 40)] {
        if making.random.chance(chance)
            && let Some(kind) = find(making, resource)
        {
            let mut object = making.object(&kind);
            making.change(&kind, &mut object);
            sequence
                .steps
                .push(send("POST", kind.collection(&namespace), object));
        }
    }
    let resources = [
        "pods",
        "pods",
        "pods",
        "deployments",
        "jobs",
        "persistentvolumeclaims",
        "services",
    ];
    for _ in 0..3 {
        let resource = making.random.text(&resources);
        let Some(kind) = find(making, resource) else {
            continue;
        };
        let mut object = making.object(&kind);
        making.change(&kind, &mut object);
        sequence
            .steps
            .push(send("POST", kind.collection(&namespace), object));
    }
    sequence
}

fn find(making: &Making<'_>, resource: &str) -> Option<Kind> {
    making
        .catalog
        .kinds
        .iter()
        .find(|kind| kind.resource == resource)
        .cloned()
}

/// Grants roles to a user, then sends requests as this user.
pub(super) fn rbac(making: &mut Making<'_>) -> Sequence {
    let number = making.number;
    let namespace = making.namespace.to_owned();
    let user = format!("user-{number}");
    let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles");
    let bindings = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
    let mut sequence = Sequence {
        subject: "rbac".to_owned(),
        steps: Vec::new(),
        cleanup: vec![
            format!("{roles}/r{number}"),
            format!("{bindings}/r{number}"),
            format!("{roles}/s{number}"),
            format!("{bindings}/s{number}"),
        ],
    };
    let rules = rules(making);
    sequence.steps.push(send(
        "POST",
        roles.clone(),
        json!({"metadata": {"name": format!("r{number}")}, "rules": rules}),
    ));
    let role = making.random.text(&["r", "r", "view", "edit", "admin", "nope"]);
    let reference = if role == "r" {
        json!({"kind": "Role", "name": format!("r{number}")})
    } else {
        json!({"kind": "ClusterRole", "name": role})
    };
    let mut reference = reference;
    reference["apiGroup"] = "rbac.authorization.k8s.io".into();
    let subjects = json!([{"kind": "User", "name": user}]);
    sequence.steps.push(send(
        "POST",
        bindings.clone(),
        json!({"metadata": {"name": format!("r{number}")}, "roleRef": reference, "subjects": subjects}),
    ));
    let mut probes = 0;
    await_authorizer(&mut sequence, &roles, &bindings, &user, &mut probes);
    for _ in 0..4 {
        let step = user_step(making, &namespace, &user, &roles, &bindings);
        let is_rule = step
            .path
            .as_ref()
            .is_some_and(|path| *path == roles || *path == bindings);
        // A list of the whole cluster would differ.
        let may_have_groups = step.method.as_deref() == Some("POST") && making.random.chance(30);
        let groups = if may_have_groups {
            making
                .random
                .text(&["system:masters", "system:authenticated", "devs"])
        } else {
            ""
        };
        sequence.steps.push(Step {
            user: Some(user.clone()),
            groups: Some(groups.to_owned())
                .filter(|group| !group.is_empty())
                .into_iter()
                .collect(),
            ..step
        });
        if is_rule {
            await_authorizer(&mut sequence, &roles, &bindings, &user, &mut probes);
        }
    }
    sequence
}

/// Waits until the authorizer of the real server has all roles and bindings so far, which it receives by two watches.
fn await_authorizer(sequence: &mut Sequence, roles: &str, bindings: &str, user: &str, probes: &mut usize) {
    *probes += 1;
    let name = format!("probe-{user}-{probes}");
    let resource = format!("probes{probes}");
    sequence
        .cleanup
        .extend([format!("{roles}/{name}"), format!("{bindings}/{name}")]);
    let rule = json!({"apiGroups": ["probe.example.com"], "resources": [resource], "verbs": ["get"]});
    let namespace = roles.rsplit('/').nth(1).unwrap_or_default();
    let attributes =
        json!({"namespace": namespace, "group": "probe.example.com", "resource": resource, "verb": "get"});
    sequence.steps.extend([
        send(
            "POST",
            roles,
            json!({"metadata": {"name": name}, "rules": [rule]}),
        ),
        send(
            "POST",
            bindings,
            json!({
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                "subjects": [{"kind": "User", "name": user}],
            }),
        ),
        Step {
            retry: Some(Retry {
                until: "status.allowed".to_owned(),
                equals: true.into(),
                seconds: Some(10.0),
            }),
            // The order of bindings in the cache of the real server is random.
            ignore: vec!["body.status.reason".to_owned()],
            ..send(
                "POST",
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                json!({"spec": {"user": user, "resourceAttributes": attributes}}),
            )
        },
    ]);
}

fn rules(making: &mut Making<'_>) -> Value {
    let random = &mut making.random;
    (0..1 + random.below(3))
        .map(|_| {
            let mut rule = json!({
                "apiGroups": [random.text(&["", "apps", "*", "rbac.authorization.k8s.io", "batch"])],
                "resources": [random.text(&["pods", "configmaps", "*", "deployments", "deployments/scale", "*/status", "roles", "rolebindings", "secrets", "pods/log"])],
                "verbs": [random.text(&["get", "list", "*", "create", "update", "patch", "bind", "escalate", "delete"])],
            });
            if random.chance(20) {
                rule["resourceNames"] = json!([random.text(&["a", "b", ""])]);
            }
            rule
        })
        .collect()
}

fn user_step(making: &mut Making<'_>, namespace: &str, user: &str, roles: &str, bindings: &str) -> Step {
    let number = making.number;
    let core = format!("/api/v1/namespaces/{namespace}");
    match making.random.below(8) {
        0 => {
            let rules = rules(making);
            send(
                "POST",
                roles,
                json!({"metadata": {"name": format!("s{number}")}, "rules": rules}),
            )
        }
        1 => send(
            "POST",
            bindings,
            json!({"metadata": {"name": format!("s{number}")}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": making.random.text(&["view", "edit", "admin", "cluster-admin", "nope"])}, "subjects": [{"kind": "User", "name": user}]}),
        ),
        2 => send(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json!({"spec": {"resourceAttributes": {"namespace": namespace, "verb": making.random.text(&["get", "list", "*", "create"]), "group": making.random.text(&["", "apps", "*"]), "resource": making.random.text(&["pods", "secrets", "*", "deployments"]), "subresource": making.random.text(&["", "", "scale", "status"]), "name": making.random.text(&["", "a"])}}}),
        ),
        3 => send(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            json!({"spec": {"namespace": namespace}}),
        ),
        4 => request(
            "GET",
            format!(
                "{core}/{}",
                making.random.text(&[
                    "pods/a",
                    "configmaps/a",
                    "secrets/b",
                    "pods/a/log",
                    "nope/a",
                    "pods/a/status"
                ])
            ),
        ),
        5 => request(
            "GET",
            making.random.text(&[
                "/version",
                "/healthz",
                "/metrics",
                "/api",
                "/apis/apps/v1",
                "/openapi/v2/x",
                "/nope",
                "/api/v1/nodes",
                "/api/v1/namespaces",
                "/apis/apps/v1/deployments",
                "/apis/nope.example.com/v1/x",
            ]),
        ),
        6 => request(
            "DELETE",
            format!(
                "{core}/{}",
                making
                    .random
                    .text(&["pods/a", "configmaps/a", "secrets", "configmaps"])
            ),
        ),
        _ => send(
            "POST",
            format!("{core}/configmaps"),
            json!({"metadata": {"name": "a"}}),
        )
        .query("dryRun", "All"),
    }
}
