//! Admission policies with CEL expressions, and requests that match them.

use serde_json::{Value, json};

use super::Making;
use crate::differential::random::Random;
use crate::differential::sequence::{Sequence, merge_patch, patch, request, send};
use crate::scenario::{Retry, Step};

const API: &str = "/apis/admissionregistration.k8s.io/v1";

const CONDITIONS: [&str; 24] = [
    "true",
    "false",
    "object.metadata.name != 'a'",
    "has(object.data) && object.data.k == 'v'",
    "oldObject == null",
    "request.operation == 'CREATE'",
    "request.userInfo.username.contains('admin')",
    "request.namespace == object.metadata.namespace",
    "request.dryRun",
    "variables.x == 'v'",
    "variables.nope == 1",
    "authorizer.group('').resource('pods').namespace('default').check('get').allowed()",
    "authorizer.requestResource.check('create').allowed()",
    "namespaceObject.metadata.name.startsWith('diff')",
    "has(namespaceObject.metadata.labels.nope)",
    "params.data.k == 'v'",
    "object.nope == 1",
    "object.data.nope == 'x'",
    "size(object.data) > 1",
    "object.data.all(k, k.matches('^[a-j]+$'))",
    "object.?data.?k.orValue('none') != 'v'",
    "1",
    "object.metadata.",
    "quantity('1Ki').isGreaterThan(quantity('1000'))",
];

const TEXTS: [&str; 6] = [
    "'name ' + object.metadata.name",
    "'a'",
    "string(size(object.data))",
    "object.nope",
    "''",
    "1",
];

const MUTATIONS: [(&str, &str); 11] = [
    (
        "ApplyConfiguration",
        "Object{metadata: Object.metadata{labels: {'m': 'x'}}}",
    ),
    ("ApplyConfiguration", "Object{data: {'m': 'x'}}"),
    (
        "ApplyConfiguration",
        "has(object.data) ? Object{data: {'k': 'w'}} : Object{}",
    ),
    ("ApplyConfiguration", "Object{nope: 1}"),
    (
        "ApplyConfiguration",
        "Object{metadata: Object.metadata{name: 'z'}}",
    ),
    ("ApplyConfiguration", "'a'"),
    (
        "JSONPatch",
        "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'j': 'x'}}]",
    ),
    (
        "JSONPatch",
        "[JSONPatch{op: 'test', path: '/data/k', value: 'v'}, JSONPatch{op: 'remove', path: '/data/k'}]",
    ),
    (
        "JSONPatch",
        "[JSONPatch{op: 'replace', path: '/data/' + jsonpatch.escapeKey('a/b'), value: 'y'}]",
    ),
    ("JSONPatch", "[]"),
    ("JSONPatch", "[JSONPatch{op: 'nope', path: '/a'}]"),
];

/// Creates a policy with its binding, and writes objects in the namespace of the binding.
pub(super) fn policies(making: &mut Making<'_>) -> Sequence {
    let number = making.number;
    let namespace = format!("{}-p{number}", making.namespace);
    let mutates = making.random.chance(40);
    let sort = if mutates {
        "mutatingadmissionpolic"
    } else {
        "validatingadmissionpolic"
    };
    let (policies, bindings) = (format!("{API}/{sort}ies"), format!("{API}/{sort}ybindings"));
    let label = format!("n{number}");
    let mut sequence = Sequence {
        subject: "policies".to_owned(),
        steps: vec![
            send(
                "POST",
                "/api/v1/namespaces",
                json!({"metadata": {"name": namespace, "labels": {"policy": label}}}),
            ),
            send(
                "POST",
                format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
                json!({"metadata": {"name": "default"}}),
            ),
        ],
        cleanup: vec![format!("/api/v1/namespaces/{namespace}")],
    };
    let selector = json!({"matchLabels": {"policy": label}});
    let name = format!("d{number}");
    let spec = if mutates {
        mutating(&mut making.random, &selector)
    } else {
        validating(&mut making.random, &selector)
    };
    let binding = binding(&mut making.random, &name, mutates);
    sequence.steps.extend([
        send(
            "POST",
            policies.clone(),
            json!({"metadata": {"name": name}, "spec": spec}),
        ),
        send(
            "POST",
            bindings.clone(),
            json!({"metadata": {"name": name}, "spec": binding}),
        ),
    ]);
    sequence
        .cleanup
        .extend([format!("{policies}/{name}"), format!("{bindings}/{name}")]);
    await_policies(&mut sequence, &selector, &name, &namespace, mutates);
    for _ in 0..8 {
        let step = write(making, &namespace);
        sequence.steps.push(step);
    }
    sequence
}

/// Creates a policy and waits for its effect. The effect shows that the real server has loaded all earlier policies.
fn await_policies(sequence: &mut Sequence, selector: &Value, name: &str, namespace: &str, mutates: bool) {
    let sort = if mutates {
        "mutatingadmissionpolic"
    } else {
        "validatingadmissionpolic"
    };
    let name = format!("{name}-probe");
    let constraints = json!({
        "namespaceSelector": selector,
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"], "resourceNames": ["probe"]}],
    });
    let probe = json!([{"name": "probe", "expression": "object.metadata.name == 'probe'"}]);
    let mut spec = json!({"matchConstraints": constraints, "matchConditions": probe});
    let mut binding = json!({"policyName": name});
    let retry = if mutates {
        let expression = "Object{metadata: Object.metadata{labels: {'probe': 'x'}}}";
        spec["mutations"] =
            json!([{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]);
        spec["reinvocationPolicy"] = "Never".into();
        Retry {
            until: "metadata.labels.probe".to_owned(),
            equals: "x".into(),
            seconds: Some(10.0),
        }
    } else {
        spec["validations"] = json!([{"expression": "false", "reason": "Forbidden", "message": "probe"}]);
        binding["validationActions"] = json!(["Deny"]);
        Retry {
            until: "reason".to_owned(),
            equals: "Forbidden".into(),
            seconds: Some(10.0),
        }
    };
    let (policies, bindings) = (format!("{API}/{sort}ies"), format!("{API}/{sort}ybindings"));
    sequence
        .cleanup
        .extend([format!("{policies}/{name}"), format!("{bindings}/{name}")]);
    let ignore = ["body", "text", "headers", "status"].map(str::to_owned).to_vec();
    sequence.steps.extend([
        send(
            "POST",
            policies,
            json!({"metadata": {"name": name}, "spec": spec}),
        ),
        send(
            "POST",
            bindings,
            json!({"metadata": {"name": name}, "spec": binding}),
        ),
        Step {
            retry: Some(retry),
            // The tested policy may also reject it.
            ignore,
            ..send(
                "POST",
                format!("/api/v1/namespaces/{namespace}/configmaps"),
                json!({"metadata": {"name": "probe"}}),
            )
            .query("dryRun", "All")
        },
    ]);
}

fn constraints(random: &mut Random, selector: &Value) -> Value {
    let mut rule = json!({
        "apiGroups": [random.text(&["", "", "*", "apps"])],
        "apiVersions": [random.text(&["v1", "*"])],
        "operations": [random.text(&["*", "CREATE", "UPDATE", "DELETE"]), random.text(&["CREATE", "UPDATE"])],
        "resources": [random.text(&["configmaps", "*", "configmaps", "*/*", "secrets"])],
    });
    if rule["operations"][0] == "*" {
        rule["operations"] = json!(["*"]);
    }
    if random.chance(10) {
        rule["scope"] = random.text(&["Namespaced", "Cluster", "*", "x"]).into();
    }
    if random.chance(10) {
        rule["resourceNames"] = json!(["a"]);
    }
    // The selector does not apply to cluster-scoped objects, which other sequences write.
    if rule["resources"][0]
        .as_str()
        .is_some_and(|name| name.starts_with('*'))
    {
        rule["scope"] = "Namespaced".into();
    }
    let mut constraints = json!({"namespaceSelector": selector, "resourceRules": [rule]});
    if random.chance(10) {
        constraints["objectSelector"] =
            json!({"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]});
    }
    if random.chance(20) {
        constraints["matchPolicy"] = random.text(&["Exact", "Equivalent"]).into();
    }
    constraints
}

/// Adds the common fields of both kinds of policies.
fn common(random: &mut Random, selector: &Value) -> Value {
    let mut spec = json!({"matchConstraints": constraints(random, selector)});
    if random.chance(50) {
        spec["variables"] = json!([
            {"name": "x", "expression": random.text(&["object.?data.?k.orValue('')", "'v'", "object.data.k", "variables.y", "x +"])},
        ]);
    }
    if random.chance(30) {
        spec["matchConditions"] = json!([{"name": "c", "expression": random.text(&CONDITIONS)}]);
    }
    if random.chance(40) {
        spec["failurePolicy"] = random.text(&["Fail", "Ignore"]).into();
    }
    if random.chance(20) {
        spec["paramKind"] =
            json!({"apiVersion": "v1", "kind": random.text(&["ConfigMap", "ConfigMap", "Nope"])});
    }
    spec
}

fn validating(random: &mut Random, selector: &Value) -> Value {
    let mut spec = common(random, selector);
    let validations: Vec<Value> = (0..1 + random.below(2))
        .map(|_| {
            let mut validation = json!({"expression": random.text(&CONDITIONS)});
            if random.chance(30) {
                validation["message"] = random.text(&["no", "a b", "x\ny", ""]).into();
            }
            if random.chance(30) {
                validation["messageExpression"] = random.text(&TEXTS).into();
            }
            if random.chance(30) {
                validation["reason"] = random
                    .text(&[
                        "Unauthorized",
                        "Forbidden",
                        "Invalid",
                        "RequestEntityTooLarge",
                        "x",
                    ])
                    .into();
            }
            validation
        })
        .collect();
    spec["validations"] = validations.into();
    if random.chance(25) {
        spec["auditAnnotations"] = json!([{"key": "k", "valueExpression": random.text(&TEXTS)}]);
    }
    spec
}

fn mutating(random: &mut Random, selector: &Value) -> Value {
    let mut spec = common(random, selector);
    let mutations: Vec<Value> = (0..1 + random.below(2))
        .map(|_| {
            let (sort, expression) = random.pick(&MUTATIONS).copied().unwrap_or_default();
            let field = if sort == "JSONPatch" {
                "jsonPatch"
            } else {
                "applyConfiguration"
            };
            json!({"patchType": sort, field: {"expression": expression}})
        })
        .collect();
    spec["mutations"] = mutations.into();
    spec["reinvocationPolicy"] = random.text(&["Never", "IfNeeded"]).into();
    spec
}

fn binding(random: &mut Random, policy: &str, mutates: bool) -> Value {
    let mut binding = json!({"policyName": policy});
    if !mutates {
        let actions = [
            json!(["Deny"]),
            json!(["Deny"]),
            json!(["Deny", "Audit"]),
            json!(["Warn"]),
            json!(["Warn", "Audit"]),
            json!(["Deny", "Warn"]),
            json!([]),
        ];
        binding["validationActions"] = random.pick(&actions).cloned().unwrap_or_default();
    }
    if random.chance(10) {
        binding["matchResources"] =
            json!({"objectSelector": {"matchLabels": {"k": random.text(&["v", "w"])}}});
    }
    if random.chance(15) {
        binding["paramRef"] = json!({
            "name": random.text(&["params", "nope"]),
            "parameterNotFoundAction": random.text(&["Allow", "Deny"]),
        });
    }
    binding
}

/// Returns a write in the namespace of the policy.
fn write(making: &mut Making<'_>, namespace: &str) -> Step {
    let random = &mut making.random;
    let resource = random.text(&["configmaps", "configmaps", "configmaps", "secrets", "services"]);
    let collection = format!("/api/v1/namespaces/{namespace}/{resource}");
    let name = random.text(&["a", "b", "b"]);
    let mut object = json!({"metadata": {"name": name}});
    if resource == "services" {
        object["spec"] = json!({"ports": [{"port": 80}]});
    } else {
        let texts = [
            json!({"k": "dg=="}),
            json!({"k": "v"}),
            json!({"k": "v", "a/b": "x"}),
            json!({}),
            json!({"z": "aaaa"}),
        ];
        object["data"] = random.pick(&texts).cloned().unwrap_or_default();
    }
    if random.chance(20) {
        object["metadata"]["labels"] = json!({"k": random.text(&["v", "w"])});
    }
    let path = format!("{collection}/{name}");
    let step = match random.below(9) {
        0..4 => send("POST", collection, object),
        4 => send("PUT", path, object),
        5 => patch(path, "merge-patch+json", merge_patch(&json!({}), &object)),
        6 => patch(path, "apply-patch+yaml", {
            object["apiVersion"] = "v1".into();
            object["kind"] = match resource {
                "configmaps" => "ConfigMap",
                "secrets" => "Secret",
                _ => "Service",
            }
            .into();
            object
        })
        .query("fieldManager", "a"),
        7 => request("DELETE", path),
        _ => request("DELETE", collection),
    };
    if random.chance(20) {
        step.query("dryRun", "All")
    } else {
        step
    }
}
