//! Creates one ValidatingAdmissionPolicy, named `p`, and its bindings.

use operator_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::asking::{self, Answer};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

pub(crate) async fn post(server: &ApiServer, spec: Value) -> Answer {
    let path = format!("{ADMISSION}/validatingadmissionpolicies");
    asking::post(server, &path, json!({"metadata": {"name": "p"}, "spec": spec})).await
}

/// Binds the policy. The default action is `Deny`.
pub(crate) async fn bind(server: &ApiServer, name: &str, mut spec: Value) {
    spec["policyName"] = "p".into();
    if spec["validationActions"].is_null() {
        spec["validationActions"] = json!(["Deny"]);
    }
    let path = format!("{ADMISSION}/validatingadmissionpolicybindings");
    let made = asking::post(server, &path, json!({"metadata": {"name": name}, "spec": spec})).await;
    made.is_done();
}
