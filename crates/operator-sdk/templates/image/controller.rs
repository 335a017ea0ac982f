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
use kube::api::ObjectMeta;
use operator_runtime::handler;
use operator_runtime::prelude::*;

use crate::{{ api_path }}::{{ kind }};

/// The image that every instance runs.
const IMAGE: &str = {{ image.image | rust }};
{% if image.command %}

/// The words of its command, with commas between.
const COMMAND: &str = {{ image.command | rust }};
{% endif %}

const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const MANAGER: &str = "{{ project_name }}";

/// Reconciles {{ kind }} objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct {{ reconciler }};

// What the operator may do; `operator-sdk generate manifests` writes config/rbac/role.yaml from it.
#[rbac(
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
#[rbac(groups = "events.k8s.io", resources = "events", verbs = "create;patch")]
#[rbac(
    groups = "apps",
    resources = "deployments",
    verbs = "get;list;watch;create;update;patch;delete"
)]
#[rbac(groups = "core", resources = "pods", verbs = "get;list;watch")]
impl Reconciler for {{ reconciler }} {
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

        let observed = observe(&object, &deployment);
        let was_available = object
            .status
            .as_ref()
            .is_some_and(|status| status.conditions.is_true("Available"));
        if observed.available.is_true() && !was_available {
            let note = observed.available.message.clone();
            ctx.event(&*object).normal("Available", note).await?;
        }
        ctx.status(&*object)
            .condition(observed.available)
            .condition(observed.progressing)
            .condition(observed.degraded)
            .set("nodes", nodes_of(&ctx, &object).await?)
            .patch()
            .await?;
        Ok(Action::done())
    }
}

impl {{ reconciler }} {
    /// Watches {{ kind }} objects, the Deployments that they own, and the pods of these.
    pub fn setup_with_manager(self, manager: &Manager) -> Result<()> {
        Controller::managed_by(manager)
            .for_::<{{ kind }}>()
            .owns::<Deployment>()
            .watches::<Pod>(handler::map(object_of))
            .complete(self)?;
        Ok(())
    }
}

struct Observed {
    available: Condition,
    progressing: Condition,
    degraded: Condition,
}

/// What the Deployment says of the instances.
fn observe(object: &{{ kind }}, deployment: &Deployment) -> Observed {
    let status = deployment.status.clone().unwrap_or_default();
    let seen = status.observed_generation >= deployment.metadata.generation;
    let (size, available) = (object.spec.size, status.available_replicas.unwrap_or(0));
    let updated = status.updated_replicas.unwrap_or(0);
    let complete = seen && available == size && updated == size;
    let counts = format!("{available} of {size} instances are available");
    let failure = status.conditions.unwrap_or_default().into_iter().find(|c| {
        let failed = (c.type_.as_deref(), c.status.as_deref());
        failed == (Some("ReplicaFailure"), Some("True"))
            || failed == (Some("Progressing"), Some("False"))
    });
    Observed {
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
                failure.reason.or(failure.type_).unwrap_or_default(),
                failure.message.unwrap_or_default(),
            ),
            None => Condition::degraded(false, "AsExpected", "the Deployment reports no failure"),
        },
    }
}

/// The names of the pods that run the instances, sorted.
async fn nodes_of(ctx: &Context, object: &{{ kind }}) -> Result<Vec<String>> {
    let labels = labels_for(object);
    let pods = ctx.list::<Pod>(object.namespace().as_deref()).await?;
    let own = pods.iter().filter(|pod| {
        labels
            .iter()
            .all(|(key, value)| pod.labels().get(key) == Some(value))
    });
    let mut names: Vec<String> = own.map(|pod| pod.name_any()).collect();
    names.sort();
    Ok(names)
}

/// The object that a pod belongs to, by its labels: its owner is a ReplicaSet.
fn object_of(pod: &Pod) -> Vec<Request> {
    let labels = pod.labels();
    let ours = labels
        .get(MANAGED_BY)
        .is_some_and(|manager| manager == MANAGER);
    let name = labels.get(INSTANCE).filter(|_| ours);
    name.map(|name| Request::namespaced(&pod.namespace().unwrap_or_default(), name))
        .into_iter()
        .collect()
}

/// The labels that tell the instances of one object from those of another.
fn labels_for(object: &{{ kind }}) -> BTreeMap<String, String> {
    BTreeMap::from([
        (NAME.to_owned(), "{{ kind_lower }}".to_owned()),
        (INSTANCE.to_owned(), object.name_any()),
        (MANAGED_BY.to_owned(), MANAGER.to_owned()),
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
        spec: DeploymentSpec {
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
        },
        ..Deployment::default()
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
            command: Some(COMMAND.split(',').map(str::to_owned).collect()),
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
