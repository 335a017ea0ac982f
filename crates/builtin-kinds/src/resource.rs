//! The served resources: the built-in resources and subresources ([`Resource`]).
//!
//! The table contains only names and verbs.

use apimachinery::gvk::Gvk;

mod table;

/// A built-in resource, or a subresource such as `deployments/scale`.
#[derive(Debug)]
pub struct Resource {
    /// The served group and version, and the kind of the body.
    pub gvk: Gvk,
    /// The plural (`deployments`), or the plural and the subresource (`deployments/status`). For a subresource, `gvk`
    /// is the kind of the body (`Scale` of `autoscaling/v1`), and may differ from `served_group` and `served_version`.
    pub name: &'static str,
    /// The group under which the resource is served.
    pub served_group: &'static str,
    /// The version under which the resource is served.
    pub served_version: &'static str,
    /// The singular name; empty for subresources.
    pub singular: &'static str,
    /// True if the objects are namespaced.
    pub namespaced: bool,
    /// The verbs that discovery lists.
    pub verbs: &'static [&'static str],
    /// Short names, such as `deploy`.
    pub short_names: &'static [&'static str],
    /// Categories, such as `all`.
    pub categories: &'static [&'static str],
}

/// Returns all served resources, each followed by its subresources, in discovery order.
pub fn resources() -> &'static [Resource] {
    table::RESOURCES
}

/// The constants of the generated table.
pub(super) mod row_shapes {
    use super::{Gvk, Resource};

    pub(super) const NAMESPACED: bool = true;
    pub(super) const CLUSTER: bool = false;

    type Names = &'static [&'static str];

    pub(super) const CREATE: Names = &["create"];
    pub(super) const GET: Names = &["get"];
    pub(super) const UPDATE: Names = &["update"];
    pub(super) const READ: Names = &["get", "list"];
    pub(super) const CONNECT: Names = &["create", "get"];
    pub(super) const SUBRESOURCE: Names = &["get", "patch", "update"];
    pub(super) const PROXY: Names = &["create", "delete", "get", "patch", "update"];
    pub(super) const ALL_BUT_COLLECTION: Names =
        &["create", "delete", "get", "list", "patch", "update", "watch"];
    pub(super) const ALL: Names = &[
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];

    pub(super) const fn gvk(group: &'static str, version: &'static str, kind: &'static str) -> Gvk {
        Gvk { group, version, kind }
    }

    #[expect(clippy::too_many_arguments, reason = "one line of the table is one resource")]
    pub(super) const fn row(
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
    use crate::strategy::strategy;

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
