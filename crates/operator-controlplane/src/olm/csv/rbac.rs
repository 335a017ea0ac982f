//! Roles in target namespaces, roles for the owned CRDs, and the cleanup after a ClusterServiceVersion was deleted.

use serde_json::{Value, json};

use super::Member;
use crate::kind::{CLUSTER_ROLE, CUSTOM_RESOURCE_DEFINITION, Kind, NAMESPACE};
use crate::object::{Object, unset};
use crate::objects::{Key, Objects};
use crate::olm::kinds::{
    API_SERVICE, CLUSTER_ROLE_BINDING, CSV, MUTATING_WEBHOOK, ROLE, ROLE_BINDING, VALIDATING_WEBHOOK,
};
use crate::olm::operator_group::aggregation;
use crate::olm::{COPIED_FROM, is_owned, owner_labels};
use crate::plan::{Action, create, delete};

/// Writes the missing roles and bindings, and deletes surplus ones.
pub(super) fn actions(member: &Member<'_>) -> Vec<Action> {
    let mut actions = permissions(member);
    actions.extend(definitions(member));
    actions
}

/// Copies the roles of the operator's namespace to its target namespaces. For all namespaces, they become ClusterRoles.
fn permissions(member: &Member<'_>) -> Vec<Action> {
    let (objects, csv) = (member.objects(), member.csv);
    let own = |kind: &Kind| {
        let all = objects.list(kind, csv.namespace());
        all.filter(|known| is_owned(known, CSV.name, csv.namespace(), csv.name()))
            .filter(|known| known.label("olm.permissions.hash").is_some())
            .collect::<Vec<_>>()
    };
    let mut actions = Vec::new();
    for (kind, cluster_kind) in [(&*ROLE, &*CLUSTER_ROLE), (&*ROLE_BINDING, &*CLUSTER_ROLE_BINDING)] {
        for role in own(kind) {
            if member.is_global() {
                if objects.get(cluster_kind, "", role.name()).is_none() {
                    actions.push(create(cluster_kind, copied(role, csv, None), None));
                }
                continue;
            }
            for target in &member.targets {
                let served = objects.get(&NAMESPACE, "", target);
                let skipped =
                    target == csv.namespace() || served.is_none_or(|namespace| namespace.is_terminating());
                if !skipped && objects.get(kind, target, role.name()).is_none() {
                    actions.push(create(kind, copied(role, csv, Some(target)), None));
                }
            }
        }
        let stale = objects.list(kind, "").filter(|known| {
            known.label(COPIED_FROM) == Some(csv.namespace())
                && is_owned(known, CSV.name, csv.namespace(), csv.name())
                && !member.targets.iter().any(|target| target == known.namespace())
        });
        actions.extend(stale.map(|stale| delete(kind, stale, None)));
    }
    actions
}

fn copied(role: &Value, csv: &Value, namespace: Option<&str>) -> Value {
    let mut copy = role.clone();
    unset(&mut copy, &["metadata"]);
    let mut labels = owner_labels(CSV.name, csv);
    copy["metadata"] = json!({"name": role.name()});
    match namespace {
        Some(namespace) => {
            labels[COPIED_FROM] = csv.namespace().into();
            copy["metadata"]["namespace"] = namespace.into();
        }
        None => {
            if copy.get("roleRef").is_some() {
                copy["roleRef"]["kind"] = CLUSTER_ROLE.name.into();
            }
        }
    }
    copy["metadata"]["labels"] = labels;
    copy
}

/// Writes the roles for users of the owned CRDs.
fn definitions(member: &Member<'_>) -> Vec<Action> {
    let mut actions = Vec::new();
    let owned = member.csv.items("/spec/customresourcedefinitions/owned");
    for described in owned {
        let name = described.text("/name");
        let Some((plural, group)) = name.split_once('.') else {
            continue;
        };
        let Some(definition) = member.objects().get(&CUSTOM_RESOURCE_DEFINITION, "", name) else {
            continue;
        };
        let version = described.text("/version");
        let api = format!("{}.{version}.{group}", described.text("/kind"));
        let view = json!(["get", "list", "watch"]);
        let resources = json!({"apiGroups": [group], "resources": [plural]});
        let of_objects = |verbs: Value| {
            let mut rule = resources.clone();
            rule["verbs"] = verbs;
            rule
        };
        let of_definition = json!({
            "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
            "resourceNames": [name], "verbs": ["get"],
        });
        let parts = [
            ("admin", "admin", of_objects(json!(["*"]))),
            (
                "edit",
                "edit",
                of_objects(json!(["create", "update", "patch", "delete"])),
            ),
            ("view", "view", of_objects(view)),
            ("crdview", "view", of_definition),
        ];
        for (suffix, aggregate, rule) in parts {
            let role = format!("{name}-{version}-{suffix}");
            if member.objects().get(&CLUSTER_ROLE, "", &role).is_some() {
                continue;
            }
            let labels = json!({
                "olm.managed": "true",
                format!("rbac.authorization.k8s.io/aggregate-to-{aggregate}"): "true",
                aggregation(&api, aggregate): "true",
            });
            let owner = crate::olm::owner_reference(&CUSTOM_RESOURCE_DEFINITION, definition);
            let metadata = json!({"name": role, "labels": labels, "ownerReferences": [owner]});
            actions.push(create(
                &CLUSTER_ROLE,
                json!({"metadata": metadata, "rules": [rule]}),
                None,
            ));
        }
    }
    actions
}

/// Deletes objects without owner references: cluster-scoped objects, and roles in other namespaces.
pub(super) fn abandoned(objects: &Objects, key: &Key) -> Vec<Action> {
    let kinds = [
        &*CLUSTER_ROLE_BINDING,
        &*CLUSTER_ROLE,
        &*ROLE_BINDING,
        &*ROLE,
        &*MUTATING_WEBHOOK,
        &*VALIDATING_WEBHOOK,
        &*API_SERVICE,
    ];
    let left = kinds.into_iter().flat_map(|kind| {
        let all = objects.list(kind, "");
        all.filter(|known| !known.is_terminating())
            .filter(|known| is_owned(known, CSV.name, &key.namespace, &key.name))
            .filter(|known| known.namespace() != key.namespace)
            .map(|known| delete(kind, known, None))
    });
    left.collect()
}
