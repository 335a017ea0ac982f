// SPDX-License-Identifier: Apache-2.0

//! Runs a Deployment of `memcached:1.6.26-alpine3.19` for each Memcached.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, Pod, PodSecurityContext, PodSpec, PodTemplateSpec,
    SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use operator_runtime::prelude::*;
use operator_runtime::rollout;

use crate::api::v1alpha1::Memcached;

const IMAGE: &str = "memcached:1.6.26-alpine3.19";
/// The words of the command, separated by commas.
const COMMAND: &str = "memcached,--memory-limit=64,-o,modern,-v";
const APPLICATION: &str = "memcached";

const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Returns the controller: it watches Memcached objects, the Deployments that they own, and the pods of these.
pub fn controller() -> Controller<Memcached> {
    let pods = Watch::<Pod>::new().label(MANAGED_BY, env!("CARGO_PKG_NAME"));
    Controller::new(reconcile)
        .owns::<Deployment>()
        .watches(pods.map(object_of))
}

/// Brings the cluster to the state that one Memcached describes.
///
/// It is called after every change of the object, its Deployment or its pods, and again after an error.
async fn reconcile(object: Arc<Memcached>, ctx: Context<Memcached>) -> Result<Action> {
    let deployment = ctx.apply_owned(deployment_for(&object)).await?;
    let pods = ctx.list::<Pod>().labels(labels_for(&object)).await?;
    let conditions = rollout::conditions(&*deployment);
    let [available, ..] = &conditions;
    let status = object.status.as_ref();
    if available.is_true() && !status.is_some_and(|status| status.conditions.is_true("Available")) {
        ctx.event().normal("Available", "all instances are running");
    }
    ctx.update_status(|status| {
        status.nodes = pods.iter().map(|pod| pod.name_any()).collect();
        status.conditions.set_all(conditions.clone());
    })
    .await?;
    Ok(Action::done())
}

/// Returns the request for the object of a pod. A ReplicaSet owns the pod, so a label has the name of the object.
fn object_of(pod: &Pod) -> Option<Request> {
    let name = pod.labels().get(INSTANCE)?;
    Some(Request::namespaced(&pod.namespace()?, name))
}

fn labels_for(object: &Memcached) -> BTreeMap<String, String> {
    BTreeMap::from([
        (NAME.to_owned(), APPLICATION.to_owned()),
        (INSTANCE.to_owned(), object.name_any()),
        (MANAGED_BY.to_owned(), env!("CARGO_PKG_NAME").to_owned()),
    ])
}

/// Returns the desired Deployment. The API server sets defaults for the omitted fields.
fn deployment_for(object: &Memcached) -> Deployment {
    let labels = labels_for(object);
    Deployment {
        metadata: ObjectMeta {
            name: Some(object.name_any()),
            labels: Some(labels.clone()),
            ..Default::default()
        },
        spec: DeploymentSpec {
            replicas: Some(object.spec.size),
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..Default::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..Default::default()
                }),
                spec: Some(pod_spec()),
            },
            ..Default::default()
        },
        ..Default::default()
    }
}

/// Returns the pod of one instance, which meets the `restricted` Pod Security Standard.
fn pod_spec() -> PodSpec {
    PodSpec {
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        }),
        containers: vec![Container {
            name: "memcached".to_owned(),
            image: Some(IMAGE.to_owned()),
            image_pull_policy: Some("IfNotPresent".to_owned()),
            command: Some(COMMAND.split(',').map(str::to_owned).collect()),
            ports: Some(vec![ContainerPort {
                name: Some("memcached".to_owned()),
                container_port: 11211,
                ..Default::default()
            }]),
            security_context: Some(SecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(1001),
                allow_privilege_escalation: Some(false),
                capabilities: Some(Capabilities {
                    drop: Some(vec!["ALL".to_owned()]),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        }],
        ..Default::default()
    }
}
