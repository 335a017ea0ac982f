//! The samples of "Test with TestEnv": requests that fail, and crashes.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, CustomResourceExt};
use operator_envtest::{Interceptor, TestEnv, Then, crash_after_each_write};
use operator_runtime::prelude::*;

use crate::controller_runtime::operator;
use crate::greeting::{Greeting, greet, options, run, says_hello, start};

// ANCHOR: interceptor
#[tokio::test]
async fn a_failed_write_is_repeated() -> Result<()> {
    let env = start().await;
    let has_failed = AtomicBool::new(false);
    let interceptor = Interceptor::new(move |call| {
        if call.is("patch", "configmaps") && !has_failed.swap(true, Ordering::Relaxed) {
            return Then::fail(500, "InternalError", "etcdserver: leader changed");
        }
        Then::Proceed
    });
    run(operator(), interceptor.client(env.client())).await;
    greet(&env, "hello").await;
    assert_eq!(interceptor.count("patch", "configmaps"), 2);
    Ok(())
}
// ANCHOR_END: interceptor

// ANCHOR: crash
#[tokio::test]
async fn a_crash_after_any_write_is_survived() {
    let operator = async |client| {
        let manager = Manager::new("greeting-operator", options(client)).await?;
        operator().add_to(&manager)?;
        manager.run_until(std::future::pending()).await
    };
    let env = || TestEnv::builder().crds([Greeting::crd()]);
    let crashes = crash_after_each_write(env, operator, async |env: &TestEnv| {
        greet(env, "hello").await;
        let configs: Api<ConfigMap> = Api::default_namespaced(env.client());
        let config = env.eventually(&configs, "hello", says_hello).await?;
        Ok(config.data)
    })
    .await
    .expect("the operator ends in the same state after each crash");
    assert_eq!(crashes.len(), 2, "{crashes:?}");
}
// ANCHOR_END: crash
