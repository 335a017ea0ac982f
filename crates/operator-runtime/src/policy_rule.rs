//! [`PolicyRule`], a rule of a Role or ClusterRole.

use serde::Serialize;

/// One rule of a Role or ClusterRole, in the JSON form of `rbac.authorization.k8s.io/v1`.
///
/// ```
/// use operator_runtime::manifests::PolicyRule;
///
/// let rule = PolicyRule {
///     api_groups: vec!["apps".to_owned()],
///     resources: vec!["deployments".to_owned(), "deployments/scale".to_owned()],
///     verbs: vec!["get".to_owned()],
///     ..PolicyRule::default()
/// };
/// # let _ = rule;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRule {
    /// The API groups. The core group is the empty string, not `core` as in [`#[rbac]`](crate::rbac).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// The plural names. Subresources have the form `pods/log`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or `*` for all.
    pub verbs: Vec<String>,
    /// The names of the objects that the rule is limited to. Empty means all. Such a rule cannot allow `create`,
    /// because the API server does not know the name, and allows `list` and `watch` only to clients that select the
    /// name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// The paths, such as `/metrics`, instead of groups and resources. A `*` at the end matches any suffix.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
    /// The namespace of the Role. `None` for the ClusterRole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

// === impl PolicyRule ===

impl PolicyRule {
    /// Creates a rule for resources.
    pub(crate) fn of(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            api_groups: owned(groups),
            resources: owned(resources),
            verbs: owned(verbs),
            ..Self::default()
        }
    }
}
