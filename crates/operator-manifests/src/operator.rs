//! The description of an operator: the JSON that `<operator> manifests` prints.
//!
//! Knows nothing of files. Unknown parts are ignored, so that a newer operator works with an older tool.

use serde::Deserialize;
use serde_json::Value;

use crate::rbac::Rule;

/// The answer of `<operator> manifests`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorManifests {
    /// CustomResourceDefinitions as kube's derive made them.
    pub crds: Vec<Value>,
    /// The schema of each kind by its Rust types.
    pub schemas: Vec<TypeSchema>,
    /// The permissions that the controllers ask for.
    pub rules: Vec<Rule>,
    /// The permissions that follow from what the controllers watch and own.
    pub implied_rules: Vec<ImpliedRule>,
    /// `{"crd": NAME, "conversion": {...}}` for each kind that is converted by a webhook.
    pub conversions: Vec<Value>,
    /// Problems that the operator found.
    pub problems: Vec<Problem>,
    /// Entries of a MutatingWebhookConfiguration.
    pub mutating_webhooks: Vec<Value>,
    /// Entries of a ValidatingWebhookConfiguration.
    pub validating_webhooks: Vec<Value>,
}

/// The JSON Schema of the Rust type of a kind, with a definition in `$defs` for each type in it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct TypeSchema {
    /// The name of the CustomResourceDefinition.
    pub crd: String,
    /// The version.
    pub version: String,
    /// The path of the Rust type, such as `my_operator::api::v1::memcached_types::Memcached`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The schema.
    pub schema: Value,
}

/// A rule and what it follows from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct ImpliedRule {
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
    /// The reason of the rule, such as `owns::<Deployment>`.
    pub reason: String,
}

/// The description of an operator.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Problem {
    /// The Rust type that it is about.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Why.
    pub message: String,
}

/// The operator's answer could not be understood.
#[derive(Debug, thiserror::Error)]
#[error("unexpected JSON from the operator's command `manifests`: {0}")]
pub struct ParseError(#[from] serde_json::Error);

impl OperatorManifests {
    /// Reads the answer.
    ///
    /// # Errors
    /// If the text is not JSON, or a rule has an unknown field.
    pub fn from_json(text: &str) -> Result<Self, ParseError> {
        Ok(serde_json::from_str(text)?)
    }

    /// All permissions: explicit and derived ones.
    pub fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        let implied = self.implied_rules.iter().map(|implied| &implied.rule);
        self.rules.iter().chain(implied)
    }
}
