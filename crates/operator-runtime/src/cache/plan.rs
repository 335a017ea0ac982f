//! [`Plan`], the watches of a kind, computed from the options of the kind, of its namespaces and of the cache. Pure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::watcher;

use super::store::Scope;
use super::transforms::Transforms;
use super::watch_options::{Namespaces, SyncPeriod, WatchOptions};
use super::{CacheError, CacheOptions, KindOptions};
use crate::object::Kind;

/// The watches of a kind and the transforms of its objects.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) watches: Vec<Planned>,
    pub(super) transforms: Transforms,
}

/// One watch of a kind: its scope and its selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) scope: Scope,
    labels: Option<String>,
    fields: Option<String>,
    pub(super) bookmarks: bool,
    pub(super) sync_period: Option<Duration>,
}

// === impl CacheOptions ===

impl CacheOptions {
    /// # Errors
    /// Returns an error if a cluster-scoped kind has namespaces.
    pub(crate) fn check(&self) -> Result<(), CacheError> {
        let is_mistaken =
            |(kind, options): &(&Kind, &KindOptions)| !kind.namespaced && options.namespaces.is_some();
        match self.kinds.iter().find(is_mistaken) {
            Some((kind, _)) => Err(CacheError::ClusterScoped {
                kind: kind.to_string(),
            }),
            None => Ok(()),
        }
    }

    /// Returns the watches that a kind needs.
    pub(super) fn plan(&self, kind: &Kind) -> Plan {
        let of_kind = self.kinds.get(kind).cloned().unwrap_or_default();
        let defaults = self.defaults();
        let namespaces = of_kind.namespaces.as_ref().unwrap_or(&self.namespaces);
        if !kind.namespaced || namespaces.0.is_empty() {
            let options = of_kind.watch.or(&defaults);
            return Plan {
                watches: vec![Planned::new(None, &options)],
                transforms: options.transforms,
            };
        }
        let options = |name: &str, own: &WatchOptions| {
            let of_kind = own.clone().or(&of_kind.watch);
            let wider = self.namespaces.0.get(name);
            wider
                .map_or(of_kind.clone(), |wider| of_kind.or(wider))
                .or(&defaults)
        };
        let by_name = namespaces.0.iter();
        let by_name: Vec<_> = by_name.map(|(name, own)| (name, options(name, own))).collect();
        let mut transforms = HashMap::new();
        let mut watches = Vec::new();
        for (name, mut options) in by_name {
            let scope = (!name.is_empty()).then(|| Arc::from(name.as_str()));
            if scope.is_none() {
                options.fields = all_but(namespaces, options.fields);
            }
            watches.push(Planned::new(scope, &options));
            transforms.insert(name.clone(), options.transforms);
        }
        let others = transforms.remove("").unwrap_or_default();
        let transforms = others.with_namespaces(transforms);
        Plan { watches, transforms }
    }

    fn defaults(&self) -> WatchOptions {
        WatchOptions {
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            transforms: self.transforms.clone(),
            sync_period: Some(SyncPeriod::of(self.sync_period)),
            bookmarks: Some(self.watch_bookmarks),
        }
    }
}

/// Returns a field selector that excludes the namespaces with options of their own, combined with `fields`.
fn all_but(namespaces: &Namespaces, fields: Option<String>) -> Option<String> {
    let named = namespaces.0.keys().filter(|name| !name.is_empty());
    let others = named.map(|name| format!("metadata.namespace!={name}"));
    let terms: Vec<_> = others.chain(fields.filter(|fields| !fields.is_empty())).collect();
    (!terms.is_empty()).then(|| terms.join(","))
}

// === impl Planned ===

impl Planned {
    fn new(scope: Scope, options: &WatchOptions) -> Self {
        let said = |selector: &Option<String>| selector.clone().filter(|selector| !selector.is_empty());
        Self {
            scope,
            labels: said(&options.labels),
            fields: said(&options.fields),
            bookmarks: options.bookmarks.unwrap_or(true),
            sync_period: options.sync_period.and_then(SyncPeriod::period),
        }
    }

    pub(super) fn apply(&self, mut config: watcher::Config) -> watcher::Config {
        config.label_selector.clone_from(&self.labels);
        config.field_selector.clone_from(&self.fields);
        config.bookmarks = self.bookmarks;
        config
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
    use kube::ResourceExt as _;

    use super::*;

    fn planned(scope: Option<&str>, labels: Option<&str>, fields: Option<&str>) -> Planned {
        Planned {
            scope: scope.map(Arc::from),
            labels: labels.map(str::to_owned),
            fields: fields.map(str::to_owned),
            bookmarks: true,
            sync_period: CacheOptions::default().sync_period,
        }
    }

    fn labels(selector: &str) -> WatchOptions {
        WatchOptions {
            labels: Some(selector.to_owned()),
            ..WatchOptions::default()
        }
    }

    fn of_pods(options: impl Into<KindOptions>) -> BTreeMap<Kind, KindOptions> {
        [(Kind::of::<Pod>(), options.into())].into()
    }

    #[test]
    fn default_is_one_watch_of_everything() {
        let plan = CacheOptions::default().plan(&Kind::of::<Pod>());
        assert_eq!(plan.watches, [planned(None, None, None)]);
    }

    #[test]
    fn selectors_are_of_one_kind() {
        let options = CacheOptions {
            kinds: of_pods(WatchOptions {
                fields: Some("spec.nodeName=n".to_owned()),
                ..labels("app=web")
            }),
            ..CacheOptions::default()
        };
        let pods = options.plan(&Kind::of::<Pod>());
        assert_eq!(
            pods.watches,
            [planned(None, Some("app=web"), Some("spec.nodeName=n"))]
        );
        assert_eq!(
            options.plan(&Kind::of::<ConfigMap>()).watches,
            [planned(None, None, None)]
        );
    }

    #[test]
    fn empty_name_excludes_named_namespaces() {
        let others = WatchOptions {
            fields: Some("spec.x=1".to_owned()),
            ..WatchOptions::default()
        };
        let any = WatchOptions::default;
        let namespaces = [("a", any()), ("b", any()), ("", others)].into();
        let options = CacheOptions {
            namespaces,
            ..CacheOptions::default()
        };
        let others = "metadata.namespace!=a,metadata.namespace!=b,spec.x=1";
        let expected = [
            planned(None, None, Some(others)),
            planned(Some("a"), None, None),
            planned(Some("b"), None, None),
        ];
        assert_eq!(options.plan(&Kind::of::<Pod>()).watches, expected);
        assert_eq!(
            options.plan(&Kind::of::<Node>()).watches,
            [planned(None, None, None)]
        );
    }

    #[test]
    fn options_are_taken_in_the_documented_order() {
        let defaults = CacheOptions {
            labels: Some("from=default".to_owned()),
            namespaces: [("a", labels("from=namespace")), ("b", WatchOptions::default())].into(),
            ..CacheOptions::default()
        };
        let with = |options: KindOptions| CacheOptions {
            kinds: of_pods(options),
            ..defaults.clone()
        };
        let of = |options: &CacheOptions| {
            let watches = options.plan(&Kind::of::<Pod>()).watches;
            watches
                .into_iter()
                .map(|watch| watch.labels.unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&defaults), ["from=namespace", "from=default"]);
        let kind = labels("from=kind");
        assert_eq!(of(&with(kind.clone().into())), ["from=namespace", "from=kind"]);
        let own = KindOptions {
            namespaces: Some([("a", WatchOptions::default()), ("c", labels("from=both"))].into()),
            ..KindOptions::default()
        };
        let both = KindOptions {
            watch: kind,
            ..own.clone()
        };
        assert_eq!(of(&with(both)), ["from=kind", "from=both"]);
        assert_eq!(of(&with(own)), ["from=namespace", "from=both"]);
    }

    #[test]
    fn periods_and_bookmarks_have_the_order_of_selectors() {
        let kind = WatchOptions {
            sync_period: Some(SyncPeriod::Never),
            bookmarks: Some(false),
            ..WatchOptions::default()
        };
        let in_a = WatchOptions {
            sync_period: Some(SyncPeriod::Every(Duration::from_secs(5))),
            ..WatchOptions::default()
        };
        let options = CacheOptions {
            kinds: of_pods(kind),
            namespaces: [("a", in_a), ("b", WatchOptions::default())].into(),
            ..CacheOptions::default()
        };
        let watches = options.plan(&Kind::of::<Pod>()).watches;
        let said: Vec<_> = watches
            .iter()
            .map(|watch| (watch.sync_period, watch.bookmarks))
            .collect();
        assert_eq!(said, [(Some(Duration::from_secs(5)), false), (None, false)]);
    }

    #[test]
    fn transform_of_a_namespace_overrides_that_of_the_kind() {
        let name = |name: &'static str| {
            Transforms::default().of::<Pod>(move |pod| pod.metadata.name = Some(name.to_owned()))
        };
        let options = CacheOptions {
            transforms: name("kind").of_metadata(|metadata| metadata.name = Some("any".to_owned())),
            namespaces: [
                (
                    "a",
                    WatchOptions {
                        transforms: name("namespace"),
                        ..WatchOptions::default()
                    },
                ),
                ("", WatchOptions::default()),
            ]
            .into(),
            ..CacheOptions::default()
        };
        let transformed = |namespace: &str| {
            let kind = Kind::of::<Pod>();
            let mut pod = Pod::default();
            pod.metadata.namespace = Some(namespace.to_owned());
            options.plan(&kind).transforms.only(&kind).apply(&mut pod);
            pod.name_any()
        };
        assert_eq!(
            (transformed("a"), transformed("b")),
            ("namespace".to_owned(), "kind".to_owned())
        );
        let (kind, mut config) = (Kind::of::<ConfigMap>(), ConfigMap::default());
        options.plan(&kind).transforms.only(&kind).apply(&mut config);
        assert_eq!(config.name_any(), "any");
    }

    #[test]
    fn cluster_scoped_kind_has_one_watch() {
        let nodes = KindOptions {
            namespaces: Some(["a"].into()),
            ..KindOptions::default()
        };
        let options = CacheOptions {
            kinds: [(Kind::of::<Node>(), nodes)].into(),
            ..CacheOptions::default()
        };
        let error = options.check().unwrap_err().to_string();
        assert_eq!(
            error,
            "type Node is not namespaced, but its namespaces setting is not empty: remove it from KindOptions::namespaces"
        );
        assert!(CacheOptions::default().check().is_ok());
    }
}
