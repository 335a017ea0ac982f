//! `object`: rejects objects that would damage a cluster. It is in the library of the Go programs, but no command runs
//! it.

use serde_json::Value;

use crate::Manifest;
use crate::bundle::{Bundle, list, text};
use crate::decode::{Shape, decode};
use crate::finding::{Finding, Findings, Level};
use crate::shape;

const KIND: &str = "ObjectFailedValidation";
/// The default security context constraints of OpenShift.
const DEFAULT_CONSTRAINTS: [&str; 8] = [
    "privileged",
    "restricted",
    "anyuid",
    "hostaccess",
    "hostmount-anyuid",
    "hostnetwork",
    "node-exporter",
    "nonroot",
];

pub(super) fn validate(bundle: &Bundle) -> Vec<Finding> {
    let mut findings = Findings::new("object");
    for manifest in &bundle.manifests {
        let (shape, check): (Shape, fn(&Value, &Manifest, &mut Findings)) = match manifest.kind() {
            "PodDisruptionBudget" => (shape::POD_DISRUPTION_BUDGET, check_budget),
            "PriorityClass" => (shape::PRIORITY_CLASS, check_priority),
            "Role" => (shape::ROLE, check_rules),
            "ClusterRole" => (shape::CLUSTER_ROLE, check_rules),
            _ => continue,
        };
        match decode(shape, manifest.value()) {
            Ok(object) => check(&object, manifest, &mut findings),
            Err(error) => {
                let detail = format!("error unmarshaling {}", manifest.kind().to_lowercase());
                let at = (manifest, error.pointer.as_str());
                findings.add(Level::Error, "ParseError", Some(error.message), detail, at);
            }
        }
    }
    findings.list
}

fn check_budget(budget: &Value, manifest: &Manifest, findings: &mut Findings) {
    let maximum = budget.pointer("/spec/maxUnavailable");
    if maximum.is_some_and(|maximum| *maximum == 0 || *maximum == "0%") {
        let detail = "maxUnavailable field cannot be set to 0 or 0%";
        let at = (manifest, "/spec/maxUnavailable");
        findings.add(Level::Error, KIND, Some(shown_budget(budget)), detail, at);
    }
    if budget
        .pointer("/spec/minAvailable")
        .is_some_and(|minimum| *minimum == "100%")
    {
        let detail = "minAvailable field cannot be set to 100%";
        let at = (manifest, "/spec/minAvailable");
        findings.add(Level::Error, KIND, Some(shown_budget(budget)), detail, at);
    }
}

fn check_priority(class: &Value, manifest: &Manifest, findings: &mut Findings) {
    if class.get("globalDefault") == Some(&Value::Bool(true)) {
        let value = format!(
            "{{{} {} true {} {}}}",
            shown_head(class),
            class.get("value").map_or("0".to_owned(), shown),
            text(class, "/description"),
            class.get("preemptionPolicy").map_or("<nil>".to_owned(), shown)
        );
        let detail = "globalDefault field cannot be set to true";
        findings.add(
            Level::Error,
            KIND,
            Some(value),
            detail,
            (manifest, "/globalDefault"),
        );
    }
}

fn check_rules(role: &Value, manifest: &Manifest, findings: &mut Findings) {
    let has = |rule: &Value, field: &str, wanted: &[&str]| {
        let mut items = list(rule, field).iter().filter_map(Value::as_str);
        items.any(|item| wanted.contains(&item))
    };
    for (index, rule) in list(role, "/rules").iter().enumerate() {
        let pointer = format!("/rules/{index}");
        let at = (manifest, pointer.as_str());
        if has(rule, "/apiGroups", &["policy"])
            && has(rule, "/resources", &["poddisruptionbudgets"])
            && has(rule, "/verbs", &["*", "create", "update", "patch"])
        {
            let detail = "RBAC includes permission to create/update poddisruptionbudgets, which could impact cluster stability";
            findings.add(Level::Warning, KIND, Some(shown_rule(rule)), detail, at);
        }
        if has(rule, "/apiGroups", &["security.openshift.io"])
            && has(rule, "/resources", &["securitycontextconstraints"])
            && has(rule, "/verbs", &["*", "delete", "update", "patch"])
            && has(rule, "/resourceNames", &DEFAULT_CONSTRAINTS)
        {
            let detail = "RBAC includes permission to modify default securitycontextconstraints, which could impact cluster stability";
            findings.add(Level::Error, KIND, Some(shown_rule(rule)), detail, at);
        }
    }
}

/// Formats a rule as Go prints the struct.
fn shown_rule(rule: &Value) -> String {
    let fields = [
        "verbs",
        "apiGroups",
        "resources",
        "resourceNames",
        "nonResourceURLs",
    ];
    let lists = fields.map(|field| shown(rule.get(field).unwrap_or(&Value::Array(Vec::new()))));
    format!("{{{}}}", lists.join(" "))
}

/// Formats the type and the metadata of an object as Go prints the structs.
fn shown_head(object: &Value) -> String {
    let field = |name: &str| text(object, &format!("/metadata/{name}")).to_owned();
    let map = |name: &str| {
        let empty = Value::Object(serde_json::Map::new());
        shown(object.pointer(&format!("/metadata/{name}")).unwrap_or(&empty))
    };
    format!(
        "{{{} {}}} {{{} {} {} {} {} {} 0 0001-01-01 00:00:00 +0000 UTC <nil> <nil> {} {} [] [] []}}",
        text(object, "/kind"),
        text(object, "/apiVersion"),
        field("name"),
        field("generateName"),
        field("namespace"),
        field("selfLink"),
        field("uid"),
        field("resourceVersion"),
        map("labels"),
        map("annotations")
    )
}

fn shown_budget(budget: &Value) -> String {
    let spec = |name: &str| {
        let value = budget.pointer(&format!("/spec/{name}"));
        value.map_or("<nil>".to_owned(), shown)
    };
    let selector = budget.pointer("/spec/selector").map_or("nil".to_owned(), |selector| {
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        let labels: String = labels
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}: {},", shown(value)))
            .collect();
        format!(
            "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{}},}}"
        )
    });
    format!(
        "{{{} {{{} {selector} {} {}}} {{0 map[] 0 0 0 0 []}}}}",
        shown_head(budget),
        spec("minAvailable"),
        spec("maxUnavailable"),
        spec("unhealthyPodEvictionPolicy")
    )
}

/// Formats a value like Go's `%v`. The depth of a manifest's tree is limited.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => apimachinery::go::number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort();
            let fields: Vec<String> = keys
                .into_iter()
                .map(|key| format!("{key}:{}", fields.get(key).map(shown).unwrap_or_default()))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}
