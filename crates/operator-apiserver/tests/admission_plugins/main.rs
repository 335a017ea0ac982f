//! Tests of the admission plug-ins that are on by default, and of the subresources that connect to nodes.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../asking/mod.rs"]
mod asking;
mod certificates;
mod classes;
mod disabled;
mod limit_ranges;
mod pod_connections;
mod pod_security;
#[path = "../asking/policy.rs"]
mod policy;
mod quotas;

use operator_apiserver::ApiServer;
use serde_json::{Value, json};

/// The namespace of the tests.
const HERE: &str = "/api/v1/namespaces/default";

/// Returns a server with a service account, so that pods can be created.
async fn server() -> ApiServer {
    let server = ApiServer::builder().build().unwrap();
    let account = json!({"metadata": {"name": "default"}});
    asking::post(&server, &format!("{HERE}/serviceaccounts"), account)
        .await
        .is_done();
    server
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn pod(name: &str, resources: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
}
