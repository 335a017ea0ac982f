//! Validates FlowSchemas and PriorityLevelConfigurations.

use std::collections::BTreeSet;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::Check;
use crate::tree::{at, list, text};

const QUEUES_MAX: i64 = 10_000_000;
const HASH_BITS_MAX: i64 = 60;
const PRECEDENCE_MAX: i64 = 10_000;
const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];

pub(super) fn flow_schema(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let precedence = at(spec, &["matchingPrecedence"]).as_i64().unwrap_or_default();
    let of_precedence = path.child("matchingPrecedence");
    if precedence <= 0 {
        check.invalid(of_precedence, &precedence.into(), "must be a positive value");
    } else if precedence > PRECEDENCE_MAX {
        let why = format!("must not be greater than {PRECEDENCE_MAX}");
        check.invalid(of_precedence, &precedence.into(), why);
    } else if precedence == 1 && text(object, &["metadata", "name"]) != "exempt" {
        let why = "only the schema named 'exempt' may have matchingPrecedence 1";
        check.invalid(of_precedence, &precedence.into(), why);
    }
    let method = at(spec, &["distinguisherMethod"]);
    let methods = ["ByNamespace", "ByUser"];
    if method.is_object() && !methods.contains(&text(method, &["type"])) {
        let shown = format!("{{\"Type\":{}}}", Value::from(text(method, &["type"])));
        let path = path.child("distinguisherMethod").child("type");
        check.unsupported_text(path, shown, &methods);
    }
    let level = text(spec, &["priorityLevelConfiguration", "name"]);
    let of_level = path.child("priorityLevelConfiguration").child("name");
    if level.is_empty() {
        check.required(of_level, "must reference a priority level");
    } else {
        check.faults(&of_level, level, names::dns1123_subdomain(level));
    }
    for (index, item) in list(spec, &["rules"]).iter().enumerate() {
        rule(check, item, &path.child("rules").index(index));
    }
    conditions(check, object);
}

fn rule(check: &mut Check, rule: &Value, path: &Path) {
    let subjects = list(rule, &["subjects"]);
    if subjects.is_empty() {
        check.required(path.child("subjects"), "subjects must contain at least one value");
    }
    for (index, item) in subjects.iter().enumerate() {
        subject(check, item, &path.child("subjects").index(index));
    }
    let (resources, others) = (list(rule, &["resourceRules"]), list(rule, &["nonResourceRules"]));
    if resources.is_empty() && others.is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        check.required(path.clone(), why);
    }
    for (index, item) in resources.iter().enumerate() {
        resource_rule(check, item, &path.child("resourceRules").index(index));
    }
    for (index, item) in others.iter().enumerate() {
        let path = path.child("nonResourceRules").index(index);
        verbs(check, item, &path);
        urls(check, item, &path);
    }
}

fn subject(check: &mut Check, subject: &Value, path: &Path) {
    let kinds = [
        ("ServiceAccount", "serviceAccount"),
        ("User", "user"),
        ("Group", "group"),
    ];
    let kind = text(subject, &["kind"]);
    let Some((_, field)) = kinds.iter().find(|(known, _)| *known == kind) else {
        return check.one_of(subject, path, "kind", &["Group", "ServiceAccount", "User"]);
    };
    let (named, of_named) = (at(subject, &[field]), path.child(field));
    if named.is_null() {
        check.required(
            of_named,
            &format!("{field} is required when subject kind is '{kind}'"),
        );
    } else if kind == "ServiceAccount" {
        let name = text(named, &["name"]);
        if name != "*" {
            check.required_form(named, &of_named, "name", names::dns1123_subdomain);
        }
        let namespace = text(named, &["namespace"]);
        if namespace.is_empty() {
            check.required(
                of_named.child("namespace"),
                "must specify namespace for service account",
            );
        } else {
            check.faults(
                &of_named.child("namespace"),
                namespace,
                names::dns1123_label(namespace),
            );
        }
    } else {
        check.required_text(named, &of_named, "name");
    }
    for (other_kind, other) in kinds.iter().filter(|(known, _)| *known != kind) {
        if !at(subject, &[other]).is_null() {
            check.forbidden(
                path.child(other),
                format!("{other} is forbidden when subject kind is not '{other_kind}'"),
            );
        }
    }
}

/// Reports an empty list, or a wildcard with other items; returns true if the items must be checked.
fn names_some(
    check: &mut Check,
    parent: &Value,
    path: &Path,
    field: &str,
    (missing, others): (&str, &str),
) -> bool {
    let items = list(parent, &[field]);
    let has_wildcard = items.iter().any(|item| item == "*");
    if items.is_empty() {
        check.required(path.child(field), missing);
    } else if has_wildcard && items.len() > 1 {
        let why = format!("if '*' is present, must not specify other {others}");
        check.invalid(path.child(field), at(parent, &[field]), why);
    }
    !items.is_empty() && !has_wildcard
}

fn verbs(check: &mut Check, rule: &Value, path: &Path) {
    let texts = ("verbs must contain at least one value", "verbs");
    let is_known = |verb: &Value| VERBS.contains(&verb.as_str().unwrap_or_default());
    if names_some(check, rule, path, "verbs", texts) && !list(rule, &["verbs"]).iter().all(is_known) {
        let shown = at(rule, &["verbs"]).to_string();
        check.unsupported_text(path.child("verbs"), shown, VERBS);
    }
}

fn resource_rule(check: &mut Check, rule: &Value, path: &Path) {
    verbs(check, rule, path);
    let groups = ("resource rules must supply at least one api group", "api groups");
    names_some(check, rule, path, "apiGroups", groups);
    let resources = ("resource rules must supply at least one resource", "resources");
    names_some(check, rule, path, "resources", resources);
    let namespaces = list(rule, &["namespaces"]);
    if namespaces.is_empty() && at(rule, &["clusterScope"]) == true {
        return;
    }
    let texts = (
        "resource rules that are not cluster scoped must supply at least one namespace",
        "namespaces",
    );
    if names_some(check, rule, path, "namespaces", texts) {
        for (index, namespace) in namespaces.iter().enumerate() {
            let name = namespace.as_str().unwrap_or_default();
            let faults = names::dns1123_label(name);
            let faults = faults
                .into_iter()
                .map(|fault| format!("each member of this list must be '*' or a DNS-1123 label; {fault}"));
            let faults = faults.collect();
            check.faults(&path.child("namespaces").index(index), name, faults);
        }
    }
}

fn urls(check: &mut Check, rule: &Value, path: &Path) {
    let texts = (
        "nonResourceURLs must contain at least one value",
        "non-resource URLs",
    );
    if !names_some(check, rule, path, "nonResourceURLs", texts) {
        return;
    }
    for (index, url) in list(rule, &["nonResourceURLs"]).iter().enumerate() {
        if let Some(fault) = url_fault(url.as_str().unwrap_or_default()) {
            check.invalid(path.child("nonResourceURLs").index(index), url, fault);
        }
    }
}

fn url_fault(url: &str) -> Option<&'static str> {
    let stars = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || (stars == 1 && !url.ends_with("/*")) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

pub(super) fn priority_level(check: &mut Check, object: &Value) {
    let (spec, path) = (at(object, &["spec"]), Path::new("spec"));
    let (kind, name) = (text(spec, &["type"]), text(object, &["metadata", "name"]));
    if (name == "exempt") != (kind == "Exempt") {
        let why = "type must be 'Exempt' if and only if name is 'exempt'";
        check.invalid(path.child("type"), &kind.into(), why);
    }
    let (limited, exempt) = (at(spec, &["limited"]), at(spec, &["exempt"]));
    match kind {
        "Exempt" => {
            if !limited.is_null() {
                check.forbidden(path.child("limited"), "must be nil if the type is not Limited");
            }
            shares(check, exempt, &path.child("exempt"));
            lendable(check, exempt, &path.child("exempt"));
        }
        "Limited" => {
            if !exempt.is_null() {
                check.forbidden(path.child("exempt"), "must be nil if the type is Limited");
            }
            let path = path.child("limited");
            if limited.is_null() {
                check.required(path, "must not be empty when type is Limited");
            } else {
                limits(check, limited, &path);
            }
        }
        _ => check.one_of(spec, &path, "type", &["Exempt", "Limited"]),
    }
    conditions(check, object);
}

fn shares(check: &mut Check, level: &Value, path: &Path) {
    let shares = at(level, &["nominalConcurrencyShares"]);
    if shares.as_i64().is_some_and(|shares| shares < 0) {
        let why = "must be a non-negative integer";
        check.invalid(path.child("nominalConcurrencyShares"), shares, why);
    }
}

fn lendable(check: &mut Check, level: &Value, path: &Path) {
    let percent = at(level, &["lendablePercent"]);
    if percent
        .as_i64()
        .is_some_and(|percent| !(0..=100).contains(&percent))
    {
        let why = "must be between 0 and 100, inclusive";
        check.invalid(path.child("lendablePercent"), percent, why);
    }
}

fn limits(check: &mut Check, limited: &Value, path: &Path) {
    shares(check, limited, path);
    let response = at(limited, &["limitResponse"]);
    let of_response = path.child("limitResponse");
    let (queuing, of_queuing) = (at(response, &["queuing"]), of_response.child("queuing"));
    match text(response, &["type"]) {
        "Reject" if !queuing.is_null() => check.forbidden(
            of_queuing,
            "must be nil if limited.limitResponse.type is not Limited",
        ),
        "Reject" => {}
        "Queue" if queuing.is_null() => check.required(
            of_queuing,
            "must not be empty if limited.limitResponse.type is Limited",
        ),
        "Queue" => queues(check, queuing, &of_queuing),
        _ => check.one_of(response, &of_response, "type", &["Queue", "Reject"]),
    }
    lendable(check, limited, path);
    let borrowed = at(limited, &["borrowingLimitPercent"]);
    if borrowed.as_i64().is_some_and(|percent| percent < 0) {
        let why = "if specified, must be a non-negative integer";
        check.invalid(path.child("borrowingLimitPercent"), borrowed, why);
    }
}

fn queues(check: &mut Check, queuing: &Value, path: &Path) {
    let number = |field: &str| at(queuing, &[field]).as_i64().unwrap_or_default();
    let (length, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    let mut refuse = |field: &str, value: i64, why: String| {
        check.invalid(path.child(field), &value.into(), why);
    };
    let positive = || "must be positive".to_owned();
    if length <= 0 {
        refuse("queueLengthLimit", length, positive());
    }
    if queues <= 0 {
        refuse("queues", queues, positive());
    } else if queues > QUEUES_MAX {
        refuse("queues", queues, format!("must not be greater than {QUEUES_MAX}"));
    }
    if hand <= 0 {
        refuse("handSize", hand, positive());
    } else if hand > queues {
        refuse(
            "handSize",
            hand,
            format!("should not be greater than queues ({queues})"),
        );
    } else if entropy_bits(queues, hand) > HASH_BITS_MAX {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS_MAX}"
        );
        refuse("handSize", hand, why);
    }
}

/// Returns the entropy of the possible hands in bits; more than the limit for large hands.
fn entropy_bits(deck: i64, hand: i64) -> i64 {
    let mut bits = 0.0;
    for dealt in 0..hand {
        bits += ((deck - dealt) as f64).log2();
        if bits > 2.0 * HASH_BITS_MAX as f64 {
            break;
        }
    }
    bits.ceil() as i64
}

/// Checks that condition types are unique.
pub(super) fn conditions(check: &mut Check, object: &Value) {
    let path = Path::new("status").child("conditions");
    let mut seen = BTreeSet::new();
    for (index, condition) in list(object, &["status", "conditions"]).iter().enumerate() {
        let path = path.index(index).child("type");
        let kind = text(condition, &["type"]);
        if !seen.insert(kind) {
            check.errors.push(Error::duplicate(path.clone(), &kind.into()));
        }
        if kind.is_empty() {
            check.required(path, "");
        }
    }
}
