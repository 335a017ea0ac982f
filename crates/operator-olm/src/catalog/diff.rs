//! Differences between two catalogs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Catalog;

/// Compares two catalogs; returns a line for each document that was added (`+`), removed (`-`) or changed (`~`).
///
/// ```
/// use operator_olm::catalog::{Catalog, diff};
/// let old = Catalog::load("{schema: olm.package, name: cache, defaultChannel: alpha}").unwrap();
/// let new = Catalog::load("{schema: olm.package, name: cache, defaultChannel: stable}").unwrap();
/// assert_eq!(diff(&old, &new), ["~ package cache: defaultChannel \"alpha\" -> \"stable\""]);
/// ```
pub fn diff(old: &Catalog, new: &Catalog) -> Vec<String> {
    let (old, new) = (parts(old), parts(new));
    let mut lines = Vec::new();
    for (key, before) in &old {
        match new.get(key) {
            None => lines.push((key, format!("- {key}"))),
            Some(after) => {
                let changes = changes(before, after).into_iter();
                lines.extend(changes.map(|change| (key, format!("~ {key}: {change}"))));
            }
        }
    }
    let added = new.keys().filter(|key| !old.contains_key(*key));
    lines.extend(added.map(|key| (key, format!("+ {key}"))));
    lines.sort_by_key(|(key, _)| *key);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Returns the comparable parts of a catalog by a readable name: the documents, and the entries of channels.
fn parts(catalog: &Catalog) -> BTreeMap<String, Value> {
    let mut parts = BTreeMap::new();
    for package in &catalog.packages {
        parts.insert(format!("package {}", package.name), package.document());
    }
    for channel in &catalog.channels {
        let name = format!("channel {}/{}", channel.package, channel.name);
        let mut document = channel.document();
        let entries = document
            .as_object_mut()
            .and_then(|fields| fields.remove("entries"));
        for entry in entries.iter().filter_map(Value::as_array).flatten() {
            let entry_name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
            parts.insert(format!("{name} entry {entry_name}"), entry.clone());
        }
        parts.insert(name, document);
    }
    for bundle in &catalog.bundles {
        parts.insert(
            format!("bundle {}/{}", bundle.package, bundle.name),
            bundle.document(),
        );
    }
    for deprecations in &catalog.deprecations {
        let name = format!("deprecations {}", deprecations.package);
        parts.insert(name, deprecations.document());
    }
    for (index, other) in catalog.others.iter().enumerate() {
        let name = format!("{} {} [{index}]", other.schema, other.package);
        parts.insert(name, other.document.clone());
    }
    parts
}

/// Returns the fields that differ. Long values are not printed.
fn changes(before: &Value, after: &Value) -> Vec<String> {
    const SHORT: usize = 60;
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else {
        return Vec::new();
    };
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let changed = names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name));
    changed
        .map(|name| {
            let text = |value: Option<&Value>| value.map_or("(none)".to_owned(), Value::to_string);
            let (before, after) = (text(before.get(name)), text(after.get(name)));
            if before.len() > SHORT || after.len() > SHORT {
                format!("{name} changed")
            } else {
                format!("{name} {before} -> {after}")
            }
        })
        .collect()
}
