//! Certificates that the instances of an operator share through the API server.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use operator_runtime::certificates::{Authority, CaBundle, CertificateError, Certificates};
use serde_json::json;

use crate::support::Bench;

#[tokio::test]
async fn instances_share_one_authority() {
    let bench = Bench::without_widgets();
    let from_secret = || Authority::from_secret(bench.client.clone(), "default", "webhook-ca");
    let (first, second) = tokio::join!(from_secret(), from_secret());
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.certificate(), second.certificate());
    let certificates = Certificates::issued_by(second, ["webhooks.system.svc"]).unwrap();
    assert_eq!(certificates.authority().as_deref(), Some(first.certificate()));
}

#[tokio::test]
async fn secret_with_something_else_is_left_alone() {
    let bench = Bench::without_widgets();
    let secrets: Api<Secret> = Api::default_namespaced(bench.client.clone());
    let other = serde_json::from_value(json!({"metadata": {"name": "webhook-ca"}, "stringData": {"a": "b"}}))
        .unwrap();
    secrets.create(&PostParams::default(), &other).await.unwrap();
    let error = Authority::from_secret(bench.client.clone(), "default", "webhook-ca")
        .await
        .unwrap_err();
    assert!(matches!(error, CertificateError::Contents(name) if name == "webhook-ca"));
}

#[tokio::test]
async fn authority_is_told_to_the_api_server_once() {
    let bench = Bench::without_widgets();
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(bench.client.clone());
    let webhook = json!({
        "name": "widgets.example.com",
        "clientConfig": {"service": {"name": "webhook-service", "namespace": "system"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    let configuration =
        serde_json::from_value(json!({"metadata": {"name": "checks"}, "webhooks": [webhook]})).unwrap();
    configurations
        .create(&PostParams::default(), &configuration)
        .await
        .unwrap();

    let target = CaBundle::Validating("checks".to_owned());
    let authority = Authority::generate().unwrap();
    assert!(
        target
            .inject(bench.client.clone(), authority.certificate())
            .await
            .unwrap()
    );
    assert!(
        !target
            .inject(bench.client.clone(), authority.certificate())
            .await
            .unwrap()
    );
    let webhooks = configurations.get("checks").await.unwrap().webhooks.unwrap();
    let bundle = webhooks[0].client_config.ca_bundle.clone().unwrap();
    assert_eq!(bundle.0, authority.certificate().as_bytes());
}
