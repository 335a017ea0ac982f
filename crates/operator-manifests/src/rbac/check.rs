//! Compares permissions with recorded requests: finds requests that no rule grants, and rules that no request needed.
//!
//! Requests come from the audit records of tests, rules from the operator.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Rule;

/// A request to the API server with its authorization attributes.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase", default)]
pub struct AccessRequest {
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
    /// The namespace. Empty for a request about all namespaces or about a cluster-scoped resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name of the object; empty for a list.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The path of a non-resource request, such as `/metrics`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
}

/// A part of a rule that no request needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// The index of the rule.
    pub rule: usize,
    /// The group. Empty for the core group and for URLs.
    pub group: String,
    /// The resource with its subresource, or the URL.
    pub resource: String,
    /// The unused verbs.
    pub verbs: Vec<String>,
}

/// The requests that every authenticated user may send (`system:basic-user`).
const EVERYBODY: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];
/// The permissions that OLM grants to the operators it installs.
const OLM: (&str, &str) = ("operators.coreos.com", "operatorconditions");
/// The reading verbs. An informer lists, watches, or both, depending on the server.
const READING: [&str; 3] = ["get", "list", "watch"];

/// Returns the requests that no rule grants, sorted and without duplicates. Rules of a Role in `own_namespace` grant
/// requests in every namespace, because tests run the operator in another namespace.
///
/// ```
/// use operator_manifests::rbac::{Rule, check::{AccessRequest, missing}};
/// let requested = AccessRequest { verb: "list".into(), resource: "pods".into(), ..AccessRequest::default() };
/// let rule = Rule { api_groups: vec!["".into()], resources: vec!["pods".into()], verbs: vec!["get".into()], ..Rule::default() };
/// assert_eq!(missing(&[rule], &[requested.clone()], "system"), [requested]);
/// ```
pub fn missing(rules: &[Rule], requested: &[AccessRequest], own_namespace: &str) -> Vec<AccessRequest> {
    let open = requested.iter().filter(|requested| !is_free(requested));
    let open = open.filter(|requested| !rules.iter().any(|rule| rule.grants(requested, own_namespace)));
    let open: BTreeSet<AccessRequest> = open.map(AccessRequest::without_names).collect();
    open.into_iter().collect()
}

/// Returns the parts of the rules that no request needed, by rule, group and resource. If one reading verb is used, all
/// reading verbs count as used. The subresource `finalizers` is never requested, because the API server checks that
/// permission itself.
pub fn unused(rules: &[Rule], requested: &[AccessRequest], own_namespace: &str) -> Vec<Unused> {
    let mut all = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        for one in rule.parts() {
            let verbs = unused_verbs(&one, requested, own_namespace);
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

fn unused_verbs(rule: &Rule, requested: &[AccessRequest], own_namespace: &str) -> Vec<String> {
    if rule
        .resources
        .iter()
        .any(|resource| resource.ends_with("/finalizers"))
    {
        return Vec::new();
    }
    let used: Vec<&str> = requested
        .iter()
        .filter(|requested| rule.grants(requested, own_namespace))
        .map(|requested| requested.verb.as_str())
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

fn is_free(requested: &AccessRequest) -> bool {
    let resource = (requested.group.as_str(), requested.resource.as_str());
    EVERYBODY.contains(&resource) || resource == OLM
}

// === impl AccessRequest ===

impl AccessRequest {
    /// Returns the resource with its subresource in the form of rules, or the path of a non-resource request.
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
    /// Returns true if the rule grants the request.
    pub fn grants(&self, requested: &AccessRequest, own_namespace: &str) -> bool {
        let has = |words: &[String], word: &str| words.iter().any(|there| there == word || there == "*");
        if !has(&self.verbs, &requested.verb) {
            return false;
        }
        if requested.resource.is_empty() {
            return self.grants_path(&requested.path);
        }
        let in_scope = match self.namespace.as_deref() {
            None => true,
            Some(namespace) if namespace == own_namespace => !requested.namespace.is_empty(),
            Some(namespace) => namespace == requested.namespace,
        };
        // A create request has no name to compare.
        let named = self.resource_names.is_empty() || self.resource_names.contains(&requested.name);
        in_scope && named && self.grants_group(&requested.group) && self.grants_resource(requested)
    }

    fn grants_group(&self, group: &str) -> bool {
        let mut groups = self.api_groups.iter();
        groups.any(|there| there == group || there == "*" || (there == "core" && group.is_empty()))
    }

    fn grants_resource(&self, requested: &AccessRequest) -> bool {
        let target = requested.target();
        let every = format!("*/{}", requested.subresource);
        let mut resources = self.resources.iter();
        resources.any(|there| {
            *there == target || there == "*" || (!requested.subresource.is_empty() && *there == every)
        })
    }

    fn grants_path(&self, path: &str) -> bool {
        let mut urls = self.non_resource_urls.iter();
        urls.any(|url| match url.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => url == path,
        })
    }

    /// Splits the rule by group and resource, or by URL.
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
