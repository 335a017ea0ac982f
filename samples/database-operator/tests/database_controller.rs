// SPDX-License-Identifier: Apache-2.0

//! Tests the Database controller on a control plane in this process.

mod common;

use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use operator_runtime::prelude::*;

use common::{create_database, has, start};
use database_operator::api::v1::Database;

fn versions(database: &Database) -> Vec<Option<i32>> {
    let members = database.status.iter().flat_map(|status| &status.members);
    members.map(|member| member.version).collect()
}

#[tokio::test]
async fn members_come_from_the_pods_and_the_password_stays() -> Result<()> {
    let env = start().await?;
    let databases: Api<Database> = Api::default_namespaced(env.client());
    let secrets: Api<Secret> = Api::default_namespaced(env.client());
    let name = create_database(&env, |_| {}).await?;
    let is_complete = |database: &Database| {
        let members = database.status.iter().flat_map(|status| &status.members);
        has(database, "Available") && members.filter(|member| member.ready).count() == 3
    };
    let database = env.eventually(&databases, name, is_complete).await?;
    assert_eq!(versions(&database), [Some(16); 3]);
    let secret = secrets.get("database-sample-admin").await?.data;
    assert!(secret.is_some());

    env.update(&databases, name, |database: &mut Database| {
        database.spec.replicas = 2
    })
    .await?;
    env.eventually(&databases, name, |database| versions(database).len() == 2)
        .await?;
    assert_eq!(secrets.get("database-sample-admin").await?.data, secret);
    env.stop().await;
    Ok(())
}

#[tokio::test]
async fn servers_are_upgraded_in_order() -> Result<()> {
    let env = start().await?;
    let databases: Api<Database> = Api::default_namespaced(env.client());
    let pods: Api<Pod> = Api::default_namespaced(env.client());
    let name = create_database(&env, |_| {}).await?;
    env.eventually(&databases, name, |database| has(database, "Available"))
        .await?;

    let order = tokio::spawn(upgrades(pods));
    env.update(&databases, name, |database: &mut Database| {
        database.spec.version = 17
    })
    .await?;
    env.eventually(&databases, name, |database| {
        versions(database) == [Some(17); 3]
    })
    .await?;
    assert_eq!(
        order.await?,
        [
            "database-sample-2",
            "database-sample-1",
            "database-sample-0"
        ]
    );
    env.stop().await;
    Ok(())
}

/// Returns the names of three pods in the order of their upgrade.
async fn upgrades(pods: Api<Pod>) -> Vec<String> {
    let mut changes = pin!(watcher(pods, watcher::Config::default()).applied_objects());
    let mut order = Vec::new();
    while order.len() < 3 {
        let Some(Ok(pod)) = changes.next().await else {
            break;
        };
        let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let is_new = containers.any(|container| container.image.as_deref() == Some("postgres:17"));
        let name = pod.metadata.name.unwrap_or_default();
        if is_new && !order.contains(&name) {
            order.push(name);
        }
    }
    order
}

#[tokio::test]
async fn version_and_storage_are_protected() -> Result<()> {
    let env = start().await?;
    let databases: Api<Database> = Api::default_namespaced(env.client());
    let name = create_database(&env, |_| {}).await?;
    let lowered = env
        .update(&databases, name, |database: &mut Database| {
            database.spec.version = 15
        })
        .await;
    let message = lowered.expect_err("it is lower").to_string();
    assert!(message.contains("cannot be lowered"), "{message}");
    let resized = |database: &mut Database| database.spec.storage = "2Gi".to_owned();
    let message = env
        .update(&databases, name, resized)
        .await
        .expect_err("it differs")
        .to_string();
    assert!(message.contains("cannot be changed"), "{message}");
    env.stop().await;
    Ok(())
}
