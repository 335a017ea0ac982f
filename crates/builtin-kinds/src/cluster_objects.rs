//! The objects of every new cluster, parsed from a table of Kubernetes 1.36.
//!
//! A line that does not start with a space is an object: its kind, its name (with its namespace) and its fields. The
//! lines below it are its rules. Lists are comma-separated; the core group is `core`.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

const TABLE: &str = include_str!("objects-1.36.txt");
const RBAC: &str = "rbac.authorization.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";

/// The label of the APIServices that the server maintains.
pub const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// A resource: group, version and plural.
pub type Resource = (&'static str, &'static str, &'static str);

/// Returns all objects, in an order in which objects follow the objects that they refer to.
pub fn objects() -> &'static [(Resource, Value)] {
    static OBJECTS: LazyLock<Vec<(Resource, Value)>> = LazyLock::new(|| {
        let entries = entries();
        let objects = entries.iter().filter_map(|entry| object(entry, &entries));
        objects.collect()
    });
    &OBJECTS
}

/// Returns the APIServices of the built-in groups.
pub fn api_services() -> &'static [Value] {
    static SERVICES: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let entries = entries();
        let services = entries.iter().filter(|entry| entry.kind == "apiservice");
        let service = |entry: &Entry| {
            let (version, group) = entry.name.split_once('.').unwrap_or((entry.name, ""));
            local_api_service(group, version, "onstart", entry.number(0), entry.number(1))
        };
        services.map(service).collect()
    });
    &SERVICES
}

/// Returns the rules of the role `system:node`.
pub fn node_rules() -> Vec<Value> {
    let entries = entries();
    let role = entries
        .iter()
        .find(|entry| entry.kind == "clusterrole" && entry.name == "system:node");
    let lines = role.map_or(&[][..], |role| role.lines.as_slice());
    lines.iter().map(|line| rule(line)).collect()
}

/// Returns the APIService of a group and version that this server serves itself.
pub fn local_api_service(
    group: &str,
    version: &str,
    managed: &str,
    group_priority: i64,
    version_priority: i64,
) -> Value {
    let mut spec = json!({
        "version": version, "groupPriorityMinimum": group_priority, "versionPriority": version_priority,
    });
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("{version}.{group}"), "labels": {AUTOMANAGED: managed}},
        "spec": spec, "status": {},
    })
}

/// One object of the table.
struct Entry {
    kind: &'static str,
    name: &'static str,
    fields: Vec<&'static str>,
    /// The text after the name.
    rest: &'static str,
    lines: Vec<&'static str>,
}

impl Entry {
    fn field(&self, index: usize) -> &'static str {
        self.fields.get(index).copied().unwrap_or_default()
    }

    fn number(&self, index: usize) -> i64 {
        self.field(index).parse().unwrap_or_default()
    }

    /// Returns the value of a field `KEY=VALUE`.
    fn option(&self, key: &str) -> Option<&'static str> {
        let mut pairs = self.fields.iter().filter_map(|field| field.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

fn entries() -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in TABLE.lines() {
        match (line.strip_prefix(' '), entries.last_mut()) {
            (Some(line), Some(entry)) => entry.lines.push(line),
            _ => {
                let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                entries.push(Entry {
                    kind,
                    name,
                    fields: rest.split_whitespace().collect(),
                    rest,
                    lines: Vec::new(),
                });
            }
        }
    }
    entries
}

fn object(entry: &Entry, all: &[Entry]) -> Option<(Resource, Value)> {
    Some(match entry.kind {
        "clusterrole" => ((RBAC, "v1", "clusterroles"), cluster_role(entry, all)),
        "role" => ((RBAC, "v1", "roles"), role(entry)),
        "clusterrolebinding" => (
            (RBAC, "v1", "clusterrolebindings"),
            binding(entry, "ClusterRoleBinding", "ClusterRole"),
        ),
        "rolebinding" => (
            (RBAC, "v1", "rolebindings"),
            binding(entry, "RoleBinding", "Role"),
        ),
        "flowschema" => ((FLOW, "v1", "flowschemas"), flow_schema(entry)),
        "prioritylevel" => ((FLOW, "v1", "prioritylevelconfigurations"), priority_level(entry)),
        "priorityclass" => (
            ("scheduling.k8s.io", "v1", "priorityclasses"),
            priority_class(entry),
        ),
        _ => return None,
    })
}

fn list(text: &str) -> Vec<&str> {
    text.split(',').collect()
}

fn groups(text: &str) -> Vec<&str> {
    let group = |group| if group == "core" { "" } else { group };
    text.split(',').map(group).collect()
}

// === roles ===

fn role_metadata(entry: &Entry) -> Value {
    let mut labels = Map::new();
    labels.insert("kubernetes.io/bootstrapping".to_owned(), "rbac-defaults".into());
    if let Some(role) = entry.option("to") {
        labels.insert(aggregation_label(role), "true".into());
    }
    let annotations = json!({"rbac.authorization.kubernetes.io/autoupdate": "true"});
    match entry.name.split_once('/') {
        Some((namespace, name)) => {
            json!({"name": name, "namespace": namespace, "labels": labels, "annotations": annotations})
        }
        None => json!({"name": entry.name, "labels": labels, "annotations": annotations}),
    }
}

fn aggregation_label(role: &str) -> String {
    format!("{RBAC}/aggregate-to-{role}")
}

fn cluster_role(entry: &Entry, all: &[Entry]) -> Value {
    let mut rules = Vec::new();
    gather(entry, all, &mut rules);
    let mut object = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": role_metadata(entry),
        "rules": rules.into_iter().map(rule).collect::<Vec<_>>(),
    });
    if let Some(gathered) = entry.option("from") {
        object["aggregationRule"] = json!({
            "clusterRoleSelectors": [{"matchLabels": {aggregation_label(gathered): "true"}}],
        });
    }
    object
}

/// Adds the rules of a role. An aggregated role gets the rules of the selected roles, ordered by name and without
/// duplicates, as the controller does it.
fn gather(entry: &Entry, all: &[Entry], rules: &mut Vec<&'static str>) {
    for line in &entry.lines {
        if !rules.contains(line) {
            rules.push(line);
        }
    }
    let Some(whole) = entry.option("from") else {
        return;
    };
    let mut parts: Vec<&Entry> = all
        .iter()
        .filter(|part| part.kind == "clusterrole" && part.option("to") == Some(whole))
        .collect();
    parts.sort_by_key(|part| part.name);
    for part in parts {
        gather(part, all, rules);
    }
}

fn role(entry: &Entry) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": role_metadata(entry),
        "rules": entry.lines.iter().copied().map(rule).collect::<Vec<_>>(),
    })
}

fn rule(line: &str) -> Value {
    let mut parts = line.split(' ');
    let mut next = || parts.next().unwrap_or_default();
    let (verbs, second, resources, names) = (next(), next(), next(), next());
    if resources.is_empty() {
        return json!({"verbs": list(verbs), "nonResourceURLs": list(second)});
    }
    let mut rule = json!({"verbs": list(verbs), "apiGroups": groups(second), "resources": list(resources)});
    if !names.is_empty() {
        rule["resourceNames"] = json!(list(names));
    }
    rule
}

fn binding(entry: &Entry, kind: &str, role_kind: &str) -> Value {
    let subject = |field: &&str| {
        let (kind, name) = field.split_once(':').unwrap_or_default();
        match name.split_once('/').filter(|_| kind == "ServiceAccount") {
            Some((namespace, name)) => json!({"kind": kind, "name": name, "namespace": namespace}),
            None => json!({"kind": kind, "apiGroup": RBAC, "name": name}),
        }
    };
    let mut object = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": role_metadata(entry),
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": entry.field(0)},
    });
    let subjects: Vec<Value> = entry.fields.iter().skip(1).map(subject).collect();
    if !subjects.is_empty() {
        object["subjects"] = subjects.into();
    }
    object
}

// === priority and fairness ===

fn flow_metadata(name: &str) -> Value {
    json!({
        "name": name, "generation": 1, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"},
    })
}

fn flow_schema(entry: &Entry) -> Value {
    let level = entry.field(0);
    let mut rules: Vec<Value> = Vec::new();
    for line in &entry.lines {
        let parts: Vec<&str> = line.split(' ').collect();
        match parts.as_slice() {
            ["subjects", subjects @ ..] => {
                let subjects: Vec<Value> = subjects.iter().map(|text| flow_subject(text)).collect();
                rules.push(json!({"subjects": subjects}));
            }
            ["resources", verbs, api_groups, resources, namespaces, scope @ ..] => {
                let mut rule = json!({
                    "verbs": list(verbs), "apiGroups": groups(api_groups), "resources": list(resources),
                });
                if !scope.is_empty() {
                    rule["clusterScope"] = true.into();
                }
                if *namespaces != "-" {
                    rule["namespaces"] = json!(list(namespaces));
                }
                add(rules.last_mut(), "resourceRules", rule);
            }
            ["paths", verbs, paths] => add(
                rules.last_mut(),
                "nonResourceRules",
                json!({"verbs": list(verbs), "nonResourceURLs": list(paths)}),
            ),
            _ => {}
        }
    }
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": entry.number(1), "rules": rules,
    });
    if entry.field(2) != "-" {
        spec["distinguisherMethod"] = json!({"type": entry.field(2)});
    }
    json!({
        "apiVersion": format!("{FLOW}/v1"), "kind": "FlowSchema",
        "metadata": flow_metadata(entry.name), "spec": spec,
        "status": {"conditions": [{
            "type": "Dangling", "status": "False", "reason": "Found",
            "message": format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} and it exists"),
        }]},
    })
}

fn add(rule: Option<&mut Value>, field: &str, value: Value) {
    if let Some(rule) = rule.and_then(Value::as_object_mut) {
        let list = rule.entry(field.to_owned()).or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.push(value);
        }
    }
}

fn flow_subject(text: &str) -> Value {
    let (kind, name) = text.split_once(':').unwrap_or_default();
    match (kind, name.split_once('/')) {
        ("ServiceAccount", Some((namespace, name))) => {
            json!({"kind": kind, "serviceAccount": {"namespace": namespace, "name": name}})
        }
        ("User", _) => json!({"kind": kind, "user": {"name": name}}),
        _ => json!({"kind": kind, "group": {"name": name}}),
    }
}

fn priority_level(entry: &Entry) -> Value {
    let (shares, lendable) = (entry.number(1), entry.number(2));
    let spec = match entry.field(0) {
        "Exempt" => json!({
            "type": "Exempt", "exempt": {"nominalConcurrencyShares": shares, "lendablePercent": lendable},
        }),
        response => {
            let mut limit = json!({"type": response});
            if response == "Queue" {
                limit["queuing"] = json!({
                    "queues": entry.number(3), "handSize": entry.number(4), "queueLengthLimit": entry.number(5),
                });
            }
            json!({"type": "Limited", "limited": {
                "nominalConcurrencyShares": shares, "limitResponse": limit, "lendablePercent": lendable,
            }})
        }
    };
    json!({
        "apiVersion": format!("{FLOW}/v1"), "kind": "PriorityLevelConfiguration",
        "metadata": flow_metadata(entry.name), "spec": spec, "status": {},
    })
}

fn priority_class(entry: &Entry) -> Value {
    let (value, description) = entry.rest.split_once(' ').unwrap_or_default();
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": entry.name, "generation": 1},
        "value": value.parse::<i64>().unwrap_or_default(),
        "description": description, "preemptionPolicy": "PreemptLowerPriority",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let entries = entries();
        let objects = objects();
        assert_eq!(objects.len() + api_services().len(), entries.len());
        let count = |resource: &str| {
            objects
                .iter()
                .filter(|((.., plural), _)| *plural == resource)
                .count()
        };
        let counts = [
            ("clusterroles", 70),
            ("clusterrolebindings", 51),
            ("roles", 7),
            ("rolebindings", 7),
            ("flowschemas", 11),
            ("prioritylevelconfigurations", 8),
            ("priorityclasses", 2),
        ];
        for (resource, wanted) in counts {
            assert_eq!(count(resource), wanted, "{resource}");
        }
    }
}
