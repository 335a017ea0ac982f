//! Replays recorded behaviour of kube-apiserver against another API server, in-process.
//!
//! A recording is a scenario: a list of steps, each with the response of a standard kube-apiserver. [`replay`] sends
//! the steps to a server that is a [`tower::Service`], and normalises the responses like the recordings (uids, resource
//! versions, times, generated names, addresses, tokens). It returns the differences. [`suite`] runs a folder of
//! recordings and compares the result with a list of known differences.
//!
//! Modules: [`scenario`] (the content of a file) → `session` (requests and watches) → `normalise` → `diff` → [`suite`].
//! ```
//! use operator_conformance::{ApiService, replay, scenario::Scenario};
//!
//! async fn check(server: impl ApiService, scenario: &Scenario) {
//!     for difference in replay(server, scenario).await {
//!         println!("{}: {difference}", scenario.name);
//!     }
//! }
//! ```

mod diff;
mod normalise;
mod session;
mod wire;

pub mod differential;
pub mod scenario;
pub mod suite;

use scenario::Scenario;
use session::Session;
pub use session::{ApiService, Pauses};

/// Replays a scenario; returns the differences, one line for each. An empty result means that the server behaves as
/// recorded.
pub async fn replay<S: ApiService>(server: S, scenario: &Scenario) -> Vec<String> {
    replay_counting(server, scenario, Pauses::default()).await
}

/// Like [`replay`], and adds the pauses of the scenario to a sum, from which a server can take its time.
pub async fn replay_counting<S: ApiService>(server: S, scenario: &Scenario, pauses: Pauses) -> Vec<String> {
    let session = Session::start(server, &scenario.name).await;
    let mut session = session.count_pauses(pauses);
    let answers = session.run(&scenario.steps).await;
    let answers = normalise::answers(&scenario.steps, answers, session.variables());
    scenario
        .steps
        .iter()
        .zip(&answers)
        .enumerate()
        .flat_map(|(index, (step, got))| {
            let name = step.id.clone().unwrap_or_else(|| index.to_string());
            diff::values(&step.expect, got)
                .into_iter()
                .map(move |line| format!("step {name}: {line}"))
        })
        .collect()
}
