// SPDX-License-Identifier: Apache-2.0

//! Tests the webhooks of Website with an API server in this process.

use kube::Api;
use kube::api::PostParams;
use operator_envtest::TestEnv;
use operator_runtime::certificates::Certificates;
use operator_runtime::prelude::*;
use operator_runtime::webhook::{
    AdmissionRequest, Convertible, Defaulter, hub_round_trip, round_trip,
};

use website_operator::api::v1::Website;
use website_operator::webhook::v1::website_webhook::WebsiteWebhook;

/// The sample in config/.
const SAMPLE: &str = "config/samples/web_v1_website.yaml";

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
    let manager = Manager::new("website-operator", options).await?;
    website_operator::operator().add_to(&manager)?;

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
fn sample() -> Result<Website> {
    Ok(operator_envtest::read_object(SAMPLE)?)
}

#[tokio::test]
async fn defaults_are_filled_in_before_an_object_is_stored() -> Result<()> {
    let env = start().await?;
    let objects: Api<Website> = Api::default_namespaced(env.client());
    // Without a response of the webhook, the API server would reject the object.
    let stored = objects.create(&PostParams::default(), &sample()?).await?;
    assert_eq!(stored.spec.replicas, Some(2));

    let mut inside = sample()?;
    inside.metadata.name = Some("inside".to_owned());
    inside.spec.host = None;
    let stored = objects.create(&PostParams::default(), &inside).await?;
    assert_eq!(stored.spec.replicas, Some(1));
    env.stop().await;
    Ok(())
}

#[tokio::test]
async fn defaults_stay_when_they_are_there() -> Result<()> {
    let (webhook, request) = (WebsiteWebhook, AdmissionRequest::default());
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
    let objects: Api<Website> = Api::default_namespaced(env.client());
    let created = objects.create(&PostParams::default(), &sample()?).await?;
    let name = created.metadata.name.unwrap_or_default();
    let changed = env
        .update(&objects, &name, |object| {
            let annotations = object.metadata.annotations.get_or_insert_default();
            annotations.insert("changed".to_owned(), "yes".to_owned());
        })
        .await?;
    assert!(changed.metadata.annotations.is_some());

    let mut host = sample()?;
    host.spec.host = Some("not a host".to_owned());
    let mut page = sample()?;
    page.spec
        .pages
        .insert("../secret".to_owned(), String::new());
    for (mut wrong, field) in [(host, "spec.host"), (page, "spec.pages")] {
        wrong.metadata.name = Some("wrong".to_owned());
        let refused = objects.create(&PostParams::default(), &wrong).await;
        let message = refused.expect_err("it is invalid").to_string();
        assert!(message.contains(field), "{message}");
    }
    env.stop().await;
    Ok(())
}

#[test]
fn v1alpha1_comes_back_whole() -> Result<()> {
    use website_operator::api::v1alpha1::Website as Spoke;
    let hub = sample()?;
    hub_round_trip::<Spoke>(&hub)?;
    let spoke = Spoke::convert_from(hub)?;
    round_trip(&spoke)?;
    Ok(())
}

#[tokio::test]
async fn v1alpha1_is_served_too() -> Result<()> {
    use website_operator::api::v1alpha1::Website as Spoke;
    let env = start().await?;
    let objects: Api<Website> = Api::default_namespaced(env.client());
    let stored = objects.create(&PostParams::default(), &sample()?).await?;
    let name = stored.metadata.name.unwrap_or_default();

    // The API server converts the stored object when it is read and written.
    let spokes: Api<Spoke> = Api::default_namespaced(env.client());
    let changed = env
        .update(&spokes, &name, |object| {
            let annotations = object.metadata.annotations.get_or_insert_default();
            annotations.insert("changed".to_owned(), "yes".to_owned());
        })
        .await?;
    assert_eq!(changed.metadata.uid, stored.metadata.uid);
    assert_eq!(changed.spec.html.as_deref(), Some("<h1>Hello</h1>"));
    assert_eq!(changed.spec.domain, stored.spec.host);
    assert_eq!(objects.get(&name).await?.spec, stored.spec);
    env.stop().await;
    Ok(())
}
