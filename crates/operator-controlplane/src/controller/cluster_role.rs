//! ClusterRole aggregation: a role with an aggregation rule gets the rules of all selected roles.

use operator_apiserver::client::Event;
use serde_json::Value;

use crate::engine::Controller;
use crate::kind::CLUSTER_ROLE;
use crate::object::{Object, set};
use crate::objects::{Key, Objects};
use crate::plan::{Plan, World, update};
use crate::selector::selects;

const SELECTORS: &str = "/aggregationRule/clusterRoleSelectors";

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "clusterrole-aggregation-controller",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

/// Adds the keys of all aggregated roles, because each of them may select any role.
fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    if CLUSTER_ROLE.is(&event.gvr) {
        let aggregating = objects
            .list(&CLUSTER_ROLE, "")
            .filter(|role| !role.items(SELECTORS).is_empty());
        keys.extend(aggregating.map(|role| Key::of(role)));
    }
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let role = world.objects.get(&CLUSTER_ROLE, "", &key.name);
    let Some(role) = role.filter(|role| !role.items(SELECTORS).is_empty()) else {
        return Plan::done();
    };
    let rules = gathered(world.objects, role);
    if role.items("/rules") == rules {
        return Plan::done();
    }
    let mut gathered = Value::clone(role);
    set(&mut gathered, &["rules"], rules.into());
    Plan::act(update(&CLUSTER_ROLE, gathered, None))
}

/// Returns the rules of the selected roles, ordered by the names of the roles, without duplicates.
///
/// If a selected role is aggregated itself, its new rules are used, so that a change reaches all roles of a chain
/// (`view` to `edit` to `admin`) in one step.
fn gathered(objects: &Objects, role: &Value) -> Vec<Value> {
    let mut rules = Vec::new();
    gather(objects, role, &mut rules, &mut vec![role.name()]);
    rules
}

/// Adds the rules of the roles that `role` selects; `path` has the roles on the current path.
fn gather<'a>(objects: &'a Objects, role: &'a Value, rules: &mut Vec<Value>, path: &mut Vec<&'a str>) {
    for selector in role.items(SELECTORS) {
        let parts = objects
            .list(&CLUSTER_ROLE, "")
            .filter(|part| selects(Some(selector), &part.texts("/metadata/labels")));
        for part in parts {
            if path.contains(&part.name()) {
                continue;
            }
            if part.items(SELECTORS).is_empty() {
                for rule in part.items("/rules") {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            } else {
                path.push(part.name());
                gather(objects, part, rules, path);
                path.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::Action;
    use crate::testing::Scene;

    #[test]
    fn an_aggregated_role_has_the_rules_of_the_selected_roles_only() {
        let mut scene = Scene::new();
        let rule = |resource: &str| json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]});
        let part = |name: &str, rules: &[Value]| json!({"metadata": {"name": name, "uid": name, "labels": {"to": "all"}}, "rules": rules});
        scene.put(&CLUSTER_ROLE, part("b", &[rule("pods"), rule("secrets")]));
        scene.put(&CLUSTER_ROLE, part("a", &[rule("pods")]));
        let all = json!({
            "metadata": {"name": "all", "uid": "all", "labels": {"to": "all"}},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]},
            "rules": [rule("nodes")],
        });
        scene.put(&CLUSTER_ROLE, all);
        let planned = scene.plan(plan, "", "all").actions;
        let [Action::Update { object, .. }] = planned.as_slice() else {
            panic!("{planned:?}")
        };
        assert_eq!(object.items("/rules"), [rule("pods"), rule("secrets")]);
        scene.put(&CLUSTER_ROLE, Value::clone(object));
        assert!(scene.plan(plan, "", "all").actions.is_empty());
        assert!(scene.plan(plan, "", "a").actions.is_empty());
    }
    #[test]
    fn a_role_gathers_over_others_that_gather() {
        let mut scene = Scene::new();
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        scene.put(
            &CLUSTER_ROLE,
            json!({"metadata": {"name": "pods", "uid": "1", "labels": {"to": "view"}}, "rules": [rule]}),
        );
        for (name, from, to) in [("view", "view", "edit"), ("edit", "edit", "view")] {
            let role = json!({
                "metadata": {"name": name, "uid": name, "labels": {"to": to}},
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": from}}]},
                "rules": [],
            });
            scene.put(&CLUSTER_ROLE, role);
        }
        for name in ["view", "edit"] {
            let planned = scene.plan(plan, "", name).actions;
            let [Action::Update { object, .. }] = planned.as_slice() else {
                panic!("{planned:?}")
            };
            assert_eq!(object.items("/rules"), std::slice::from_ref(&rule), "{name}");
        }
    }
}
