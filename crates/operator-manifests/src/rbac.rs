//! [`Rule`]: permissions of controllers, and their merge into roles.
//!
//! The merging follows controller-gen's `rbac` generator, so that both tools write the same role: rules are split by
//! group and resource, equal ones are joined, and the result is sorted.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

pub mod check;
pub mod marker;

/// One permission that a controller declares.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rule {
    /// The API groups; `core` and the empty string are both the core group.
    #[serde(alias = "groups")]
    pub api_groups: Vec<String>,
    /// The plural resource names, with `/subresource` for a subresource.
    pub resources: Vec<String>,
    /// The names that the rule is limited to. Empty means all.
    pub resource_names: Vec<String>,
    /// Non-resource URLs, such as `/metrics`.
    #[serde(rename = "nonResourceURLs", alias = "nonResourceUrls", alias = "urls")]
    pub non_resource_urls: Vec<String>,
    /// The verbs; `*` means all.
    pub verbs: Vec<String>,
    /// The namespace that the rule is limited to. `None` means the whole cluster.
    pub namespace: Option<String>,
    /// The role that the rule belongs to. `None` means the role of the operator.
    pub role_name: Option<String>,
}

/// One entry of a role, which grants all combinations of its sets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    groups: BTreeSet<String>,
    resources: BTreeSet<String>,
    names: BTreeSet<String>,
    urls: BTreeSet<String>,
    verbs: BTreeSet<String>,
}

/// Returns the roles that grant all rules: a ClusterRole for the rules without a namespace, then one Role for each
/// namespace.
///
/// ```
/// use operator_manifests::rbac::{Rule, roles};
/// let rule = Rule {
///     api_groups: vec!["core".into()],
///     resources: vec!["pods".into()],
///     verbs: vec!["watch".into(), "get".into()],
///     ..Rule::default()
/// };
/// let roles = roles("manager-role", &[rule]);
/// assert_eq!(roles[0]["rules"][0]["apiGroups"][0], "");
/// assert_eq!(roles[0]["rules"][0]["verbs"], serde_json::json!(["get", "watch"]));
/// ```
pub fn roles(name: &str, rules: &[Rule]) -> Vec<Value> {
    let mut scopes: BTreeMap<(Option<&str>, &str), Vec<&Rule>> = BTreeMap::new();
    for rule in rules {
        let role = rule.role_name.as_deref().unwrap_or(name);
        let scope = (rule.namespace.as_deref(), role);
        scopes.entry(scope).or_default().push(rule);
    }
    scopes
        .into_iter()
        .map(|((namespace, name), rules)| role(name, namespace, &rules))
        .collect()
}

/// Returns a role that grants nothing yet: a Role in a namespace, or a ClusterRole.
pub fn empty_role(name: &str, namespace: Option<&str>) -> Value {
    role(name, namespace, &[])
}

fn role(name: &str, namespace: Option<&str>, rules: &[&Rule]) -> Value {
    let entries: Vec<Value> = merged(rules).iter().map(Grant::to_value).collect();
    let (kind, metadata) = match namespace {
        None => ("ClusterRole", json!({ "name": name })),
        Some(namespace) => ("Role", json!({ "name": name, "namespace": namespace })),
    };
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": entries,
    })
}

fn merged(rules: &[&Rule]) -> Vec<Grant> {
    let mut grants: Vec<Grant> = rules.iter().flat_map(|rule| split(rule)).collect();
    for grant in &mut grants {
        grant.absorb_verbs();
    }
    for dimension in [VERBS, RESOURCES, GROUPS, URLS] {
        grants = joined(grants, dimension);
    }
    grants.sort();
    grants
}

/// Returns one grant for each group and resource, and one for each URL.
fn split(rule: &Rule) -> Vec<Grant> {
    let set = |words: &[String]| words.iter().cloned().collect::<BTreeSet<_>>();
    let one = |word: String| BTreeSet::from([word]);
    let groups = rule.api_groups.iter().map(|group| match group.as_str() {
        "core" => String::new(),
        other => other.to_owned(),
    });
    let resources = groups.flat_map(|group| {
        rule.resources.iter().map(move |resource| Grant {
            groups: one(group.clone()),
            resources: one(resource.clone()),
            names: set(&rule.resource_names),
            urls: BTreeSet::new(),
            verbs: set(&rule.verbs),
        })
    });
    let urls = rule.non_resource_urls.iter().map(|url| Grant {
        groups: BTreeSet::new(),
        resources: BTreeSet::new(),
        names: BTreeSet::new(),
        urls: one(url.clone()),
        verbs: set(&rule.verbs),
    });
    resources.chain(urls).collect()
}

type Dimension = fn(&mut Grant) -> &mut BTreeSet<String>;
const VERBS: Dimension = |grant| &mut grant.verbs;
const RESOURCES: Dimension = |grant| &mut grant.resources;
const GROUPS: Dimension = |grant| &mut grant.groups;
const URLS: Dimension = |grant| &mut grant.urls;

/// Joins the grants that differ in only one dimension.
fn joined(grants: Vec<Grant>, dimension: Dimension) -> Vec<Grant> {
    let mut by_rest: BTreeMap<Grant, BTreeSet<String>> = BTreeMap::new();
    for mut grant in grants {
        let words = std::mem::take(dimension(&mut grant));
        by_rest.entry(grant).or_default().extend(words);
    }
    by_rest
        .into_iter()
        .map(|(mut grant, words)| {
            *dimension(&mut grant) = words;
            grant.absorb_verbs();
            grant
        })
        .collect()
}

// === impl Grant ===

impl Grant {
    fn absorb_verbs(&mut self) {
        if self.verbs.contains("*") {
            self.verbs = BTreeSet::from(["*".to_owned()]);
        }
    }

    fn to_value(&self) -> Value {
        let entries = [
            ("apiGroups", &self.groups),
            ("nonResourceURLs", &self.urls),
            ("resourceNames", &self.names),
            ("resources", &self.resources),
            ("verbs", &self.verbs),
        ];
        entries
            .into_iter()
            .filter(|(_, words)| !words.is_empty())
            .map(|(key, words)| (key.to_owned(), json!(words)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}
