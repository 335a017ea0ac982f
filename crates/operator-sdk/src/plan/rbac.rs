//! `rbac check`: compares permissions with the requests of tests, and computes attributes that correct the differences.

use std::collections::BTreeMap;

use operator_manifests::operator::OperatorManifests;
use operator_manifests::rbac::Rule;
use operator_manifests::rbac::check::{self, AccessRequest};
use serde::Serialize;
use serde_json::Value;

use super::draft::Draft;
use super::manifests::{self, OWN_NAMESPACE};
use super::{Plan, PlanError};
use crate::project::{Project, Tree};
use crate::source::rbac::{self, Form, Site, WrittenRule};
use crate::source::{Place, Sources};

/// The requests of one test.
#[derive(Clone, Debug)]
pub(crate) struct TestRecord {
    /// The test, such as `memcached_controller: an_object_becomes_available`.
    pub(crate) test: String,
    pub(crate) requested: Vec<AccessRequest>,
}

/// Verbs that were requested on a resource and are not granted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Missing {
    pub(crate) group: String,
    /// The resource with its subresource, or the path of a non-resource request.
    pub(crate) resource: String,
    pub(crate) verbs: Vec<String>,
    /// A test in which they were requested.
    pub(crate) test: String,
    /// The attribute that grants them.
    pub(crate) attribute: String,
    /// The function of the controller to add the attribute to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) function: Option<String>,
    #[serde(flatten)]
    pub(crate) place: Option<Place>,
    #[serde(skip)]
    rule: Rule,
}

/// Verbs of a rule in the source that were never requested.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Unused {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) verbs: Vec<String>,
    #[serde(flatten)]
    pub(crate) place: Place,
    #[serde(skip)]
    written: usize,
}

/// The result of `rbac check`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Comparison {
    pub(crate) missing: Vec<Missing>,
    pub(crate) unused: Vec<Unused>,
}

/// The usual order of verbs.
const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

/// Compares granted with requested permissions.
pub(crate) fn compare(
    project: &Project,
    operator: &OperatorManifests,
    records: &[TestRecord],
) -> Result<Comparison, PlanError> {
    let sources = Sources::of(&project.tree);
    let requested: Vec<AccessRequest> = records
        .iter()
        .flat_map(|record| record.requested.clone())
        .collect();
    let mut granted = manifests::rules(&project.tree, operator)?;
    granted.extend(bound(&project.tree));
    let written = written(&sources, &granted)?;
    let rules: Vec<Rule> = written.iter().map(|written| written.rule.clone()).collect();
    let unused = check::unused(&rules, &requested, OWN_NAMESPACE).into_iter();
    let unused = unused.filter_map(|unused| {
        Some(Unused {
            place: written.get(unused.rule)?.place.clone(),
            group: unused.group,
            resource: unused.resource,
            verbs: sorted(unused.verbs),
            written: unused.rule,
        })
    });
    let site = rbac::sites(&sources).into_iter().next();
    Ok(Comparison {
        missing: missing(&granted, &requested, records, site.as_ref()),
        unused: unused.collect(),
    })
}

/// Returns the requests that no rule grants, by resource.
fn missing(
    granted: &[Rule],
    requested: &[AccessRequest],
    records: &[TestRecord],
    site: Option<&Site>,
) -> Vec<Missing> {
    let mut by_resource: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for one in check::missing(granted, requested, OWN_NAMESPACE) {
        let verbs = by_resource.entry((one.group.clone(), one.target())).or_default();
        verbs.push(one.verb);
    }
    let missing = by_resource.into_iter().map(|((group, resource), verbs)| {
        let is_path = resource.starts_with('/');
        let verbs = sorted(verbs);
        let mut rule = Rule {
            verbs: with_reading(&verbs),
            ..Rule::default()
        };
        match is_path {
            true => rule.non_resource_urls.push(resource.clone()),
            false => {
                rule.api_groups.push(group.clone());
                rule.resources.push(resource.clone());
            }
        }
        Missing {
            test: test_of(records, &group, &resource, &verbs),
            attribute: rbac::attribute(&rule, ""),
            function: site.map(|site| site.function.clone()),
            place: site.map(|site| site.place.clone()),
            verbs,
            group,
            resource,
            rule,
        }
    });
    missing.collect()
}

/// Adds the reading verbs, because an informer lists or watches depending on the server, and its objects are often read
/// individually.
fn with_reading(verbs: &[String]) -> Vec<String> {
    let reading = ["get", "list", "watch"];
    let informs = verbs.iter().any(|verb| verb == "list" || verb == "watch");
    let reading = reading.iter().filter(|_| informs).map(|verb| (*verb).to_owned());
    sorted(reading.chain(verbs.iter().cloned()).collect())
}

fn test_of(records: &[TestRecord], group: &str, resource: &str, verbs: &[String]) -> String {
    let is_it = |requested: &AccessRequest| {
        requested.group == group && requested.target() == resource && verbs.contains(&requested.verb)
    };
    let record = records.iter().find(|record| record.requested.iter().any(is_it));
    record.map(|record| record.test.clone()).unwrap_or_default()
}

/// Returns the rules in the source that the operator declares. Other rules are not compiled.
fn written(sources: &Sources, granted: &[Rule]) -> Result<Vec<WrittenRule>, PlanError> {
    let mut all = rbac::attributes(sources);
    all.retain(|written| granted.iter().any(|rule| same(rule, &written.rule)));
    all.extend(rbac::markers(sources)?);
    Ok(all)
}

fn same(left: &Rule, right: &Rule) -> bool {
    let core = |rule: &Rule| {
        let groups = rule.api_groups.iter();
        let groups = groups.map(|group| {
            if group == "core" {
                String::new()
            } else {
                group.clone()
            }
        });
        Rule {
            api_groups: groups.collect(),
            ..rule.clone()
        }
    };
    core(left) == core(right)
}

/// Returns the rules of the roles under config/rbac that are bound to the operator's account, except for the generated
/// role.
fn bound(tree: &Tree) -> Vec<Rule> {
    let documents: Vec<Value> = tree
        .files()
        .filter(|(path, _)| path.starts_with("config/rbac/") && path.ends_with(".yaml"))
        .flat_map(|(_, text)| serde_saphyr::from_multiple::<Value>(text).unwrap_or_default())
        .collect();
    let is_ours = |binding: &&Value| {
        let subjects = binding["subjects"].as_array();
        let mut subjects = subjects.into_iter().flatten();
        subjects.any(|subject| subject["name"] == "controller-manager")
    };
    let mut rules = Vec::new();
    for binding in documents.iter().filter(is_ours) {
        let reference = &binding["roleRef"];
        let role = documents.iter().find(|role| {
            role["kind"] == reference["kind"]
                && role["metadata"]["name"] == reference["name"]
                && reference["name"] != operator_manifests::config::MANAGER_ROLE
        });
        let namespace = role.and_then(|role| role.pointer("/metadata/namespace")?.as_str());
        let role_rules = role
            .and_then(|role| role["rules"].as_array())
            .into_iter()
            .flatten();
        for rule in role_rules {
            if let Ok(rule) = serde_json::from_value::<Rule>(rule.clone()) {
                rules.push(Rule {
                    namespace: namespace.map(str::to_owned),
                    ..rule
                });
            }
        }
    }
    rules
}

fn sorted(mut verbs: Vec<String>) -> Vec<String> {
    verbs.sort_by_key(|verb| {
        let known = VERBS.iter().position(|known| known == verb);
        (known.unwrap_or(VERBS.len()), verb.clone())
    });
    verbs.dedup();
    verbs
}

/// Corrects the differences in the attributes: adds missing rules to the controller with the most rules, and removes
/// unused rules. Rules for several resources are kept if some of these are requested.
pub(crate) fn fix(
    project: &Project,
    operator: &OperatorManifests,
    comparison: &Comparison,
) -> Result<Plan, PlanError> {
    let sources = Sources::of(&project.tree);
    let granted = manifests::rules(&project.tree, operator)?;
    let written = written(&sources, &granted)?;
    let mut edits: Vec<(String, usize, usize, String)> = Vec::new();
    if let Some(site) = rbac::sites(&sources).into_iter().next() {
        let file = sources.file(&site.place.file);
        let indent = file.map(|file| file.indent(site.start)).unwrap_or_default();
        for missing in &comparison.missing {
            let text = format!("{}\n{indent}", rbac::attribute(&missing.rule, indent));
            edits.push((site.place.file.clone(), site.start, site.start, text));
        }
    }
    for (index, rule) in written.iter().enumerate() {
        let unused: Vec<&Unused> = comparison
            .unused
            .iter()
            .filter(|unused| unused.written == index)
            .collect();
        let Some(left) = without(&rule.rule, &unused) else {
            continue;
        };
        edits.extend(edit_of(&sources, rule, &left));
    }
    let mut draft = Draft::new(&project.tree, true);
    // Applied from the end of each file, replacements before insertions at the same position.
    edits.sort_by(|left, right| (&left.0, right.1, right.2).cmp(&(&right.0, left.1, left.2)));
    for (path, start, end, text) in edits {
        let mut source = draft.get(&path).unwrap_or_default().to_owned();
        if source.is_char_boundary(start) && source.is_char_boundary(end) {
            source.replace_range(start..end, &text);
            draft.put(&path, source);
        }
    }
    Ok(draft.plan)
}

/// Returns the rule without verbs that none of its resources needs, or `None` if no verb remains.
fn without(rule: &Rule, unused: &[&Unused]) -> Option<Rule> {
    let parts = rule.api_groups.len() * rule.resources.len() + rule.non_resource_urls.len();
    if unused.len() < parts {
        return None;
    }
    let mut left = rule.clone();
    left.verbs
        .retain(|verb| !unused.iter().all(|unused| unused.verbs.contains(verb)));
    (left.verbs != rule.verbs).then_some(left)
}

/// Returns the edit of one rule.
fn edit_of(sources: &Sources, written: &WrittenRule, left: &Rule) -> Option<(String, usize, usize, String)> {
    let path = &written.place.file;
    let file = sources.file(path)?;
    let indent = file.indent(written.bytes.start);
    let (start, end) = (written.bytes.start, written.bytes.end);
    if !left.verbs.is_empty() {
        return Some(match written.form {
            Form::Attribute => (path.clone(), start, end, rbac::attribute(left, indent)),
            Form::Marker => {
                let text = format!("{indent}{}", rbac::comment(left));
                (path.clone(), start, end, text)
            }
        });
    }
    let begin = start
        - if written.form == Form::Attribute {
            indent.len()
        } else {
            0
        };
    let rest = file.text.get(end..)?;
    let end = end + rest.find('\n').map_or(rest.len(), |line| line + 1);
    Some((path.clone(), begin, end, String::new()))
}
