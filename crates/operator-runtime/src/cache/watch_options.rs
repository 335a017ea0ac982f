//! Options of watches: for everything, a namespace, a kind, and a kind in a namespace.

use std::collections::BTreeMap;
use std::time::Duration;

use super::transforms::Transforms;

/// How the objects of a kind, of a namespace, or of a kind in a namespace are watched. What it does not say is as the
/// next wider one says:
///
/// 1. a namespace of [`Selectors::namespaces`](super::Selectors::namespaces), for the kinds that have namespaces of their own;
/// 2. otherwise a namespace of [`CacheOptions::namespaces`](super::CacheOptions::namespaces);
/// 3. the kind ([`Selectors::options`](super::Selectors::options));
/// 4. for the kinds of 1, the same namespace in [`CacheOptions::namespaces`](super::CacheOptions::namespaces);
/// 5. [`CacheOptions`](super::CacheOptions).
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    pub(super) transforms: Transforms,
    pub(super) sync_period: Option<SyncPeriod>,
    pub(super) bookmarks: Option<bool>,
}

/// Interval of resyncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncPeriod {
    Never,
    Every(Duration),
}

/// Namespaces, and how each of them is watched; all, if none is named.
///
/// ```
/// use operator_runtime::cache::{Namespaces, WatchOptions};
///
/// let two = Namespaces::named(["team-a", "team-b"]);
/// let one_whole = Namespaces::named(["team-a"]).others(WatchOptions::new().labels("shared=true"));
/// # let _ = (two, one_whole);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    /// The empty name stands for the namespaces that are not named.
    pub(super) by_name: BTreeMap<String, WatchOptions>,
}

// === impl WatchOptions ===

impl WatchOptions {
    /// Everything as the next wider one says.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the objects whose labels match, in the form of `kubectl get -l`.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        self.labels = Some(selector.to_owned());
        self
    }

    /// Keeps the objects whose fields match, in the form of `kubectl get --field-selector`.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.fields = Some(selector.to_owned());
        self
    }

    /// Transforms of objects before they are kept; a kind without one uses that of the next wider options.
    #[must_use]
    pub fn transforms(mut self, transforms: Transforms) -> Self {
        self.transforms = transforms;
        self
    }

    /// Interval at which every object is sent to every controller again; never if `None`.
    #[must_use]
    pub fn sync_period(mut self, period: impl Into<Option<Duration>>) -> Self {
        self.sync_period = Some(SyncPeriod::of(period.into()));
        self
    }

    /// Requests bookmark events from the server.
    #[must_use]
    pub fn bookmarks(mut self, bookmarks: bool) -> Self {
        self.bookmarks = Some(bookmarks);
        self
    }

    /// These, and where they say nothing, the wider ones.
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
    /// These namespaces, each as the kind says.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        names.into_iter().map(str::to_owned).collect()
    }

    /// One more namespace.
    #[must_use]
    pub fn with(mut self, name: &str, options: WatchOptions) -> Self {
        self.by_name.insert(name.to_owned(), options);
        self
    }

    /// The namespaces that are not named as well, in one watch; controller-runtime's `AllNamespaces`.
    #[must_use]
    pub fn others(self, options: WatchOptions) -> Self {
        self.with("", options)
    }

    /// These namespaces with the options that they have here; unchanged if there are no names.
    pub(crate) fn limited_to(self, names: &[String]) -> Self {
        if names.is_empty() {
            return self;
        }
        let options = |name: &String| {
            let of_name = self.by_name.get(name).or_else(|| self.by_name.get(""));
            (name.clone(), of_name.cloned().unwrap_or_default())
        };
        Self {
            by_name: names.iter().map(options).collect(),
        }
    }

    /// Returns true if no namespace has options of its own.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

impl FromIterator<String> for Namespaces {
    fn from_iter<T: IntoIterator<Item = String>>(names: T) -> Self {
        let by_name = names.into_iter().map(|name| (name, WatchOptions::default()));
        Self {
            by_name: by_name.collect(),
        }
    }
}

impl From<Vec<String>> for Namespaces {
    fn from(names: Vec<String>) -> Self {
        names.into_iter().collect()
    }
}

impl<const N: usize> From<[&str; N]> for Namespaces {
    fn from(names: [&str; N]) -> Self {
        Self::named(names)
    }
}
