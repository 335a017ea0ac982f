//! Tests of admission and conversion webhooks over HTTPS: requests, effects of responses, and failures.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;
mod hook;
#[path = "asking/policy.rs"]
mod policy;

use asking::{delete, get, merge, post};
use bytes::Bytes;
use hook::{Hook, Reply, allow, configure, patch, webhook};
use http::Request;
use http_body_util::{BodyExt, Full};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn server() -> ApiServer {
    ApiServer::builder().build().unwrap()
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test]
async fn a_webhook_receives_the_whole_request() {
    let (server, hook) = (server(), Hook::start(|_| allow()).await);
    configure(
        &server,
        "validating",
        vec![webhook("a", hook.by_url(), json!({}))],
    )
    .await;
    post(&server, CONFIG_MAPS, config_map("a")).await.is_done();
    let path = format!("{CONFIG_MAPS}/a?fieldManager=me");
    merge(&server, &path, json!({"data": {"k": "v"}})).await.is_done();
    delete(&server, &format!("{CONFIG_MAPS}/a")).await.is_done();
    let requests = hook.requests();
    let operations: Vec<&Value> = requests.iter().map(|request| &request["operation"]).collect();
    assert_eq!(operations, ["CREATE", "UPDATE", "DELETE"]);
    let update = requests.get(1).unwrap();
    for (field, value) in [
        ("kind", json!({"group": "", "version": "v1", "kind": "ConfigMap"})),
        (
            "resource",
            json!({"group": "", "version": "v1", "resource": "configmaps"}),
        ),
        (
            "requestKind",
            json!({"group": "", "version": "v1", "kind": "ConfigMap"}),
        ),
        ("name", json!("a")),
        ("namespace", json!("default")),
        ("dryRun", json!(false)),
        (
            "options",
            json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}),
        ),
    ] {
        assert_eq!(update[field], value, "{field}");
    }
    assert_eq!(update["object"]["data"], json!({"k": "v"}));
    assert_eq!(update["oldObject"]["data"], Value::Null);
    assert_eq!(requests.get(2).unwrap()["object"], Value::Null);
    let asked = hook.received.lock().unwrap();
    assert_eq!(asked.first().unwrap().0, "/hook?timeout=10s");
    assert_eq!(asked.first().unwrap().1["apiVersion"], "admission.k8s.io/v1");
}

#[tokio::test]
async fn a_refusal_is_the_webhooks_own_status() {
    let server = server();
    let hook = Hook::start(|_| {
        Reply::Review(json!({
            "allowed": false, "warnings": ["think again"],
            "status": {"code": 418, "message": "no config maps", "reason": "Teapot"},
        }))
    })
    .await;
    configure(
        &server,
        "validating",
        vec![webhook("a", hook.by_url(), json!({}))],
    )
    .await;
    let refused = post(&server, CONFIG_MAPS, config_map("a")).await;
    assert_eq!(
        refused.body,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "admission webhook \"a.example.com\" denied the request: no config maps",
            "reason": "Teapot", "code": 418,
        })
    );
    assert_eq!(refused.warnings, ["299 - \"think again\""]);
    delete(
        &server,
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hooks",
    )
    .await
    .is_done();
    post(&server, CONFIG_MAPS, config_map("a")).await.is_done();
}

#[tokio::test]
async fn patches_are_applied_in_the_order_of_names_and_not_owned() {
    let server = server();
    let first =
        Hook::start(|_| patch(&json!([{"op": "add", "path": "/data", "value": {"by": "first"}}]))).await;
    let second = Hook::start(|review| {
        let seen = review["request"]["object"]["data"]["by"]
            .as_str()
            .unwrap()
            .to_owned();
        patch(&json!([{"op": "add", "path": "/data/by", "value": seen + ", second"}]))
    })
    .await;
    let webhooks = vec![
        webhook("z", first.by_url(), json!({})),
        webhook("a", second.by_url(), json!({})),
    ];
    configure(&server, "mutating", webhooks).await;
    let made = post(&server, CONFIG_MAPS, config_map("a")).await;
    assert_eq!(made.body["data"], json!({"by": "first, second"}));
    assert_eq!(made.body["metadata"]["managedFields"], Value::Null);
}

#[tokio::test]
async fn reinvocation_policy_repeats_webhooks_after_a_change() {
    let server = server();
    let count = |_: &Value| allow();
    let eager = Hook::start(count).await;
    let shy = Hook::start(count).await;
    let changing =
        Hook::start(|_| patch(&json!([{"op": "add", "path": "/data", "value": {"k": "v"}}]))).await;
    let webhooks = vec![
        webhook("eager", eager.by_url(), json!({"reinvocationPolicy": "IfNeeded"})),
        webhook("shy", shy.by_url(), json!({})),
        webhook(
            "changing",
            changing.by_url(),
            json!({"reinvocationPolicy": "IfNeeded"}),
        ),
    ];
    configure(&server, "mutating", webhooks).await;
    post(&server, CONFIG_MAPS, config_map("a")).await.is_done();
    let counts = [&eager, &shy, &changing].map(|hook| hook.requests().len());
    assert_eq!(counts, [2, 1, 1]);
    let again = eager.requests().pop().unwrap();
    assert_eq!(again["object"]["data"], json!({"k": "v"}));
}

#[tokio::test]
async fn failure_policy_decides_about_webhooks_that_do_not_answer() {
    let dead = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = dead.local_addr().unwrap().port();
    drop(dead);
    let hanging = Hook::start(|_| Reply::Hang).await;
    let dying = Hook::start(|_| Reply::Die).await;
    let failing = Hook::start(|_| Reply::Text(500, "boom")).await;
    let babbling = Hook::start(|_| Reply::Text(200, "no json")).await;
    let lying = Hook::start(|_| Reply::Review(json!({"allowed": true, "uid": "other"}))).await;
    let stranger = Hook::start(|_| allow()).await;
    let mut untrusted = stranger.by_url();
    untrusted["caBundle"] = hanging.authority.clone().into();
    let post_to = |hook: &Hook, seconds: u32| {
        let port = hook.address.port();
        format!("failed to call webhook: Post \"https://localhost:{port}/hook?timeout={seconds}s\": ")
    };
    let of_dead = format!(
        "failed to call webhook: Post \"https://127.0.0.1:{port}/?timeout=10s\": dial tcp 127.0.0.1:{port}: connect: connection refused"
    );
    let cases = [
        (json!({"url": format!("https://127.0.0.1:{port}/")}), of_dead),
        (hanging.by_url(), post_to(&hanging, 1) + "context deadline exceeded"),
        (dying.by_url(), post_to(&dying, 10) + "EOF"),
        (
            failing.by_url(),
            "failed to call webhook: an error on the server (\"boom\") has prevented the request from succeeding"
                .to_owned(),
        ),
        (
            babbling.by_url(),
            "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }"
                .to_owned(),
        ),
        (
            untrusted,
            post_to(&stranger, 10)
                + "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        ),
        (
            json!({"service": {"namespace": "default", "name": "nobody"}}),
            "failed to call webhook: Post \"https://nobody.default.svc:443/?timeout=10s\": service \"nobody\" not found"
                .to_owned(),
        ),
    ];
    for (client, why) in cases {
        let seconds = if why.contains("deadline") { 1 } else { 10 };
        for kind in ["validating", "mutating"] {
            let server = server();
            let limits = json!({"timeoutSeconds": seconds});
            configure(&server, kind, vec![webhook("a", client.clone(), limits)]).await;
            let refused = post(&server, CONFIG_MAPS, config_map("a")).await;
            let text = format!("Internal error occurred: failed calling webhook \"a.example.com\": {why}");
            assert_eq!((refused.code, refused.message()), (500, text.as_str()));
            if kind == "mutating" {
                continue;
            }
            let ignored = json!({"webhooks": [webhook(
                "a",
                client.clone(),
                json!({"timeoutSeconds": seconds, "failurePolicy": "Ignore"}),
            )]});
            let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hooks";
            merge(&server, path, ignored).await.is_done();
            post(&server, CONFIG_MAPS, config_map("a")).await.is_done();
        }
    }
    let server = server();
    configure(
        &server,
        "validating",
        vec![webhook("a", lying.by_url(), json!({}))],
    )
    .await;
    let refused = post(&server, CONFIG_MAPS, config_map("a")).await;
    let uid = lying.requests().pop().unwrap()["uid"].clone();
    refused.is_refused(
        500,
        &format!("received invalid webhook response: expected response.uid={uid}, got \"other\""),
    );
}

#[tokio::test]
async fn a_service_is_called_where_it_is_routed_to() {
    let (server, hook) = (server(), Hook::start(|_| allow()).await);
    configure(
        &server,
        "validating",
        vec![webhook("a", hook.by_service(), json!({}))],
    )
    .await;
    server.route_service("default", "hook", hook.address);
    post(&server, CONFIG_MAPS, config_map("a")).await.is_done();
    assert_eq!(hook.requests().len(), 1);
}

#[tokio::test]
async fn a_service_without_a_route_needs_endpoints() {
    let (server, hook) = (server(), Hook::start(|_| allow()).await);
    configure(
        &server,
        "validating",
        vec![webhook("a", hook.by_service(), json!({}))],
    )
    .await;
    let service = json!({
        "metadata": {"name": "hook"},
        "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 9443}]},
    });
    post(&server, "/api/v1/namespaces/default/services", service)
        .await
        .is_done();
    let refused = post(&server, CONFIG_MAPS, config_map("a")).await;
    refused.is_refused(500, "no endpoints available for service \"hook\"");
}

#[tokio::test]
async fn conditions_and_dry_run_are_checked_before_a_webhook_is_called() {
    let (server, hook) = (server(), Hook::start(|_| Reply::Text(500, "")).await);
    let conditions = json!([{"name": "marked", "expression": "object.metadata.name.startsWith('ask-')"}]);
    configure(
        &server,
        "validating",
        vec![webhook(
            "a",
            hook.by_url(),
            json!({"matchConditions": conditions}),
        )],
    )
    .await;
    post(&server, CONFIG_MAPS, config_map("a")).await.is_done();
    assert_eq!(hook.requests().len(), 0);
    // A condition that fails to evaluate rejects the request, with the text of a policy.
    let refused = delete(&server, &format!("{CONFIG_MAPS}/a")).await;
    refused.is_refused(
        403,
        "expression 'object.metadata.name.startsWith('ask-')' resulted in error: no such key: metadata",
    );
}

/// Creates a MutatingAdmissionPolicy `m`, and its binding `b` without restrictions.
async fn bind_policy(server: &ApiServer, policy: Value) {
    let group = "/apis/admissionregistration.k8s.io/v1";
    post(server, &format!("{group}/mutatingadmissionpolicies"), policy)
        .await
        .is_done();
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "m"}});
    let bindings = format!("{group}/mutatingadmissionpolicybindings");
    post(server, &bindings, binding).await.is_done();
}

#[tokio::test]
async fn policies_change_objects_before_webhooks_see_them() {
    let (server, hook) = (server(), Hook::start(|_| allow()).await);
    configure(&server, "mutating", vec![webhook("a", hook.by_url(), json!({}))]).await;
    let apply = "Object{metadata: Object.metadata{labels: Object.metadata.labels{team: variables.team}}, data: Object.data{`from.policy`: 'yes'}}";
    let json_patch = "[JSONPatch{op: 'test', path: '/metadata/name', value: 'a'}, JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/by'), value: object.data['from.policy']}]";
    let policy = json!({
        "metadata": {"name": "m"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]},
            ]},
            "variables": [{"name": "team", "expression": "'core'"}],
            "reinvocationPolicy": "Never",
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": apply}},
                {"patchType": "JSONPatch", "jsonPatch": {"expression": json_patch}},
            ],
        },
    });
    bind_policy(&server, policy).await;
    let mut object = config_map("a");
    object["data"] = json!({"own": "1"});
    let made = post(&server, CONFIG_MAPS, object).await;
    made.is_done();
    let data = json!({"own": "1", "from.policy": "yes"});
    assert_eq!(made.body["data"], data);
    assert_eq!(
        made.body["metadata"]["labels"],
        json!({"team": "core", "example.com/by": "yes"})
    );
    assert_eq!(hook.requests().pop().unwrap()["object"]["data"], data);
    // The test of the JSON patch fails for another name, so the whole patch is skipped.
    let other = post(&server, CONFIG_MAPS, config_map("b")).await;
    assert_eq!(other.body["data"], json!({"from.policy": "yes"}));
    assert_eq!(other.body["metadata"]["labels"], json!({"team": "core"}));
}

#[tokio::test]
async fn a_mutation_that_cannot_be_made_refuses() {
    let server = server();
    let policy = json!({
        "metadata": {"name": "m"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]},
            ]},
            "reinvocationPolicy": "IfNeeded",
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{data: Object.data{k: object.data.missing}}"},
            }],
        },
    });
    bind_policy(&server, policy).await;
    let mut object = config_map("a");
    object["data"] = json!({"own": "1"});
    let refused = post(&server, CONFIG_MAPS, object).await;
    assert_eq!(
        refused.message(),
        "policy 'm' with binding 'b' denied request: expression 'Object{data: Object.data{k: object.data.missing}}' resulted in error: no such key: missing"
    );
    assert_eq!((refused.code, &refused.body["reason"]), (403, &json!("Invalid")));
}

const WIDGETS_V1: &str = "/apis/example.com/v1/namespaces/default/widgets";
const WIDGETS_V2: &str = "/apis/example.com/v2/namespaces/default/widgets";

/// Defines widgets with `size` in v1, which is stored, and `amount` in v2.
async fn define_widgets(server: &ApiServer, client: Value) {
    let version = |name: &str, field: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {field: {"type": "integer"}}},
            }}},
        })
    };
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", "size"), version("v2", "amount")],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
            },
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(server, path, definition).await.is_done();
}

/// Converts the objects of a review, and calls `finish` to damage them.
fn convert(review: &Value, finish: impl Fn(&mut Value)) -> Reply {
    let request = &review["request"];
    let wanted = &request["desiredAPIVersion"];
    let convert = |object: &Value| {
        let mut object = object.clone();
        let number = object["spec"]
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap()
            .clone();
        let field = if wanted == "example.com/v2" {
            "amount"
        } else {
            "size"
        };
        object["apiVersion"] = wanted.clone();
        object["spec"] = json!({field: number});
        finish(&mut object);
        object
    };
    let objects: Vec<Value> = request["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(convert)
        .collect();
    conversion(
        request,
        json!({"result": {"status": "Success"}, "convertedObjects": objects}),
    )
}

fn conversion(request: &Value, mut response: Value) -> Reply {
    response["uid"] = request["uid"].clone();
    Reply::Json(json!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response,
    }))
}

fn widget(version: &str, name: &str, spec: &Value) -> Value {
    let api_version = format!("example.com/{version}");
    json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn a_custom_resource_is_converted_between_its_versions() {
    let (server, hook) = (server(), Hook::start(|review| convert(review, |_| {})).await);
    define_widgets(&server, hook.by_url()).await;
    let made = post(&server, WIDGETS_V2, widget("v2", "a", &json!({"amount": 3}))).await;
    made.is_done();
    assert_eq!(made.body["spec"], json!({"amount": 3}));
    let stored = get(&server, &format!("{WIDGETS_V1}/a")).await;
    assert_eq!(stored.body["spec"], json!({"size": 3}));
    post(&server, WIDGETS_V1, widget("v1", "b", &json!({"size": 4})))
        .await
        .is_done();
    let changed = merge(
        &server,
        &format!("{WIDGETS_V2}/a"),
        json!({"spec": {"amount": 5}}),
    )
    .await;
    assert_eq!(changed.body["spec"], json!({"amount": 5}));
    assert_eq!(changed.body["metadata"]["generation"], 2);
    let calls = hook.requests().len();
    let list = get(&server, WIDGETS_V2).await;
    let specs: Vec<&Value> = list.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["spec"])
        .collect();
    assert_eq!(specs, [&json!({"amount": 5}), &json!({"amount": 4})]);
    // Only the object that was not converted before is converted; the other result is cached.
    get(&server, WIDGETS_V2).await.is_done();
    assert_eq!(hook.requests().len(), calls + 1);
    let asked = hook.received.lock().unwrap().last().unwrap().clone();
    assert_eq!(asked.0, "/hook?timeout=30s");
    assert_eq!(asked.1["request"]["desiredAPIVersion"], "example.com/v2");
    assert_eq!(asked.1["request"]["objects"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn objects_of_other_versions_are_converted_for_webhooks() {
    let (server, converter) = (server(), Hook::start(|review| convert(review, |_| {})).await);
    define_widgets(&server, converter.by_url()).await;
    let hook = Hook::start(|review| {
        let size = review["request"]["object"]["spec"]["size"].as_i64().unwrap();
        patch(&json!([{"op": "replace", "path": "/spec/size", "value": size + 1}]))
    })
    .await;
    let rules = json!([{
        "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"],
    }]);
    let about_v1 = webhook("a", hook.by_url(), json!({"rules": rules}));
    configure(&server, "mutating", vec![about_v1]).await;
    let rule = json!({
        "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"],
    });
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.spec.size < 10", "message": "too large"}],
    });
    policy::post(&server, spec).await.is_done();
    policy::bind(&server, "p", json!({})).await;
    let made = post(&server, WIDGETS_V2, widget("v2", "a", &json!({"amount": 3}))).await;
    assert_eq!(made.body["spec"], json!({"amount": 4}), "{}", made.body);
    assert_eq!(hook.requests()[0]["object"]["apiVersion"], "example.com/v1");
    let refused = post(&server, WIDGETS_V2, widget("v2", "b", &json!({"amount": 9}))).await;
    refused.is_refused(422, "denied request: too large");
}

#[tokio::test]
async fn forbidden_changes_of_a_conversion_are_reported() {
    for (spoil, why) in [
        (
            (|object| object["metadata"]["name"] = "b".into()) as fn(&mut Value),
            "returned invalid object: must have the same name: a != b",
        ),
        (
            |object| object["apiVersion"] = "example.com/v3".into(),
            "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)",
        ),
        (
            |object| object["metadata"]["labels"] = json!({"a": 1}),
            "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
        ),
        (
            |object| object["metadata"]["annotations"] = json!([1]),
            "returned invalid metadata: invalid metadata.annotations of type []interface {} in converted object",
        ),
        (
            |object| object["metadata"]["labels"] = json!({"ok": "a b"}),
            "returned invalid metadata: metadata.labels: Invalid value: \"a b\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        (
            |object| object["metadata"]["annotations"] = json!({"a b": "x"}),
            "returned invalid metadata: metadata.annotation: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
    ] {
        let (server, hook) = (server(), Hook::start(move |review| convert(review, spoil)).await);
        define_widgets(&server, hook.by_url()).await;
        post(&server, WIDGETS_V1, widget("v1", "a", &json!({"size": 1})))
            .await
            .is_done();
        let refused = get(&server, &format!("{WIDGETS_V2}/a")).await;
        let text = format!("conversion webhook for example.com/v1, Kind=Widget {why}");
        assert_eq!((refused.code, refused.message()), (500, text.as_str()));
    }
}

#[tokio::test]
async fn a_conversion_that_fails_keeps_other_versions_usable() {
    let refusing = Hook::start(|review| {
        let result = json!({"status": "Failed", "message": "cannot convert"});
        conversion(&review["request"], json!({"result": result}))
    })
    .await;
    let server = server();
    define_widgets(&server, refusing.by_url()).await;
    post(&server, WIDGETS_V1, widget("v1", "a", &json!({"size": 1})))
        .await
        .is_done();
    get(&server, WIDGETS_V1).await.is_done();
    for path in [WIDGETS_V2.to_owned(), format!("{WIDGETS_V2}/a")] {
        let refused = get(&server, &path).await;
        refused.is_refused(
            500,
            "conversion webhook for example.com/v1, Kind=Widget failed: cannot convert",
        );
    }
    let refused = post(&server, WIDGETS_V2, widget("v2", "b", &json!({"amount": 1}))).await;
    refused.is_refused(
        500,
        "conversion webhook for example.com/v2, Kind=Widget failed: cannot convert",
    );
    delete(&server, &format!("{WIDGETS_V1}/a")).await.is_done();
}

#[tokio::test]
async fn no_webhook_may_be_left_out_for_want_of_a_conversion() {
    let why = "conversion webhook for example.com/v1, Kind=Widget failed: cannot convert";
    let once = format!("Internal error occurred: {why}");
    for (kind, said) in [
        ("validating", once.clone()),
        ("mutating", format!("Internal error occurred: {once}")),
    ] {
        let refusing = Hook::start(|review| {
            let result = json!({"status": "Failed", "message": "cannot convert"});
            conversion(&review["request"], json!({"result": result}))
        })
        .await;
        let (server, hook) = (server(), Hook::start(|_| allow()).await);
        define_widgets(&server, refusing.by_url()).await;
        let rules = json!([{
            "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["widgets"], "operations": ["CREATE"],
        }]);
        let about_v2 = json!({"rules": rules, "failurePolicy": "Ignore"});
        configure(&server, kind, vec![webhook("a", hook.by_url(), about_v2)]).await;
        let refused = post(&server, WIDGETS_V1, widget("v1", "a", &json!({"size": 1}))).await;
        assert_eq!((refused.code, refused.message()), (500, said.as_str()));
        assert_eq!(refused.body["reason"], "InternalError");
        assert!(hook.requests().is_empty());
    }
}

#[tokio::test]
async fn a_policy_may_be_left_out_for_want_of_a_conversion() {
    for (failure_policy, code) in [("Ignore", 201), ("Fail", 422)] {
        let refusing = Hook::start(|review| {
            let result = json!({"status": "Failed", "message": "cannot convert"});
            conversion(&review["request"], json!({"result": result}))
        })
        .await;
        let server = server();
        define_widgets(&server, refusing.by_url()).await;
        let rule = json!({
            "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["widgets"], "operations": ["CREATE"],
        });
        let spec = json!({
            "failurePolicy": failure_policy, "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "object.spec.amount < 10"}],
        });
        policy::post(&server, spec).await.is_done();
        policy::bind(&server, "p", json!({})).await;
        let answer = post(&server, WIDGETS_V1, widget("v1", "a", &json!({"size": 1}))).await;
        assert_eq!(answer.code, code, "{}", answer.body);
        let why = "denied request: failed to configure binding: failed to convert object version: conversion webhook for example.com/v1, Kind=Widget failed: cannot convert";
        if code == 422 {
            assert!(answer.message().ends_with(why), "{}", answer.message());
        }
    }
}

/// Returns the next event of a watch.
async fn event(body: &mut operator_apiserver::Body) -> Value {
    let frame = body.frame().await.unwrap().unwrap();
    serde_json::from_slice(&frame.into_data().unwrap()).unwrap()
}

#[tokio::test]
async fn a_watch_reports_converted_objects() {
    let (server, hook) = (server(), Hook::start(|review| convert(review, |_| {})).await);
    define_widgets(&server, hook.by_url()).await;
    post(&server, WIDGETS_V1, widget("v1", "a", &json!({"size": 1})))
        .await
        .is_done();
    let watch = Request::get(format!("{WIDGETS_V2}?watch=true"))
        .body(Full::<Bytes>::default())
        .unwrap();
    let mut body = server.clone().oneshot(watch).await.unwrap().into_body();
    let initial = event(&mut body).await;
    assert_eq!(
        (&initial["type"], &initial["object"]["spec"]),
        (&json!("ADDED"), &json!({"amount": 1}))
    );
    merge(&server, &format!("{WIDGETS_V1}/a"), json!({"spec": {"size": 2}}))
        .await
        .is_done();
    let changed = event(&mut body).await;
    assert_eq!(
        (&changed["type"], &changed["object"]["spec"]),
        (&json!("MODIFIED"), &json!({"amount": 2}))
    );
    delete(&server, &format!("{WIDGETS_V1}/a")).await.is_done();
    let gone = event(&mut body).await;
    assert_eq!(
        (&gone["type"], &gone["object"]["spec"]),
        (&json!("DELETED"), &json!({"amount": 2}))
    );
}

#[tokio::test]
async fn patches_of_webhooks_are_limited_and_checked() {
    let server = server();
    let hook = Hook::start(
        |review| match review["request"]["name"].as_str().unwrap_or_default() {
            "copies" => {
                let text = json!({"op": "add", "path": "/data", "value": {"k": "x".repeat(1_000)}});
                let nested = vec![json!({"op": "copy", "from": "/data", "path": "/data/d"}); 7_200];
                patch(&std::iter::once(text).chain(nested).collect())
            }
            "doubles" => {
                let double =
                    |index: usize| json!({"op": "copy", "from": "/data", "path": format!("/data{index}")});
                let text = json!({"op": "add", "path": "/data", "value": {"k": "x".repeat(100_000)}});
                patch(&std::iter::once(text).chain((0..100).map(double)).collect())
            }
            "namespace" => {
                patch(&json!([{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}]))
            }
            "managed" => patch(&json!([{"op": "add", "path": "/metadata/managedFields", "value": [{}]}])),
            "large" => patch(&json!([{"op": "add", "path": "/data", "value": {"k": "x".repeat(2_000_000)}}])),
            _ => allow(),
        },
    )
    .await;
    configure(&server, "mutating", vec![webhook("a", hook.by_url(), json!({}))]).await;
    for (name, code, message) in [
        ("copies", 500, "exceeding the limit 3145728"),
        ("doubles", 500, "exceeding the limit 3145728"),
        ("large", 422, "may not be more than 1048576 bytes"),
        (
            "namespace",
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        let answer = post(&server, CONFIG_MAPS, config_map(name)).await;
        answer.is_refused(code, message);
    }
    let path = format!("{CONFIG_MAPS}/managed");
    let mut managed = config_map("managed");
    managed["data"] = json!({"k": "v"});
    let created = post(&server, CONFIG_MAPS, managed).await;
    let managed = created.body["metadata"]["managedFields"].clone();
    assert_eq!(managed[0]["operation"], "Update", "{}", created.body);
    assert_eq!(created.warnings.len(), 1);
    assert!(created.warnings[0].contains(".metadata.managedFields was in an invalid state after admission"));
    let changed = merge(&server, &path, json!({"data": {"a": "b"}})).await;
    assert_eq!(
        changed.body["metadata"]["managedFields"][0]["operation"], "Update",
        "{}",
        changed.body
    );
}

#[tokio::test]
async fn of_a_webhooks_long_error_only_the_beginning_is_shown() {
    let server = server();
    let long: &'static str = "x".repeat(1 << 20).leak();
    let hook = Hook::start(move |_| Reply::Text(500, long)).await;
    configure(
        &server,
        "validating",
        vec![webhook("a", hook.by_url(), json!({}))],
    )
    .await;
    let answer = post(&server, CONFIG_MAPS, config_map("c")).await;
    let shown = "x".repeat(2048);
    answer.is_refused(
        500,
        &format!("an error on the server (\"{shown}\") has prevented the request from succeeding"),
    );
}
