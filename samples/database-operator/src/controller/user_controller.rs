// SPDX-License-Identifier: Apache-2.0

//! Creates the credentials of each User when its Database is available.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use operator_runtime::prelude::*;
use operator_runtime::{Client, ObjectKey};

use crate::api::v1::{Database, User};
use crate::password;

/// Returns the controller: it watches User objects, the Secrets that they own, and the Databases that they refer to.
pub fn controller() -> Controller<User> {
    Controller::new(reconcile)
        .owns::<Secret>()
        .watches(Watch::<Database>::new().find(users_of))
}

/// Finds the Users of a Database.
async fn users_of(client: Client, database: Arc<Database>) -> Result<Vec<Request>> {
    let namespace = database.namespace().unwrap_or_default();
    let users = client.list::<User>().namespace(&namespace).await?;
    let of_database = users
        .iter()
        .filter(|user| user.spec.database == database.name_any());
    Ok(of_database.map(|user| ObjectKey::of(&**user)).collect())
}

/// Creates the Secret of one User.
async fn reconcile(user: Arc<User>, ctx: Context<User>) -> Result<Action> {
    let namespace = user.namespace().unwrap_or_default();
    let is_available = |database: &Database| {
        let status = database.status.as_ref();
        status.is_some_and(|status| status.conditions.is_true("Available"))
    };
    let database = ctx
        .wait_for::<Database>((&*namespace, &*user.spec.database), is_available)
        .await?;

    let name = format!("{}-credentials", user.name_any());
    if ctx.get::<Secret>((&*namespace, &*name)).await?.is_none() {
        let secret = password::secret(&name, &user.name_any(), &database.name_any())?;
        ctx.create_owned(secret).await?;
    }
    ctx.update_status(|status| {
        status.secret = Some(name.clone());
        status.conditions.set(Condition::available(
            true,
            "Created",
            "the credentials are in the Secret",
        ));
    })
    .await?;
    Ok(Action::done())
}
