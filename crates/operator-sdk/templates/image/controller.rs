{{ header }}//! Runs a Deployment of `{{ image.image }}` for each {{ kind }}.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
{% if image.port %}
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, Pod, PodSecurityContext, PodSpec, PodTemplateSpec,
    SeccompProfile, SecurityContext,
};
{% else %}
use k8s_openapi::api::core::v1::{
    Capabilities, Container, Pod, PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile,
    SecurityContext,
};
{% endif %}
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use operator_runtime::prelude::*;
use operator_runtime::rollout;

use crate::{{ api_path }}::{{ kind }};

const IMAGE: &str = {{ image.image | rust }};
{% if image.command %}
/// The words of the command, separated by commas.
const COMMAND: &str = {{ image.command | rust }};
{% endif %}
const APPLICATION: &str = "{{ kind_lower }}";

const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Returns the controller: it watches {{ kind }} objects, the Deployments that they own, and the pods of these.
pub fn controller() -> Controller<{{ kind }}> {
    let pods = Watch::<Pod>::new().label(MANAGED_BY, env!("CARGO_PKG_NAME"));
    Controller::new(reconcile)
        .owns::<Deployment>()
        .watches(pods.map(object_of))
}

/// Brings the cluster to the state that one {{ kind }} describes.
///
/// It is called after every change of the object, its Deployment or its pods, and again after an error.
{{ signature("async fn reconcile(", ["object: Arc<" ~ kind ~ ">", "ctx: Context<" ~ kind ~ ">"], ") -> Result<Action> {") }}
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

fn labels_for(object: &{{ kind }}) -> BTreeMap<String, String> {
    BTreeMap::from([
        (NAME.to_owned(), APPLICATION.to_owned()),
        (INSTANCE.to_owned(), object.name_any()),
        (MANAGED_BY.to_owned(), env!("CARGO_PKG_NAME").to_owned()),
    ])
}

/// Returns the desired Deployment. The API server sets defaults for the omitted fields.
fn deployment_for(object: &{{ kind }}) -> Deployment {
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
            name: "{{ kind_lower }}".to_owned(),
            image: Some(IMAGE.to_owned()),
            image_pull_policy: Some("IfNotPresent".to_owned()),
{% if image.command %}
            command: Some(COMMAND.split(',').map(str::to_owned).collect()),
{% endif %}
{% if image.port %}
            ports: Some(vec![ContainerPort {
                name: Some("{{ port_name }}".to_owned()),
                container_port: {{ image.port }},
                ..Default::default()
            }]),
{% endif %}
            security_context: Some(SecurityContext {
                run_as_non_root: Some(true),
{% if image.run_as_user %}
                run_as_user: Some({{ image.run_as_user }}),
{% endif %}
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
