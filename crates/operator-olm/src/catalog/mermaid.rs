//! Draws the upgrade graphs of a catalog as a Mermaid diagram.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use apimachinery::go::quote;

use super::version::{Range, Version};
use super::{Catalog, Channel, Entry, SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_PACKAGE, package_version};

/// The maximum number of edges. A range can result in edges between all entries.
const EDGES_MAX: usize = 100_000;

const HEADER: &str = "graph LR
  classDef deprecated fill:#E8960F
  classDef skipped stroke:#FF0000,stroke-width:4px
  classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px
";

/// Draws all channels, sorted by package and name. Entries are sorted by descending version.
///
/// Skipped and deprecated entries are marked, and so are edges to skipped entries. A range that cannot be parsed has no
/// edges; [`super::validate`] reports it.
///
/// # Errors
/// Returns an error if a bundle has no version, or the graph has more than 100,000 edges.
pub fn mermaid(catalog: &Catalog) -> Result<String, String> {
    let mut drawing = Drawing {
        versions: versions(catalog)?,
        ..Drawing::default()
    };
    drawing.read_deprecations(catalog);
    let mut channels: Vec<&Channel> = catalog.channels.iter().collect();
    channels.sort_by(|left, right| left.name.cmp(&right.name));
    for channel in channels {
        drawing.channel(channel)?;
    }
    Ok(drawing.finish())
}

/// Returns the versions of the bundles by name. If two bundles have the same name, the first one is used.
pub(super) fn versions(catalog: &Catalog) -> Result<BTreeMap<&str, Version>, String> {
    let mut versions = BTreeMap::new();
    for bundle in &catalog.bundles {
        if versions.contains_key(bundle.name.as_str()) {
            continue;
        }
        let (_, version) = package_version(bundle)?;
        versions.insert(bundle.name.as_str(), version);
    }
    Ok(versions)
}

#[derive(Default)]
struct Drawing<'a> {
    versions: BTreeMap<&'a str, Version>,
    deprecated_packages: BTreeSet<&'a str>,
    deprecated_channels: BTreeSet<&'a str>,
    deprecated_bundles: BTreeSet<&'a str>,
    packages: BTreeMap<&'a str, String>,
    /// The lines that set the style of packages and channels.
    package_styles: BTreeSet<String>,
    channel_styles: Vec<String>,
    /// The identifiers of entries by class.
    classes: BTreeMap<&'static str, BTreeSet<String>>,
    edges: usize,
    skipped_edges: Vec<String>,
}

/// An edge to an entry.
struct Edge<'a> {
    from: &'a str,
    label: String,
    /// True if the edge cannot be used, because it leads to a skipped entry or skips an entry again.
    is_dead: bool,
}

impl<'a> Drawing<'a> {
    fn read_deprecations(&mut self, catalog: &'a Catalog) {
        for deprecations in &catalog.deprecations {
            for entry in deprecations.entries.iter().flatten() {
                match entry.schema.as_str() {
                    SCHEMA_PACKAGE => self.deprecated_packages.insert(&deprecations.package),
                    SCHEMA_CHANNEL => self.deprecated_channels.insert(&entry.name),
                    SCHEMA_BUNDLE => self.deprecated_bundles.insert(&entry.name),
                    _ => false,
                };
            }
        }
    }

    fn version(&self, entry: &str) -> Version {
        self.versions.get(entry).cloned().unwrap_or_default()
    }

    fn channel(&mut self, channel: &'a Channel) -> Result<(), String> {
        let id = format!("{}-{}", channel.package, channel.name);
        let name = quote(&channel.name);
        let mut text = format!("    %% channel {name}\n    subgraph {id}[{name}]\n");
        if self.deprecated_packages.contains(channel.package.as_str()) {
            self.package_styles
                .insert(format!("style {} fill:#989695\n", channel.package));
        }
        if self.deprecated_channels.contains(channel.name.as_str()) {
            self.channel_styles.push(format!("style {id} fill:#DCD0FF\n"));
        }
        let mut entries: Vec<(Version, &Entry)> = channel
            .entries()
            .iter()
            .map(|entry| (self.version(&entry.name), entry))
            .collect();
        entries.sort_by(|left, right| right.0.cmp(&left.0));
        let mut skipped = BTreeSet::new();
        for (_, entry) in entries {
            let node = format!("{id}-{}[{}]", entry.name, quote(&entry.name));
            _ = writeln!(text, "      {node}");
            self.classify(&id, entry, skipped.contains(entry.name.as_str()));
            for edge in self.edges_of(entry, channel, &mut skipped) {
                if self.edges == EDGES_MAX {
                    return Err(format!("the upgrade graph has more than {EDGES_MAX} edges"));
                }
                let from = format!("{id}-{}[{}]", edge.from, quote(edge.from));
                _ = writeln!(text, "      {from}-- {} --> {node}", edge.label);
                if edge.is_dead {
                    self.skipped_edges.push(self.edges.to_string());
                }
                self.edges += 1;
            }
        }
        text.push_str("    end\n");
        self.packages.entry(&channel.package).or_default().push_str(&text);
        Ok(())
    }

    fn classify(&mut self, channel: &str, entry: &Entry, is_skipped: bool) {
        let class = match (self.deprecated_bundles.contains(entry.name.as_str()), is_skipped) {
            (true, true) => "deprecatedskipped",
            (true, false) => "deprecated",
            (false, true) => "skipped",
            (false, false) => return,
        };
        let id = format!("{channel}-{}", entry.name);
        self.classes.entry(class).or_default().insert(id);
    }

    /// Returns the edges to an entry: from skipped entries, from the range, and from the replaced entry.
    fn edges_of(
        &self,
        entry: &'a Entry,
        channel: &'a Channel,
        skipped: &mut BTreeSet<&'a str>,
    ) -> Vec<Edge<'a>> {
        let mut edges = Vec::new();
        for skip in &entry.skips {
            edges.push(Edge {
                from: skip,
                label: "skip".to_owned(),
                is_dead: !skipped.insert(skip),
            });
        }
        let is_dead = skipped.contains(entry.name.as_str());
        if !entry.skip_range.is_empty()
            && let Ok(range) = Range::parse(&entry.skip_range)
        {
            let sources = channel.entries().iter();
            let sources = sources.filter(|source| range.includes(&self.version(&source.name)));
            edges.extend(sources.take(EDGES_MAX).map(|source| Edge {
                from: source.name.as_str(),
                label: format!("\"skipRange({})\"", entry.skip_range),
                is_dead,
            }));
        }
        if !entry.replaces.is_empty() {
            edges.push(Edge {
                from: entry.replaces.as_str(),
                label: "replace".to_owned(),
                is_dead,
            });
        }
        edges
    }

    fn finish(self) -> String {
        let mut text = HEADER.to_owned();
        for (name, channels) in &self.packages {
            let name = quote(name);
            _ = write!(text, "  %% package {name}\n  subgraph {name}\n{channels}  end\n");
        }
        text.extend(self.package_styles);
        text.extend(self.channel_styles);
        for (class, ids) in self.classes {
            let ids: Vec<String> = ids.into_iter().collect();
            _ = writeln!(text, "class {} {class}", ids.join(","));
        }
        if !self.skipped_edges.is_empty() {
            let edges = self.skipped_edges.join(",");
            _ = writeln!(
                text,
                "linkStyle {edges} stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;"
            );
        }
        text
    }
}
