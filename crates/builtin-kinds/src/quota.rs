//! ResourceQuota accounting, as in `k8s.io/kubernetes/pkg/quota/v1`.
//!
//! The functions are pure. Admission checks that a write does not exceed the quotas of its namespace; a controller
//! computes the total usage of a namespace.

mod claim;
mod pod;
mod scope;
mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use apimachinery::object;
use apimachinery::quantity::Quantity;
use serde_json::{Map, Value, json};

use self::scope::Selector;
use crate::pod_resources::{Amounts, add, amounts};
use crate::tree::{at, entries, is_zero, list, text};
use apimachinery::gvk::Gvr;

/// Returns the status of a ResourceQuota: `hard` from its spec, and `used` as the total of the objects in its
/// namespace. Returns `None` if the status is up to date.
///
/// `objects` are all objects in the quota's namespace, with their resources. `now` determines which terminating pods no
/// longer count. `is_served` returns true if a group and plural is served; `count/PLURAL.GROUP` does not count others.
pub fn status<'a>(
    quota: &Value,
    objects: impl Iterator<Item = (&'a Gvr, &'a Value)>,
    now: SystemTime,
    is_served: impl Fn(&str, &str) -> bool,
) -> Option<Value> {
    let hard = at(quota, &["spec", "hard"]);
    if is_zero(hard) {
        return (!is_zero(at(quota, &["status"]))).then(|| json!({}));
    }
    let mut used: Amounts = amounts(at(quota, &["status", "used"]));
    used.retain(|name, _| hard.get(name).is_some());
    let counted = entries(hard, &[]).map(|(name, _)| name.as_str());
    let mut total: Amounts = counted
        .filter(|name| is_counted(name, &is_served))
        .map(|name| (name.to_owned(), Quantity::default()))
        .collect();
    let selectors = scope::selectors(quota);
    for (gvr, object) in objects {
        let Some(evaluator) = Evaluator::of(&gvr.group, &gvr.resource) else {
            continue;
        };
        if total.keys().any(|name| evaluator.covers(name)) && evaluator.matches(&selectors, object) {
            let mut usage = evaluator.usage(object, now);
            usage.retain(|name, _| total.contains_key(name));
            add(&mut total, &usage);
        }
    }
    used.extend(total);
    let is_current = used == amounts(at(quota, &["status", "used"]))
        && amounts(hard) == amounts(at(quota, &["status", "hard"]))
        && ["hard", "used"]
            .iter()
            .all(|field| at(quota, &["status", field]).is_object());
    (!is_current).then(|| json!({"hard": hard, "used": texts(&used)}))
}

/// Returns true if a change of an object may reduce the usage of its namespace.
pub fn releases(gvr: &Gvr, old: &Value, new: &Value) -> bool {
    // The result must not depend on the time, so a fixed time is used.
    let now = SystemTime::UNIX_EPOCH;
    match (gvr.group.as_str(), gvr.resource.as_str()) {
        ("", "pods") => {
            pod::is_counted(old, now) && !pod::is_counted(new, now)
                || Evaluator::PODS.usage(old, now) != Evaluator::PODS.usage(new, now)
        }
        ("", "services") => service::usage(old) != service::usage(new),
        ("", "persistentvolumeclaims") => {
            claim::usage(old) != claim::usage(new) || claim::classes(old) != claim::classes(new)
        }
        _ => false,
    }
}

/// Returns true if usage is counted under a name.
fn is_counted(name: &str, is_served: impl Fn(&str, &str) -> bool) -> bool {
    const COUNTED: [Evaluator<'_>; 3] = [Evaluator::PODS, Evaluator::SERVICES, Evaluator::CLAIMS];
    if let Some(counted) = name.strip_prefix("count/") {
        let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Evaluator::of(group, resource).is_some() && is_served(group, resource);
    }
    ALIASES.contains(&name)
        || claim::is_of_device_class(name)
        || COUNTED.iter().any(|evaluator| evaluator.covers(name))
}

fn texts(amounts: &Amounts) -> Map<String, Value> {
    amounts
        .iter()
        .map(|(name, amount)| (name.clone(), amount.to_string().into()))
        .collect()
}

/// Resources that are also counted by their plural, the older form of `count/PLURAL`.
const ALIASES: [&str; 4] = [
    "configmaps",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
];

/// Resources that are not counted: those that are not stored, and events.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];

/// The counted properties of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Pod,
    Service,
    Claim,
    ResourceClaim,
    Nothing,
}

/// The evaluator of a resource.
#[derive(Clone, Copy, Debug)]
pub struct Evaluator<'a> {
    group: &'a str,
    resource: &'a str,
    content: Content,
}

/// A change of an object that is charged.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// The object is created.
    Create,
    /// The object is changed.
    Update {
        /// The object before the change.
        old: &'a Value,
        /// The changed subresource; empty for the object itself.
        subresource: &'a str,
    },
}

impl<'a> Evaluator<'a> {
    const PODS: Self = Self::core("pods", Content::Pod);
    const SERVICES: Self = Self::core("services", Content::Service);
    const CLAIMS: Self = Self::core("persistentvolumeclaims", Content::Claim);

    const fn core(resource: &'a str, content: Content) -> Self {
        Self {
            group: "",
            resource,
            content,
        }
    }

    /// Returns the evaluator of a resource; `None` if it is never counted.
    pub fn of(group: &'a str, resource: &'a str) -> Option<Self> {
        if IGNORED.contains(&(group, resource)) {
            return None;
        }
        let content = match (group, resource) {
            ("", "pods") => Content::Pod,
            ("", "services") => Content::Service,
            ("", "persistentvolumeclaims") => Content::Claim,
            ("resource.k8s.io", "resourceclaims") => Content::ResourceClaim,
            _ => Content::Nothing,
        };
        Some(Self {
            group,
            resource,
            content,
        })
    }

    /// Returns true if objects of the resource can use a resource name.
    pub fn covers(&self, name: &str) -> bool {
        self.is_own_count(name)
            || match self.content {
                Content::Pod => pod::covers(name),
                Content::Service => service::covers(name),
                Content::Claim => claim::covers(name),
                Content::ResourceClaim => claim::is_of_device_class(name),
                Content::Nothing => self.is_alias(name),
            }
    }

    fn is_own_count(&self, name: &str) -> bool {
        let Some(counted) = name.strip_prefix("count/") else {
            return false;
        };
        match counted.strip_prefix(self.resource) {
            Some("") => self.group.is_empty(),
            Some(rest) => rest.strip_prefix('.') == Some(self.group) && !self.group.is_empty(),
            None => false,
        }
    }

    fn is_alias(&self, name: &str) -> bool {
        self.group.is_empty() && self.resource == name && ALIASES.contains(&name)
    }

    /// Returns true if a change may increase the usage of the object.
    pub fn handles(&self, change: Change<'_>, object: &Value) -> bool {
        let Change::Update { old, subresource } = change else {
            return true;
        };
        match (self.content, subresource) {
            (Content::Pod, "") => pod::has_deadline(old) != pod::has_deadline(object),
            (Content::Pod, "resize")
            | (Content::Service | Content::Claim | Content::ResourceClaim, "")
            | (Content::Claim, "status") => true,
            _ => false,
        }
    }

    /// Returns the usage of an object.
    pub fn usage(&self, object: &Value, now: SystemTime) -> Amounts {
        let mut usage = match self.content {
            Content::Pod => pod::usage(object, now),
            Content::Service => service::usage(object),
            Content::Claim => claim::usage(object),
            Content::ResourceClaim => claim::devices(object),
            Content::Nothing => Amounts::new(),
        };
        let count = match self.group {
            "" => format!("count/{}", self.resource),
            group => format!("count/{}.{group}", self.resource),
        };
        usage.insert(count, Quantity::from(1));
        if self.is_alias(self.resource) {
            usage.insert(self.resource.to_owned(), Quantity::from(1));
        }
        usage
    }

    /// Returns true if an object is in all scopes. Only pods and claims have scopes.
    fn matches(&self, selectors: &[Selector], object: &Value) -> bool {
        selectors.iter().all(|selector| match self.content {
            Content::Pod => pod::is_in_scope(object, selector),
            Content::Claim => claim::is_in_scope(object, selector),
            _ => false,
        })
    }

    /// Returns the error of the first selector that is compared with this resource and has invalid values.
    fn invalid_scope(&self, selectors: &[Selector]) -> Option<String> {
        let compared = match self.content {
            Content::Pod => "PriorityClass",
            Content::Claim => "VolumeAttributesClass",
            _ => return None,
        };
        let compared = selectors.iter().filter(|selector| selector.scope == compared);
        compared.into_iter().find_map(Selector::fault)
    }

    /// Checks that an object sets the fields that a quota of these names requires; returns the missing ones.
    fn check(&self, names: &[&str], object: &Value) -> Result<(), String> {
        match self.content {
            Content::Pod => pod::check(names, object),
            _ => Ok(()),
        }
    }
}

/// The reason why a quota refuses an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The object exceeds the quota.
    Exceeded(String),
    /// The scopes of the quota cannot be compared with the object, because they have invalid values.
    Scopes(String),
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Exceeded(why)
    }
}

/// Checks that an object does not exceed a quota. Returns the new `used` of its status, or `None` if nothing is
/// charged.
///
/// # Errors
/// Returns an error if the object exceeds the quota, or if the scopes of the quota have invalid values.
pub fn charge(
    quota: &Value,
    evaluator: &Evaluator<'_>,
    change: Change<'_>,
    object: &Value,
    now: SystemTime,
) -> Result<Option<Map<String, Value>>, Refusal> {
    let selectors = scope::selectors(quota);
    if let Some(why) = evaluator.invalid_scope(&selectors) {
        let name = object::name(quota);
        return Err(Refusal::Scopes(format!(
            "error matching scopes of quota {name}, err: {why}"
        )));
    }
    let hard = amounts(at(quota, &["status", "hard"]));
    let names: Vec<&str> = hard
        .keys()
        .map(String::as_str)
        .filter(|name| evaluator.covers(name))
        .collect();
    if names.is_empty() || !evaluator.matches(&selectors, object) {
        return Ok(None);
    }
    let name = object::name(quota);
    evaluator
        .check(&names, object)
        .map_err(|why| format!("failed quota: {name}: {why}"))?;
    let mut used = amounts(at(quota, &["status", "used"]));
    if !names.iter().all(|name| used.contains_key(*name)) {
        let names = names.join(",");
        let why = format!("status unknown for quota: {name}, resources: {names}");
        return Err(Refusal::Exceeded(why));
    }
    let requested = requested(evaluator, change, &selectors, object, now)?;
    let requested: Amounts = requested
        .into_iter()
        .filter(|(name, amount)| hard.contains_key(name) && !amount.is_zero())
        .collect();
    if requested.is_empty() {
        return Ok(None);
    }
    let before = used.clone();
    add(&mut used, &requested);
    let exceeded: Vec<&String> = requested
        .keys()
        .filter(|name| used.get(*name) > hard.get(*name))
        .collect();
    if exceeded.is_empty() {
        return Ok(Some(texts(&used)));
    }
    Err(Refusal::Exceeded(format!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        listed(&requested, &exceeded),
        listed(&before, &exceeded),
        listed(&hard, &exceeded),
    )))
}

/// A resource that can only be used with a quota that covers it: an entry of `limitedResources`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitedResource {
    group: String,
    resource: String,
    /// Parts of the names of the limited amounts.
    contains: Vec<String>,
    scopes: Vec<Selector>,
}

impl LimitedResource {
    /// Reads an entry.
    pub fn read(entry: &Value) -> Self {
        let contains = list(entry, &["matchContains"]).iter();
        Self {
            group: text(entry, &["apiGroup"]).to_owned(),
            resource: text(entry, &["resource"]).to_owned(),
            contains: contains
                .filter_map(|part| part.as_str().map(str::to_owned))
                .collect(),
            scopes: list(entry, &["matchScopes"])
                .iter()
                .map(scope::expressed)
                .collect(),
        }
    }
}

/// The reason why an object uses a resource that no quota covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncovered {
    /// Amounts of the object.
    Amounts(String),
    /// Scopes of the object.
    Scopes(String),
}

/// Checks that quotas cover the amounts and the scopes of an object that are limited.
///
/// # Errors
/// Returns the amounts or the scopes that are not covered.
pub fn check_limited<'q>(
    limited: &[LimitedResource],
    quotas: impl IntoIterator<Item = &'q Value>,
    evaluator: &Evaluator<'_>,
    object: &Value,
    now: SystemTime,
) -> Result<(), Uncovered> {
    let limited: Vec<&LimitedResource> = limited
        .iter()
        .filter(|limited| limited.group == evaluator.group && limited.resource == evaluator.resource)
        .collect();
    if limited.is_empty() {
        return Ok(());
    }
    let usage = evaluator.usage(object, now);
    let zero = Quantity::default();
    let is_limited = |name: &str| {
        let mut parts = limited.iter().flat_map(|limited| &limited.contains);
        parts.any(|part| name.contains(part.as_str()))
    };
    let mut names: BTreeSet<&str> = usage
        .iter()
        .filter(|(name, amount)| **amount > zero && is_limited(name))
        .map(|(name, _)| name.as_str())
        .collect();
    let mut scopes = BTreeSet::new();
    for quota in quotas {
        let selectors = scope::selectors(quota);
        let of_object = selectors
            .iter()
            .filter(|selector| evaluator.matches(std::slice::from_ref(*selector), object));
        scopes.extend(of_object.map(|selector| selector.scope.clone()));
        if evaluator.matches(&selectors, object) {
            let hard = at(quota, &["status", "hard"]);
            names.retain(|name| at(hard, &[name]).is_null() || !evaluator.covers(name));
        }
    }
    if !names.is_empty() {
        let names: Vec<&str> = names.into_iter().collect();
        return Err(Uncovered::Amounts(names.join(",")));
    }
    let uncovered = limited.iter().flat_map(|limited| &limited.scopes);
    let uncovered = uncovered
        .filter(|selector| evaluator.matches(std::slice::from_ref(*selector), object))
        .filter(|selector| !scopes.contains(&selector.scope));
    let uncovered: Vec<String> = uncovered.map(Selector::text).collect();
    match uncovered.is_empty() {
        true => Ok(()),
        false => Err(Uncovered::Scopes(uncovered.join(" "))),
    }
}

/// Returns the usage that a change adds to the usage of an object, which may have been outside the scopes.
fn requested(
    evaluator: &Evaluator<'_>,
    change: Change<'_>,
    selectors: &[Selector],
    object: &Value,
    now: SystemTime,
) -> Result<Amounts, String> {
    let mut usage = evaluator.usage(object, now);
    let negative: Vec<&str> = usage
        .iter()
        .filter(|(_, amount)| amount.is_negative())
        .map(|(name, _)| name.as_str())
        .collect();
    if !negative.is_empty() {
        let negative = negative.join(",");
        return Err(format!("quota usage is negative for resource(s): {negative}"));
    }
    if let Change::Update { old, .. } = change
        && evaluator.matches(selectors, old)
    {
        let before = evaluator.usage(old, now);
        for (name, amount) in &mut usage {
            if let Some(before) = before.get(name) {
                *amount = amount.without(before);
            }
        }
    }
    Ok(usage)
}

/// Formats amounts for messages: `cpu=1,memory=1Gi`.
fn listed(amounts: &BTreeMap<String, Quantity>, names: &[&String]) -> String {
    let listed = names
        .iter()
        .filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?)));
    listed.collect::<Vec<String>>().join(",")
}

#[cfg(test)]
mod tests;
