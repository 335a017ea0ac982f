//! Tests of ValidatingAdmissionPolicies: matching requests, variables and results.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;
#[path = "asking/policy.rs"]
mod policy;

use asking::{delete, get, merge, post};
use operator_apiserver::ApiServer;
use policy::bind;
use serde_json::{Value, json};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn server() -> ApiServer {
    ApiServer::builder().build().unwrap()
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn rule(resource: &str, operations: &[&str]) -> Value {
    json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": operations, "resources": [resource]})
}

/// Creates the policy `p` with a rule and more fields of its specification.
async fn policy(server: &ApiServer, rule: Value, mut spec: Value) {
    if spec["matchConstraints"].is_null() {
        spec["matchConstraints"] = json!({});
    }
    spec["matchConstraints"]["resourceRules"] = json!([rule]);
    policy::post(server, spec).await.is_done();
}

#[tokio::test]
async fn parameters_are_found_by_name_and_by_selector() {
    let server = server();
    for (name, max, labels) in [
        ("a", "1", json!({"limit": "yes"})),
        ("b", "2", json!({"limit": "yes"})),
    ] {
        let made = json!({"metadata": {"name": name, "labels": labels}, "data": {"max": max}});
        post(&server, "/api/v1/namespaces/kube-system/configmaps", made)
            .await
            .is_done();
    }
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{
            "expression": "object.data.size() <= int(params.data.max)",
            "messageExpression": "'at most ' + params.data.max",
        }],
    });
    policy(&server, rule("configmaps", &["CREATE"]), spec).await;
    let reference = json!({"name": "b", "namespace": "kube-system", "parameterNotFoundAction": "Deny"});
    bind(&server, "by-name", json!({"paramRef": reference})).await;
    let with = |count: usize| {
        let data: serde_json::Map<String, Value> = (0..count).map(|n| (format!("k{n}"), "".into())).collect();
        json!({"metadata": {"name": format!("c{count}")}, "data": data})
    };
    post(&server, CONFIG_MAPS, with(2)).await.is_done();
    post(&server, CONFIG_MAPS, with(3))
        .await
        .is_refused(422, "denied request: at most 2");
    let reference = json!({
        "selector": {"matchLabels": {"limit": "yes"}}, "namespace": "kube-system", "parameterNotFoundAction": "Deny",
    });
    bind(&server, "by-selector", json!({"paramRef": reference})).await;
    let refused = post(&server, CONFIG_MAPS, with(2)).await;
    refused.is_refused(422, "with binding 'by-selector' denied request: at most 1");
}

#[tokio::test]
async fn missing_parameters_refuse_or_are_ignored() {
    let server = server();
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "false"}],
    });
    policy(&server, rule("configmaps", &["CREATE"]), spec).await;
    bind(
        &server,
        "allows",
        json!({"paramRef": {"name": "none", "parameterNotFoundAction": "Allow"}}),
    )
    .await;
    post(&server, CONFIG_MAPS, config_map("a")).await.is_done();
    bind(
        &server,
        "denies",
        json!({"paramRef": {"name": "none", "parameterNotFoundAction": "Deny"}}),
    )
    .await;
    let refused = post(&server, CONFIG_MAPS, config_map("b")).await;
    refused.is_refused(
        422,
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
    );
}

#[tokio::test]
async fn a_kind_of_parameters_that_is_not_served_is_a_fault_of_the_policy() {
    let server = server();
    let spec = json!({
        "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"},
        "validations": [{"expression": "true"}],
    });
    policy(&server, rule("configmaps", &["CREATE"]), spec).await;
    bind(&server, "b", json!({})).await;
    let refused = post(&server, CONFIG_MAPS, config_map("a")).await;
    assert_eq!(
        refused.message(),
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'rules.example.com/v1, Kind=Limit'"
    );
}

#[tokio::test]
async fn rules_and_selectors_select_requests() {
    let server = server();
    let spec = json!({
        "matchConstraints": {
            "excludeResourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets"],
                "resourceNames": ["spared"],
            }],
            "objectSelector": {"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]},
        },
        "validations": [{"expression": "false", "message": "no"}],
    });
    policy(&server, rule("*", &["CREATE", "DELETE"]), spec).await;
    bind(
        &server,
        "b",
        json!({"matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}}),
    )
    .await;
    let secrets = "/api/v1/namespaces/default/secrets";
    post(&server, secrets, config_map("spared")).await.is_done();
    post(&server, secrets, config_map("other"))
        .await
        .is_refused(422, "denied request: no");
    let free = json!({"metadata": {"name": "free", "labels": {"free": ""}}});
    post(&server, CONFIG_MAPS, free).await.is_done();
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    post(&server, elsewhere, config_map("a")).await.is_done();
    // The existing object has the label, so its deletion does not match. A cluster-scoped object has no namespace, so
    // every namespace selector matches.
    delete(&server, &format!("{CONFIG_MAPS}/free")).await.is_done();
    delete(&server, &format!("{secrets}/spared")).await.is_done();
    let class = json!({"metadata": {"name": "c"}, "value": 1});
    let refused = post(&server, "/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    refused.is_refused(422, "denied request: no");
}

#[tokio::test]
async fn admission_configurations_bypass_admission_policies() {
    let server = server();
    policy(
        &server,
        rule("*/*", &["*"]),
        json!({"validations": [{"expression": "false"}]}),
    )
    .await;
    bind(&server, "b", json!({})).await;
    post(&server, CONFIG_MAPS, config_map("a"))
        .await
        .is_refused(422, "failed expression: false");
    delete(&server, &format!("{ADMISSION}/validatingadmissionpolicies/p"))
        .await
        .is_done();
    post(&server, CONFIG_MAPS, config_map("a")).await.is_done();
}

#[tokio::test]
async fn a_changed_policy_holds_from_its_next_request_on() {
    let server = server();
    policy(
        &server,
        rule("configmaps", &["CREATE"]),
        json!({"validations": [{"expression": "false", "message": "first"}]}),
    )
    .await;
    bind(&server, "b", json!({})).await;
    post(&server, CONFIG_MAPS, config_map("a"))
        .await
        .is_refused(422, "first");
    let changed = json!({"spec": {"validations": [{"expression": "false", "message": "second", "reason": "Forbidden"}]}});
    merge(
        &server,
        &format!("{ADMISSION}/validatingadmissionpolicies/p"),
        changed,
    )
    .await
    .is_done();
    post(&server, CONFIG_MAPS, config_map("a"))
        .await
        .is_refused(403, "second");
}

#[tokio::test]
async fn every_policy_is_evaluated_before_the_first_rejection_is_returned() {
    let server = server();
    policy(
        &server,
        rule("configmaps", &["CREATE"]),
        json!({"validations": [{"expression": "false", "message": "one"}, {"expression": "false", "message": "two"}]}),
    )
    .await;
    bind(
        &server,
        "a-denies",
        json!({"validationActions": ["Deny", "Audit"]}),
    )
    .await;
    bind(&server, "b-warns", json!({"validationActions": ["Warn"]})).await;
    let refused = post(&server, CONFIG_MAPS, config_map("a")).await;
    refused.is_refused(422, "with binding 'a-denies' denied request: one");
    assert_eq!(
        refused.warnings,
        ["one", "two"].map(|text| format!(
            "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b-warns': {text}\""
        ))
    );
}

#[tokio::test]
async fn a_generated_name_is_visible_to_policies() {
    let server = server();
    policy(
        &server,
        rule("configmaps", &["CREATE"]),
        json!({"validations": [{"expression": "request.name.startsWith('g-') && object.metadata.name == request.name"}]}),
    )
    .await;
    bind(&server, "b", json!({})).await;
    let made = post(&server, CONFIG_MAPS, json!({"metadata": {"generateName": "g-"}})).await;
    made.is_done();
    let name = made.body["metadata"]["name"].as_str().unwrap();
    get(&server, &format!("{CONFIG_MAPS}/{name}")).await.is_done();
}

#[tokio::test]
async fn subresources_need_rules_of_their_own() {
    let server = server();
    policy(
        &server,
        rule("namespaces/status", &["UPDATE"]),
        json!({"validations": [{
            "expression": "request.subResource != 'status'",
            "messageExpression": "request.name + ' in ' + request.namespace",
        }]}),
    )
    .await;
    bind(&server, "b", json!({})).await;
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    merge(&server, "/api/v1/namespaces/default", labels.clone())
        .await
        .is_done();
    let refused = merge(&server, "/api/v1/namespaces/default/status", labels).await;
    refused.is_refused(422, "denied request: default in default");
}

#[tokio::test]
async fn expressions_that_cost_too_much_fail() {
    let server = server();
    let endless = "lists.range(1000).all(x, lists.range(1000).all(y, x >= 0))";
    policy(
        &server,
        rule("configmaps", &["CREATE"]),
        json!({"validations": [{"expression": endless}]}),
    )
    .await;
    bind(&server, "b", json!({})).await;
    let refused = post(&server, CONFIG_MAPS, config_map("a")).await;
    refused.is_refused(
        422,
        "resulted in error: operation cancelled: actual cost limit exceeded",
    );
}

#[tokio::test]
async fn a_failing_variable_only_affects_expressions_that_use_it() {
    let server = server();
    let variables = json!([{"name": "port", "expression": "object.data.port"}]);
    policy(
        &server,
        rule("configmaps", &["CREATE"]),
        json!({
            "variables": variables,
            "validations": [{"expression": "!has(object.data) || int(variables.port) > 1024"}],
        }),
    )
    .await;
    bind(&server, "b", json!({})).await;
    post(&server, CONFIG_MAPS, config_map("a")).await.is_done();
    let refused = post(
        &server,
        CONFIG_MAPS,
        json!({"metadata": {"name": "b"}, "data": {"x": "1"}}),
    )
    .await;
    refused.is_refused(
        422,
        "resulted in error: composited variable \"port\" fails to evaluate: no such key: port",
    );
}

#[tokio::test]
async fn expressions_are_compiled_when_a_policy_is_written() {
    let server = server();
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule("configmaps", &["CREATE"])]},
        "matchConditions": [{"name": "c", "expression": "'text'"}],
        "variables": [{"name": "for", "expression": "1 +"}],
        "validations": [
            {"expression": "object.metadata.name"},
            {"expression": "params.x == 1", "messageExpression": "authorizer.group('').resource('pods').check('get').reason()"},
            {"expression": "variables.nope", "message": " "},
        ],
        "auditAnnotations": [{"key": "k", "valueExpression": "1"}],
    });
    let refused = policy::post(&server, spec).await;
    assert_eq!(refused.code, 422);
    let causes = refused.body["details"]["causes"].as_array().unwrap();
    let found: Vec<(String, String)> = causes
        .iter()
        .map(|cause| {
            let message = cause["message"].as_str().unwrap();
            let line = message.lines().next().unwrap().to_owned();
            (cause["field"].as_str().unwrap().to_owned(), line)
        })
        .collect();
    let expected = [
        ("spec.matchConditions[0].expression", "Invalid value: \"'text'\": must evaluate to bool but got string"),
        ("spec.variables[0].name", "Invalid value: \"for\": must be a valid CEL identifier"),
        (
            "spec.variables[0].expression",
            "Invalid value: \"1 +\": compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
        ("spec.validations[0].expression", "Invalid value: \"object.metadata.name\": must evaluate to bool but got dyn"),
        (
            "spec.validations[1].expression",
            "Invalid value: \"params.x == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')",
        ),
        (
            "spec.validations[1].messageExpression",
            "Invalid value: \"authorizer.group('').resource('pods').check('get').reason()\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')",
        ),
        (
            "spec.validations[2].expression",
            "Invalid value: \"variables.nope\": compilation failed: ERROR: <input>:1:10: undefined field 'nope'",
        ),
        ("spec.validations[2].message", "Invalid value: \" \": message must be non-empty if specified"),
        (
            "spec.auditAnnotations[0].valueExpression",
            "Invalid value: \"1\": must evaluate to one of [string null_type] but got int",
        ),
    ]
    .map(|(field, message)| (field.to_owned(), message.to_owned()));
    assert_eq!(found, expected);
}

/// Defines widgets in two versions with the same fields.
async fn define_widgets(server: &ApiServer) {
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v1", "subresources": {"scale": {
                "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
            }},
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            }},
        })
    };
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1"), version("v2")],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(server, path, definition).await.is_done();
}

#[tokio::test]
async fn a_rule_for_one_version_is_one_for_all_unless_it_is_exact() {
    for (match_policy, refuses) in [("Equivalent", true), ("Exact", false)] {
        let server = server();
        define_widgets(&server).await;
        let spec = json!({
            "matchConstraints": {"matchPolicy": match_policy},
            "validations": [{
                "expression": "false",
                "messageExpression": "object.apiVersion + ' ' + request.kind.version + ' ' + request.requestKind.version + ' ' + request.resource.version",
            }],
        });
        let rule = json!({
            "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"],
        });
        policy(&server, rule, spec).await;
        bind(&server, "b", json!({})).await;
        let widgets = "/apis/example.com/v2/namespaces/default/widgets";
        let widget = json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "a"}});
        let answer = post(&server, widgets, widget).await;
        if refuses {
            assert_eq!(
                answer.message(),
                "widgets.example.com \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: example.com/v1 v1 v2 v1"
            );
        } else {
            answer.is_done();
        }
    }
}

#[tokio::test]
async fn a_scale_is_matched_as_a_scale() {
    let server = server();
    define_widgets(&server).await;
    policy(
        &server,
        rule("widgets/scale", &["UPDATE"]),
        json!({"validations": [{
            "expression": "object.kind != 'Scale' || object.spec.replicas <= 3",
            "messageExpression": "request.kind.kind + ' from ' + string(oldObject.spec.replicas) + ' to ' + string(object.spec.replicas)",
        }]}),
    )
    .await;
    bind(&server, "b", json!({})).await;
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1},
    });
    post(&server, widgets, widget).await.is_done();
    let scale = format!("{widgets}/a/scale");
    merge(&server, &scale, json!({"spec": {"replicas": 3}}))
        .await
        .is_done();
    let refused = merge(&server, &scale, json!({"spec": {"replicas": 4}})).await;
    refused.is_refused(422, "denied request: Scale from 3 to 4");
}

#[tokio::test]
async fn an_authorizer_answers_for_verbs_of_any_name_and_for_service_accounts() {
    let server = server();
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({
        "metadata": {"name": "breaker"},
        "rules": [{"apiGroups": ["example.com"], "resources": ["glass"], "verbs": ["break"]}],
    });
    post(&server, &format!("{roles}/roles"), role).await.is_done();
    let binding = json!({
        "metadata": {"name": "breaker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "breaker"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
    });
    post(&server, &format!("{roles}/rolebindings"), binding)
        .await
        .is_done();
    let check = |account: &str| {
        format!(
            "authorizer.serviceAccount('default', '{account}').group('example.com').resource('glass').namespace('default').check('break').allowed()"
        )
    };
    policy(
        &server,
        rule("configmaps", &["CREATE"]),
        json!({"validations": [
            {"expression": check("robot"), "message": "the robot may"},
            {"expression": format!("!{}", check("other")), "message": "the other may not"},
            {"expression": "authorizer.requestResource.check('create').allowed()", "message": "the admin may"},
            {"expression": "authorizer.path('/healthz').check('get').allowed()", "message": "the admin may look"},
        ]}),
    )
    .await;
    bind(&server, "b", json!({})).await;
    post(&server, CONFIG_MAPS, config_map("a")).await.is_done();
}

/// Creates a mutating policy for new config maps, and its binding with the same name.
async fn mutate(server: &ApiServer, name: &str, reinvocation: &str, expression: &str) {
    let policy = json!({
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule("configmaps", &["CREATE"])]},
            "reinvocationPolicy": reinvocation,
            "mutations": [{
                "patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression},
            }],
        },
    });
    post(server, &format!("{ADMISSION}/mutatingadmissionpolicies"), policy)
        .await
        .is_done();
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    let path = format!("{ADMISSION}/mutatingadmissionpolicybindings");
    post(server, &path, binding).await.is_done();
}

#[tokio::test]
async fn a_policy_with_reinvocation_is_called_again_after_later_mutations() {
    for (reinvocation, seen) in [("IfNeeded", "yes"), ("Never", "no")] {
        let server = server();
        let first = "Object{metadata: Object.metadata{labels: Object.metadata.labels{seen: has(object.data) ? 'yes' : 'no'}}}";
        mutate(&server, "a", reinvocation, first).await;
        mutate(&server, "b", "Never", "Object{data: Object.data{k: 'v'}}").await;
        let made = post(&server, CONFIG_MAPS, config_map("a")).await;
        assert_eq!(made.body["data"], json!({"k": "v"}));
        assert_eq!(made.body["metadata"]["labels"], json!({"seen": seen}));
    }
}

#[tokio::test]
async fn invalid_apply_configurations_are_not_applied() {
    for (expression, why) in [
        (
            "Object{spec: Object.metadata{a: 1}}",
            "type mismatch: unexpected type name \"Object.metadata\", expected \"Object.spec\", which matches field name path from root Object type",
        ),
        (
            "Object{metadata: Object.metadata{ownerReferences: [1]}}",
            "error applying patch: failed to convert patch object to typed object: .metadata.ownerReferences: element 0: associative list with keys may not have non-map elements",
        ),
        (
            "Object{nope: 1}",
            "error applying patch: failed to convert patch object to typed object: .nope: field not declared in schema",
        ),
    ] {
        let server = server();
        mutate(&server, "m", "Never", expression).await;
        let refused = post(&server, CONFIG_MAPS, config_map("a")).await;
        assert_eq!(
            refused.message(),
            format!("policy 'm' with binding 'm' denied request: {why}")
        );
    }
}
