//! The recorded behaviour of kube-apiserver 1.36.2, replayed in-process against this server.
//!
//! A category's test fails when a scenario differs that `known-differences.txt` does not list, and when a listed one
//! behaves as recorded. `CONFORMANCE_SHOW=apply-noop cargo test --test conformance apply -- --nocapture` prints the
//! differences of listed scenarios too.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::path::Path;

use operator_apiserver::ApiServer;
use operator_conformance::suite;

async fn check(category: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let known = include_str!("known-differences.txt");
    let server = || async { ApiServer::builder().build().unwrap() };
    if let Err(complaints) = suite::check(&folder, category, known, false, server).await {
        panic!("\n{complaints}");
    }
}

macro_rules! categories {
    ($($test:ident: $category:literal,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                check($category).await;
            }
        )*
    };
}

categories! {
    apply: "apply",
    apply_generated: "apply-generated",
    auth: "auth",
    cel: "cel",
    crd: "crd",
    crud: "crud",
    defaulting: "defaulting",
    discovery: "discovery",
    field_validation: "field-validation",
    list_watch: "list-watch",
    patch: "patch",
    random: "random",
    validation: "validation",
}
