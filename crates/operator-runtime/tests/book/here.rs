//! The operator of the page for users of kube-rs, on this runtime.

use std::process::ExitCode;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use operator_runtime::prelude::*;

use crate::greeting::{Greeting, greet, run, start};

// ANCHOR: operator
async fn reconcile(greeting: Arc<Greeting>, ctx: Context<Greeting>) -> Result<Action> {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(greeting.name_any());
    config.data = Some([("text".to_owned(), format!("Hello, {}", greeting.spec.name))].into());
    ctx.apply_owned(config).await?;
    ctx.update_status(|status| status.written = true).await?;
    Ok(Action::done())
}

fn operator() -> Operator {
    Operator::new("greeting-operator")
        .crd::<Greeting>()
        .controller(Controller::new(reconcile).owns::<ConfigMap>())
}

fn main() -> ExitCode {
    operator().main()
}
// ANCHOR_END: operator

#[tokio::test]
async fn the_operator_on_this_runtime_works() {
    let _: fn() -> ExitCode = main;
    let env = start().await;
    run(operator(), env.client()).await;
    greet(&env, "hello").await;
}

#[test]
fn the_readme_shows_the_operator() {
    let readme = include_str!("../../../../README.md");
    let source = include_str!("here.rs");
    let (_, sample) = source.split_once("// ANCHOR: operator\n").unwrap();
    let (sample, _) = sample.split_once("\nfn main()").unwrap();
    assert!(readme.contains(sample), "README.md does not contain:\n{sample}");
}
