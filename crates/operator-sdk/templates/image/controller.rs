{{ header }}//! Runs a Deployment of `{{ image.image }}` for each {{ kind }}.

use std::collections::BTreeMap;

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
use kube::api::{ListParams, ObjectMeta};
use operator_runtime::prelude::*;
use operator_runtime::{Condition, Manager};

use crate::api::{{ version }}::{{ kind }};

/// The image that every instance runs.
const IMAGE: &str = {{ image.image | rust }};

/// Reconciles {{ kind }} objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct {{ kind }}Reconciler;

// What the operator may do; `operator-sdk generate manifests` writes config/rbac/role.yaml from it.
#[operator_runtime::rbac(
    groups = "{{ api_group }}",
    resources = "{{ plural }}",
    verbs = "get;list;watch;create;update;patch;delete"
)]
#[rbac(
    groups = "{{ api_group }}",
    resources = "{{ plural }}/status",
    verbs = "get;update;patch"
)]
#[rbac(
    groups = "{{ api_group }}",
    resources = "{{ plural }}/finalizers",
    verbs = "update"
)]
#[rbac(
    groups = "core;events.k8s.io",
    resources = "events",
    verbs = "create;patch"
)]
#[rbac(
    groups = "apps",
    resources = "deployments",
    verbs = "get;list;watch;create;update;patch;delete"
)]
#[rbac(groups = "core", resources = "pods", verbs = "get;list;watch")]
impl Reconciler for {{ kind }}Reconciler {
    /// Brings the cluster closer to what one {{ kind }} asks for.
    ///
    /// Runs whenever the object or its Deployment has changed, and again after an error. It comes to
    /// the same end however often it runs.
    async fn reconcile(&self, ctx: Context, request: Request) -> Result<Action> {
        let Some(object) = ctx.get::<{{ kind }}>(&request).await? else {
            // It was deleted; the cluster collects the Deployment that it owned.
            return Ok(Action::done());
        };
        let deployment = match ctx.apply_owned(&*object, deployment_for(&object)).await {
            Ok(deployment) => deployment,
            Err(error) => {
                let why = error.to_string();
                ctx.event(&*object).warning("ApplyFailed", &why).await?;
                let degraded = Condition::degraded(true, "ApplyFailed", why);
                ctx.status(&*object).condition(degraded).patch().await?;
                return Err(error.into());
            }
        };

        let conditions = conditions_for(&object, &deployment);
        let was_available = object
            .status
            .as_ref()
            .is_some_and(|status| status.conditions.is_true("Available"));
        if conditions.available.is_true() && !was_available {
            let note = conditions.available.message.clone();
            ctx.event(&*object).normal("Available", note).await?;
        }
        ctx.status(&*object)
            .condition(conditions.available)
            .condition(conditions.progressing)
            .condition(conditions.degraded)
            .set("nodes", nodes_of(&ctx, &object).await?)
            .patch()
            .await?;
        Ok(Action::done())
    }
}

impl {{ kind }}Reconciler {
    /// Watches {{ kind }} objects and the Deployments that they own.
    pub fn setup_with_manager(self, manager: &Manager) -> Result<()> {
        Controller::managed_by(manager)
            .for_::<{{ kind }}>()
            .owns::<Deployment>()
            .complete(self)?;
        Ok(())
    }
}

struct Conditions {
    available: Condition,
    progressing: Condition,
    degraded: Condition,
}

/// What the Deployment says of the instances.
fn conditions_for(object: &{{ kind }}, deployment: &Deployment) -> Conditions {
    let status = deployment.status.clone().unwrap_or_default();
    let seen = status.observed_generation >= deployment.metadata.generation;
    let (size, available) = (object.spec.size, status.available_replicas.unwrap_or(0));
    let updated = status.updated_replicas.unwrap_or(0);
    let complete = seen && available == size && updated == size;
    let counts = format!("{available} of {size} instances are available");
    let failure = status.conditions.unwrap_or_default().into_iter().find(|c| {
        (c.type_ == "ReplicaFailure" && c.status == "True")
            || (c.type_ == "Progressing" && c.status == "False")
    });
    Conditions {
        available: match seen && available >= size {
            true => Condition::available(true, "AllInstancesAvailable", &counts),
            false => Condition::available(false, "InstancesMissing", &counts),
        },
        progressing: match complete {
            true => Condition::progressing(false, "RolledOut", "every instance is as asked for"),
            false => Condition::progressing(true, "RollingOut", &counts),
        },
        degraded: match failure {
            Some(failure) => Condition::degraded(
                true,
                failure.reason.unwrap_or(failure.type_),
                failure.message.unwrap_or_default(),
            ),
            None => Condition::degraded(false, "AsExpected", "the Deployment reports no failure"),
        },
    }
}

/// The names of the pods that run the instances, sorted. They are read from the API server: a cache
/// of all pods would cost more than it saves.
async fn nodes_of(ctx: &Context, object: &{{ kind }}) -> Result<Vec<String>> {
    let selector: Vec<String> = labels_for(object)
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let selector = ListParams::default().labels(&selector.join(","));
    let pods = ctx
        .live()
        .list::<Pod>(object.namespace().as_deref(), &selector)
        .await?;
    let mut names: Vec<String> = pods
        .items
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .map(ResourceExt::name_any)
        .collect();
    names.sort();
    Ok(names)
}

/// The labels that tell the instances of one object from those of another.
fn labels_for(object: &{{ kind }}) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "{{ kind_lower }}".to_owned()),
        ("app.kubernetes.io/instance".to_owned(), object.name_any()),
    ])
}

/// The Deployment that an object asks for. What is left out here is the API server's to default.
fn deployment_for(object: &{{ kind }}) -> Deployment {
    let labels = labels_for(object);
    Deployment {
        metadata: ObjectMeta {
            name: Some(object.name_any()),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(object.spec.size),
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod_spec()),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// What an instance runs, as the `restricted` Pod Security Standard allows it.
fn pod_spec() -> PodSpec {
    PodSpec {
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![Container {
            name: "{{ kind_lower }}".to_owned(),
            image: Some(IMAGE.to_owned()),
            image_pull_policy: Some("IfNotPresent".to_owned()),
{% if image.command %}
            command: Some(
                [
{% for word in image.command %}
                    {{ word | rust }},
{% endfor %}
                ]
                .map(str::to_owned)
                .to_vec(),
            ),
{% endif %}
{% if image.port %}
            ports: Some(vec![ContainerPort {
                name: Some("{{ port_name }}".to_owned()),
                container_port: {{ image.port }},
                ..ContainerPort::default()
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
                    ..Capabilities::default()
                }),
                ..SecurityContext::default()
            }),
            ..Container::default()
        }],
        ..PodSpec::default()
    }
}
