//! Crashes reveal operators that rely on responses.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use operator_envtest::{CrashError, TestEnv, crash_after_each_write};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn config_map(name: &str) -> ConfigMap {
    let mut config_map = ConfigMap::default();
    config_map.metadata.name = Some(name.to_owned());
    config_map
}

/// Returns the number of ConfigMaps when the one named `done` exists.
async fn count_when_done(env: &TestEnv) -> Outcome<usize> {
    let configs: Api<ConfigMap> = Api::default_namespaced(env.client());
    env.eventually(&configs, "done", |_| true).await?;
    let all = configs.list(&ListParams::default()).await?;
    Ok(all
        .iter()
        .filter(|config| config.name_any() != "kube-root-ca.crt")
        .count())
}

async fn create(configs: &Api<ConfigMap>, config: ConfigMap) -> Outcome<()> {
    match configs.create(&PostParams::default(), &config).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        outcome => Ok(outcome.map(drop)?),
    }
}

#[tokio::test]
async fn idempotent_operator_survives_a_crash_after_each_write() {
    let careful = async |client: Client| -> Outcome<()> {
        let configs: Api<ConfigMap> = Api::default_namespaced(client);
        for name in ["one", "two", "done"] {
            create(&configs, config_map(name)).await?;
        }
        std::future::pending().await
    };
    let crashes = crash_after_each_write(TestEnv::builder, careful, count_when_done)
        .await
        .unwrap();
    assert_eq!(crashes.len(), 3);
    assert!(
        crashes[0].starts_with("POST /api/v1/namespaces/default/configmaps"),
        "{crashes:?}"
    );
}

#[tokio::test]
async fn operator_that_creates_duplicates_is_detected() {
    let careless = async |client: Client| -> Outcome<()> {
        let configs: Api<ConfigMap> = Api::default_namespaced(client);
        let mut unnamed = ConfigMap::default();
        unnamed.metadata.generate_name = Some("config-".to_owned());
        create(&configs, config_map("first")).await?;
        create(&configs, unnamed).await?;
        create(&configs, config_map("done")).await?;
        std::future::pending().await
    };
    let error = crash_after_each_write(TestEnv::builder, careless, count_when_done)
        .await
        .unwrap_err();
    let CrashError::Difference {
        number,
        found,
        expected,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((number, found.as_str(), expected.as_str()), (2, "4", "3"));
}

#[tokio::test]
async fn operator_that_does_not_recover_is_detected() {
    let fragile = async |client: Client| -> Outcome<()> {
        let configs: Api<ConfigMap> = Api::default_namespaced(client);
        for name in ["one", "done"] {
            configs.create(&PostParams::default(), &config_map(name)).await?;
        }
        std::future::pending().await
    };
    let error = crash_after_each_write(TestEnv::builder, fragile, count_when_done)
        .await
        .unwrap_err();
    assert!(matches!(error, CrashError::Recovery { number: 1, .. }), "{error}");
}
