// SPDX-License-Identifier: Apache-2.0

//! Tests the User controller on a control plane in this process.

mod common;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use operator_runtime::prelude::*;

use common::{create_database, start};
use database_operator::api::v1::User;

/// The sample in config/.
const SAMPLE: &str = "config/samples/db_v1_user.yaml";

#[tokio::test]
async fn user_waits_for_its_database() -> Result<()> {
    let env = start().await?;
    let users: Api<User> = Api::default_namespaced(env.client());
    let secrets: Api<Secret> = Api::default_namespaced(env.client());
    let user: User = operator_envtest::read_object(SAMPLE)?;
    users.create(&PostParams::default(), &user).await?;
    create_database(&env, |_| {}).await?;

    let has_secret = |user: &User| {
        user.status
            .as_ref()
            .is_some_and(|status| status.secret.is_some())
    };
    env.eventually(&users, "user-sample", has_secret).await?;
    let data = secrets
        .get("user-sample-credentials")
        .await?
        .data
        .unwrap_or_default();
    let text = |key: &str| {
        data.get(key)
            .map(|value| String::from_utf8_lossy(&value.0).into_owned())
    };
    assert_eq!(text("username").as_deref(), Some("user-sample"));
    assert_eq!(text("host").as_deref(), Some("database-sample"));
    assert_eq!(text("password").map(|password| password.len()), Some(32));

    users
        .delete("user-sample", &DeleteParams::default())
        .await?;
    env.eventually_gone(&secrets, "user-sample-credentials")
        .await?;
    env.stop().await;
    Ok(())
}
