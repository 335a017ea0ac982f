//! Crashes reveal operators that rely on responses.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, PostParams};
use operator_chaos::{Chaos, Oracle, Report, Workload};

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn config_map(name: &str) -> ConfigMap {
    let mut config_map = ConfigMap::default();
    config_map.metadata.name = Some(name.to_owned());
    config_map
}

/// Creates an object unless it exists. An error ends the operator, which is then restarted.
async fn create(configs: &Api<ConfigMap>, config: ConfigMap) -> Outcome {
    match configs.create(&PostParams::default(), &config).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        outcome => Ok(outcome.map(drop)?),
    }
}

/// Runs every single fault at the writes of an operator that creates its objects when it starts.
fn explore<R>(operator: impl Fn(Client) -> R + Send + Sync + 'static) -> Report
where
    R: Future<Output = Outcome> + 'static,
{
    let chaos = Chaos::new(operator).workload(Workload::new()).plans(24);
    chaos.budget(Duration::from_secs(3600)).run().unwrap()
}

#[test]
fn an_idempotent_operator_survives_a_crash_at_each_write() {
    let report = explore(|client| async {
        let configs: Api<ConfigMap> = Api::default_namespaced(client);
        loop {
            for name in ["one", "two", "done"] {
                create(&configs, config_map(name)).await?;
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    });
    report.assert_clean();
    let crashes = report
        .faults
        .iter()
        .filter(|fault| fault.kind == "CrashAfterCommit");
    assert_eq!(
        crashes.map(|fault| fault.total).collect::<Vec<_>>(),
        [3],
        "{report}"
    );
}

#[test]
fn an_operator_that_creates_duplicates_is_detected() {
    let report = explore(|client| async {
        let configs: Api<ConfigMap> = Api::default_namespaced(client);
        let mut unnamed = ConfigMap::default();
        unnamed.metadata.generate_name = Some("config-".to_owned());
        create(&configs, config_map("first")).await?;
        if configs.get_opt("done").await?.is_none() {
            create(&configs, unnamed).await?;
        }
        create(&configs, config_map("done")).await?;
        std::future::pending().await
    });
    let violation = &report.findings[0].violations[0];
    assert_eq!(violation.oracle, Oracle::EndState, "{report}");
    assert_eq!(violation.subject, "configmaps default/config-*", "{report}");
}

#[test]
fn an_operator_that_does_not_recover_is_detected() {
    let report = explore(|client| async {
        let configs: Api<ConfigMap> = Api::default_namespaced(client);
        if configs.get_opt("done").await?.is_some() {
            return std::future::pending().await;
        }
        for name in ["one", "done"] {
            configs.create(&PostParams::default(), &config_map(name)).await?;
        }
        std::future::pending().await
    });
    let violation = &report.findings[0].violations[0];
    assert_eq!(violation.oracle, Oracle::EndState, "{report}");
    assert_eq!(violation.subject, "configmaps default/done", "{report}");
}
