// SPDX-License-Identifier: Apache-2.0

//! Defaults and checks of CronJob objects of version v1.

use operator_runtime::webhook::{
    AdmissionRequest, Defaulter, Denied, Validator, Warnings, Webhook,
};

use crate::api::v1::{ConcurrencyPolicy, CronJob};
use crate::schedule::Schedule;

/// Names of Jobs have at most 63 characters, including a suffix of 11.
const MAX_NAME: usize = 52;

/// The admission webhooks of CronJob.
#[derive(Clone, Copy, Debug, Default)]
pub struct CronJobWebhook;

/// Returns the webhooks of CronJob.
pub fn webhook() -> Webhook<CronJob> {
    Webhook::new()
        .defaulter(CronJobWebhook)
        .validator(CronJobWebhook)
}

impl Defaulter<CronJob> for CronJobWebhook {
    /// Sets the defaults in the stored object.
    async fn default(&self, _: &AdmissionRequest, object: &mut CronJob) -> Result<(), Denied> {
        let spec = &mut object.spec;
        spec.concurrency_policy
            .get_or_insert(ConcurrencyPolicy::Allow);
        spec.suspend.get_or_insert(false);
        spec.successful_jobs_history_limit.get_or_insert(3);
        spec.failed_jobs_history_limit.get_or_insert(1);
        Ok(())
    }
}

impl Validator<CronJob> for CronJobWebhook {
    /// Validates a new object.
    async fn validate_create(
        &self,
        _: &AdmissionRequest,
        object: &CronJob,
    ) -> Result<Warnings, Denied> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        if name.len() > MAX_NAME {
            let message = format!("metadata.name: must be no more than {MAX_NAME} characters");
            return Err(Denied::new(message));
        }
        match object.spec.schedule.parse::<Schedule>() {
            Ok(_) => Ok(Warnings::new()),
            Err(error) => Err(Denied::new(format!("spec.schedule: {error}"))),
        }
    }

    /// Validates a change.
    async fn validate_update(
        &self,
        request: &AdmissionRequest,
        _: &CronJob,
        new: &CronJob,
    ) -> Result<Warnings, Denied> {
        self.validate_create(request, new).await
    }
}
