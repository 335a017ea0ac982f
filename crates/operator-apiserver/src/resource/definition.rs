//! Definitions of served resources ([`Definition`]), and their catalog.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use structured_merge::builtin::{Type, types};

use super::shared_storage;
use crate::resource::FieldManagers;
use crate::resource::crd::CustomVersion;
use crate::status::NamedResource;
use crate::store::TableId;
use apimachinery::gvk::Gvk;
use apimachinery::gvk::Gvr;
use builtin_kinds::{Strategy, resource_v1beta1};

/// A resource in one version.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) subject: NamedResource,
    pub(crate) version: String,
    /// The table of its objects, independent of the version.
    pub(crate) table: TableId,
    /// The group, version and plural of its events.
    pub(crate) storage: Arc<Gvr>,
    pub(crate) singular: String,
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) source: Source,
    pub(crate) field_managers: FieldManagers,
}

/// A subresource, and the type of its body.
#[derive(Debug)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    pub(crate) verbs: Vec<String>,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

/// The source of a kind's rules.
#[derive(Debug)]
pub(crate) enum Source {
    Builtin {
        gvk: &'static Gvk,
        strategy: &'static Strategy,
    },
    Custom(Arc<CustomVersion>),
}

impl Definition {
    /// Returns the apiVersion: `apps/v1`, `v1`.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.subject.group, &self.version)
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.source, Source::Custom(_))
    }

    /// Returns the type of a built-in kind.
    pub(crate) fn builtin_type(&self) -> Option<&'static Type> {
        match &self.source {
            Source::Builtin { gvk, .. } => types().for_kind(gvk.group, gvk.version, gvk.kind),
            Source::Custom(_) => None,
        }
    }

    /// Returns the kind in storage errors: both groups of events share the storage of the core group. Errors that name
    /// the resource instead of the kind have the group of the request.
    pub(crate) fn stored_subject(&self) -> &NamedResource {
        static CORE_EVENTS: LazyLock<NamedResource> = LazyLock::new(|| NamedResource {
            group: String::new(),
            resource: "events".to_owned(),
            kind: "Event".to_owned(),
        });
        if self.is("events.k8s.io", "events") {
            &CORE_EVENTS
        } else {
            &self.subject
        }
    }

    /// Returns the directory of the objects in the API server's storage, which some errors contain.
    pub(crate) fn storage_folder(&self) -> String {
        let NamedResource { group, resource, .. } = &self.subject;
        match (group.as_str(), resource.as_str()) {
            ("", "endpoints") => "services/endpoints".to_owned(),
            ("", "nodes") => "minions".to_owned(),
            ("", "replicationcontrollers") => "controllers".to_owned(),
            ("", "services") => "services/specs".to_owned(),
            ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
            ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => format!("{group}/{resource}"),
            _ if self.is_custom() => format!("{group}/{resource}"),
            _ => resource.clone(),
        }
    }

    /// Returns the key of an object in the table.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            [namespace, "/", name].concat()
        } else {
            name.to_owned()
        }
    }

    /// Returns the key prefix of a namespace's objects; the prefix of all objects if the namespace is empty.
    pub(crate) fn key_prefix(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() {
            format!("{namespace}/")
        } else {
            String::new()
        }
    }

    /// Waits until the resource is not served in this form any more, because its CRD has changed or was deleted.
    pub(crate) async fn retired(&self) {
        match &self.source {
            Source::Custom(version) => version.retired.cancelled().await,
            _ => std::future::pending().await,
        }
    }

    pub(crate) fn is_retired(&self) -> bool {
        matches!(&self.source, Source::Custom(version) if version.retired.is_cancelled())
    }

    pub(crate) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Returns true if this is a built-in resource of the given group and plural.
    pub(crate) fn is(&self, group: &str, resource: &str) -> bool {
        !self.is_custom() && self.subject.group == group && self.subject.resource == resource
    }
}

/// Returns `group/version`, or only the version for the core group.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// All definitions of one origin, in discovery order.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    definitions: Vec<Arc<Definition>>,
    by_path: HashMap<String, Arc<Definition>>,
}

impl Catalog {
    pub(crate) fn new(definitions: Vec<Arc<Definition>>) -> Self {
        let by_path = definitions
            .iter()
            .map(|definition| {
                let subject = &definition.subject;
                let path = path(&subject.group, &definition.version, &subject.resource);
                (path, definition.clone())
            })
            .collect();
        Self { definitions, by_path }
    }

    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Definition>> {
        self.by_path.get(&path(group, version, resource)).cloned()
    }

    pub(crate) fn definitions(&self) -> &[Arc<Definition>] {
        &self.definitions
    }

    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.definitions
            .iter()
            .any(|definition| definition.subject.group == group && definition.version == version)
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.definitions
            .iter()
            .any(|definition| definition.subject.group == group)
    }
}

fn path(group: &str, version: &str, resource: &str) -> String {
    [group, "/", version, "/", resource].concat()
}

/// Returns all built-in resources. The catalog is shared by all servers, some of which may serve fewer resources.
pub(crate) fn builtin_catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::new(builtin_definitions()));
    &CATALOG
}

fn builtin_definitions() -> Vec<Arc<Definition>> {
    let all = builtin_kinds::resources();
    all.iter()
        .filter(|resource| !resource.name.contains('/'))
        .map(|resource| Arc::new(builtin_definition(resource, all)))
        .collect()
}

/// Returns the built-in resources of beta versions, which are off by default. They are stored as `v1`.
pub(crate) fn beta_catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
        let all = builtin_kinds::resources();
        let mut definitions = Vec::new();
        for (group, version, kinds) in structured_merge::builtin::BETA {
            let stable = all.iter().filter(|resource| {
                let is_main = !resource.name.contains('/');
                is_main && resource.served_group == group && kinds.contains(&resource.gvk.kind)
            });
            definitions.extend(stable.map(|resource| {
                let mut definition = builtin_definition(resource, all);
                version.clone_into(&mut definition.version);
                let is_own = |kind: &&Gvk| {
                    (kind.group, kind.version, kind.kind) == (group, version, resource.gvk.kind)
                };
                let own = resource_v1beta1::KINDS.iter().find(is_own);
                if let (Source::Builtin { gvk, .. }, Some(own)) = (&mut definition.source, own) {
                    *gvk = own;
                }
                for subresource in &mut definition.subresources {
                    version.clone_into(&mut subresource.version);
                }
                Arc::new(definition)
            }));
        }
        Catalog::new(definitions)
    });
    &CATALOG
}

fn builtin_definition(
    resource: &'static builtin_kinds::Resource,
    all: &'static [builtin_kinds::Resource],
) -> Definition {
    let subject = NamedResource {
        group: resource.served_group.to_owned(),
        resource: resource.name.to_owned(),
        kind: resource.gvk.kind.to_owned(),
    };
    let (table, storage) = shared_storage::of(resource.served_group, resource.served_version, resource.name);
    let prefix = format!("{}/", resource.name);
    let subresources: Vec<Subresource> = all
        .iter()
        .filter(|sub| {
            sub.served_group == resource.served_group && sub.served_version == resource.served_version
        })
        .filter_map(|sub| Some((sub, sub.name.strip_prefix(&prefix)?)))
        .map(|(sub, name)| Subresource {
            name: name.to_owned(),
            verbs: owned(sub.verbs),
            group: sub.gvk.group.to_owned(),
            version: sub.gvk.version.to_owned(),
            kind: sub.gvk.kind.to_owned(),
        })
        .collect();
    Definition {
        table,
        storage,
        version: resource.served_version.to_owned(),
        singular: resource.singular.to_owned(),
        list_kind: format!("{}List", resource.gvk.kind),
        namespaced: resource.namespaced,
        verbs: owned(resource.verbs),
        short_names: owned(resource.short_names),
        categories: owned(resource.categories),
        field_managers: FieldManagers::new(subresources.iter().map(|sub| sub.name.as_str())),
        subresources,
        source: Source::Builtin {
            gvk: &resource.gvk,
            strategy: builtin_kinds::strategy(&resource.gvk),
        },
        subject,
    }
}

/// Returns the definition for bodies of `serviceaccounts/token`, which are decoded and tracked like objects.
pub(crate) fn token_requests() -> &'static Arc<Definition> {
    static DEFINITION: LazyLock<Arc<Definition>> = LazyLock::new(|| {
        const GVK: &Gvk = &Gvk {
            group: "authentication.k8s.io",
            version: "v1",
            kind: "TokenRequest",
        };
        let (table, storage) = shared_storage::of(GVK.group, GVK.version, "tokenrequests");
        Arc::new(Definition {
            subject: NamedResource {
                group: GVK.group.to_owned(),
                resource: "tokenrequests".to_owned(),
                kind: GVK.kind.to_owned(),
            },
            version: GVK.version.to_owned(),
            table,
            storage,
            singular: "tokenrequest".to_owned(),
            list_kind: String::new(),
            namespaced: true,
            verbs: owned(&["create"]),
            short_names: Vec::new(),
            categories: Vec::new(),
            field_managers: FieldManagers::new(std::iter::once("token")),
            subresources: Vec::new(),
            source: Source::Builtin {
                gvk: GVK,
                strategy: builtin_kinds::strategy(GVK),
            },
        })
    });
    &DEFINITION
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
