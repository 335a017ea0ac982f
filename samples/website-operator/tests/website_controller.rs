// SPDX-License-Identifier: Apache-2.0

// ANCHOR: whole
//! Tests the Website operator on a control plane in this process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::networking::v1::Ingress;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use operator_envtest::TestEnv;
use operator_runtime::prelude::*;
use tokio::sync::watch;

use website_operator::api::v1::Website;
use website_operator::controller::website_controller::{Dns, controller_with};

/// The sample in config/.
const SAMPLE: &str = "config/samples/web_v1_website.yaml";

/// The records of a DNS provider, by owner.
type Records = BTreeMap<String, String>;

/// A DNS provider in memory, which can reject requests.
#[derive(Clone)]
struct TestDns {
    records: Arc<watch::Sender<Records>>,
    refuses: Arc<Mutex<bool>>,
}

impl TestDns {
    fn new() -> Self {
        Self {
            records: Arc::new(watch::Sender::new(Records::new())),
            refuses: Arc::default(),
        }
    }

    /// Waits until the provider has exactly these records.
    async fn eventually(&self, env: &TestEnv, wanted: &[(&str, &str)]) {
        let pair = |(owner, host): &(&str, &str)| (owner.to_string(), host.to_string());
        let wanted: Records = wanted.iter().map(pair).collect();
        let mut records = self.records.subscribe();
        let reached = records.wait_for(|records| *records == wanted);
        let reached = tokio::time::timeout(env.timeout(), reached).await;
        assert!(
            reached.is_ok(),
            "the records are {:?}",
            self.records.borrow()
        );
    }
}

impl Dns for TestDns {
    async fn set(&self, owner: &str, host: Option<&str>) -> Result<()> {
        if *self.refuses.lock().expect("no test panics with it") {
            return Err(Error::msg("the DNS provider is down"));
        }
        self.records.send_modify(|records| {
            match host {
                Some(host) => records.insert(owner.to_owned(), host.to_owned()),
                None => records.remove(owner),
            };
        });
        Ok(())
    }
}

// ANCHOR: start
async fn start(dns: &TestDns) -> Result<TestEnv> {
    let env = TestEnv::builder()
        .crd_path("config/crd/bases")
        .start()
        .await?;
    let options = ManagerOptions::from(env.client());
    let manager = Manager::new("website-operator", options).await?;
    manager.add_controller(controller_with(dns.clone()))?;
    tokio::spawn(manager.run_until(std::future::pending()));
    Ok(env)
}
// ANCHOR_END: start

fn is_available(site: &Website) -> bool {
    let status = site.status.as_ref();
    status.is_some_and(|status| status.conditions.is_true("Available"))
}

#[tokio::test]
async fn site_is_served_and_its_ingress_follows_the_host() -> Result<()> {
    let dns = TestDns::new();
    let env = start(&dns).await?;
    let sites: Api<Website> = Api::default_namespaced(env.client());
    let deployments: Api<Deployment> = Api::default_namespaced(env.client());
    let config_maps: Api<ConfigMap> = Api::default_namespaced(env.client());
    let ingresses: Api<Ingress> = Api::default_namespaced(env.client());

    let sample: Website = operator_envtest::read_object(SAMPLE)?;
    let pages = sample.spec.pages.clone();
    sites.create(&PostParams::default(), &sample).await?;
    let name = "website-sample";
    let site = env.eventually(&sites, name, is_available).await?;
    let url = site.status.and_then(|status| status.url);
    assert_eq!(url.as_deref(), Some("http://www.example.com/"));
    assert_eq!(config_maps.get(name).await?.data, Some(pages));
    assert!(deployments.get_opt(name).await?.is_some());
    dns.eventually(&env, &[("default/website-sample", "www.example.com")])
        .await;

    env.update(&sites, name, |site: &mut Website| {
        site.spec.host = Some("new.example.com".to_owned())
    })
    .await?;
    let has_host = |ingress: &Ingress| {
        let rules = ingress.spec.iter().filter_map(|spec| spec.rules.as_ref());
        let mut hosts = rules.flatten().filter_map(|rule| rule.host.as_deref());
        hosts.any(|host| host == "new.example.com")
    };
    env.eventually(&ingresses, name, has_host).await?;
    dns.eventually(&env, &[("default/website-sample", "new.example.com")])
        .await;

    env.update(&sites, name, |site: &mut Website| site.spec.host = None)
        .await?;
    env.eventually_gone(&ingresses, name).await?;
    dns.eventually(&env, &[]).await;
    assert!(deployments.get_opt(name).await?.is_some());
    env.stop().await;
    Ok(())
}

#[tokio::test]
async fn site_is_deleted_after_its_dns_record() -> Result<()> {
    let dns = TestDns::new();
    let env = start(&dns).await?;
    let sites: Api<Website> = Api::default_namespaced(env.client());
    let deployments: Api<Deployment> = Api::default_namespaced(env.client());
    let sample: Website = operator_envtest::read_object(SAMPLE)?;
    sites.create(&PostParams::default(), &sample).await?;
    let name = "website-sample";
    env.eventually(&sites, name, is_available).await?;

    *dns.refuses.lock().expect("no test panics with it") = true;
    sites.delete(name, &DeleteParams::default()).await?;
    let is_going = |site: &Website| site.metadata.deletion_timestamp.is_some();
    env.eventually(&sites, name, is_going).await?;
    dns.eventually(&env, &[("default/website-sample", "www.example.com")])
        .await;

    *dns.refuses.lock().expect("no test panics with it") = false;
    env.eventually_gone(&sites, name).await?;
    dns.eventually(&env, &[]).await;
    env.eventually_gone(&deployments, name).await?;
    env.stop().await;
    Ok(())
}
// ANCHOR_END: whole
