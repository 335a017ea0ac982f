//! Rules of Roles and ClusterRoles.

use serde::Serialize;

/// One rule of a Role or ClusterRole, in the JSON form of `rbac.authorization.k8s.io/v1`, with the namespace of the
/// Role where it is none of the ClusterRole.
///
/// ```
/// use operator_runtime::manifests::PolicyRule;
///
/// let rule = PolicyRule::new().groups(["apps"]).resources(["deployments", "deployments/scale"]).verbs(["get"]);
/// let json = serde_json::to_value(&rule)?;
/// assert_eq!(json["apiGroups"][0], "apps");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRule {
    /// API groups; the core group is the empty string.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Plural names; subresources as `pods/log`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Verbs, or `*`.
    pub verbs: Vec<String>,
    /// Names of the objects that the rule is limited to; all when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths such as `/metrics`, instead of groups and resources.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
    /// The namespace of the Role that the rule belongs to; `None` for the ClusterRole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

// === impl PolicyRule ===

impl PolicyRule {
    /// A rule that allows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds API groups; the core group is the empty string, and not `core` as in [`#[rbac]`](crate::rbac).
    #[must_use]
    pub fn groups<'a>(mut self, groups: impl IntoIterator<Item = &'a str>) -> Self {
        self.api_groups.extend(groups.into_iter().map(str::to_owned));
        self
    }

    /// Adds resources by their plural names; subresources as `pods/log`.
    #[must_use]
    pub fn resources<'a>(mut self, resources: impl IntoIterator<Item = &'a str>) -> Self {
        self.resources.extend(resources.into_iter().map(str::to_owned));
        self
    }

    /// Adds verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or `*` for all.
    #[must_use]
    pub fn verbs<'a>(mut self, verbs: impl IntoIterator<Item = &'a str>) -> Self {
        self.verbs.extend(verbs.into_iter().map(str::to_owned));
        self
    }

    /// Limits the rule to objects of these names. Such a rule cannot allow `create`, of which the API server does not
    /// know the name, and `list` and `watch` only of clients that select the name.
    #[must_use]
    pub fn resource_names<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.resource_names.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// Adds non-resource URLs; `*` at the end stands for any rest. Such a rule has neither groups nor resources.
    #[must_use]
    pub fn urls<'a>(mut self, urls: impl IntoIterator<Item = &'a str>) -> Self {
        self.non_resource_urls.extend(urls.into_iter().map(str::to_owned));
        self
    }

    /// Moves the rule from the ClusterRole into a Role of `namespace`.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }
}
