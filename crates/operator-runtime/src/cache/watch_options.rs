//! [`WatchOptions`], the options of the watches of a namespace, of a kind, or of a kind in a namespace.

use std::collections::BTreeMap;
use std::time::Duration;

use super::transforms::Transforms;

/// Options of the watches of a kind, of a namespace, or of a kind in a namespace. A field that is `None` is inherited
/// from the next of these options:
///
/// 1. a namespace of [`KindOptions::namespaces`](super::KindOptions::namespaces), for the kinds that have namespaces of their own;
/// 2. otherwise a namespace of [`CacheOptions::namespaces`](super::CacheOptions::namespaces);
/// 3. the kind ([`KindOptions::watch`](super::KindOptions::watch));
/// 4. for the kinds of 1, the same namespace in [`CacheOptions::namespaces`](super::CacheOptions::namespaces);
/// 5. [`CacheOptions`](super::CacheOptions).
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Keeps only objects whose labels match, in the form of `kubectl get -l`.
    pub labels: Option<String>,
    /// Keeps only objects whose fields match, in the form of `kubectl get --field-selector`. The server supports
    /// `metadata.name`, `metadata.namespace` and some fields of each kind.
    pub fields: Option<String>,
    /// Transforms of objects before they are stored. A kind without one inherits the transform of the next options.
    pub transforms: Transforms,
    /// The interval of resyncs.
    pub sync_period: Option<SyncPeriod>,
    /// True to request bookmarks.
    pub bookmarks: Option<bool>,
}

/// The interval of resyncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPeriod {
    /// No resyncs.
    Never,
    /// This interval, plus or minus 10 %.
    Every(Duration),
}

/// Namespaces and the options of their watches. Empty means all namespaces. An entry with an empty name is one watch of
/// all namespaces that have no entry, like controller-runtime's `AllNamespaces`.
///
/// ```
/// use operator_runtime::cache::{Namespaces, WatchOptions};
///
/// let two = Namespaces::from(["team-a", "team-b"]);
/// let shared = WatchOptions { labels: Some("shared=true".to_owned()), ..WatchOptions::default() };
/// let one_whole = Namespaces::from([("team-a", WatchOptions::default()), ("", shared)]);
/// # let _ = (two, one_whole);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Namespaces(pub BTreeMap<String, WatchOptions>);

// === impl WatchOptions ===

impl WatchOptions {
    /// Returns these namespaces with the options of `wider` for fields that are `None`.
    #[must_use]
    pub(super) fn or(self, wider: &Self) -> Self {
        Self {
            labels: self.labels.or_else(|| wider.labels.clone()),
            fields: self.fields.or_else(|| wider.fields.clone()),
            transforms: self.transforms.or(&wider.transforms),
            sync_period: self.sync_period.or(wider.sync_period),
            bookmarks: self.bookmarks.or(wider.bookmarks),
        }
    }
}

// === impl SyncPeriod ===

impl SyncPeriod {
    pub(super) fn of(period: Option<Duration>) -> Self {
        period.map_or(Self::Never, Self::Every)
    }

    pub(super) fn period(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::Every(period) => Some(period),
        }
    }
}

// === impl Namespaces ===

impl Namespaces {
    /// Returns only the given namespaces, with their options in `self`. Returns all of them if `names` is empty.
    pub(crate) fn limited_to(self, names: &[String]) -> Self {
        if names.is_empty() {
            return self;
        }
        let options = |name: &String| {
            let of_name = self.0.get(name).or_else(|| self.0.get(""));
            (name.clone(), of_name.cloned().unwrap_or_default())
        };
        Self(names.iter().map(options).collect())
    }
}

impl<const LENGTH: usize> From<[&str; LENGTH]> for Namespaces {
    fn from(names: [&str; LENGTH]) -> Self {
        names.map(|name| (name, WatchOptions::default())).into()
    }
}

impl From<Vec<String>> for Namespaces {
    fn from(names: Vec<String>) -> Self {
        let with_options = |name| (name, WatchOptions::default());
        Self(names.into_iter().map(with_options).collect())
    }
}

impl<const LENGTH: usize> From<[(&str, WatchOptions); LENGTH]> for Namespaces {
    fn from(namespaces: [(&str, WatchOptions); LENGTH]) -> Self {
        let owned = |(name, options): (&str, WatchOptions)| (name.to_owned(), options);
        Self(namespaces.into_iter().map(owned).collect())
    }
}
