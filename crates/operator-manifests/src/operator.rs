//! The self-description of an operator: the JSON output of `<operator> manifests` ([`OperatorManifests`]).
//!
//! Unknown fields are ignored, so that a newer operator works with an older tool.

use serde::Deserialize;
use serde_json::Value;

use crate::rbac::Rule;

/// The output of `<operator> manifests`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorManifests {
    /// The CustomResourceDefinitions, as kube's derive generates them.
    pub crds: Vec<Value>,
    /// The schemas of the Rust types of each kind.
    pub schemas: Vec<TypeSchema>,
    /// The permissions that the operator declares.
    pub rules: Vec<Rule>,
    /// The permissions that the controllers need for the kinds they watch and own.
    pub implied_rules: Vec<ImpliedRule>,
    /// `{"crd": NAME, "conversion": {...}}` for each kind that a webhook converts.
    pub conversions: Vec<Value>,
    /// Problems that the operator found in its description.
    pub problems: Vec<Problem>,
    /// Entries of a MutatingWebhookConfiguration.
    pub mutating_webhooks: Vec<Value>,
    /// Entries of a ValidatingWebhookConfiguration.
    pub validating_webhooks: Vec<Value>,
}

/// The JSON Schema of the Rust type of a kind. `$defs` has one definition for each type that it uses.
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

/// A rule and its origin.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct ImpliedRule {
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
    /// The builder call of the controller, such as `owns::<Deployment>`.
    pub reason: String,
}

/// A problem that an operator found in its description.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Problem {
    /// The Rust type that the problem is about.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The cause.
    pub message: String,
}

/// The output of the operator could not be parsed.
#[derive(Debug, thiserror::Error)]
#[error("unexpected JSON from the operator's command `manifests`: {0}")]
pub struct ParseError(#[from] serde_json::Error);

impl OperatorManifests {
    /// Parses the output of `<operator> manifests`.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON, or a rule has an unknown field.
    pub fn from_json(text: &str) -> Result<Self, ParseError> {
        Ok(serde_json::from_str(text)?)
    }

    /// Returns all permissions, declared and derived.
    pub fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        let implied = self.implied_rules.iter().map(|implied| &implied.rule);
        self.rules.iter().chain(implied)
    }
}
