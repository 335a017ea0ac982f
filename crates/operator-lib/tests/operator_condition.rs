//! Conditions for OLM on an embedded control plane.

use kube::api::{Api, PostParams};
use operator_envtest::{Interceptor, TestEnv, Then};
use operator_lib::operator_condition::{OperatorCondition, OperatorConditionError, UPGRADEABLE};
use operator_runtime::Condition;
use serde_json::json;

#[tokio::test]
async fn condition_is_written_once() {
    let env = TestEnv::start().await.unwrap();
    let interceptor = Interceptor::new(|_| Then::Proceed);
    let crd = json!({
        "metadata": {"name": "operatorconditions.operators.coreos.com"},
        "spec": {
            "group": "operators.coreos.com",
            "scope": "Namespaced",
            "names": {"plural": "operatorconditions", "kind": "OperatorCondition"},
            "versions": [{"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    let crds = Api::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >::all(env.client());
    crds.create(&PostParams::default(), &serde_json::from_value(crd).unwrap())
        .await
        .unwrap();
    let olm = OperatorCondition::new(
        interceptor.client(env.client()),
        "default",
        "memcached-operator.v1",
    );
    assert!(
        olm.get(UPGRADEABLE)
            .await
            .unwrap_err()
            .to_string()
            .contains("memcached-operator.v1")
    );
    let gvk = kube::core::GroupVersionKind::gvk("operators.coreos.com", "v2", "OperatorCondition");
    let resource = kube::api::ApiResource::from_gvk(&gvk);
    let made = kube::api::DynamicObject::new("memcached-operator.v1", &resource);
    let api: Api<kube::api::DynamicObject> = Api::default_namespaced_with(env.client(), &resource);
    api.create(&PostParams::default(), &made).await.unwrap();

    assert_eq!(olm.get(UPGRADEABLE).await.unwrap(), None);
    let busy = || Condition::new(UPGRADEABLE, false, "Migrating", "A migration is running");
    assert!(olm.set(busy()).await.unwrap());
    let since = olm.get(UPGRADEABLE).await.unwrap().unwrap();
    assert!(!since.is_true() && since.last_transition_time.is_some());
    let writes = || {
        interceptor
            .calls()
            .iter()
            .filter(|call| call.verb != "get")
            .count()
    };
    let before = writes();
    assert!(!olm.set(busy()).await.unwrap());
    assert_eq!(writes(), before);

    let mut other = kube::api::DynamicObject::new("other", &resource);
    other.data = json!({"spec": 5});
    api.create(&PostParams::default(), &other).await.unwrap();
    let olm = OperatorCondition::new(env.client(), "default", "other");
    let error = olm.set(busy()).await.unwrap_err();
    assert!(
        matches!(error, OperatorConditionError::Malformed { .. }),
        "{error}"
    );
}
