//! Draws the upgrade graphs of a catalog as an SVG image: a row of entries for each channel, and an arc for each
//! upgrade.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::mermaid::versions;
use super::version::{Range, Version};
use super::{Catalog, Channel, Entry, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE};

/// The maximum number of arcs. A range can result in arcs between all entries.
const ARCS_MAX: usize = 100_000;

const MARGIN: usize = 20;
const LINE: usize = 24;
const BOX_HEIGHT: usize = 28;
const GAP: usize = 48;
/// The width of a character in a name.
const CHARACTER: usize = 8;
/// The height of an arc to the next entry, and the additional height for each entry in between.
const ARC: usize = 18;
const ARC_STEP: usize = 10;
/// The maximum number of entries in between that increase the height of an arc.
const ARC_STEPS_MAX: usize = 12;

const STYLE: &str = "text{font-family:sans-serif;font-size:13px}.package{font-size:18px;font-weight:bold}\
.channel{font-weight:bold}rect{fill:#fff;stroke:#333}.head{stroke-width:3}.deprecated{fill:#E8960F}\
.skipped{stroke:#FF0000;stroke-dasharray:4}path{fill:none;stroke:#333;stroke-width:1.5}.skip{stroke-dasharray:6 3}\
.range{stroke:#1f77b4;stroke-dasharray:2 3}";

/// Draws all channels, sorted by package and name. Entries are sorted by ascending version. Solid lines are `replaces`,
/// dashed lines are `skips`, and dotted lines below are `skipRange`. A thick frame marks channel heads, a red frame
/// marks skipped entries, and a filled frame marks deprecated entries.
///
/// # Errors
/// Returns an error if a bundle has no version, or the graph has more than 100,000 arcs.
///
/// ```
/// use operator_olm::catalog::{Catalog, svg};
/// let text = "{schema: olm.package, name: cache, defaultChannel: a}\n---\n{schema: olm.channel, package: cache, name: a,\
///     entries: [{name: cache.v1.0.0}]}\n---\n{schema: olm.bundle, package: cache, name: cache.v1.0.0, image: x,\
///     properties: [{type: olm.package, value: {packageName: cache, version: 1.0.0}}]}\n";
/// let image = svg(&Catalog::load(text).unwrap()).unwrap();
/// assert!(image.starts_with("<svg ") && image.contains(">cache.v1.0.0</text>"));
/// ```
pub fn svg(catalog: &Catalog) -> Result<String, String> {
    let mut image = Image {
        versions: versions(catalog)?,
        deprecated: deprecated(catalog),
        body: String::new(),
        width: 0,
        height: MARGIN,
        arcs: 0,
    };
    let mut packages: BTreeMap<&str, Vec<&Channel>> = BTreeMap::new();
    for package in &catalog.packages {
        packages.entry(&package.name).or_default();
    }
    for channel in &catalog.channels {
        packages.entry(&channel.package).or_default().push(channel);
    }
    for (package, mut channels) in packages {
        let is_deprecated = image.deprecated.contains(&(SCHEMA_PACKAGE, package, ""));
        image.heading("package", package, is_deprecated);
        channels.sort_by(|left, right| left.name.cmp(&right.name));
        for channel in channels {
            image.channel(channel)?;
        }
    }
    let (width, height) = (image.width + MARGIN, image.height + MARGIN);
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <style>{STYLE}</style>\n\
         <defs><marker id=\"end\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\"><path d=\"M0 0L10 5L0 10\"/></marker></defs>\n{}</svg>\n",
        image.body
    ))
}

/// Returns the schema, package and name of all deprecated objects. The name of a package is empty.
fn deprecated(catalog: &Catalog) -> BTreeSet<(&str, &str, &str)> {
    let mut found = BTreeSet::new();
    for deprecations in &catalog.deprecations {
        for entry in deprecations.entries.iter().flatten() {
            let name = if entry.schema == SCHEMA_PACKAGE {
                ""
            } else {
                entry.name.as_str()
            };
            found.insert((entry.schema.as_str(), deprecations.package.as_str(), name));
        }
    }
    found
}

struct Image<'a> {
    versions: BTreeMap<&'a str, Version>,
    deprecated: BTreeSet<(&'a str, &'a str, &'a str)>,
    body: String,
    width: usize,
    height: usize,
    arcs: usize,
}

/// The position of an entry in the image.
struct Place<'a> {
    entry: &'a Entry,
    left: usize,
    width: usize,
}

impl Place<'_> {
    fn middle(&self) -> usize {
        self.left + self.width / 2
    }
}

/// An upgrade to an entry.
struct Arc {
    from: usize,
    to: usize,
    class: &'static str,
    title: String,
}

impl<'a> Image<'a> {
    fn heading(&mut self, class: &str, name: &str, is_deprecated: bool) {
        let note = if is_deprecated { " (deprecated)" } else { "" };
        self.height += LINE;
        let (x, y) = (MARGIN, self.height);
        _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{class} {}{note}</text>",
            escaped(name)
        );
        self.width = self.width.max(x + name.len().saturating_add(24) * CHARACTER);
    }

    fn channel(&mut self, channel: &'a Channel) -> Result<(), String> {
        let package = channel.package.as_str();
        let is_deprecated = self
            .deprecated
            .contains(&(SCHEMA_CHANNEL, package, channel.name.as_str()));
        self.heading("channel", &channel.name, is_deprecated);
        let places = self.places(channel);
        let arcs = self.arcs(channel, &places)?;
        let height = |arc: &Arc| ARC + ARC_STEP * arc.to.abs_diff(arc.from).min(ARC_STEPS_MAX);
        let highest = |below: bool| {
            let of_side = arcs.iter().filter(|arc| (arc.class == "range") == below);
            of_side.map(height).max().unwrap_or(0)
        };
        let top = self.height + highest(false) + MARGIN / 2;
        let bottom = top + BOX_HEIGHT;
        for arc in &arcs {
            let (from, to) = (places[arc.from].middle(), places[arc.to].middle());
            let (start, peak) = match arc.class {
                "range" => (bottom, bottom + height(arc)),
                _ => (top, top.saturating_sub(height(arc))),
            };
            _ = writeln!(
                self.body,
                "<path class=\"{}\" marker-end=\"url(#end)\" d=\"M{from} {start}C{from} {peak} {to} {peak} {to} \
                 {start}\"><title>{}</title></path>",
                arc.class,
                escaped(&arc.title)
            );
        }
        self.boxes(channel, &places, top);
        self.height = bottom + highest(true) + MARGIN;
        Ok(())
    }

    /// Determines the positions of the entries, from left to right by version.
    fn places(&mut self, channel: &'a Channel) -> Vec<Place<'a>> {
        let mut entries: Vec<&Entry> = channel.entries().iter().collect();
        let version = |entry: &Entry| {
            self.versions
                .get(entry.name.as_str())
                .cloned()
                .unwrap_or_default()
        };
        entries.sort_by_cached_key(|entry| version(entry));
        let mut left = MARGIN;
        let places = entries
            .into_iter()
            .map(|entry| {
                let width = entry.name.chars().count() * CHARACTER + MARGIN;
                let place = Place { entry, left, width };
                left += width + GAP;
                place
            })
            .collect();
        self.width = self.width.max(left.saturating_sub(GAP));
        places
    }

    fn arcs(&mut self, channel: &Channel, places: &[Place<'_>]) -> Result<Vec<Arc>, String> {
        let at: BTreeMap<&str, usize> = places
            .iter()
            .enumerate()
            .map(|(index, place)| (place.entry.name.as_str(), index))
            .collect();
        let mut arcs = Vec::new();
        for (to, Place { entry, .. }) in places.iter().enumerate() {
            let mut add = |name: &str, class: &'static str, title: String| {
                let from = at.get(name).copied().filter(|from| *from != to);
                arcs.extend(from.map(|from| Arc {
                    from,
                    to,
                    class,
                    title,
                }));
            };
            if !entry.replaces.is_empty() {
                add(
                    &entry.replaces,
                    "replace",
                    format!("{} replaces {}", entry.name, entry.replaces),
                );
            }
            for skip in &entry.skips {
                add(skip, "skip", format!("{} skips {skip}", entry.name));
            }
            if let Some(range) = Some(&entry.skip_range)
                .filter(|range| !range.is_empty())
                .and_then(|range| Range::parse(range).ok())
            {
                let version = |entry: &Entry| {
                    self.versions
                        .get(entry.name.as_str())
                        .cloned()
                        .unwrap_or_default()
                };
                for source in channel
                    .entries()
                    .iter()
                    .filter(|source| range.includes(&version(source)))
                {
                    add(
                        &source.name,
                        "range",
                        format!("{} skips {}", entry.name, entry.skip_range),
                    );
                    self.arcs += 1;
                    if self.arcs > ARCS_MAX {
                        return Err(format!("the upgrade graph has more than {ARCS_MAX} edges"));
                    }
                }
            }
        }
        Ok(arcs)
    }

    fn boxes(&mut self, channel: &'a Channel, places: &[Place<'a>], top: usize) {
        let skipped: BTreeSet<&str> = channel
            .entries()
            .iter()
            .flat_map(|entry| &entry.skips)
            .map(String::as_str)
            .collect();
        let replaced: BTreeSet<&str> = channel
            .entries()
            .iter()
            .map(|entry| entry.replaces.as_str())
            .collect();
        for place in places {
            let name = place.entry.name.as_str();
            let mut classes = Vec::new();
            if !skipped.contains(name) && !replaced.contains(name) {
                classes.push("head");
            }
            if skipped.contains(name) {
                classes.push("skipped");
            }
            if self
                .deprecated
                .contains(&(SCHEMA_BUNDLE, channel.package.as_str(), name))
            {
                classes.push("deprecated");
            }
            let (left, width) = (place.left, place.width);
            let (x, y) = (left + MARGIN / 2, top + BOX_HEIGHT * 2 / 3);
            _ = writeln!(
                self.body,
                "<rect class=\"{}\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"5\"/>\n\
                 <text x=\"{x}\" y=\"{y}\">{}</text>",
                classes.join(" "),
                escaped(name)
            );
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bundle(version: &str) -> Value {
        json!({"schema": "olm.bundle", "package": "op", "name": format!("op.v{version}"), "image": "x", "properties": [
            {"type": "olm.package", "value": {"packageName": "op", "version": version}},
        ]})
    }

    #[test]
    fn entries_are_boxes_and_upgrades_are_arcs() {
        let documents = [
            json!({"schema": "olm.package", "name": "op", "defaultChannel": "a<b"}),
            json!({"schema": "olm.channel", "package": "op", "name": "a<b", "entries": [
                {"name": "op.v1.10.0", "replaces": "op.v1.0.0", "skips": ["op.v1.9.0"], "skipRange": "<1.9.0"},
                {"name": "op.v1.0.0"},
                {"name": "op.v1.9.0", "replaces": "op.v1.0.0"},
            ]}),
            bundle("1.0.0"),
            bundle("1.9.0"),
            bundle("1.10.0"),
            json!({"schema": "olm.deprecations", "package": "op", "entries": [
                {"reference": {"schema": "olm.bundle", "name": "op.v1.0.0"}, "message": "old"},
                {"reference": {"schema": "olm.package"}, "message": "old"},
            ]}),
        ];
        let image = svg(&Catalog::from_documents(&documents).unwrap()).unwrap();
        assert!(image.contains(">package op (deprecated)</text>"), "{image}");
        assert!(image.contains(">channel a&lt;b</text>"), "{image}");
        let class_of = |name: &str| {
            let (before, _) = image.split_once(&format!(">{name}</text>")).unwrap();
            let (_, class) = before.rsplit_once("<rect class=\"").unwrap();
            class.split('"').next().unwrap().to_owned()
        };
        assert_eq!(class_of("op.v1.0.0"), "deprecated");
        assert_eq!(class_of("op.v1.9.0"), "skipped");
        assert_eq!(class_of("op.v1.10.0"), "head");
        let place = |name: &str| image.find(&format!(">{name}</text>")).unwrap();
        assert!(place("op.v1.0.0") < place("op.v1.9.0") && place("op.v1.9.0") < place("op.v1.10.0"));
        let count = |class: &str| image.matches(&format!("<path class=\"{class}\"")).count();
        assert_eq!((count("replace"), count("skip"), count("range")), (2, 1, 1));
    }
}
