//! The samples of "Test with TestEnv": requests that fail.

use std::sync::atomic::{AtomicBool, Ordering};

use operator_envtest::{Interceptor, Then};
use operator_runtime::prelude::*;

use crate::controller_runtime::operator;
use crate::greeting::{greet, run, start};

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
