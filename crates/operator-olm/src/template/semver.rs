//! Renders templates with schema `olm.semver`.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::go::{self, quote};
use serde_json::{Map, Value};

use super::RenderBundle;
use crate::catalog::version::Version;
use crate::catalog::{Bundle, Catalog, Channel, Entry, Package, package_version, stream};

pub(super) const SCHEMA: &str = "olm.semver";

/// The stability levels of channels, from the least stable to the most stable.
const STABILITIES: [&str; 3] = ["candidate", "fast", "stable"];

/// A kind of channel, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Major,
    Minor,
}

struct Template {
    streams: Vec<Stream>,
    preference: Stream,
    /// The images by stability, in the order of [`STABILITIES`].
    images: [Vec<String>; 3],
}

pub(super) fn render(text: &str, bundle: &RenderBundle<'_>) -> Result<Catalog, String> {
    let template = Template::read(text).map_err(|error| format!("render: unable to read file: {error}"))?;
    let mut bundles: BTreeMap<&str, Bundle> = BTreeMap::new();
    for image in template.images.iter().flatten() {
        if !bundles.contains_key(image.as_str()) {
            bundles.insert(image, bundle(image)?);
        }
    }
    if bundles.is_empty() {
        return Err("render: no bundles specified or no bundles could be rendered".to_owned());
    }
    let processed = Processed::of(&template, &bundles)
        .map_err(|error| format!("render: unable to post-process bundle info: {error}"))?;
    let (channels, default_channel) = processed.channels(&template);
    Ok(Catalog {
        packages: vec![Package {
            name: processed.package,
            default_channel,
            ..Package::default()
        }],
        channels,
        bundles: bundles.into_values().collect(),
        ..Catalog::default()
    })
}

impl Template {
    fn read(text: &str) -> Result<Self, String> {
        let documents = stream(text)?;
        let empty = Value::Object(Map::new());
        let document = documents.first().unwrap_or(&empty);
        let template = Self::decode(document)
            .map_err(|error| format!("error unmarshaling JSON: while decoding JSON: json: {error}"))?;
        template.into_template()
    }

    fn decode(document: &Value) -> Result<Raw, String> {
        let Value::Object(fields) = document else {
            let kind = go::json_kind(document);
            return Err(format!(
                "cannot unmarshal {kind} into Go value of type semver.SemverTemplateData"
            ));
        };
        let mut raw = Raw::default();
        for (name, value) in fields {
            let mismatch = |go_type: &str| {
                let kind = go::json_kind(value);
                format!(
                    "cannot unmarshal {kind} into Go struct field SemverTemplateData.{name} of type {go_type}"
                )
            };
            let stability = STABILITIES.iter().position(|stability| name == stability);
            match (name.as_str(), value) {
                ("schema", Value::String(text)) => raw.schema.clone_from(text),
                ("generateMajorChannels", Value::Bool(flag)) => raw.major = *flag,
                ("generateMinorChannels", Value::Bool(flag)) => raw.minor = *flag,
                ("defaultChannelTypePreference", Value::String(text)) => raw.preference.clone_from(text),
                (
                    "schema"
                    | "generateMajorChannels"
                    | "generateMinorChannels"
                    | "defaultChannelTypePreference",
                    Value::Null,
                ) => {}
                ("schema", _) => return Err(mismatch("string")),
                ("defaultChannelTypePreference", _) => return Err(mismatch("semver.StreamType")),
                ("generateMajorChannels" | "generateMinorChannels", _) => return Err(mismatch("bool")),
                _ => {
                    let images = stability.and_then(|index| raw.images.get_mut(index));
                    let images = images.ok_or_else(|| format!("unknown field {}", quote(name)))?;
                    *images = read_images(name, value)?;
                }
            }
        }
        Ok(raw)
    }
}

#[derive(Default)]
struct Raw {
    schema: String,
    major: bool,
    minor: bool,
    preference: String,
    images: [Vec<String>; 3],
}

impl Raw {
    fn into_template(self) -> Result<Template, String> {
        if self.schema != SCHEMA {
            let schema = quote(SCHEMA);
            return Err(format!(
                "readFile: input file has unknown schema, should be {schema}"
            ));
        }
        let minor = self.minor || !self.major;
        let mismatch = |kind: &str| {
            Err(format!(
                "schema attribute mismatch: DefaultChannelTypePreference set to '{kind}' doesn't make sense if not \
                 generating {kind}-version channels"
            ))
        };
        let preference = match self.preference.as_str() {
            "" if minor => Stream::Minor,
            "" => Stream::Major,
            "minor" if minor => Stream::Minor,
            "major" if self.major => Stream::Major,
            kind @ ("minor" | "major") => return mismatch(kind),
            other => {
                let other = quote(other);
                return Err(format!(
                    "unknown DefaultChannelTypePreference: {other}\nValid values are 'major' or 'minor'"
                ));
            }
        };
        let major = self.major.then_some(Stream::Major);
        let minor = minor.then_some(Stream::Minor);
        Ok(Template {
            streams: major.into_iter().chain(minor).collect(),
            preference,
            images: self.images,
        })
    }
}

/// Parses `bundles: [{image}]`.
fn read_images(stability: &str, value: &Value) -> Result<Vec<String>, String> {
    let mismatch = |value: &Value, path: &str, go_type: &str| {
        let kind = go::json_kind(value);
        format!(
            "cannot unmarshal {kind} into Go struct field SemverTemplateData.{stability}{path} of type {go_type}"
        )
    };
    let fields = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Object(fields) => fields,
        other => return Err(mismatch(other, "", "semver.channelBundles")),
    };
    only(fields, "bundles")?;
    let items = match fields.get("bundles") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(mismatch(other, ".bundles", "[]semver.bundleEntry")),
    };
    items
        .iter()
        .map(|item| match item {
            Value::Null => Ok(String::new()),
            Value::Object(fields) => {
                only(fields, "image")?;
                match fields.get("image") {
                    None | Some(Value::Null) => Ok(String::new()),
                    Some(Value::String(image)) => Ok(image.clone()),
                    Some(other) => Err(mismatch(other, ".bundles.image", "string")),
                }
            }
            other => Err(mismatch(other, ".bundles", "semver.bundleEntry")),
        })
        .collect()
}

fn only(fields: &Map<String, Value>, name: &str) -> Result<(), String> {
    match fields.keys().find(|key| *key != name) {
        None => Ok(()),
        Some(unknown) => Err(format!("unknown field {}", quote(unknown))),
    }
}

/// The bundles of a template, which belong to one package, by stability and sorted by version.
struct Processed {
    package: String,
    bundles: [Vec<(Version, String)>; 3],
}

impl Processed {
    fn of(template: &Template, rendered: &BTreeMap<&str, Bundle>) -> Result<Self, String> {
        let mut processed = Self {
            package: String::new(),
            bundles: [const { Vec::new() }; 3],
        };
        for (images, bundles) in template.images.iter().zip(&mut processed.bundles) {
            let mut names = BTreeSet::new();
            for image in images {
                let Some(bundle) = rendered.get(image.as_str()) else {
                    let image = quote(image);
                    return Err(format!(
                        "supplied bundle image name {image} not found in rendered bundle images"
                    ));
                };
                let (package, version) = package_version(bundle)?;
                if processed.package.is_empty() {
                    processed.package = package;
                } else if package != processed.package {
                    let (package, known) = (quote(&package), quote(&processed.package));
                    return Err(format!(
                        "bundle {package} does not belong to this package: {known}"
                    ));
                }
                if !names.insert(bundle.name.as_str()) {
                    return Err(format!("duplicate bundle name {}", quote(&bundle.name)));
                }
                bundles.push((version, bundle.name.clone()));
            }
            check_builds(bundles)?;
            bundles.sort_by(|left, right| left.0.cmp(&right.0));
        }
        Ok(processed)
    }

    /// Creates the channels, sorted by name, and chooses the default channel.
    fn channels(&self, template: &Template) -> (Vec<Channel>, String) {
        let mut channels: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        let mut default = None;
        for (rank, (stability, bundles)) in STABILITIES.into_iter().zip(&self.bundles).enumerate() {
            let linked = link(bundles);
            for stream in &template.streams {
                for ((version, _), entry) in bundles.iter().zip(&linked) {
                    let name = match stream {
                        Stream::Major => format!("{stability}-v{}", version.major),
                        Stream::Minor => format!("{stability}-v{}.{}", version.major, version.minor),
                    };
                    if !channels.contains_key(&name) {
                        // The lowest version of a channel represents it.
                        let weight = (rank, version, *stream == template.preference, *stream);
                        if default.as_ref().is_none_or(|(best, _)| weight > *best) {
                            default = Some((weight, name.clone()));
                        }
                    }
                    channels.entry(name).or_default().push(entry.clone());
                }
            }
        }
        let channels = channels.into_iter().map(|(name, entries)| Channel {
            name,
            package: self.package.clone(),
            entries: Some(entries),
            properties: Vec::new(),
        });
        (
            channels.collect(),
            default.map_or(String::new(), |(_, name)| name),
        )
    }
}

/// Rejects versions that differ only in their build metadata, because they cannot be ordered.
fn check_builds(bundles: &[(Version, String)]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut faults = Vec::new();
    for (version, _) in bundles {
        let stripped = version.without_build();
        if !seen.insert(stripped.clone()) {
            let version = quote(&version.to_string());
            faults.push(format!(
                "bundle version {version} cannot be compared to {}",
                quote(&stripped)
            ));
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    let faults = match faults.as_slice() {
        [fault] => fault.clone(),
        faults => format!("[{}]", faults.join(", ")),
    };
    Err(format!(
        "encountered bundle versions which differ only by build metadata, which cannot be ordered: {faults}"
    ))
}

/// Creates the upgrade edges. The last entry of each minor version replaces the last one of the previous minor version,
/// and skips all other earlier entries of its major version.
fn link(bundles: &[(Version, String)]) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(bundles.len());
    let mut earlier: BTreeSet<&str> = BTreeSet::new();
    let mut last_of_previous_minor = "";
    for (index, (version, name)) in bundles.iter().enumerate() {
        let previous = index.checked_sub(1).and_then(|index| bundles.get(index));
        if let Some((before, before_name)) = previous {
            if before.major != version.major {
                earlier.clear();
                last_of_previous_minor = "";
            } else {
                if before.minor != version.minor {
                    last_of_previous_minor = before_name;
                }
                earlier.insert(before_name);
            }
        }
        let next = bundles.get(index + 1);
        let numbers = |version: &Version| (version.major, version.minor);
        let is_last = next.is_none_or(|(next, _)| numbers(next) != numbers(version));
        let mut entry = Entry {
            name: name.clone(),
            ..Entry::default()
        };
        if is_last {
            last_of_previous_minor.clone_into(&mut entry.replaces);
            let skips = earlier.iter().filter(|skip| **skip != last_of_previous_minor);
            entry.skips = skips.map(|skip| (*skip).to_owned()).collect();
        }
        entries.push(entry);
    }
    entries
}
