//! Finds reliability bugs of Kubernetes operators, and replays them.
//!
//! [`Chaos`] runs an operator and a [`Workload`] on an embedded API server with controllers and nodes, in simulated
//! time. Two runs without faults record the requests of the operator and the end state. Then each plan injects another
//! fault that can occur with a real API server: a crash before, during or after a request, a lost response, a conflict,
//! a watch that is late, closed or expired, or a stale API server. Oracles compare the run with the one without faults.
//! A [`Plan`] that fails is shrunk and reported with a timeline. Its ID replays it.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, Patch, PatchParams};
//! use operator_chaos::{Chaos, Workload};
//! use serde_json::json;
//!
//! // An operator that always restores one object.
//! async fn operator(client: kube::Client) -> Result<(), kube::Error> {
//!     let configs = Api::<ConfigMap>::default_namespaced(client);
//!     let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}});
//!     let apply = PatchParams::apply("example").force();
//!     loop {
//!         let _retried = configs.patch("made", &apply, &Patch::Apply(&config)).await;
//!         tokio::time::sleep(std::time::Duration::from_secs(5)).await;
//!     }
//! }
//!
//! let report = Chaos::new(operator).workload(Workload::new()).plans(20).run().unwrap();
//! report.assert_clean();
//! ```

mod call;
mod campaign;
mod clock;
mod directory;
mod disturb;
mod environment;
mod error;
mod explorer;
mod file;
mod generate;
mod mutate;
mod oracle;
mod panic;
mod plan;
mod predicate;
mod process;
mod progress;
mod refusal;
mod report;
mod run;
mod session;
mod shrink;
mod single;
mod state;
mod trace;
mod transport;
mod workload;
mod world;

pub use call::Signature;
pub use campaign::Chaos;
pub use clock::now;
pub use error::Error;
pub use operator_controlplane::Delays;
pub use oracle::{Oracle, Violation};
pub use plan::{Action, Cause, Fault, Plan, Point, Schedule};
pub use predicate::Cluster;
pub use progress::{Phase, Progress};
pub use report::{FaultCoverage, Finding, Report};
pub use workload::{Change, Step, Upgrade, Wait, Workload, WorkloadError};
