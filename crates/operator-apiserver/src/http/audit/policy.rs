//! The audit policy: decides which requests are recorded, and at which level.

use apimachinery::object;
use serde_json::Value;

use crate::http::request_info::RequestInfo;
use crate::identity::authn::User;

/// The level of detail of an audit record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    None,
    Metadata,
    Request,
    RequestResponse,
}

/// A stage of a request at which an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

/// The rules of an audit policy; the first one that matches decides.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    rules: Vec<Rule>,
}

/// The decision of a policy about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) level: Level,
    pub(super) omitted: Vec<Stage>,
    pub(super) omits_managed_fields: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    verdict: Verdict,
    users: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    paths: Vec<String>,
}

#[derive(Clone, Debug)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    names: Vec<String>,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "None" => Self::None,
            "Metadata" => Self::Metadata,
            "Request" => Self::Request,
            "RequestResponse" => Self::RequestResponse,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

impl Stage {
    const ALL: [Self; 4] = [
        Self::RequestReceived,
        Self::ResponseStarted,
        Self::ResponseComplete,
        Self::Panic,
    ];

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == text)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

impl Policy {
    /// Parses a policy in YAML or JSON.
    ///
    /// # Errors
    /// Returns an error if the policy is invalid.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let policy = apimachinery::yaml::parse(text)?.value;
        let (version, kind) = (
            object::text(&policy, &["apiVersion"]),
            object::text(&policy, &["kind"]),
        );
        if version != "audit.k8s.io/v1" || kind != "Policy" {
            return Err(format!(
                "it must be a Policy of audit.k8s.io/v1, but is a {kind:?} of {version:?}"
            ));
        }
        let common = stages(&policy, "omitStages")?;
        let omits = policy.get("omitManagedFields") == Some(&Value::Bool(true));
        let rules = policy.get("rules").and_then(Value::as_array);
        let rules = rules.into_iter().flatten().enumerate();
        let rules: Result<Vec<Rule>, String> = rules
            .map(|(index, rule)| {
                Rule::read(rule, &common, omits).map_err(|why| format!("rules[{index}]: {why}"))
            })
            .collect();
        let rules = rules?;
        if rules.is_empty() {
            return Err("it has no rules".to_owned());
        }
        Ok(Self { rules })
    }

    /// Returns the level and the omitted stages for a request.
    pub(super) fn verdict(&self, user: &User, info: &RequestInfo) -> Verdict {
        let rule = self.rules.iter().find(|rule| rule.matches(user, info));
        rule.map_or(
            Verdict {
                level: Level::None,
                omitted: Vec::new(),
                omits_managed_fields: false,
            },
            |rule| rule.verdict.clone(),
        )
    }
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    let list = value.get(field).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn stages(value: &Value, field: &str) -> Result<Vec<Stage>, String> {
    let read = |text: &String| Stage::parse(text).ok_or_else(|| format!("{field}: unknown stage {text:?}"));
    texts(value, field).iter().map(read).collect()
}

impl Rule {
    fn read(rule: &Value, common: &[Stage], omits: bool) -> Result<Self, String> {
        let level = object::text(rule, &["level"]);
        let level = Level::parse(level).ok_or_else(|| format!("unknown level {level:?}"))?;
        let mut omitted = stages(rule, "omitStages")?;
        omitted.extend_from_slice(common);
        let own = rule.get("omitManagedFields").and_then(Value::as_bool);
        let (namespaces, paths) = (texts(rule, "namespaces"), texts(rule, "nonResourceURLs"));
        let list = rule.get("resources").and_then(Value::as_array);
        let resources: Vec<GroupResources> = list
            .into_iter()
            .flatten()
            .map(|entry| GroupResources {
                group: object::text(entry, &["group"]).to_owned(),
                resources: texts(entry, "resources"),
                names: texts(entry, "resourceNames"),
            })
            .collect();
        let is_about_resources = !namespaces.is_empty() || !resources.is_empty();
        if !paths.is_empty() && is_about_resources {
            return Err("rules cannot apply to both regular resources and non-resource URLs".to_owned());
        }
        Ok(Self {
            verdict: Verdict {
                level,
                omitted,
                omits_managed_fields: own.unwrap_or(omits),
            },
            users: texts(rule, "users"),
            groups: texts(rule, "userGroups"),
            verbs: texts(rule, "verbs"),
            resources,
            namespaces,
            paths,
        })
    }

    fn matches(&self, user: &User, info: &RequestInfo) -> bool {
        let allows = |list: &[String], value: &str| list.is_empty() || has(list, value);
        if !allows(&self.users, &user.name) || !allows(&self.verbs, info.verb) {
            return false;
        }
        if !self.groups.is_empty() && !self.groups.iter().any(|group| user.is_in(group)) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return info.is_resource
                && allows(&self.namespaces, &info.namespace)
                && (self.resources.is_empty() || self.resources.iter().any(|entry| entry.matches(info)));
        }
        if !self.paths.is_empty() {
            return !info.is_resource && self.paths.iter().any(|path| path_matches(path, &info.path));
        }
        true
    }
}

fn has(list: &[String], value: &str) -> bool {
    list.iter().any(|known| known == value)
}

fn path_matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}

impl GroupResources {
    fn matches(&self, info: &RequestInfo) -> bool {
        if self.group != info.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.names.is_empty() && !has(&self.names, &info.name) {
            return false;
        }
        self.resources.iter().any(|pattern| {
            let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
            if pattern == "*" {
                return true;
            }
            match (resource, subresource) {
                ("*", sub) => !info.subresource.is_empty() && sub == info.subresource,
                (resource, "*") => resource == info.resource,
                (resource, sub) => resource == info.resource && sub == info.subresource,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::query::Query;

    fn level(policy: &Policy, user: &str, method: &Method, path: &str) -> &'static str {
        let info = RequestInfo::parse(method, path, &Query::default());
        let user = User::named(user.to_owned(), vec!["devs".to_owned()]);
        policy.verdict(&user, &info).level.name()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let policy = Policy::parse(
            r#"
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: None, users: [jane]}
- {level: Request, resources: [{group: "", resources: ["pods/log", "*/status", "secrets/*"]}]}
- {level: Metadata, namespaces: ["", kube-system], verbs: [get]}
- {level: RequestResponse, resources: [{group: apps, resources: [deployments], resourceNames: [d]}]}
- {level: Metadata, nonResourceURLs: ["/healthz*", "/version"]}
"#,
        )
        .unwrap();
        for (user, method, path, wanted) in [
            ("jane", Method::GET, "/version", "None"),
            ("joe", Method::GET, "/version", "Metadata"),
            ("joe", Method::GET, "/healthz/ping", "Metadata"),
            ("joe", Method::GET, "/readyz", "None"),
            ("joe", Method::GET, "/api/v1/namespaces/a/pods/p", "None"),
            ("joe", Method::GET, "/api/v1/namespaces/a/pods/p/log", "Request"),
            (
                "joe",
                Method::GET,
                "/api/v1/namespaces/a/pods/p/status",
                "Request",
            ),
            ("joe", Method::GET, "/api/v1/namespaces/a/secrets/p", "Request"),
            ("joe", Method::GET, "/api/v1/nodes/n", "Metadata"),
            ("joe", Method::PUT, "/api/v1/nodes/n", "None"),
            (
                "joe",
                Method::GET,
                "/apis/apps/v1/namespaces/a/deployments/d",
                "RequestResponse",
            ),
            (
                "joe",
                Method::GET,
                "/apis/apps/v1/namespaces/a/deployments/e",
                "None",
            ),
        ] {
            assert_eq!(level(&policy, user, &method, path), wanted, "{user} {path}");
        }
    }

    #[test]
    fn a_policy_that_cannot_be_is_refused() {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        for (text, why) in [
            (
                "kind: Policy".to_owned(),
                "it must be a Policy of audit.k8s.io/v1",
            ),
            (head.to_owned(), "it has no rules"),
            (
                format!("{head}rules: [{{level: Some}}]"),
                "unknown level \"Some\"",
            ),
            (
                format!("{head}omitStages: [Never]\nrules: [{{level: None}}]"),
                "unknown stage \"Never\"",
            ),
            (
                format!("{head}rules: [{{level: None, namespaces: [a], nonResourceURLs: [/a]}}]"),
                "rules cannot apply to both",
            ),
        ] {
            let refused = Policy::parse(&text).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
