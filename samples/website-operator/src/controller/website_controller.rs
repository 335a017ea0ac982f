// SPDX-License-Identifier: Apache-2.0

// ANCHOR: head
//! Serves the pages of each Website with nginx, and publishes its host.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, PodSpec, PodTemplateSpec, Service,
    ServicePort, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, ServiceBackendPort,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use operator_runtime::prelude::*;
use operator_runtime::rollout;

use crate::api::v1::Website;

const IMAGE: &str = "nginxinc/nginx-unprivileged:1.27-alpine";
const PORT: i32 = 8080;
const FINALIZER: &str = "web.example.com/dns-record";

/// A DNS provider, which is outside the cluster.
pub trait Dns: Send + Sync + 'static {
    /// Makes `host` the only record of an owner, or removes its record. It must be idempotent.
    ///
    /// # Errors
    /// Returns an error if the provider cannot be reached or rejects the record. The reconcile is then retried.
    fn set(&self, owner: &str, host: Option<&str>) -> impl Future<Output = Result<()>> + Send;
}

/// A DNS provider that only logs the records. Replace it with the client of your provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogDns;

impl Dns for LogDns {
    async fn set(&self, owner: &str, host: Option<&str>) -> Result<()> {
        tracing::info!(owner, host, "DNS record");
        Ok(())
    }
}
// ANCHOR_END: head

// ANCHOR: controller
/// Returns the controller, with a DNS provider that logs.
pub fn controller() -> Controller<Website> {
    controller_with(LogDns)
}

/// Returns the controller: it watches Website objects, and the objects that they own.
pub fn controller_with(dns: impl Dns) -> Controller<Website> {
    Controller::new(Sites { dns })
        .owns::<ConfigMap>()
        .owns::<Deployment>()
        .owns::<Service>()
        .owns::<Ingress>()
}

/// Reconciles Website objects with a shared DNS provider.
struct Sites<D> {
    dns: D,
}
// ANCHOR_END: controller

// ANCHOR: reconcile
impl<D: Dns> Reconciler<Website> for Sites<D> {
    /// Brings the cluster and the DNS provider to the state that one Website describes.
    async fn reconcile(&self, site: Arc<Website>, ctx: Context<Website>) -> Result<Action> {
        let owner = ctx.key().to_string();
        let is_live = ctx.finalize(FINALIZER, self.dns.set(&owner, None)).await?;
        if !is_live {
            return Ok(Action::done());
        }
        ctx.apply_owned(config_map_for(&site)).await?;
        ctx.apply_owned(service_for(&site)).await?;
        let deployment = ctx.apply_owned(deployment_for(&site)).await?;
        // The Ingress exists only while the site has a host.
        ctx.apply_owned_set(ingress_for(&site)).await?;
        self.dns.set(&owner, site.spec.host.as_deref()).await?;

        // ANCHOR: status
        ctx.update_status(|status| {
            status.url = site
                .spec
                .host
                .as_ref()
                .map(|host| format!("http://{host}/"));
            status.conditions.set_all(rollout::conditions(&*deployment));
        })
        .await?;
        // ANCHOR_END: status
        Ok(Action::done())
    }
}
// ANCHOR_END: reconcile

// ANCHOR: children
fn labels_for(site: &Website) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "website".to_owned()),
        ("app.kubernetes.io/instance".to_owned(), site.name_any()),
    ])
}

fn metadata_for(site: &Website) -> ObjectMeta {
    ObjectMeta {
        name: Some(site.name_any()),
        labels: Some(labels_for(site)),
        ..Default::default()
    }
}

fn config_map_for(site: &Website) -> ConfigMap {
    ConfigMap {
        metadata: metadata_for(site),
        data: Some(site.spec.pages.clone()),
        ..Default::default()
    }
}

fn service_for(site: &Website) -> Service {
    Service {
        metadata: metadata_for(site),
        spec: Some(ServiceSpec {
            selector: Some(labels_for(site)),
            ports: Some(vec![ServicePort {
                name: Some("http".to_owned()),
                port: PORT,
                ..Default::default()
            }]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn deployment_for(site: &Website) -> Deployment {
    Deployment {
        metadata: metadata_for(site),
        spec: DeploymentSpec {
            replicas: site.spec.replicas,
            selector: LabelSelector {
                match_labels: Some(labels_for(site)),
                ..Default::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels_for(site)),
                    ..Default::default()
                }),
                spec: Some(pod_spec(&site.name_any())),
            },
            ..Default::default()
        },
        ..Default::default()
    }
}

/// Returns the pod: nginx with the pages of the ConfigMap.
fn pod_spec(config_map: &str) -> PodSpec {
    PodSpec {
        containers: vec![Container {
            name: "nginx".to_owned(),
            image: Some(IMAGE.to_owned()),
            ports: Some(vec![ContainerPort {
                name: Some("http".to_owned()),
                container_port: PORT,
                ..Default::default()
            }]),
            volume_mounts: Some(vec![VolumeMount {
                name: "pages".to_owned(),
                mount_path: "/usr/share/nginx/html".to_owned(),
                read_only: Some(true),
                ..Default::default()
            }]),
            ..Default::default()
        }],
        volumes: Some(vec![Volume {
            name: "pages".to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: config_map.to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        }]),
        ..Default::default()
    }
}

fn ingress_for(site: &Website) -> Option<Ingress> {
    let host = site.spec.host.clone()?;
    let backend = IngressBackend {
        service: Some(IngressServiceBackend {
            name: site.name_any(),
            port: Some(ServiceBackendPort {
                number: Some(PORT),
                ..Default::default()
            }),
        }),
        ..Default::default()
    };
    let rule = IngressRule {
        host: Some(host),
        http: Some(HTTPIngressRuleValue {
            paths: vec![HTTPIngressPath {
                path: Some("/".to_owned()),
                path_type: "Prefix".to_owned(),
                backend,
            }],
        }),
    };
    Some(Ingress {
        metadata: metadata_for(site),
        spec: Some(IngressSpec {
            rules: Some(vec![rule]),
            ..Default::default()
        }),
        ..Default::default()
    })
}
// ANCHOR_END: children
