//! [`RestMapper`] finds kinds of the API server by name.

use std::fmt;
use std::sync::Arc;

use kube::core::discovery::v2::{APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery};
use kube::discovery::{ApiGroup, Discovery};
use tokio::sync::Mutex;

use crate::object::Kind;

/// Finds kinds that the operator knows only by name, as `kubectl` does; see
/// [`Client::rest_mapper`](crate::Client::rest_mapper). Clones share the discovered kinds.
///
/// The first call discovers all kinds with two requests. If a kind is unknown, they are repeated, because its CRD may
/// have been installed since.
///
/// ```no_run
/// # use kube::api::DynamicObject;
/// # use operator_runtime::prelude::*;
/// # async fn example(ctx: KeyContext, request: Request) -> Result<()> {
/// let gateways = ctx.rest_mapper().kind("gateway.networking.k8s.io", "Gateway").await?;
/// if let Some(gateway) = ctx.get::<DynamicObject>((&gateways, &request)).await? {
///     tracing::info!(version = gateways.version, class = %gateway.data["spec"]["gatewayClassName"], "seen");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RestMapper {
    client: kube::Client,
    served: Arc<Mutex<Option<Vec<Served>>>>,
}

/// An error of finding a kind.
#[derive(Debug, thiserror::Error)]
pub enum RestMapperError {
    /// The server does not serve the kind.
    #[error("no matches for kind {kind:?} in {place}: install its CRD, or correct the name")]
    NoKind {
        /// The kind.
        kind: String,
        /// `group "GROUP"`, or `version "GROUP/VERSION"`.
        place: String,
    },
    /// The server does not serve the resource.
    #[error("no matches for resource {name:?}: install its CRD, or correct the name")]
    NoResource {
        /// The requested name.
        name: String,
    },
    /// Discovery failed.
    #[error("cannot discover the kinds of the API server")]
    Discovery(#[source] kube::Error),
}

/// One kind in one version. The versions of a group are in the order of the server's preference.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Served {
    kind: Kind,
    singular: String,
    short_names: Vec<String>,
}

// === impl RestMapper ===

impl RestMapper {
    pub(crate) fn new(client: kube::Client) -> Self {
        let served = Arc::default();
        Self { client, served }
    }

    /// Returns a kind of a group in the preferred version. The core group is `""`.
    ///
    /// # Errors
    /// Returns an error if the server does not serve the kind or does not respond.
    pub async fn kind(&self, group: &str, kind: &str) -> Result<Kind, RestMapperError> {
        let is_it = |served: &Served| served.kind.group == group && served.kind.kind == kind;
        let found = self.find(is_it).await?;
        found.ok_or_else(|| RestMapperError::NoKind {
            kind: kind.to_owned(),
            place: format!("group {group:?}"),
        })
    }

    /// Returns a kind of an API version, such as `apps/v1` or `v1`.
    ///
    /// # Errors
    /// As for [`RestMapper::kind`].
    pub async fn kind_in(&self, api_version: &str, kind: &str) -> Result<Kind, RestMapperError> {
        let is_it = |served: &Served| served.kind.api_version() == api_version && served.kind.kind == kind;
        let found = self.find(is_it).await?;
        found.ok_or_else(|| RestMapperError::NoKind {
            kind: kind.to_owned(),
            place: format!("version {api_version:?}"),
        })
    }

    /// Returns the kind of a resource in the forms that `kubectl` accepts: plural, singular or short name, alone, with
    /// its group (`deployments.apps`), or with version and group (`deployments.v1.apps`).
    ///
    /// # Errors
    /// As for [`RestMapper::kind`].
    pub async fn resource(&self, name: &str) -> Result<Kind, RestMapperError> {
        let (resource, place) = name.split_once('.').unwrap_or((name, ""));
        let found = self.find(|served| served.is_named(resource, place)).await?;
        let name = name.to_owned();
        found.ok_or(RestMapperError::NoResource { name })
    }

    async fn find(&self, is_it: impl Fn(&Served) -> bool) -> Result<Option<Kind>, RestMapperError> {
        // The lock is held during discovery, so that concurrent calls cause only one.
        let mut served = self.served.lock().await;
        let find = |served: &[Served]| {
            let found = served.iter().find(|served| is_it(served));
            found.map(|served| served.kind.clone())
        };
        if let Some(kind) = served.as_deref().and_then(find) {
            return Ok(Some(kind));
        }
        let now = discover(&self.client).await.map_err(RestMapperError::Discovery)?;
        let found = find(&now);
        *served = Some(now);
        Ok(found)
    }
}

impl fmt::Debug for RestMapper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RestMapper").finish_non_exhaustive()
    }
}

// === impl Served ===

impl Served {
    /// Converts a resource of aggregated discovery. Returns `None` if it has no kind of objects.
    fn of(group: &str, version: &str, resource: APIResourceDiscovery) -> Option<Self> {
        let kind = resource.response_kind?.kind?;
        let singular = resource.singular_resource.filter(|singular| !singular.is_empty());
        Some(Self {
            singular: singular.unwrap_or_else(|| kind.to_lowercase()),
            short_names: resource.short_names,
            kind: Kind {
                group: group.to_owned(),
                version: version.to_owned(),
                kind,
                plural: resource.resource?,
                namespaced: resource.scope.as_deref() == Some("Namespaced"),
            },
        })
    }

    fn is_named(&self, resource: &str, place: &str) -> bool {
        let is_name = self.kind.plural == resource
            || self.singular == resource
            || self.short_names.iter().any(|short| short == resource);
        let of_version = || place.split_once('.').unwrap_or((place, ""));
        let is_place = place.is_empty()
            || place == self.kind.group
            || of_version() == (&*self.kind.version, &*self.kind.group);
        is_name && is_place
    }
}

async fn discover(client: &kube::Client) -> kube::Result<Vec<Served>> {
    let core = client.list_core_api_versions_aggregated().await?;
    let groups = client.list_api_groups_aggregated().await?;
    if core.items.is_empty() {
        // Older servers respond without aggregation.
        return discover_by_group(client).await;
    }
    let in_list = |list: APIGroupDiscoveryList| list.items.into_iter().flat_map(in_group);
    Ok(in_list(core).chain(in_list(groups)).collect())
}

fn in_group(group: APIGroupDiscovery) -> impl Iterator<Item = Served> {
    let name = group
        .metadata
        .and_then(|metadata| metadata.name)
        .unwrap_or_default();
    group.versions.into_iter().flat_map(move |version| {
        let (group, number) = (name.clone(), version.version.unwrap_or_default());
        let resources = version.resources.into_iter();
        resources.filter_map(move |resource| Served::of(&group, &number, resource))
    })
}

async fn discover_by_group(client: &kube::Client) -> kube::Result<Vec<Served>> {
    let discovery = Discovery::new(client.clone()).run().await?;
    Ok(discovery
        .groups_alphabetical()
        .into_iter()
        .flat_map(by_preference)
        .collect())
}

fn by_preference(group: &ApiGroup) -> Vec<Served> {
    let preferred = group.preferred_version_or_latest();
    let others = group.versions().filter(|version| *version != preferred);
    let versions = std::iter::once(preferred).chain(others);
    let kinds = versions.flat_map(|version| group.versioned_resources(version));
    let served = kinds.map(|found| {
        let kind = Kind::from(found);
        Served {
            singular: kind.kind.to_lowercase(),
            short_names: Vec::new(),
            kind,
        }
    });
    served.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_has_many_names() {
        let served = Served {
            kind: Kind::in_namespaces("apps/v1", "Deployment", "deployments"),
            singular: "deployment".to_owned(),
            short_names: vec!["deploy".to_owned()],
        };
        for name in ["deployments", "deployment", "deploy"] {
            for place in ["", "apps", "v1.apps"] {
                assert!(served.is_named(name, place), "{name} {place}");
            }
            for place in ["v1", "extensions", "v1beta1.apps"] {
                assert!(!served.is_named(name, place), "{name} {place}");
            }
        }
        assert!(!served.is_named("deployment.apps", ""));
    }

    #[test]
    fn core_group_may_be_named_by_its_version() {
        let served = Served {
            kind: Kind::in_namespaces("v1", "Pod", "pods"),
            singular: "pod".to_owned(),
            short_names: vec!["po".to_owned()],
        };
        assert!(served.is_named("po", "v1") && served.is_named("pods", ""));
        assert!(!served.is_named("pods", "apps"));
    }
}
