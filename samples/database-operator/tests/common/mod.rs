// SPDX-License-Identifier: Apache-2.0

//! A control plane with the operator, inside this process.

#![allow(dead_code, reason = "every test file uses a part of it")]

use kube::Api;
use kube::api::PostParams;
use operator_envtest::TestEnv;
use operator_runtime::prelude::*;

use database_operator::api::v1::Database;

/// The sample in config/.
const SAMPLE: &str = "config/samples/db_v1_database.yaml";

/// Starts a control plane with the operator.
pub async fn start() -> Result<TestEnv> {
    let env = TestEnv::builder()
        .crd_path("config/crd/bases")
        .start()
        .await?;
    let options = ManagerOptions {
        webhook_bind_address: "127.0.0.1:0".to_owned(),
        ..ManagerOptions::from(env.client())
    };
    let manager = Manager::new("database-operator", options).await?;
    database_operator::operator().add_to(&manager)?;
    tokio::spawn(manager.run_until(std::future::pending()));
    Ok(env)
}

/// Creates the Database of the sample after a change, and returns its name.
pub async fn create_database(
    env: &TestEnv,
    change: impl FnOnce(&mut Database),
) -> Result<&'static str> {
    let mut database: Database = operator_envtest::read_object(SAMPLE)?;
    change(&mut database);
    let databases: Api<Database> = Api::default_namespaced(env.client());
    databases.create(&PostParams::default(), &database).await?;
    Ok("database-sample")
}

/// Returns true if the Database has this condition.
pub fn has(database: &Database, condition: &str) -> bool {
    let status = database.status.as_ref();
    status.is_some_and(|status| status.conditions.is_true(condition))
}
