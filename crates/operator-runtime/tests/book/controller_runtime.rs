//! The operator of the page for users of controller-runtime.

use std::process::ExitCode;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use operator_envtest::{Interceptor, Then};
use operator_runtime::prelude::*;

use crate::greeting::{Greeting, greet, run, start};

// ANCHOR: operator
async fn reconcile(greeting: Arc<Greeting>, ctx: Context<Greeting>) -> Result<Action> {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(greeting.name_any());
    config.data = Some([("text".to_owned(), format!("Hello, {}", greeting.spec.name))].into());
    ctx.apply_owned(config).await?;
    ctx.update_status(|status| {
        status.conditions.set(Condition::available(true, "Written", ""));
    })
    .await?;
    Ok(Action::done())
}

pub fn operator() -> Operator {
    Operator::new("greeting-operator")
        .crd::<Greeting>()
        .controller(Controller::new(reconcile).owns::<ConfigMap>())
}

fn main() -> ExitCode {
    operator().main()
}
// ANCHOR_END: operator

#[tokio::test]
async fn the_operator_writes_twice_and_nothing_after_a_restart() {
    let _: fn() -> ExitCode = main;
    let env = start().await;
    let client = || {
        let interceptor = Interceptor::new(|_| Then::Proceed);
        (interceptor.client(env.client()), interceptor)
    };
    let writes = |interceptor: &Interceptor| {
        let calls = interceptor.calls().into_iter();
        let resources = ["configmaps", "greetings"];
        calls
            .filter(|call| resources.contains(&call.resource.as_str()))
            .filter(|call| !["get", "list", "watch"].contains(&call.verb.as_str()))
            .count()
    };
    let (first, first_calls) = client();
    run(operator(), first).await;
    greet(&env, "one").await;
    assert_eq!(writes(&first_calls), 2);

    // An operator that starts again finds everything as desired; a new object shows that it works.
    let (second, second_calls) = client();
    run(operator(), second).await;
    greet(&env, "two").await;
    let of_one = second_calls.calls().into_iter().filter(|call| call.name == "one");
    assert_eq!(of_one.filter(|call| call.verb == "patch").count(), 0);
}
