//! What an operator says of itself: the JSON that `<operator> manifests` prints.
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
    /// The permissions that the controllers ask for.
    pub rules: Vec<Rule>,
    /// Entries of a MutatingWebhookConfiguration.
    pub mutating_webhooks: Vec<Value>,
    /// Entries of a ValidatingWebhookConfiguration.
    pub validating_webhooks: Vec<Value>,
}

/// The operator's answer could not be understood.
#[derive(Debug, thiserror::Error)]
#[error("the operator's manifests are not the JSON that was expected: {0}")]
pub struct ParseError(#[from] serde_json::Error);

impl OperatorManifests {
    /// Reads the answer.
    ///
    /// # Errors
    /// When the text is no JSON, or a rule has a field that no rule has.
    pub fn from_json(text: &str) -> Result<Self, ParseError> {
        Ok(serde_json::from_str(text)?)
    }
}
