//! Work and memory that a client makes grow: variables of policies, instances of a deleted definition.
#![expect(clippy::unwrap_used, reason = "a test may fail")]
#![expect(clippy::needless_pass_by_value, reason = "the cases are written as literals")]

mod asking;
#[path = "asking/policy.rs"]
mod policy;

use std::time::{Duration, Instant};

use asking::{delete, get, merge, post};
use operator_apiserver::ApiServer;
use policy::bind;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Stores a policy whose validation compares the last variable with a text.
async fn policy_with(variables: Vec<Value>, expression: &str) -> ApiServer {
    let server = ApiServer::builder().build().unwrap();
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "variables": variables,
        "validations": [{"expression": expression}],
    });
    policy::post(&server, spec).await.is_done();
    bind(&server, "b", json!({})).await;
    server
}

async fn create(server: &ApiServer) -> asking::Answer {
    post(server, CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await
}

fn variable(index: usize, expression: String) -> Value {
    json!({"name": format!("v{index}"), "expression": expression})
}

#[tokio::test]
async fn long_chains_of_variables_are_evaluated() {
    let next = |index: usize| match index {
        0 => variable(0, "0".to_owned()),
        _ => variable(index, format!("variables.v{} + 1", index - 1)),
    };
    let server = policy_with((0..5_000).map(next).collect(), "variables.v4999 == 0").await;
    create(&server)
        .await
        .is_refused(422, "failed expression: variables.v4999 == 0");
    let server = policy_with((0..5_000).map(next).collect(), "variables.v4999 == 4999").await;
    create(&server).await.is_done();
}

#[tokio::test]
async fn variables_of_high_expressions_are_evaluated() {
    let next = |index: usize| {
        let inner = match index {
            0 => "0".to_owned(),
            _ => format!("variables.v{}", index - 1),
        };
        variable(index, format!("{}{inner}{}", "[".repeat(100), "][0]".repeat(100)))
    };
    let server = policy_with((0..50).map(next).collect(), "variables.v49 == 0").await;
    create(&server).await.is_done();
}

#[tokio::test]
async fn the_cost_of_variables_is_limited_as_a_whole() {
    let list = format!("[{}]", vec!["1"; 60].join(","));
    let costly = format!("{list}.all(a, {list}.all(b, {list}.all(c, a + b + c == 3)))");
    let mut variables: Vec<Value> = (0..200).map(|index| variable(index, costly.clone())).collect();
    let all: Vec<String> = (0..200).map(|index| format!("variables.v{index}")).collect();
    variables.push(variable(200, all.join(" && ")));
    // Enough of a chain that all of them are evaluated one after the other.
    for index in 201..500 {
        variables.push(variable(index, format!("variables.v{} && true", index - 1)));
    }
    let server = policy_with(variables, "variables.v499").await;
    let why = "validation failed due to running out of cost budget, no further validation rules will be run";
    create(&server).await.is_refused(422, why);
}

#[tokio::test]
async fn the_type_of_all_variables_is_not_copied_for_each_of_them() {
    let start = Instant::now();
    let next = |index| variable(index, "has(variables.v0) ? 1 : 2".to_owned());
    let first = variable(0, "1".to_owned());
    let variables = std::iter::once(first).chain((1..8_000).map(next)).collect();
    policy_with(variables, "true").await;
    // 32 million copied fields would take minutes and gigabytes.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

fn definition() -> Value {
    json!({"metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}}]}})
}

#[tokio::test]
async fn instances_of_a_deleted_definition_are_removed_in_linear_time() {
    const COUNT: usize = 6_000;
    let server = ApiServer::builder().build().unwrap();
    post(&server, CRDS, definition()).await.is_done();
    for index in 0..COUNT {
        let metadata = json!({"name": format!("w{index}"), "finalizers": ["example.com/f"]});
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata});
        post(&server, WIDGETS, widget).await.is_done();
    }
    let path = format!("{CRDS}/widgets.example.com");
    delete(&server, &path).await.is_done();
    let start = Instant::now();
    for index in 0..COUNT {
        let free = json!({"metadata": {"finalizers": null}});
        merge(&server, &format!("{WIDGETS}/w{index}"), free)
            .await
            .is_done();
    }
    // The work of all removals together was quadratic in their number: 18 million instances were looked at.
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    assert_eq!(get(&server, &path).await.code, 404);
}
