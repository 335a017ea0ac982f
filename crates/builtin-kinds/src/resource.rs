//! What is served: the built-in resources and subresources.
//!
//! Knows names and verbs; no object.

/// The type of a built-in object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Gvk {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
}

/// A built-in resource, or a subresource such as `deployments/scale`.
#[derive(Debug)]
pub(crate) struct Resource {
    /// The group and version it is served under, and the kind of its body.
    pub(crate) gvk: Gvk,
    /// Plural (`deployments`), or plural/subresource (`deployments/status`). For a subresource `gvk` is the kind of
    /// the body (`Scale` of `autoscaling/v1`) and `served_group`/`served_version` differ from it.
    pub(crate) name: &'static str,
    pub(crate) served_group: &'static str,
    pub(crate) served_version: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
}

/// Everything that is served, subresources after their resource, in discovery order.
pub(crate) fn resources() -> &'static [Resource] {
    super::resource_table::RESOURCES
}

/// The words that the generated table is written in.
pub(super) mod row_shapes {
    use super::{Gvk, Resource};

    pub(in crate::builtin) const NAMESPACED: bool = true;
    pub(in crate::builtin) const CLUSTER: bool = false;

    type Names = &'static [&'static str];

    pub(in crate::builtin) const CREATE: Names = &["create"];
    pub(in crate::builtin) const GET: Names = &["get"];
    pub(in crate::builtin) const UPDATE: Names = &["update"];
    pub(in crate::builtin) const READ: Names = &["get", "list"];
    pub(in crate::builtin) const CONNECT: Names = &["create", "get"];
    pub(in crate::builtin) const SUBRESOURCE: Names = &["get", "patch", "update"];
    pub(in crate::builtin) const PROXY: Names = &["create", "delete", "get", "patch", "update"];
    pub(in crate::builtin) const ALL_BUT_COLLECTION: Names =
        &["create", "delete", "get", "list", "patch", "update", "watch"];
    pub(in crate::builtin) const ALL: Names = &[
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];

    pub(in crate::builtin) const fn gvk(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
    ) -> Gvk {
        Gvk { group, version, kind }
    }

    #[expect(clippy::too_many_arguments, reason = "one line of the table is one resource")]
    pub(in crate::builtin) const fn row(
        gvk: Gvk,
        name: &'static str,
        served: (&'static str, &'static str),
        singular: &'static str,
        namespaced: bool,
        verbs: Names,
        short_names: Names,
        categories: Names,
    ) -> Resource {
        Resource {
            gvk,
            name,
            served_group: served.0,
            served_version: served.1,
            singular,
            namespaced,
            verbs,
            short_names,
            categories,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::resources;
    use crate::builtin::strategy;

    #[test]
    fn every_resource_is_served_once_and_after_its_parent() {
        let mut seen = std::collections::HashSet::new();
        for resource in resources() {
            let version = (resource.served_group, resource.served_version);
            assert!(seen.insert((version, resource.name)), "{}", resource.name);
            if let Some((parent, _)) = resource.name.split_once('/') {
                assert!(seen.contains(&(version, parent)), "{}", resource.name);
            }
        }
    }

    #[test]
    fn a_status_subresource_is_served_exactly_where_the_strategy_has_one() {
        for resource in resources().iter().filter(|r| !r.name.contains('/')) {
            let name = format!("{}/status", resource.name);
            let served = resources().iter().any(|other| {
                other.name == name
                    && (other.served_group, other.served_version)
                        == (resource.served_group, resource.served_version)
            });
            assert_eq!(served, strategy(&resource.gvk).has_status, "{name}");
        }
    }
}
