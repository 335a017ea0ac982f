//! The APIServices of the extension APIs that a ClusterServiceVersion owns.

use serde_json::{Value, json};

use super::{Member, webhook};
use crate::object::{Object, set};
use crate::olm::kinds::{API_SERVICE, CSV, SECRET};
use crate::olm::{OWNER, OWNER_NAMESPACE, is_owned, names, owner_labels};
use crate::plan::{Action, create, delete, update};

const GROUP_PRIORITY: i64 = 2000;
const VERSION_PRIORITY: i64 = 15;

fn owned(csv: &Value) -> &[Value] {
    csv.items("/spec/apiservicedefinitions/owned")
}

fn name_of(described: &Value) -> String {
    format!("{}.{}", described.text("/version"), described.text("/group"))
}

/// Returns true if an APIService of the ClusterServiceVersion belongs to an operator that it does not replace.
pub(super) fn has_conflict(member: &Member<'_>) -> bool {
    let csv = member.csv;
    owned(csv).iter().any(|described| {
        let known = member.objects().get(&API_SERVICE, "", &name_of(described));
        known.is_some_and(|known| {
            let owner = known.label(OWNER).unwrap_or_default();
            let is_replaced = owner == names::label(csv.text("/spec/replaces"))
                && known.label(OWNER_NAMESPACE) == Some(csv.namespace());
            !owner.is_empty() && !is_replaced && !is_owned(known, CSV.name, csv.namespace(), csv.name())
        })
    })
}

/// Writes missing and outdated APIServices, and deletes surplus ones.
pub(super) fn actions(member: &Member<'_>) -> Vec<Action> {
    let csv = member.csv;
    let mut actions = Vec::new();
    for described in owned(csv) {
        let deployment = described.text("/deploymentName");
        let secret = webhook::secret_name(deployment);
        let secret = member.objects().get(&SECRET, csv.namespace(), &secret);
        let spec = json!({
            "group": described.text("/group"),
            "version": described.text("/version"),
            "groupPriorityMinimum": GROUP_PRIORITY,
            "versionPriority": VERSION_PRIORITY,
            "caBundle": secret.map_or("", |secret| secret.text("/data/olmCAKey")),
            "service": {
                "name": webhook::service_name(deployment),
                "namespace": csv.namespace(),
                "port": described.int("/containerPort").unwrap_or(443),
            },
        });
        let name = name_of(described);
        let labels = owner_labels(CSV.name, csv);
        let Some(known) = member.objects().get(&API_SERVICE, "", &name) else {
            let metadata = json!({"name": name, "labels": labels});
            actions.push(create(
                &API_SERVICE,
                json!({"metadata": metadata, "spec": spec}),
                None,
            ));
            continue;
        };
        let mut changed = Value::clone(known);
        for (name, value) in labels.as_object().into_iter().flatten() {
            set(&mut changed, &["metadata", "labels", name], value.clone());
        }
        changed["spec"] = spec;
        if changed != **known {
            actions.push(update(&API_SERVICE, changed, None));
        }
    }
    let names: Vec<String> = owned(csv).iter().map(name_of).collect();
    let surplus = member.objects().list(&API_SERVICE, "");
    let surplus = surplus
        .filter(|known| is_owned(known, CSV.name, csv.namespace(), csv.name()))
        .filter(|known| !names.contains(&known.name().to_owned()));
    actions.extend(surplus.map(|surplus| delete(&API_SERVICE, surplus, None)));
    actions
}

/// Returns true if the servers of all owned APIs are available.
pub(super) fn are_available(member: &Member<'_>) -> bool {
    owned(member.csv).iter().all(|described| {
        let known = member.objects().get(&API_SERVICE, "", &name_of(described));
        known.is_some_and(|known| known.is_condition_true("Available"))
    })
}
