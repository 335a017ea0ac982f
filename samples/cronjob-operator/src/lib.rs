// SPDX-License-Identifier: Apache-2.0

//! The cronjob-operator: its kinds, its controllers and its webhooks.

pub mod api;
pub mod clock;
pub mod controller;
pub mod schedule;
pub mod webhook;

use operator_runtime::prelude::*;

/// Returns the operator, which `main` runs.
pub fn operator() -> Operator {
    operator_with(clock::SystemClock)
}

/// Returns the operator with another clock, such as that of a test.
pub fn operator_with(clock: impl clock::Clock) -> Operator {
    Operator::new(env!("CARGO_PKG_NAME"))
        .version(env!("CARGO_PKG_VERSION"))
        .crd::<api::v1::CronJob>()
        .controller(controller::cron_job_controller::controller(clock))
        .webhook(webhook::v1::cron_job_webhook::webhook())
        .managed_certificates()
}
