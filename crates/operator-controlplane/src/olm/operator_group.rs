//! OperatorGroup: target namespaces, the annotations of its members, provided APIs and roles.

use std::collections::BTreeSet;
use std::sync::Arc;

use operator_apiserver::client::Event;
use serde_json::{Map, Value, json};

use super::kinds::{CSV, OPERATOR_GROUP};
use super::names::{hash, label};
use super::properties::owned_apis;
use super::{OWNER_KIND, is_owned, originals, owner_labels, remove_condition, set_condition, strings};
use crate::controller::key_of;
use crate::engine::Controller;
use crate::kind::{CLUSTER_ROLE, NAMESPACE, SERVICE_ACCOUNT};
use crate::object::{Object, set, time, unset};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Plan, World, create, delete, patch_metadata, update, update_status};
use crate::selector::selects;

/// The prefix of the label of a target namespace; it is followed by the uid of the group.
pub(super) const UID_LABEL: &str = "olm.operatorgroup.uid/";
const PROVIDED: &str = "olm.providedAPIs";

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "olm-operator-group",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&OPERATOR_GROUP, event, keys);
    let groups = |namespace| {
        objects
            .list(&OPERATOR_GROUP, namespace)
            .map(|group| Key::of(group))
    };
    if OPERATOR_GROUP.is(&event.gvr) || CSV.is(&event.gvr) || SERVICE_ACCOUNT.is(&event.gvr) {
        keys.extend(groups(event.object.namespace()));
    } else if NAMESPACE.is(&event.gvr)
        || CLUSTER_ROLE.is(&event.gvr) && event.object.label(OWNER_KIND) == Some(OPERATOR_GROUP.name)
    {
        keys.extend(groups(""));
    }
}

pub(super) fn plan(world: &World<'_>, key: &Key) -> Plan {
    let group = world.objects.get(&OPERATOR_GROUP, &key.namespace, &key.name);
    let Some(group) = group.filter(|group| !group.is_terminating()) else {
        return Plan::actions(abandoned(world.objects, key));
    };
    let status = status(world, group);
    if let Some(status) = update_status(&OPERATOR_GROUP, group, status) {
        return Plan::act(status);
    }
    let targets = targets(group);
    let mut actions = labels(world.objects, group, &targets);
    let members: Vec<&Arc<Value>> = originals(world.objects, &key.namespace).collect();
    if world.objects.list(&OPERATOR_GROUP, &key.namespace).count() == 1 {
        actions.extend(members.iter().filter_map(|csv| annotate(group, csv, &targets)));
        actions.extend(provided(group, &members));
    }
    actions.extend(roles(world.objects, group, &members));
    Plan::actions(actions)
}

/// Returns the target namespaces in the status of a group; one empty string for all namespaces.
pub(super) fn targets(group: &Value) -> Vec<String> {
    strings(group.items("/status/namespaces"))
}

fn selected(objects: &Objects, group: &Value) -> Vec<String> {
    let named = strings(group.items("/spec/targetNamespaces"));
    let selector = group.pointer("/spec/selector").filter(|selector| {
        !selector.items("/matchExpressions").is_empty() || !selector.texts("/matchLabels").is_empty()
    });
    match selector {
        _ if !named.is_empty() => named,
        None => vec![String::new()],
        selector => objects
            .list(&NAMESPACE, "")
            .filter(|namespace| selects(selector, &namespace.texts("/metadata/labels")))
            .map(|namespace| namespace.name().to_owned())
            .collect(),
    }
}

fn status(world: &World<'_>, group: &Value) -> Value {
    let now = time(world.now);
    let mut status = group.get("status").cloned().unwrap_or(json!({}));
    let mut namespaces = selected(world.objects, group);
    namespaces.sort();
    namespaces.dedup();
    let mut conditions = status.items("/conditions").to_vec();
    if world.objects.list(&OPERATOR_GROUP, group.namespace()).count() > 1 {
        let condition = json!({
            "type": "MultipleOperatorGroup", "status": "True", "reason": "MultipleOperatorGroupsFound",
            "message": "Multiple OperatorGroup found in the same namespace",
        });
        set_condition(&mut conditions, condition, &now);
    } else {
        remove_condition(&mut conditions, "MultipleOperatorGroup");
    }
    let account = group.text("/spec/serviceAccountName");
    let found = world.objects.get(&SERVICE_ACCOUNT, group.namespace(), account);
    unset(&mut status, &["serviceAccountRef"]);
    match found {
        Some(found) => {
            let reference = json!({"kind": "ServiceAccount", "namespace": found.namespace(), "name": account, "uid": found.uid()});
            status["serviceAccountRef"] = reference;
            remove_condition(&mut conditions, "OperatorGroupServiceAccount");
        }
        None if !account.is_empty() => {
            let condition = json!({
                "type": "OperatorGroupServiceAccount", "status": "True", "reason": "ServiceAccountNotFound",
                "message": format!("ServiceAccount {account} not found"),
            });
            set_condition(&mut conditions, condition, &now);
        }
        None => remove_condition(&mut conditions, "OperatorGroupServiceAccount"),
    }
    if conditions.is_empty() {
        unset(&mut status, &["conditions"]);
    } else {
        status["conditions"] = json!(conditions);
    }
    status["namespaces"] = json!(namespaces);
    let changed = group.get("status") != Some(&status);
    if changed {
        status["lastUpdated"] = now;
    }
    status
}

/// Labels the target namespaces, and no others, with the uid of the group.
fn labels(objects: &Objects, group: &Value, targets: &[String]) -> Vec<Action> {
    let label = format!("{UID_LABEL}{}", group.uid());
    let patch = |namespace: &Value, value: Value| {
        let labels = Map::from_iter([(label.clone(), value)]);
        patch_metadata(&NAMESPACE.gvr, namespace, json!({"labels": labels}))
    };
    objects
        .list(&NAMESPACE, "")
        .filter(|namespace| !namespace.is_terminating())
        .filter_map(|namespace| {
            let is_target = targets.iter().any(|target| target == namespace.name());
            match (is_target, namespace.label(&label)) {
                (true, None) => Some(patch(namespace, "".into())),
                (false, Some(_)) => Some(patch(namespace, Value::Null)),
                _ => None,
            }
        })
        .collect()
}

/// Sets the annotations of a member.
fn annotate(group: &Value, csv: &Value, targets: &[String]) -> Option<Action> {
    let wanted = [
        ("olm.operatorGroup", group.name().to_owned()),
        ("olm.operatorNamespace", group.namespace().to_owned()),
        ("olm.targetNamespaces", targets.join(",")),
    ];
    if wanted
        .iter()
        .all(|(name, value)| csv.annotation(name) == Some(value))
    {
        return None;
    }
    let annotations: Map<String, Value> = wanted
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    Some(patch_metadata(&CSV.gvr, csv, json!({"annotations": annotations})))
}

/// Returns the APIs of the members of a group, in the format of its annotation.
pub(super) fn apis(csvs: &[&Arc<Value>]) -> BTreeSet<String> {
    let apis = csvs.iter().flat_map(|csv| owned_apis(csv));
    apis.map(|(group, version, kind)| format!("{kind}.{version}.{group}"))
        .collect()
}

fn provided(group: &Value, members: &[&Arc<Value>]) -> Option<Action> {
    if group.flag("/spec/staticProvidedAPIs") {
        return None;
    }
    // A failed member that conflicts with another group provides no APIs.
    let members: Vec<&Arc<Value>> = members
        .iter()
        .filter(|csv| csv.text("/status/phase") != "Failed")
        .copied()
        .collect();
    let apis: Vec<String> = apis(&members).into_iter().collect();
    let text = apis.join(",");
    if group.annotation(PROVIDED).unwrap_or_default() == text {
        return None;
    }
    let annotations = Map::from_iter([(PROVIDED.to_owned(), text.into())]);
    Some(patch_metadata(
        &OPERATOR_GROUP.gvr,
        group,
        json!({"annotations": annotations}),
    ))
}

/// Returns the ClusterRoles that aggregate the roles of the APIs of a group.
fn roles(objects: &Objects, group: &Value, members: &[&Arc<Value>]) -> Vec<Action> {
    let apis = apis(members);
    ["admin", "edit", "view"]
        .into_iter()
        .filter_map(|suffix| {
            let hash = hash(&json!([group.namespace(), group.name(), suffix]));
            let name = label(&format!("olm.og.{}.{suffix}-{hash}", group.name()));
            let selectors: Vec<Value> = apis
                .iter()
                .map(|api| {
                    let aggregate = aggregation(api, suffix);
                    json!({"matchLabels": {aggregate: "true"}})
                })
                .collect();
            let mut rule = json!({"clusterRoleSelectors": selectors});
            if selectors.is_empty() {
                rule = Value::Null;
            }
            let known = objects.get(&CLUSTER_ROLE, "", &name);
            match known {
                None => {
                    let mut role = json!({
                        "metadata": {"name": name, "labels": owner_labels(OPERATOR_GROUP.name, group)},
                    });
                    if !rule.is_null() {
                        role["aggregationRule"] = rule;
                    }
                    Some(create(&CLUSTER_ROLE, role, None))
                }
                Some(known) if *known.get("aggregationRule").unwrap_or(&Value::Null) != rule => {
                    let mut changed = Value::clone(known);
                    if rule.is_null() {
                        unset(&mut changed, &["aggregationRule"]);
                        unset(&mut changed, &["rules"]);
                    } else {
                        set(&mut changed, &["aggregationRule"], rule);
                    }
                    Some(update(&CLUSTER_ROLE, changed, None))
                }
                Some(_) => None,
            }
        })
        .collect()
}

/// Returns the label that adds the roles of an API to the roles of groups.
pub(super) fn aggregation(api: &str, suffix: &str) -> String {
    let hash = hash(&api.into());
    format!("olm.opgroup.permissions/aggregate-to-{:.16}-{suffix}", hash)
}

/// Cleans up after a deleted group: labels of namespaces, annotations of its members, and roles.
fn abandoned(objects: &Objects, key: &Key) -> Vec<Action> {
    let mut actions = Vec::new();
    for namespace in objects
        .list(&NAMESPACE, "")
        .filter(|namespace| !namespace.is_terminating())
    {
        let labels = namespace.texts("/metadata/labels").into_iter();
        let stale: Map<String, Value> = labels
            .filter_map(|(name, _)| {
                let uid = name.strip_prefix(UID_LABEL)?;
                objects
                    .by_uid(uid)
                    .is_none()
                    .then(|| (name.to_owned(), Value::Null))
            })
            .collect();
        if !stale.is_empty() {
            actions.push(patch_metadata(
                &NAMESPACE.gvr,
                namespace,
                json!({"labels": stale}),
            ));
        }
    }
    let roles = objects.list(&CLUSTER_ROLE, "");
    let roles = roles.filter(|role| is_owned(role, OPERATOR_GROUP.name, &key.namespace, &key.name));
    actions.extend(roles.map(|role| delete(&CLUSTER_ROLE, role, None)));
    actions
}
