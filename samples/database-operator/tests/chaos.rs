// SPDX-License-Identifier: Apache-2.0

//! Explores the operator with injected faults, such as crashes, lost responses and late watches: `make chaos`.

#![cfg(feature = "chaos")]

use operator_chaos::Chaos;
use operator_runtime::prelude::*;

/// Runs the operator until it crashes.
async fn operator(client: kube::Client) -> Result<()> {
    let options = ManagerOptions {
        webhook_bind_address: String::new(),
        ..ManagerOptions::from(client)
    };
    let manager = Manager::new("database-operator", options).await?;
    database_operator::operator().add_to(&manager)?;
    manager.run_until(std::future::pending()).await
}

#[test]
#[ignore = "explores hundreds of plans: run it with `make chaos`"]
fn the_operator_survives_faults() {
    Chaos::new(operator)
        .crd_path("config/crd/bases")
        .workload_path("tests/chaos.yaml")
        .assert_clean();
}
