// SPDX-License-Identifier: Apache-2.0

//! The memcached-operator: its kinds, its controllers and its webhooks.

pub mod api;
pub mod controller;

use operator_runtime::prelude::*;

/// Returns the operator, which `main` and the tests run.
pub fn operator() -> Operator {
    Operator::new(env!("CARGO_PKG_NAME"))
        .version(env!("CARGO_PKG_VERSION"))
        .crd::<api::v1alpha1::Memcached>()
        .controller(controller::memcached_controller::controller())
}
