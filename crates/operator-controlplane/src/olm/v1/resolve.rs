//! Selects the bundle of a ClusterExtension from catalogs, as a pure function.

use std::sync::Arc;

use apimachinery::go::quote;
use operator_olm::catalog::constraint::Constraint;
use operator_olm::catalog::version::{Identifier, Range, Version, pre_release};
use operator_olm::catalog::{Bundle, Catalog, Deprecation, Entry};

use crate::object::Object;
use crate::olm::catalog::Loaded;
use crate::olm::properties::is_requirement;

/// The requirements of a ClusterExtension.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) package: String,
    /// The version range; empty for all versions.
    pub(super) version: String,
    /// The channels; empty for all channels.
    pub(super) channels: Vec<String>,
    /// The installed bundle.
    pub(super) installed: Option<Installed>,
    /// True if any version may follow the installed one.
    pub(super) self_certified: bool,
}

/// An installed bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Installed {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) release: String,
}

/// A catalog that offers packages.
#[derive(Clone)]
pub(super) struct Offer {
    pub(super) catalog: String,
    pub(super) priority: i64,
    pub(super) loaded: Arc<Loaded>,
}

/// The result of a resolution.
pub(super) struct Resolution {
    pub(super) bundle: Result<Bundle, String>,
    /// The deprecations of the package; `None` if they are not known.
    pub(super) deprecations: Option<Vec<Deprecation>>,
}

/// A version and its release. The release of a registry+v1 bundle is that of the property, or the build metadata of the
/// version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Release(Version, Vec<Identifier>);

impl Release {
    fn of(version: &str, release: &str) -> Option<Self> {
        let version = Version::parse(version).ok()?;
        let build = version.build.join(".");
        let release = if release.is_empty() { &build } else { release };
        let identifiers = match release {
            "" => Vec::new(),
            release => pre_release(release).ok()?,
        };
        Some(Self(version, identifiers))
    }
}

/// Returns the version and the release of a bundle as strings.
pub(super) fn version_of(bundle: &Bundle) -> (String, String) {
    let mut properties = bundle.properties.iter();
    let package = properties.find(|property| property.kind == "olm.package");
    let text = |pointer: &str| {
        package
            .map_or("", |package| package.value.text(pointer))
            .to_owned()
    };
    (text("/version"), text("/release"))
}

fn release_of(bundle: &Bundle) -> Option<Release> {
    let (version, release) = version_of(bundle);
    Release::of(&version, &release)
}

/// A bundle of a catalog that meets the requirements.
struct Found<'a> {
    offer: &'a Offer,
    bundle: &'a Bundle,
    is_deprecated: bool,
}

pub(super) fn resolve(wanted: &Wanted, offers: &[Offer]) -> Resolution {
    let selling: Vec<&Offer> = offers
        .iter()
        .filter(|offer| {
            let mut bundles = offer.loaded.catalog.bundles.iter();
            bundles.any(|bundle| bundle.package == wanted.package)
        })
        .collect();
    let of = |offer: &Offer| deprecations(&offer.loaded.catalog, &wanted.package);
    let unknown = |error: String| Resolution {
        bundle: Err(error),
        // If several catalogs have the package, the right one is unknown.
        deprecations: match selling.as_slice() {
            [offer] => Some(of(offer)).filter(|found| !found.is_empty()),
            _ => None,
        },
    };
    let range = match wanted.version.as_str() {
        "" => None,
        text => match Constraint::parse(text) {
            Ok(range) => Some(range),
            Err(error) => {
                return unknown(format!(
                    "desired version range {} is invalid: {error}",
                    quote(text)
                ));
            }
        },
    };
    let mut found: Vec<Found<'_>> = selling
        .iter()
        .filter_map(|offer| best(wanted, range.as_ref(), offer))
        .collect();
    if found.iter().any(|found| !found.is_deprecated) {
        found.retain(|found| !found.is_deprecated);
    }
    let highest = found.iter().map(|found| found.offer.priority).max();
    found.retain(|found| Some(found.offer.priority) == highest);
    let [chosen] = found.as_slice() else {
        return unknown(not_one(wanted, &found));
    };
    if let Some(property) = chosen.bundle.properties.iter().find(is_requirement) {
        let (name, kind) = (quote(&chosen.bundle.name), quote(&property.kind));
        return unknown(format!(
            "validating bundle {name}: bundle {name} has a dependency declared via property {kind} which is currently \
             not supported"
        ));
    }
    Resolution {
        deprecations: Some(of(chosen.offer)),
        bundle: Ok(chosen.bundle.clone()),
    }
}

/// Returns the best bundle of a catalog: bundles that are not deprecated come first, then higher versions.
fn best<'a>(wanted: &Wanted, range: Option<&Constraint>, offer: &'a Offer) -> Option<Found<'a>> {
    let catalog = &offer.loaded.catalog;
    let entries: Vec<&Entry> = catalog
        .channels
        .iter()
        .filter(|channel| channel.package == wanted.package)
        .filter(|channel| wanted.channels.is_empty() || wanted.channels.contains(&channel.name))
        .flat_map(|channel| channel.entries())
        .collect();
    let deprecated = deprecations(catalog, &wanted.package);
    let is_deprecated = |bundle: &Bundle| {
        let mut entries = deprecated.iter();
        entries.any(|entry| entry.schema == "olm.bundle" && entry.name == bundle.name)
    };
    let mut found: Vec<(bool, Release, &Bundle)> = catalog
        .bundles
        .iter()
        .filter(|bundle| bundle.package == wanted.package)
        .filter(|bundle| wanted.channels.is_empty() || entries.iter().any(|entry| entry.name == bundle.name))
        .filter_map(|bundle| Some((is_deprecated(bundle), release_of(bundle)?, bundle)))
        .filter(|(_, release, _)| range.is_none_or(|range| range.includes(&release.0)))
        .filter(|(_, release, bundle)| follows(wanted, &entries, release, bundle))
        .collect();
    found.sort_by(|left, right| left.0.cmp(&right.0).then_with(|| right.1.cmp(&left.1)));
    let (is_deprecated, _, bundle) = found.into_iter().next()?;
    Some(Found {
        offer,
        bundle,
        is_deprecated,
    })
}

/// Returns true if a bundle may follow the installed one, or is the installed one.
fn follows(wanted: &Wanted, entries: &[&Entry], release: &Release, bundle: &Bundle) -> bool {
    let Some(installed) = wanted.installed.as_ref().filter(|_| !wanted.self_certified) else {
        return true;
    };
    let known = Release::of(&installed.version, &installed.release);
    let is_successor = |entry: &&&Entry| {
        let in_range = || {
            let range = Range::parse(&entry.skip_range).ok();
            range
                .zip(known.as_ref())
                .is_some_and(|(range, known)| range.includes(&known.0))
        };
        entry.replaces == installed.name
            || entry.skips.contains(&installed.name)
            || !entry.skip_range.is_empty() && in_range()
    };
    known.as_ref() == Some(release)
        || entries
            .iter()
            .filter(|entry| entry.name == bundle.name)
            .any(|entry| is_successor(&entry))
}

fn not_one(wanted: &Wanted, found: &[Found<'_>]) -> String {
    let package = quote(&wanted.package);
    let mut parts = Vec::new();
    if let Some(installed) = &wanted.installed {
        let version = quote(&installed.version);
        parts.push(format!(
            "error upgrading from currently installed version {version}:"
        ));
    }
    parts.push(if found.len() > 1 {
        format!("found bundles for package {package}")
    } else {
        format!("no bundles found for package {package}")
    });
    if !wanted.version.is_empty() {
        parts.push(format!("matching version {}", quote(&wanted.version)));
    }
    if !wanted.channels.is_empty() {
        parts.push(format!("in channels [{}]", wanted.channels.join(" ")));
    }
    if found.len() > 1 {
        let mut catalogs: Vec<&str> = found.iter().map(|found| found.offer.catalog.as_str()).collect();
        catalogs.sort_unstable();
        parts.push(format!(
            "in multiple catalogs with the same priority [{}]",
            catalogs.join(" ")
        ));
    }
    parts.join(" ")
}

fn deprecations(catalog: &Catalog, package: &str) -> Vec<Deprecation> {
    let of_package = catalog
        .deprecations
        .iter()
        .filter(|found| found.package == package);
    of_package
        .flat_map(|found| found.entries.iter().flatten().cloned())
        .collect()
}
