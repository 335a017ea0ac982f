//! Loads the files of a catalog.

use apimachinery::{go, yaml};
use serde_json::Value;

use super::decode::Struct;
use super::{
    Bundle, Catalog, Channel, Deprecation, Deprecations, Entry, Icon, Other, Package, Property, RelatedImage,
    SCHEMA_BUNDLE, SCHEMA_CHANNEL, SCHEMA_DEPRECATIONS, SCHEMA_PACKAGE, property,
};

/// The maximum size of a file, in bytes.
const FILE_BYTES_MAX: usize = 256 << 20;

impl Catalog {
    /// Loads one file: a stream of YAML or JSON documents, each with a schema.
    ///
    /// # Errors
    /// Returns an error with the text of `opm` for the first document that cannot be read.
    ///
    /// ```
    /// let text = "schema: olm.package\nname: cache\ndefaultChannel: stable\n";
    /// let catalog = operator_olm::catalog::Catalog::load(text).unwrap();
    /// assert_eq!(catalog.packages[0].default_channel, "stable");
    /// ```
    pub fn load(text: &str) -> Result<Self, String> {
        if text.len() > FILE_BYTES_MAX {
            return Err(format!(
                "file has {} bytes, more than {FILE_BYTES_MAX}",
                text.len()
            ));
        }
        let catalog = Self::from_documents(&documents(text)?)?;
        catalog
            .check_objects()
            .map_err(|error| format!("read bundle objects: {error}"))?;
        Ok(catalog)
    }

    /// Decodes parsed documents.
    ///
    /// # Errors
    /// Returns an error with the text of `opm` for the first document that has no schema, or a field with a wrong type.
    pub fn from_documents(documents: &[Value]) -> Result<Self, String> {
        let mut catalog = Self::default();
        for document in documents {
            catalog.add(document)?;
        }
        Ok(catalog)
    }

    /// Adds all documents of another catalog.
    pub fn merge(&mut self, other: Self) {
        self.packages.extend(other.packages);
        self.channels.extend(other.channels);
        self.bundles.extend(other.bundles);
        self.deprecations.extend(other.deprecations);
        self.others.extend(other.others);
    }

    fn add(&mut self, document: &Value) -> Result<(), String> {
        let Some(meta) = Struct::whole(document, "declcfg.Meta")? else {
            return Err(no_schema(document));
        };
        let schema = meta.text("schema")?;
        meta.text("name")?;
        let package = meta.text("package")?;
        let fault = |what: &str, error: String| format!("parse {what}: {error}");
        match schema.as_str() {
            "" => return Err(no_schema(document)),
            SCHEMA_PACKAGE => self
                .packages
                .push(package_of(document).map_err(|error| fault("package", error))?),
            SCHEMA_CHANNEL => self
                .channels
                .push(channel_of(document).map_err(|error| fault("channel", error))?),
            SCHEMA_BUNDLE => self
                .bundles
                .push(bundle_of(document).map_err(|error| fault("bundle", error))?),
            SCHEMA_DEPRECATIONS => self
                .deprecations
                .push(deprecations_of(document).map_err(|error| fault("deprecation", error))?),
            _ => self.others.push(Other {
                schema,
                package,
                document: document.clone(),
            }),
        }
        Ok(())
    }

    fn check_objects(&self) -> Result<(), String> {
        for bundle in &self.bundles {
            for (index, property) in bundle.properties.iter().enumerate() {
                if property.kind == property::BUNDLE_OBJECT {
                    property::object(&property.value).map_err(|error| {
                        format!(
                            "package {}, bundle {}: parse property at index {index} as bundle object: {error}",
                            go::quote(&bundle.package),
                            go::quote(&bundle.name)
                        )
                    })?;
                }
            }
        }
        Ok(())
    }
}

fn no_schema(document: &Value) -> String {
    format!("object '{}\n' is missing root schema field", go::json(document))
}

/// Splits a stream into its documents. A stream that starts with `{` is JSON, whose documents need no separator.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    if text.trim_start().starts_with('{') {
        let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        if let Ok(documents) = stream.collect::<Result<Vec<_>, _>>() {
            return Ok(documents);
        }
    }
    let documents =
        yaml::documents(text).map_err(|error| format!("error converting YAML to JSON: {error}"))?;
    Ok(documents.into_iter().map(|document| document.value).collect())
}

fn package_of(document: &Value) -> Result<Package, String> {
    let Some(fields) = Struct::whole(document, "declcfg.Package")? else {
        return Ok(Package::default());
    };
    let icon = match fields.field("icon") {
        None => None,
        Some(value) => {
            let icon = fields.nested(value, "icon.", "declcfg.Icon")?;
            icon.map(|icon| {
                Ok::<_, String>(Icon {
                    data: base64_text(&icon, "base64data")?,
                    media_type: icon.text("mediatype")?,
                })
            })
            .transpose()?
        }
    };
    Ok(Package {
        name: fields.text("name")?,
        default_channel: fields.text("defaultChannel")?,
        icon,
        description: fields.text("description")?,
        properties: properties_of(&fields)?,
    })
}

fn base64_text(fields: &Struct<'_>, field: &str) -> Result<String, String> {
    let text = match fields.field(field) {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => return Err(fields.mismatch(field, other, "[]uint8")),
    };
    property::decode_base64(&text)?;
    Ok(text)
}

fn channel_of(document: &Value) -> Result<Channel, String> {
    let Some(fields) = Struct::whole(document, "declcfg.Channel")? else {
        return Ok(Channel::default());
    };
    let entries = fields.list("entries", "[]declcfg.ChannelEntry")?;
    let entries = entries.map(|items| items.iter().map(|item| entry_of(&fields, item)).collect());
    Ok(Channel {
        name: fields.text("name")?,
        package: fields.text("package")?,
        entries: entries.transpose()?,
        properties: properties_of(&fields)?,
    })
}

fn entry_of(channel: &Struct<'_>, value: &Value) -> Result<Entry, String> {
    let Some(fields) = channel.nested(value, "entries.", "declcfg.ChannelEntry")? else {
        return Ok(Entry::default());
    };
    Ok(Entry {
        name: fields.text("name")?,
        replaces: fields.text("replaces")?,
        skips: fields.texts("skips")?,
        skip_range: fields.text("skipRange")?,
    })
}

fn bundle_of(document: &Value) -> Result<Bundle, String> {
    let Some(fields) = Struct::whole(document, "declcfg.Bundle")? else {
        return Ok(Bundle::default());
    };
    let images = fields
        .list("relatedImages", "[]declcfg.RelatedImage")?
        .unwrap_or_default();
    let related_images = images.iter().map(|value| {
        let Some(image) = fields.nested(value, "relatedImages.", "declcfg.RelatedImage")? else {
            return Ok(RelatedImage::default());
        };
        Ok(RelatedImage {
            name: image.text("name")?,
            image: image.text("image")?,
        })
    });
    Ok(Bundle {
        name: fields.text("name")?,
        package: fields.text("package")?,
        image: fields.text("image")?,
        properties: properties_of(&fields)?,
        related_images: related_images.collect::<Result<_, String>>()?,
    })
}

fn properties_of(fields: &Struct<'_>) -> Result<Vec<Property>, String> {
    let items = fields
        .list("properties", "[]property.Property")?
        .unwrap_or_default();
    items
        .iter()
        .map(|value| {
            let Some(property) = fields.nested(value, "properties.", "property.Property")? else {
                return Ok(Property::default());
            };
            Ok(Property {
                kind: property.text("type")?,
                value: property.field("value").cloned().unwrap_or_default(),
            })
        })
        .collect()
}

fn deprecations_of(document: &Value) -> Result<Deprecations, String> {
    let Some(fields) = Struct::whole(document, "declcfg.Deprecation")? else {
        return Ok(Deprecations::default());
    };
    let entries = fields.list("entries", "[]declcfg.DeprecationEntry")?;
    let entries = entries.map(|items| {
        let entries = items.iter().map(|value| deprecation_of(&fields, value));
        entries.collect::<Result<Vec<_>, String>>()
    });
    Ok(Deprecations {
        package: fields.text("package")?,
        entries: entries.transpose()?,
    })
}

fn deprecation_of(deprecations: &Struct<'_>, value: &Value) -> Result<Deprecation, String> {
    let Some(fields) = deprecations.nested(value, "entries.", "declcfg.DeprecationEntry")? else {
        return Ok(Deprecation::default());
    };
    let message = fields.text("message")?;
    let reference = match fields.field("reference") {
        None => None,
        Some(value) => fields.nested(value, "entries.reference.", "declcfg.PackageScopedReference")?,
    };
    let Some(reference) = reference else {
        return Ok(Deprecation {
            message,
            ..Deprecation::default()
        });
    };
    Ok(Deprecation {
        schema: reference.text("schema")?,
        name: reference.text("name")?,
        message,
    })
}
