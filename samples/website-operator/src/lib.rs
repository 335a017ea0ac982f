// SPDX-License-Identifier: Apache-2.0

//! The website-operator: its kinds, its controllers and its webhooks.

pub mod api;
pub mod controller;
pub mod webhook;

use operator_runtime::prelude::*;

// ANCHOR: operator
/// Returns the operator, which `main` runs.
pub fn operator() -> Operator {
    Operator::new(env!("CARGO_PKG_NAME"))
        .version(env!("CARGO_PKG_VERSION"))
        .crd::<api::v1alpha1::Website>()
        .crd::<api::v1::Website>()
        .controller(controller::website_controller::controller())
        .webhook(webhook::v1::website_webhook::webhook())
        .managed_certificates()
}
// ANCHOR_END: operator
