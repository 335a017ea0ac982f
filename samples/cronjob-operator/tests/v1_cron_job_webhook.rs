// SPDX-License-Identifier: Apache-2.0

//! Tests the webhooks of CronJob with an API server in this process.

use kube::Api;
use kube::api::PostParams;
use operator_envtest::TestEnv;
use operator_runtime::certificates::Certificates;
use operator_runtime::prelude::*;
use operator_runtime::webhook::{AdmissionRequest, Defaulter};

use cronjob_operator::api::v1::CronJob;
use cronjob_operator::webhook::v1::cron_job_webhook::CronJobWebhook;

/// The sample in config/.
const SAMPLE: &str = "config/samples/batch_v1_cronjob.yaml";

/// Starts a control plane with the kinds, the operator, and its webhooks.
async fn start() -> Result<TestEnv> {
    let env = TestEnv::builder()
        .crd_path("config/crd/bases")
        .start()
        .await?;
    // An authority for this test. On a cluster, the operator or cert-manager creates one.
    let certificates = Certificates::self_signed(["127.0.0.1"])?;
    let options = ManagerOptions {
        webhook_bind_address: "127.0.0.1:0".to_owned(),
        webhook_certificates: certificates.clone().into(),
        ..ManagerOptions::from(env.client())
    };
    let manager = Manager::new("cronjob-operator", options).await?;
    cronjob_operator::operator().add_to(&manager)?;

    // The webhook configurations in config/, with the address and the authority of this test.
    let address = manager
        .webhook_address()
        .expect("the operator has webhooks");
    let authority = certificates.authority().expect("it was made above");
    env.install_webhooks("config", address, &authority).await?;
    tokio::spawn(manager.run_until(std::future::pending()));
    Ok(env)
}

/// Returns the sample.
fn sample() -> Result<CronJob> {
    Ok(operator_envtest::read_object(SAMPLE)?)
}

#[tokio::test]
async fn defaults_are_filled_in_before_an_object_is_stored() -> Result<()> {
    let env = start().await?;
    let objects: Api<CronJob> = Api::default_namespaced(env.client());
    // Without a response of the webhook, the API server would reject the object.
    let stored = objects.create(&PostParams::default(), &sample()?).await?;
    assert_eq!(stored.spec.successful_jobs_history_limit, Some(3));
    assert_eq!(stored.spec.failed_jobs_history_limit, Some(1));
    assert_eq!(stored.spec.suspend, Some(false));
    env.stop().await;
    Ok(())
}

#[tokio::test]
async fn defaults_stay_when_they_are_there() -> Result<()> {
    let (webhook, request) = (CronJobWebhook, AdmissionRequest::default());
    let mut object = sample()?;
    let first = webhook.default(&request, &mut object).await;
    assert!(first.is_ok(), "{first:?}");
    let once = serde_json::to_value(&object)?;
    let second = webhook.default(&request, &mut object).await;
    assert!(second.is_ok(), "{second:?}");
    assert_eq!(serde_json::to_value(&object)?, once);
    Ok(())
}

#[tokio::test]
async fn a_valid_object_is_taken() -> Result<()> {
    let env = start().await?;
    let objects: Api<CronJob> = Api::default_namespaced(env.client());
    let created = objects.create(&PostParams::default(), &sample()?).await?;
    let name = created.metadata.name.unwrap_or_default();
    let changed = env
        .update(&objects, &name, |object| {
            let annotations = object.metadata.annotations.get_or_insert_default();
            annotations.insert("changed".to_owned(), "yes".to_owned());
        })
        .await?;
    assert!(changed.metadata.annotations.is_some());

    let mut schedule = sample()?;
    schedule.metadata.name = Some("wrong".to_owned());
    schedule.spec.schedule = "60 * * * *".to_owned();
    let mut name = sample()?;
    name.metadata.name = Some("n".repeat(53));
    for (wrong, field) in [(schedule, "spec.schedule"), (name, "metadata.name")] {
        let refused = objects.create(&PostParams::default(), &wrong).await;
        let message = refused.expect_err("it is invalid").to_string();
        assert!(message.contains(field), "{message}");
    }
    env.stop().await;
    Ok(())
}
