//! Attribute-based access control: a file with one policy per line ([`AbacPolicies`]).

use apimachinery::object;
use serde_json::Value;

use super::Attributes;

const VERSION: &str = "abac.authorization.kubernetes.io/v1beta1";

/// The policies of a file, `--authorization-policy-file` of kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AbacPolicies(Vec<Policy>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Policy {
    user: String,
    group: String,
    namespace: String,
    resource: String,
    api_group: String,
    path: String,
    readonly: bool,
}

impl AbacPolicies {
    /// Parses policies: a JSON object of `abac.authorization.kubernetes.io/v1beta1` on each line. Empty lines and lines
    /// that start with `#` are skipped.
    ///
    /// # Errors
    /// Returns an error with the invalid line and the reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut policies = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let policy = Policy::parse(line).map_err(|why| format!("line {}: {why}", index + 1))?;
            policies.push(policy);
        }
        Ok(Self(policies))
    }

    /// Returns true if a policy allows a request.
    pub(super) fn allow(&self, asked: &Attributes<'_>) -> bool {
        self.0.iter().any(|policy| policy.allows(asked))
    }
}

impl Policy {
    fn parse(line: &str) -> Result<Self, String> {
        let policy: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let (version, kind) = (
            object::text(&policy, &["apiVersion"]),
            object::text(&policy, &["kind"]),
        );
        if version != VERSION || kind != "Policy" {
            return Err(format!(
                "it must be a Policy of {VERSION}, but is a {kind:?} of {version:?}"
            ));
        }
        let text = |field: &str| object::text(&policy, &["spec", field]).to_owned();
        Ok(Self {
            user: text("user"),
            group: text("group"),
            namespace: text("namespace"),
            resource: text("resource"),
            api_group: text("apiGroup"),
            path: text("nonResourcePath"),
            readonly: policy.pointer("/spec/readonly") == Some(&Value::Bool(true)),
        })
    }

    fn allows(&self, asked: &Attributes<'_>) -> bool {
        let reads = matches!(asked.verb, "get" | "list" | "watch");
        if !self.is_about(asked) || (self.readonly && !reads) {
            return false;
        }
        if asked.is_resource {
            return covers(&self.namespace, asked.namespace)
                && covers(&self.resource, asked.resource)
                && covers(&self.api_group, asked.group);
        }
        match self.path.strip_suffix('*') {
            Some(prefix) => asked.path.starts_with(prefix),
            None => !self.path.is_empty() && self.path == asked.path,
        }
    }

    /// Returns true if the policy applies to the user. A policy that names neither a user nor a group applies to
    /// nobody.
    fn is_about(&self, asked: &Attributes<'_>) -> bool {
        let user = self.user == "*" || self.user == asked.user.name;
        let group = self.group == "*" || asked.user.is_in(&self.group);
        match (self.user.is_empty(), self.group.is_empty()) {
            (true, true) => false,
            (false, true) => user,
            (true, false) => group,
            (false, false) => user && group,
        }
    }
}

fn covers(pattern: &str, value: &str) -> bool {
    pattern == "*" || pattern == value
}
