//! Validates catalogs: references between documents, and the upgrade graphs of channels.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::go::quote;
use apimachinery::names;

use super::tree::Fault;
use super::version::{Range, Version};
use super::{Bundle, Catalog, Deprecations, Entry, image, property};

/// The packages of a valid catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    /// The packages by name.
    pub packages: BTreeMap<String, IndexPackage>,
}

/// A package of a valid catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexPackage {
    /// The name of the default channel.
    pub default_channel: String,
    /// The names of the heads by channel.
    pub heads: BTreeMap<String, String>,
}

/// Validates a catalog.
///
/// # Errors
/// Returns the first broken reference between documents, or else a tree of all violations.
pub fn validate(catalog: &Catalog) -> Result<Index, String> {
    let mut model = Model::default();
    model.add_packages(catalog)?;
    model.add_channels(catalog)?;
    for bundle in &catalog.bundles {
        model.add_bundle(bundle)?;
    }
    model.check_entries()?;
    model.add_default_channels();
    model.add_deprecations(&catalog.deprecations)?;
    let faults = model
        .packages
        .iter()
        .filter_map(|(name, package)| package.validate(name))
        .collect();
    match Fault::around("invalid index", faults) {
        Some(fault) => Err(fault.draw()),
        None => Ok(model.index()),
    }
}

#[derive(Default)]
struct Model<'a> {
    packages: BTreeMap<&'a str, PackageModel<'a>>,
}

#[derive(Default)]
struct PackageModel<'a> {
    default_channel: &'a str,
    channels: BTreeMap<&'a str, ChannelModel<'a>>,
    bundles: BTreeMap<&'a str, BundleModel<'a>>,
    /// The deprecation message.
    deprecation: Option<&'a str>,
}

#[derive(Default)]
struct ChannelModel<'a> {
    entries: BTreeMap<&'a str, &'a Entry>,
    deprecation: Option<&'a str>,
}

struct BundleModel<'a> {
    bundle: &'a Bundle,
    version: Version,
    release: String,
    deprecation: Option<&'a str>,
}

impl<'a> Model<'a> {
    fn add_packages(&mut self, catalog: &'a Catalog) -> Result<(), String> {
        for package in &catalog.packages {
            let name = package.name.as_str();
            if name.is_empty() {
                return Err("config contains package with no name".to_owned());
            }
            if self.packages.contains_key(name) {
                return Err(format!("duplicate package {}", quote(name)));
            }
            let faults = names::dns1123_label(name);
            if !faults.is_empty() {
                let faults = faults.join(" ");
                return Err(format!("invalid package name {}: [{faults}]", quote(name)));
            }
            let model = PackageModel {
                default_channel: &package.default_channel,
                ..PackageModel::default()
            };
            self.packages.insert(name, model);
        }
        Ok(())
    }

    fn add_channels(&mut self, catalog: &'a Catalog) -> Result<(), String> {
        for channel in &catalog.channels {
            let (package, name) = (quote(&channel.package), quote(&channel.name));
            let Some(model) = self.packages.get_mut(channel.package.as_str()) else {
                return Err(format!("unknown package {package} for channel {name}"));
            };
            if channel.name.is_empty() {
                return Err(format!("package {package} contains channel with no name"));
            }
            if model.channels.contains_key(channel.name.as_str()) {
                return Err(format!("package {package} has duplicate channel {name}"));
            }
            let mut entries = BTreeMap::new();
            for entry in channel.entries() {
                if entries.insert(entry.name.as_str(), entry).is_some() {
                    let entry = quote(&entry.name);
                    return Err(format!(
                        "invalid package {package}, channel {name}: duplicate entry {entry}"
                    ));
                }
            }
            let channel_model = ChannelModel {
                entries,
                deprecation: None,
            };
            model.channels.insert(&channel.name, channel_model);
        }
        Ok(())
    }

    fn add_bundle(&mut self, bundle: &'a Bundle) -> Result<(), String> {
        let (package, name) = (quote(&bundle.package), quote(&bundle.name));
        if bundle.package.is_empty() {
            return Err(format!("package name must be set for bundle {name}"));
        }
        let Some(model) = self.packages.get_mut(bundle.package.as_str()) else {
            return Err(format!("unknown package {package} for bundle {name}"));
        };
        if model.bundles.contains_key(bundle.name.as_str()) {
            return Err(format!("package {package} has duplicate bundle {name}"));
        }
        let packages = property::packages(&bundle.properties)
            .map_err(|error| format!("parse properties for bundle {name}: {error}"))?;
        let [property] = packages.as_slice() else {
            return Err(format!(
                "package {package} bundle {name} must have exactly 1 {} property, found {}",
                quote(property::PACKAGE),
                packages.len()
            ));
        };
        if property.package != bundle.package {
            return Err(format!(
                "package {package} does not match {} property {}",
                quote(property::PACKAGE),
                quote(&property.package)
            ));
        }
        check_images(bundle)?;
        let version = Version::parse(&property.version).map_err(|error| {
            let version = quote(&property.version);
            format!("error parsing bundle {name} version {version}: {error}")
        })?;
        if !property.release.is_empty() {
            Version::parse(&format!("0.0.0-{}", property.release)).map_err(|error| {
                let release = quote(&property.release);
                format!("error parsing bundle {name} release version {release}: {error}")
            })?;
        }
        let in_a_channel = |channel: &ChannelModel<'_>| channel.entries.contains_key(bundle.name.as_str());
        if !model.channels.values().any(in_a_channel) {
            return Err(format!(
                "package {package}, bundle {name} not found in any channel entries"
            ));
        }
        let bundle_model = BundleModel {
            bundle,
            version,
            release: property.release.clone(),
            deprecation: None,
        };
        model.bundles.insert(&bundle.name, bundle_model);
        Ok(())
    }

    /// Checks that each entry has a bundle, in every channel.
    fn check_entries(&self) -> Result<(), String> {
        for (name, package) in &self.packages {
            let entries = package
                .channels
                .values()
                .flat_map(|channel| channel.entries.keys());
            let missing: BTreeSet<&str> = entries
                .copied()
                .filter(|entry| !package.bundles.contains_key(entry))
                .collect();
            if !missing.is_empty() {
                let missing = missing.into_iter().collect::<Vec<_>>().join(" ");
                return Err(format!(
                    "no olm.bundle blobs found in package {} for olm.channel entries [{missing}]",
                    quote(name)
                ));
            }
        }
        Ok(())
    }

    fn add_default_channels(&mut self) {
        for package in self.packages.values_mut() {
            if !package.default_channel.is_empty() {
                package.channels.entry(package.default_channel).or_default();
            }
        }
    }

    fn add_deprecations(&mut self, all: &'a [Deprecations]) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for (index, deprecations) in all.iter().enumerate() {
            let package = quote(&deprecations.package);
            if deprecations.package.is_empty() {
                return Err(format!("package name must be set for deprecation item {index}"));
            }
            let Some(model) = self.packages.get_mut(deprecations.package.as_str()) else {
                return Err(format!(
                    "cannot apply deprecations to an unknown package {package}"
                ));
            };
            if !seen.insert(deprecations.package.as_str()) {
                return Err(format!(
                    "expected a maximum of one deprecation per package: {package}"
                ));
            }
            model.deprecate(deprecations)?;
        }
        Ok(())
    }

    fn index(&self) -> Index {
        let packages = self.packages.iter().map(|(name, package)| {
            let heads = package.channels.iter().filter_map(|(name, channel)| {
                let head = channel.head().ok()?;
                Some(((*name).to_owned(), head.to_owned()))
            });
            let package = IndexPackage {
                default_channel: package.default_channel.to_owned(),
                heads: heads.collect(),
            };
            ((*name).to_owned(), package)
        });
        Index {
            packages: packages.collect(),
        }
    }
}

fn check_images(bundle: &Bundle) -> Result<(), String> {
    let (package, name) = (quote(&bundle.package), quote(&bundle.name));
    let check = |place: &str, reference: &str| {
        if reference.is_empty() {
            return Ok(());
        }
        image::check(reference).map_err(|error| {
            let reference = quote(reference);
            format!("package {package} bundle {name} {place}: invalid image pull spec {reference}: {error}")
        })
    };
    check("image", &bundle.image)?;
    for (index, related) in bundle.related_images.iter().enumerate() {
        check(&format!("relatedImages[{index}].image"), &related.image)?;
    }
    Ok(())
}

impl<'a> PackageModel<'a> {
    fn deprecate(&mut self, deprecations: &'a Deprecations) -> Result<(), String> {
        let package = quote(&deprecations.package);
        let mut seen = BTreeSet::new();
        for (index, entry) in deprecations.entries.iter().flatten().enumerate() {
            let name = quote(&entry.name);
            let reference = || {
                let schema = quote(&entry.schema);
                format!("declcfg.PackageScopedReference{{Schema:{schema}, Name:{name}}}")
            };
            if entry.schema.is_empty() {
                return Err(format!(
                    "schema must be set for deprecation entry [{index}] for package {package}"
                ));
            }
            if !seen.insert((&entry.schema, &entry.name)) {
                return Err(format!(
                    "duplicate deprecation entry {} for package {package}",
                    reference()
                ));
            }
            let missing = |kind: &str| {
                format!("cannot deprecate {kind} {name} for package {package}: {kind} not found")
            };
            let deprecated = match entry.schema.as_str() {
                super::SCHEMA_BUNDLE => {
                    let bundle = self.bundles.get_mut(entry.name.as_str());
                    &mut bundle.ok_or_else(|| missing("bundle"))?.deprecation
                }
                super::SCHEMA_CHANNEL => {
                    let channel = self.channels.get_mut(entry.name.as_str());
                    &mut channel.ok_or_else(|| missing("channel"))?.deprecation
                }
                super::SCHEMA_PACKAGE if entry.name.is_empty() => &mut self.deprecation,
                super::SCHEMA_PACKAGE => {
                    return Err(format!(
                        "package name must be empty for deprecated package {package} (specified {name})"
                    ));
                }
                _ => {
                    return Err(format!(
                        "cannot deprecate object {} referenced by entry {index} for package {package}: \
                         object schema unknown",
                        reference()
                    ));
                }
            };
            *deprecated = Some(&entry.message);
        }
        Ok(())
    }

    fn validate(&self, name: &str) -> Option<Fault> {
        let mut faults = Vec::new();
        if self.default_channel.is_empty() {
            faults.push(Fault::of("default channel must be set"));
        }
        if self.channels.is_empty() {
            faults.push(Fault::of("package must contain at least one channel"));
        }
        let channels = self.channels.iter();
        faults.extend(channels.filter_map(|(channel, model)| model.validate(channel, name, &self.bundles)));
        faults.extend(self.duplicate_versions());
        faults.extend(no_message(self.deprecation));
        Fault::around(format!("invalid package {}", quote(name)), faults)
    }

    fn duplicate_versions(&self) -> Option<Fault> {
        let mut by_version: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, bundle) in &self.bundles {
            by_version.entry(bundle.version_text()).or_default().push(name);
        }
        by_version.retain(|_, names| names.len() > 1);
        let duplicates = by_version.iter();
        let duplicates: Vec<String> = duplicates
            .map(|(version, names)| format!("{{{version}: [{}]}}", names.join(", ")))
            .collect();
        let text = format!("duplicate versions found in bundles: [{}]", duplicates.join(" "));
        (!duplicates.is_empty()).then(|| Fault::of(text))
    }
}

fn no_message(deprecation: Option<&str>) -> Option<Fault> {
    let fault = || Fault::of("invalid deprecation: message must be set");
    deprecation.is_some_and(str::is_empty).then(fault)
}

impl<'a> ChannelModel<'a> {
    fn validate(
        &self,
        name: &str,
        package: &str,
        bundles: &BTreeMap<&str, BundleModel<'_>>,
    ) -> Option<Fault> {
        let mut faults = Vec::new();
        if self.entries.is_empty() {
            faults.push(Fault::of("channel must contain at least one bundle"));
        } else {
            faults.extend(self.check_graph().err().map(Fault::of));
        }
        let entries = self.entries.values();
        faults.extend(entries.filter_map(|entry| {
            let bundle = bundles.get(entry.name.as_str())?;
            bundle.validate(entry, package)
        }));
        faults.extend(no_message(self.deprecation));
        Fault::around(format!("invalid channel {}", quote(name)), faults)
    }

    /// Returns the only entry that no other entry replaces or skips.
    fn head(&self) -> Result<&'a str, String> {
        let entries = self.entries.values();
        let replaced = entries.flat_map(|entry| {
            let replaces = Some(&entry.replaces).filter(|name| !name.is_empty());
            replaces.into_iter().chain(&entry.skips)
        });
        let replaced: BTreeSet<&str> = replaced.map(String::as_str).collect();
        let names = self.entries.keys().copied();
        let heads: Vec<&str> = names.filter(|name| !replaced.contains(name)).collect();
        match heads.as_slice() {
            [] => Err("no channel head found in graph".to_owned()),
            [head] => Ok(head),
            heads => Err(format!(
                "multiple channel heads found in graph: {}",
                heads.join(", ")
            )),
        }
    }

    /// Checks that the chain of replaced entries from the head has no cycle, and contains all entries that are not
    /// skipped.
    fn check_graph(&self) -> Result<(), String> {
        let head = self.head()?;
        let skipped: BTreeSet<&str> = self
            .entries
            .values()
            .flat_map(|entry| entry.skips.iter().map(String::as_str))
            .collect();
        let mut chain = vec![head];
        let mut reached = BTreeSet::from([head]);
        let mut current = self.entries.get(head);
        while let Some(entry) = current {
            let replaces = entry.replaces.as_str();
            if skipped.contains(replaces) {
                break;
            }
            chain.push(replaces);
            if !reached.insert(replaces) {
                let start = chain
                    .iter()
                    .position(|name| *name == replaces)
                    .unwrap_or_default();
                let cycle = chain.get(start..).unwrap_or_default().join(" -> ");
                return Err(format!(
                    "detected cycle in replaces chain of upgrade graph: {cycle}"
                ));
            }
            current = self.entries.get(replaces);
        }
        let names = self.entries.keys().copied();
        let stranded: Vec<&str> = names
            .filter(|name| !reached.contains(name) && !skipped.contains(name))
            .collect();
        if stranded.is_empty() {
            return Ok(());
        }
        Err(format!(
            "channel contains one or more stranded bundles: {}",
            stranded.join(", ")
        ))
    }
}

impl BundleModel<'_> {
    fn version_text(&self) -> String {
        if self.release.is_empty() {
            self.version.to_string()
        } else {
            format!("{}-{}", self.version, self.release)
        }
    }

    fn validate(&self, entry: &Entry, package: &str) -> Option<Fault> {
        let mut faults = Vec::new();
        if entry.name.is_empty() {
            faults.push("name must be set".to_owned());
        }
        if !self.release.is_empty() {
            let normalized = format!("{package}-v{}", self.version_text());
            if entry.name != normalized {
                let (name, normalized) = (quote(&entry.name), quote(&normalized));
                faults.push(format!("name {name} does not match normalized name {normalized}"));
            }
        }
        let skips = entry.skips.iter().enumerate();
        let empty = skips.filter(|(_, skip)| skip.is_empty());
        faults.extend(empty.map(|(index, _)| format!("skip[{index}] is empty")));
        if !entry.skip_range.is_empty()
            && let Err(error) = Range::parse(&entry.skip_range)
        {
            faults.push(format!("invalid skipRange {}: {error}", quote(&entry.skip_range)));
        }
        if self.bundle.image.is_empty() && !self.has_objects() {
            faults.push("bundle image must be set".to_owned());
        }
        if !self.release.is_empty() && !self.version.build.is_empty() {
            faults.push("cannot use build metadata in version with a release version".to_owned());
        }
        let mut faults: Vec<Fault> = faults.into_iter().map(Fault::of).collect();
        faults.extend(no_message(self.deprecation));
        Fault::around(format!("invalid bundle {}", quote(&entry.name)), faults)
    }

    fn has_objects(&self) -> bool {
        let mut properties = self.bundle.properties.iter();
        properties.any(|property| property.kind == property::BUNDLE_OBJECT)
    }
}
