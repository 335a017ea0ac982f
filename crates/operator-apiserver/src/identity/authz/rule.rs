//! A rule of a role: matching, covering other rules, and formatting ([`Rule`]).

use std::collections::{BTreeMap, HashSet};
use std::fmt::{Display, Formatter};

use apimachinery::go::quote;
use serde_json::{Map, Value};

use super::Attributes;

/// A `PolicyRule` of `rbac.authorization.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) resource_names: Vec<String>,
    pub(crate) non_resource_urls: Vec<String>,
}

/// The value that matches every value of a list.
pub(crate) const ALL: &str = "*";

impl Rule {
    pub(crate) fn read(rule: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let list = rule.get(field).and_then(Value::as_array);
            let texts = list.into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        Self {
            verbs: texts("verbs"),
            api_groups: texts("apiGroups"),
            resources: texts("resources"),
            resource_names: texts("resourceNames"),
            non_resource_urls: texts("nonResourceURLs"),
        }
    }

    /// Returns the rules that allow everything: the writer of an aggregated role must hold them.
    pub(crate) fn full_authority() -> [Self; 2] {
        let all = || vec![ALL.to_owned()];
        let everything = Self {
            verbs: all(),
            ..Self::default()
        };
        [
            Self {
                api_groups: all(),
                resources: all(),
                ..everything.clone()
            },
            Self {
                non_resource_urls: all(),
                ..everything
            },
        ]
    }

    /// Returns true if the rule allows a request.
    pub(crate) fn allows(&self, asked: &Attributes<'_>) -> bool {
        if !has(&self.verbs, asked.verb) {
            return false;
        }
        if !asked.is_resource {
            return self
                .non_resource_urls
                .iter()
                .any(|url| url == ALL || url_covers(url, asked.path));
        }
        has(&self.api_groups, asked.group)
            && self.allows_resource(asked)
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == asked.name))
    }

    fn allows_resource(&self, asked: &Attributes<'_>) -> bool {
        if asked.subresource.is_empty() {
            return has(&self.resources, asked.resource);
        }
        self.resources.iter().any(|known| {
            known == ALL
                || match known.split_once('/') {
                    Some((resource, subresource)) => {
                        (resource == ALL || resource == asked.resource) && subresource == asked.subresource
                    }
                    None => false,
                }
        })
    }

    /// Returns the rule as JSON, without empty lists.
    pub(crate) fn to_json(&self) -> Value {
        let mut json = Map::new();
        for (_, field, texts) in self.lists() {
            if !texts.is_empty() {
                json.insert(field.to_owned(), texts.to_vec().into());
            }
        }
        json.into()
    }

    fn lists(&self) -> [(&'static str, &'static str, &[String]); 5] {
        [
            ("APIGroups", "apiGroups", &self.api_groups),
            ("Resources", "resources", &self.resources),
            ("NonResourceURLs", "nonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", "resourceNames", &self.resource_names),
            ("Verbs", "verbs", &self.verbs),
        ]
    }
}

/// Formats the rule as `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
impl Display for Rule {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let lists = self.lists();
        let parts: Vec<String> = lists
            .iter()
            .filter(|(_, _, texts)| !texts.is_empty())
            .map(|(name, _, texts)| format!("{name}:{}", go_list(texts)))
            .collect();
        write!(formatter, "{{{}}}", parts.join(", "))
    }
}

/// Formats a list as Go's `%q` does.
pub(crate) fn go_list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(" "))
}

fn has(known: &[String], wanted: &str) -> bool {
    known.iter().any(|known| known == ALL || known == wanted)
}

pub(crate) fn url_covers(known: &str, url: &str) -> bool {
    known == url || (known.ends_with('*') && url.starts_with(known.trim_end_matches('*')))
}

/// Joins rules that differ only in their verbs. Rules about paths are unchanged.
pub(crate) fn compact(rules: Vec<Rule>) -> Vec<Rule> {
    let mut compacted = Vec::new();
    let mut simple: BTreeMap<[Vec<String>; 3], (Rule, HashSet<String>)> = BTreeMap::new();
    for mut rule in rules {
        let is_simple = rule.api_groups.len() == 1
            && rule.resources.len() == 1
            && rule.resource_names.len() <= 1
            && rule.non_resource_urls.is_empty();
        if !is_simple {
            compacted.push(rule);
            continue;
        }
        let key = [
            rule.api_groups.clone(),
            rule.resources.clone(),
            rule.resource_names.clone(),
        ];
        let verbs = std::mem::take(&mut rule.verbs);
        let (rule, known) = simple.entry(key).or_insert_with(|| (rule, HashSet::new()));
        let added = verbs.into_iter().filter(|verb| known.insert(verb.clone()));
        rule.verbs.extend(added);
    }
    compacted.extend(simple.into_values().map(|(rule, _)| rule));
    compacted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::coverage::missing;
    use super::*;

    fn rules(rules: &[Value]) -> Vec<Rule> {
        rules.iter().map(Rule::read).collect()
    }

    fn shown(held: &[Value], wanted: &[Value]) -> Vec<String> {
        let missing = compact(missing(&rules(held), &rules(wanted)));
        missing.iter().map(Rule::to_string).collect()
    }

    #[test]
    fn missing_rules_are_compacted_by_verbs() {
        let wanted = [
            json!({"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["a"]}),
            json!({"verbs": ["watch"], "apiGroups": [""], "resources": ["a"]}),
            json!({"verbs": ["get", "put"], "nonResourceURLs": ["/x"]}),
        ];
        let held = [json!({"verbs": ["list"], "apiGroups": ["*"], "resources": ["*"]})];
        assert_eq!(
            shown(&held, &wanted),
            [
                r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["put"]}"#,
                r#"{APIGroups:[""], Resources:["a"], Verbs:["get" "watch"]}"#,
                r#"{APIGroups:["apps"], Resources:["a"], Verbs:["get"]}"#,
            ]
        );
    }

    #[test]
    fn one_rule_covers_another_as_far_as_it_reaches() {
        let covered = |held: Value, wanted: Value| shown(&[held], &[wanted]).is_empty();
        let pods = |resources: &[&str], names: &[&str]| json!({"verbs": ["get"], "apiGroups": [""], "resources": resources, "resourceNames": names});
        assert!(covered(pods(&["pods"], &[]), pods(&["pods"], &["a"])));
        assert!(!covered(pods(&["pods"], &["a"]), pods(&["pods"], &[])));
        assert!(!covered(pods(&["pods"], &["a"]), pods(&["pods"], &["a", "b"])));
        assert!(covered(pods(&["*/status"], &[]), pods(&["pods/status"], &[])));
        assert!(!covered(pods(&["pods"], &[]), pods(&["pods/status"], &[])));
        assert!(covered(pods(&["*"], &[]), pods(&["pods/status"], &[])));
        assert!(!covered(pods(&["pods"], &[]), pods(&["*"], &[])));
        let url = |url: &str| json!({"verbs": ["get"], "nonResourceURLs": [url]});
        assert!(covered(url("/a/*"), url("/a/b")));
        assert!(covered(url("*"), url("/a/*")));
        assert!(!covered(url("/a"), url("/a/*")));
    }
}
