// SPDX-License-Identifier: Apache-2.0

//! Runs a StatefulSet of PostgreSQL servers for each Database, and upgrades them one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{
    RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, Pod, PodSpec, PodTemplateSpec, Secret, SecretKeySelector, Service,
    ServicePort, ServiceSpec, VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use operator_runtime::prelude::*;
use operator_runtime::rollout;

use crate::api::v1::{Database, Member};
use crate::password;

/// The image of PostgreSQL, without its tag.
pub const IMAGE: &str = "postgres";
const PORT: i32 = 5432;

const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";

/// Returns the controller: it watches Database objects, the objects that they own, and the pods of the StatefulSets.
pub fn controller() -> Controller<Database> {
    let pods = Watch::<Pod>::new().label(NAME, "database");
    Controller::new(reconcile)
        .owns::<Secret>()
        .owns::<Service>()
        .owns::<StatefulSet>()
        .watches(pods.map(|pod: &Pod| {
            let name = pod.labels().get(INSTANCE)?;
            Some(Request::namespaced(&pod.namespace()?, name))
        }))
}

/// Returns the name of the Secret of the administrator.
pub fn admin_secret(database: &str) -> String {
    format!("{database}-admin")
}

/// Brings the cluster to the state that one Database describes.
async fn reconcile(database: Arc<Database>, ctx: Context<Database>) -> Result<Action> {
    let name = database.name_any();
    let namespace = database.namespace().unwrap_or_default();
    let secret = admin_secret(&name);
    // The password is generated once: an apply would replace it each time.
    if ctx.get::<Secret>((&*namespace, &*secret)).await?.is_none() {
        ctx.create_owned(password::secret(&secret, "postgres", &name)?)
            .await?;
    }
    ctx.apply_owned(service_for(&database)).await?;

    let pods = ctx.list::<Pod>().labels(labels_for(&name)).await?;
    let members: Vec<Member> = pods.iter().map(|pod| member(pod)).collect();
    let partition = partition(&database, &members);
    let servers = ctx
        .apply_owned(stateful_set_for(&database, partition))
        .await?;

    ctx.update_status(|status| {
        status.members = members.clone();
        status.conditions.set_all(rollout::conditions(&*servers));
        if partition > 0 {
            let message =
                format!("server {partition} and the servers before it wait for the upgrade");
            status
                .conditions
                .set(Condition::progressing(true, "Upgrading", &message));
        }
    })
    .await?;
    Ok(Action::done())
}

/// Returns the state of a server from its pod.
fn member(pod: &Pod) -> Member {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut images = containers.filter_map(|container| container.image.as_deref());
    let conditions = pod
        .status
        .iter()
        .filter_map(|status| status.conditions.as_ref());
    let mut conditions = conditions.flatten();
    Member {
        name: pod.name_any(),
        version: images
            .find_map(|image| image.strip_prefix(IMAGE)?.strip_prefix(':')?.parse().ok()),
        ready: conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True"),
    }
}

/// Returns the ordinal from which servers are upgraded. Each time all servers are ready it decreases by one, from the
/// last server to the primary.
fn partition(database: &Database, members: &[Member]) -> i32 {
    let (version, replicas) = (database.spec.version, database.spec.replicas);
    let ordinal = |member: &Member| {
        let (_, ordinal) = member.name.rsplit_once('-')?;
        ordinal.parse::<i32>().ok()
    };
    let outdated = members
        .iter()
        .filter(|member| member.version != Some(version));
    let Some(last) = outdated.filter_map(ordinal).max() else {
        return 0;
    };
    let ready = members.iter().filter(|member| member.ready).count();
    match i32::try_from(ready).is_ok_and(|ready| ready >= replicas) {
        true => last,
        false => last + 1,
    }
}

fn labels_for(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (NAME.to_owned(), "database".to_owned()),
        (INSTANCE.to_owned(), name.to_owned()),
    ])
}

fn metadata_for(database: &Database) -> ObjectMeta {
    ObjectMeta {
        name: Some(database.name_any()),
        labels: Some(labels_for(&database.name_any())),
        ..Default::default()
    }
}

/// Returns the Service that gives each server a DNS name.
fn service_for(database: &Database) -> Service {
    Service {
        metadata: metadata_for(database),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(labels_for(&database.name_any())),
            ports: Some(vec![ServicePort {
                name: Some("postgres".to_owned()),
                port: PORT,
                ..Default::default()
            }]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn stateful_set_for(database: &Database, partition: i32) -> StatefulSet {
    let labels = labels_for(&database.name_any());
    StatefulSet {
        metadata: metadata_for(database),
        spec: StatefulSetSpec {
            service_name: Some(database.name_any()),
            replicas: Some(database.spec.replicas),
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..Default::default()
            },
            update_strategy: Some(StatefulSetUpdateStrategy {
                rolling_update: Some(RollingUpdateStatefulSetStrategy {
                    partition: Some(partition),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..Default::default()
                }),
                spec: Some(pod_spec(database)),
            },
            volume_claim_templates: Some(vec![claim_for(database)]),
            ..Default::default()
        },
        ..Default::default()
    }
}

fn pod_spec(database: &Database) -> PodSpec {
    PodSpec {
        containers: vec![Container {
            name: "postgres".to_owned(),
            image: Some(format!("{IMAGE}:{}", database.spec.version)),
            ports: Some(vec![ContainerPort {
                container_port: PORT,
                ..Default::default()
            }]),
            env: Some(vec![password_from(
                &admin_secret(&database.name_any()),
                "POSTGRES_PASSWORD",
            )]),
            volume_mounts: Some(vec![VolumeMount {
                name: "data".to_owned(),
                mount_path: "/var/lib/postgresql/data".to_owned(),
                ..Default::default()
            }]),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Returns an environment variable with the password in a Secret.
pub fn password_from(secret: &str, variable: &str) -> EnvVar {
    EnvVar {
        name: variable.to_owned(),
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: secret.to_owned(),
                key: "password".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn claim_for(database: &Database) -> PersistentVolumeClaim {
    let size = Quantity(database.spec.storage.clone());
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some("data".to_owned()),
            ..Default::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), size)])),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1::DatabaseSpec;

    fn database() -> Database {
        let spec = DatabaseSpec {
            version: 17,
            replicas: 3,
            ..Default::default()
        };
        Database::new("db", spec)
    }

    fn members(states: [(i32, bool); 3]) -> [Member; 3] {
        let mut ordinal = 0..;
        states.map(|(version, ready)| Member {
            name: format!("db-{}", ordinal.next().unwrap_or(0)),
            version: Some(version),
            ready,
        })
    }

    #[test]
    fn servers_are_upgraded_from_the_last_to_the_primary_while_all_are_ready() {
        let of = |states| partition(&database(), &members(states));
        assert_eq!(of([(16, true), (16, true), (16, true)]), 2);
        assert_eq!(of([(16, true), (16, true), (17, false)]), 2);
        assert_eq!(of([(16, true), (16, true), (17, true)]), 1);
        assert_eq!(of([(16, true), (17, true), (17, true)]), 0);
        assert_eq!(of([(17, false), (17, true), (17, true)]), 0);
        assert_eq!(partition(&database(), &[]), 0);
    }

    #[test]
    fn server_that_is_not_ready_holds_the_upgrade() {
        let of = |states| partition(&database(), &members(states));
        assert_eq!(of([(16, true), (16, false), (16, true)]), 3);
        assert_eq!(of([(16, true), (16, true), (17, false)]), 2);
        let [first, second, _] = members([(16, true); 3]);
        assert_eq!(
            partition(&database(), &[first, second]),
            2,
            "one is missing"
        );
    }
}
