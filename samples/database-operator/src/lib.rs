// SPDX-License-Identifier: Apache-2.0

//! The database-operator: its kinds, its controllers and its webhooks.

pub mod api;
pub mod controller;
mod password;

use operator_runtime::prelude::*;

/// Returns the operator, which `main` and the tests run.
pub fn operator() -> Operator {
    Operator::new(env!("CARGO_PKG_NAME"))
        .version(env!("CARGO_PKG_VERSION"))
        .crd::<api::v1::Database>()
        .controller(controller::database_controller::controller())
        .controller(controller::backup_controller::controller())
        .crd::<api::v1::User>()
        .controller(controller::user_controller::controller())
}
