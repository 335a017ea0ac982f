//! Identifiers of kinds ([`Gvk`]) and of resources ([`Gvr`]): a group, a version, and a kind or a plural.

/// The group, version and kind of a built-in object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version, such as `v1`.
    pub version: &'static str,
    /// The kind, such as `Deployment`.
    pub kind: &'static str,
}

/// The group, version and plural of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvr {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The plural name, such as `deployments`.
    pub resource: String,
}

impl Gvr {
    /// Creates the identifier of a resource.
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
        }
    }
}
