//! Formats catalogs as JSON and YAML.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{
    Bundle, Catalog, Channel, Deprecations, Entry, Package, Property, RelatedImage, SCHEMA_BUNDLE,
    SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE,
};

/// The order of the fields of documents and their parts. Other fields follow, ordered by name.
const FIELDS: [&str; 9] = [
    "schema",
    "name",
    "package",
    "defaultChannel",
    "image",
    "type",
    "reference",
    "message",
    "replaces",
];

impl Catalog {
    /// Returns the documents in the order in which they are written. The documents of each package are: the package,
    /// channels, bundles by name, other schemas, deprecations. Other schemas without a package are last. Channels,
    /// bundles and deprecations without a package are invalid, and are omitted.
    pub fn documents(&self) -> Vec<Value> {
        let mut packages: BTreeMap<&str, Parts<'_>> = BTreeMap::new();
        let mut global = Vec::new();
        for package in &self.packages {
            packages.entry(&package.name).or_default().packages.push(package);
        }
        for channel in &self.channels {
            packages
                .entry(&channel.package)
                .or_default()
                .channels
                .push(channel);
        }
        for bundle in &self.bundles {
            packages.entry(&bundle.package).or_default().bundles.push(bundle);
        }
        for other in &self.others {
            let document = (other.schema.as_str(), &other.document);
            if other.package.is_empty() {
                global.push(document);
            } else {
                packages.entry(&other.package).or_default().others.push(document);
            }
        }
        for deprecations in &self.deprecations {
            let parts = packages.entry(&deprecations.package).or_default();
            parts.deprecations.push(deprecations);
        }
        packages.remove("");
        let mut documents: Vec<Value> = packages.into_values().flat_map(Parts::documents).collect();
        global.sort_by_key(|(schema, _)| *schema);
        documents.extend(global.into_iter().map(|(_, document)| document.clone()));
        documents
    }

    /// Formats the catalog as a stream of JSON documents, indented by four spaces.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        for document in self.documents() {
            write_value(&mut text, &document, 0);
            text.push('\n');
        }
        text
    }

    /// Formats the catalog as a stream of YAML documents.
    pub fn to_yaml(&self) -> String {
        let documents = self.documents();
        let texts = documents
            .iter()
            .map(|document| format!("---\n{}", apimachinery::yaml::to_string(document)));
        texts.collect()
    }
}

#[derive(Default)]
struct Parts<'a> {
    packages: Vec<&'a Package>,
    channels: Vec<&'a Channel>,
    bundles: Vec<&'a Bundle>,
    others: Vec<(&'a str, &'a Value)>,
    deprecations: Vec<&'a Deprecations>,
}

impl Parts<'_> {
    fn documents(mut self) -> Vec<Value> {
        self.channels.sort_by_key(|channel| &channel.name);
        self.bundles.sort_by_key(|bundle| &bundle.name);
        self.others.sort_by_key(|(schema, _)| *schema);
        let packages = self.packages.into_iter().map(Package::document);
        let channels = self.channels.into_iter().map(Channel::document);
        let bundles = self.bundles.into_iter().map(Bundle::document);
        let others = self.others.into_iter().map(|(_, document)| document.clone());
        let deprecations = self.deprecations.into_iter().map(Deprecations::document);
        packages
            .chain(channels)
            .chain(bundles)
            .chain(others)
            .chain(deprecations)
            .collect()
    }
}

/// Sets a field if the text is not empty.
fn set(fields: &mut Map<String, Value>, name: &str, text: &str) {
    if !text.is_empty() {
        fields.insert(name.to_owned(), text.into());
    }
}

fn set_properties(fields: &mut Map<String, Value>, properties: &[Property]) {
    if !properties.is_empty() {
        let properties = properties.iter().map(Property::document).collect();
        fields.insert("properties".to_owned(), properties);
    }
}

fn object(schema: &str) -> Map<String, Value> {
    Map::from_iter([("schema".to_owned(), schema.into())])
}

impl Package {
    /// Returns the package as a document.
    pub fn document(&self) -> Value {
        let mut fields = object(SCHEMA_PACKAGE);
        fields.insert("name".to_owned(), self.name.as_str().into());
        fields.insert("defaultChannel".to_owned(), self.default_channel.as_str().into());
        if let Some(icon) = &self.icon {
            let icon = json!({"base64data": icon.data, "mediatype": icon.media_type});
            fields.insert("icon".to_owned(), icon);
        }
        set(&mut fields, "description", &self.description);
        set_properties(&mut fields, &self.properties);
        fields.into()
    }
}

impl Channel {
    /// Returns the channel as a document.
    pub fn document(&self) -> Value {
        let mut fields = object(SCHEMA_CHANNEL);
        fields.insert("name".to_owned(), self.name.as_str().into());
        fields.insert("package".to_owned(), self.package.as_str().into());
        let entries = self.entries.as_ref();
        let entries = entries.map(|entries| entries.iter().map(Entry::document).collect());
        fields.insert("entries".to_owned(), entries.unwrap_or(Value::Null));
        set_properties(&mut fields, &self.properties);
        fields.into()
    }
}

impl Entry {
    fn document(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("name".to_owned(), self.name.as_str().into());
        set(&mut fields, "replaces", &self.replaces);
        if !self.skips.is_empty() {
            fields.insert("skips".to_owned(), self.skips.clone().into());
        }
        set(&mut fields, "skipRange", &self.skip_range);
        fields.into()
    }
}

impl Bundle {
    /// Returns the bundle as a document.
    pub fn document(&self) -> Value {
        let mut fields = object(SCHEMA_BUNDLE);
        fields.insert("name".to_owned(), self.name.as_str().into());
        fields.insert("package".to_owned(), self.package.as_str().into());
        fields.insert("image".to_owned(), self.image.as_str().into());
        set_properties(&mut fields, &self.properties);
        if !self.related_images.is_empty() {
            let images = self.related_images.iter().map(RelatedImage::document).collect();
            fields.insert("relatedImages".to_owned(), images);
        }
        fields.into()
    }
}

impl Property {
    fn document(&self) -> Value {
        json!({"type": self.kind, "value": self.value})
    }
}

impl RelatedImage {
    fn document(&self) -> Value {
        json!({"name": self.name, "image": self.image})
    }
}

impl Deprecations {
    /// Returns the deprecations as a document.
    pub fn document(&self) -> Value {
        let mut fields = object(SCHEMA_DEPRECATIONS);
        fields.insert("package".to_owned(), self.package.as_str().into());
        let entries = self.entries.iter().flatten().map(|entry| {
            let mut reference = Map::new();
            reference.insert("schema".to_owned(), entry.schema.as_str().into());
            set(&mut reference, "name", &entry.name);
            json!({"reference": reference, "message": entry.message})
        });
        let entries = self.entries.as_ref().map(|_| entries.collect());
        fields.insert("entries".to_owned(), entries.unwrap_or(Value::Null));
        fields.into()
    }
}

/// Writes JSON with the well-known fields first. The depth of the values was limited when they were read.
fn write_value(text: &mut String, value: &Value, depth: usize) {
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("    ", depth));
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('{');
            for (index, name) in ordered(fields).into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                line(text, depth + 1);
                text.push_str(&Value::from(name).to_string());
                text.push_str(": ");
                write_value(text, fields.get(name).unwrap_or(&Value::Null), depth + 1);
            }
            line(text, depth);
            text.push('}');
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                line(text, depth + 1);
                write_value(text, item, depth + 1);
            }
            line(text, depth);
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

fn ordered(fields: &Map<String, Value>) -> Vec<&str> {
    let known: Vec<&str> = FIELDS
        .into_iter()
        .filter(|name| fields.contains_key(*name))
        .collect();
    let set: BTreeSet<&str> = known.iter().copied().collect();
    let others = fields
        .keys()
        .map(String::as_str)
        .filter(|name| !set.contains(name));
    known.iter().copied().chain(others).collect()
}
