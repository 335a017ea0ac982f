// SPDX-License-Identifier: Apache-2.0

//! Explores the operator with injected faults, such as crashes, lost responses and late watches: `make chaos`.

#![cfg(feature = "chaos")]

use k8s_openapi::jiff::Timestamp;
use operator_chaos::Chaos;
use operator_runtime::prelude::*;

use cronjob_operator::clock::Clock;

/// The clock of the simulated cluster.
struct SimulatedClock;

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        Timestamp::try_from(operator_chaos::now()).expect("a time that a timestamp can have")
    }
}

/// Runs the operator until it crashes.
async fn operator(client: kube::Client) -> Result<()> {
    let options = ManagerOptions {
        webhook_bind_address: String::new(),
        ..ManagerOptions::from(client)
    };
    let manager = Manager::new("cronjob-operator", options).await?;
    cronjob_operator::operator_with(SimulatedClock).add_to(&manager)?;
    manager.run_until(std::future::pending()).await
}

#[test]
#[ignore = "explores hundreds of plans: run it with `make chaos`"]
fn the_operator_survives_faults() {
    // Ten minutes before the Job of the workload, because faults delay the steps by less than that.
    let start: Timestamp = "2026-01-01T02:50:00Z".parse().expect("a timestamp");
    Chaos::new(operator)
        .crd_path("config/crd/bases")
        .workload_path("tests/chaos.yaml")
        .starts_at(start.into())
        .assert_clean();
}
