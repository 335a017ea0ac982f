//! Permissions against use: what was asked of the API server and is not granted, and what is granted and was never asked.
//!
//! Knows no file: requests come from records of tests, rules from the operator.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Rule;

/// What was asked of the API server, as often as it was.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase", default)]
pub struct Asked {
    /// The verb, such as `watch`.
    pub verb: String,
    /// The API group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The subresource, such as `status`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// The namespace; empty for a request about all of them, or about what is in none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name of the object; empty for a list.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The path of what is no resource, such as `/metrics`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
}

/// Something of a rule that was never asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// The index of the rule.
    pub rule: usize,
    /// The group, or empty; of the core group as well.
    pub group: String,
    /// The resource with its subresource, or the URL.
    pub resource: String,
    /// The verbs that nobody used.
    pub verbs: Vec<String>,
}

/// What every authenticated user may do (`system:basic-user`).
const EVERYBODY: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];
/// What OLM grants to the operators that it installs.
const OLM: (&str, &str) = ("operators.coreos.com", "operatorconditions");
/// Reading: an informer lists, watches, or both, as the server can.
const READING: [&str; 3] = ["get", "list", "watch"];

/// The requests that no rule grants, sorted, each verb and resource once. Rules of a Role in `own_namespace` grant
/// requests in every namespace: tests run the operator in another one.
///
/// ```
/// use operator_manifests::rbac::{Rule, check::{Asked, missing}};
/// let asked = Asked { verb: "list".into(), resource: "pods".into(), ..Asked::default() };
/// let rule = Rule { api_groups: vec!["".into()], resources: vec!["pods".into()], verbs: vec!["get".into()], ..Rule::default() };
/// assert_eq!(missing(&[rule], &[asked.clone()], "system"), [asked]);
/// ```
pub fn missing(rules: &[Rule], asked: &[Asked], own_namespace: &str) -> Vec<Asked> {
    let open = asked.iter().filter(|asked| !is_free(asked));
    let open = open.filter(|asked| !rules.iter().any(|rule| rule.grants(asked, own_namespace)));
    let open: BTreeSet<Asked> = open.map(Asked::without_names).collect();
    open.into_iter().collect()
}

/// What of the rules was never asked, by rule, group and resource. Of the verbs that read, one stands for all; the
/// subresource `finalizers` is asked by nobody, since servers look it up themselves.
pub fn unused(rules: &[Rule], asked: &[Asked], own_namespace: &str) -> Vec<Unused> {
    let mut all = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        for one in rule.parts() {
            let verbs = unused_verbs(&one, asked, own_namespace);
            if !verbs.is_empty() {
                let resource = one.resources.iter().chain(&one.non_resource_urls);
                all.push(Unused {
                    rule: index,
                    group: one.api_groups.concat(),
                    resource: resource.cloned().collect(),
                    verbs,
                });
            }
        }
    }
    all
}

fn unused_verbs(rule: &Rule, asked: &[Asked], own_namespace: &str) -> Vec<String> {
    if rule
        .resources
        .iter()
        .any(|resource| resource.ends_with("/finalizers"))
    {
        return Vec::new();
    }
    let used: Vec<&str> = asked
        .iter()
        .filter(|asked| rule.grants(asked, own_namespace))
        .map(|asked| asked.verb.as_str())
        .collect();
    let is_used = |verb: &str| match READING.contains(&verb) {
        true => used.iter().any(|used| READING.contains(used)),
        false => used.contains(&verb),
    };
    let verbs = rule.verbs.iter();
    let left = verbs.filter(|verb| match verb.as_str() {
        "*" => used.is_empty(),
        verb => !is_used(verb),
    });
    left.cloned().collect()
}

fn is_free(asked: &Asked) -> bool {
    let resource = (asked.group.as_str(), asked.resource.as_str());
    EVERYBODY.contains(&resource) || resource == OLM
}

// === impl Asked ===

impl Asked {
    /// The resource with its subresource, as rules write it; the path of what is none.
    pub fn target(&self) -> String {
        match (self.subresource.as_str(), self.resource.as_str()) {
            (_, "") => self.path.clone(),
            ("", resource) => resource.to_owned(),
            (subresource, resource) => format!("{resource}/{subresource}"),
        }
    }

    fn without_names(&self) -> Self {
        Self {
            name: String::new(),
            namespace: String::new(),
            ..self.clone()
        }
    }
}

// === impl Rule ===

impl Rule {
    /// Returns true if the rule lets somebody ask this.
    pub fn grants(&self, asked: &Asked, own_namespace: &str) -> bool {
        let has = |words: &[String], word: &str| words.iter().any(|there| there == word || there == "*");
        if !has(&self.verbs, &asked.verb) {
            return false;
        }
        if asked.resource.is_empty() {
            return self.grants_path(&asked.path);
        }
        let in_scope = match self.namespace.as_deref() {
            None => true,
            Some(namespace) if namespace == own_namespace => !asked.namespace.is_empty(),
            Some(namespace) => namespace == asked.namespace,
        };
        // A request that creates has no name yet that could be compared.
        let named = self.resource_names.is_empty() || self.resource_names.contains(&asked.name);
        in_scope && named && self.grants_group(&asked.group) && self.grants_resource(asked)
    }

    fn grants_group(&self, group: &str) -> bool {
        let mut groups = self.api_groups.iter();
        groups.any(|there| there == group || there == "*" || (there == "core" && group.is_empty()))
    }

    fn grants_resource(&self, asked: &Asked) -> bool {
        let target = asked.target();
        let every = format!("*/{}", asked.subresource);
        let mut resources = self.resources.iter();
        resources.any(|there| {
            *there == target || there == "*" || (!asked.subresource.is_empty() && *there == every)
        })
    }

    fn grants_path(&self, path: &str) -> bool {
        let mut urls = self.non_resource_urls.iter();
        urls.any(|url| match url.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => url == path,
        })
    }

    /// The rule, by group and resource, or by URL.
    fn parts(&self) -> Vec<Self> {
        let of_groups = self.api_groups.iter().flat_map(|group| {
            self.resources.iter().map(|resource| Self {
                api_groups: vec![group.clone()],
                resources: vec![resource.clone()],
                non_resource_urls: Vec::new(),
                ..self.clone()
            })
        });
        let of_urls = self.non_resource_urls.iter().map(|url| Self {
            api_groups: Vec::new(),
            resources: Vec::new(),
            non_resource_urls: vec![url.clone()],
            ..self.clone()
        });
        of_groups.chain(of_urls).collect()
    }
}
