//! The recorded behaviour of kube-apiserver 1.36.2, replayed in-process against this server.
//!
//! The test of a category fails in two cases: a scenario differs that is not listed in `known-differences.txt`, or a
//! listed scenario behaves as recorded. To print the differences of listed scenarios too, run
//! `CONFORMANCE_SHOW=apply-noop cargo test --test conformance apply -- --nocapture`.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libtest_mimic::{Arguments, Failed, Trial};
use operator_apiserver::ApiServer;
use operator_apiserver::clock::Clock;
use operator_conformance::{Pauses, suite};

const CATEGORIES: [&str; 13] = [
    "apply",
    "apply-generated",
    "auth",
    "cel",
    "crd",
    "crud",
    "defaulting",
    "discovery",
    "field-validation",
    "list-watch",
    "patch",
    "random",
    "validation",
];

/// A clock that stands still between the pauses of a scenario: the order of field managers depends on their seconds.
#[derive(Debug)]
struct PausedClock(Pauses);

impl Clock for PausedClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000) + self.0.total()
    }
}

fn check(category: &str) -> Result<(), Failed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let known = include_str!("known-differences.txt");
    let server = |pauses| async {
        let builder = ApiServer::builder().openapi_descriptions(kubernetes_descriptions::TABLE);
        builder.clock(PausedClock(pauses)).build().unwrap()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(suite::check(&folder, category, known, false, server));
    outcome
        .map(drop)
        .map_err(|complaints| format!("\n{complaints}").into())
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CATEGORIES.len());
    let trials = CATEGORIES.map(|category| Trial::test(category.replace('-', "_"), || check(category)));
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}
