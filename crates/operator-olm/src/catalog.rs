//! File-based catalogs: packages, channels, bundles and deprecations as YAML or JSON streams ([`Catalog`]).

pub mod constraint;
mod contents;
mod decode;
mod diff;
pub mod image;
mod load;
mod mermaid;
mod parts;
mod property;
pub mod rule;
mod svg;
mod tree;
mod validate;
pub mod version;
mod write;

use apimachinery::go::quote;
use serde_json::Value;

pub use contents::objects;
pub use diff::diff;
pub(crate) use load::documents as stream;
pub use mermaid::mermaid;
pub use parts::parts;
pub use svg::svg;
pub use validate::{Index, validate};

/// Returns the package and the version of a bundle.
///
/// # Errors
/// Returns an error if the bundle does not have exactly one property `olm.package`, or its version is not a semantic
/// version.
pub fn package_version(bundle: &Bundle) -> Result<(String, version::Version), String> {
    let name = quote(&bundle.name);
    let packages = property::packages(&bundle.properties)
        .map_err(|error| format!("parse properties for bundle {name}: {error}"))?;
    let [package] = packages.as_slice() else {
        let kind = quote(property::PACKAGE);
        return Err(format!(
            "bundle {name} has multiple {kind} properties, expected exactly 1"
        ));
    };
    let version = version::Version::parse(&package.version).map_err(|error| {
        let version = quote(&package.version);
        format!("bundle {name} has invalid version {version}: {error}")
    })?;
    Ok((package.package.clone(), version))
}

/// Checks the values of properties with a known type.
pub(crate) fn check_properties(properties: &[Property]) -> Result<(), String> {
    property::packages(properties).map(|_| ())
}

/// The schema of a package.
pub const SCHEMA_PACKAGE: &str = "olm.package";
/// The schema of a channel.
pub const SCHEMA_CHANNEL: &str = "olm.channel";
/// The schema of a bundle.
pub const SCHEMA_BUNDLE: &str = "olm.bundle";
/// The schema of the deprecations of a package.
pub const SCHEMA_DEPRECATIONS: &str = "olm.deprecations";

/// The documents of a catalog, or of a part of a catalog.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// The documents with schema `olm.package`.
    pub packages: Vec<Package>,
    /// The documents with schema `olm.channel`.
    pub channels: Vec<Channel>,
    /// The documents with schema `olm.bundle`.
    pub bundles: Vec<Bundle>,
    /// The documents with schema `olm.deprecations`.
    pub deprecations: Vec<Deprecations>,
    /// The documents with other schemas, which are not changed.
    pub others: Vec<Other>,
}

/// A package.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Package {
    /// The name, which is a DNS label.
    pub name: String,
    /// The name of the default channel.
    pub default_channel: String,
    /// The icon.
    pub icon: Option<Icon>,
    /// The description in Markdown.
    pub description: String,
    /// The properties, for internal use of catalogs.
    pub properties: Vec<Property>,
}

/// The icon of a package.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Icon {
    /// The image in base64.
    pub data: String,
    /// The media type of the image.
    pub media_type: String,
}

/// A channel: a graph of upgrades.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Channel {
    /// The name of the channel.
    pub name: String,
    /// The name of the package.
    pub package: String,
    /// The entries; `None` if the field is missing or null.
    pub entries: Option<Vec<Entry>>,
    /// The properties, for internal use of catalogs.
    pub properties: Vec<Property>,
}

impl Channel {
    /// Returns the entries; empty if the field is missing.
    pub fn entries(&self) -> &[Entry] {
        self.entries.as_deref().unwrap_or_default()
    }
}

/// A bundle in a channel, and the bundles that it upgrades.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// The name of the bundle.
    pub name: String,
    /// The name of the bundle that it replaces.
    pub replaces: String,
    /// The names of skipped bundles.
    pub skips: Vec<String>,
    /// The range of versions that can be upgraded directly.
    pub skip_range: String,
}

/// A bundle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bundle {
    /// The name, which is the name of the ClusterServiceVersion.
    pub name: String,
    /// The name of the package.
    pub package: String,
    /// The reference of the bundle image; empty if the bundle contains its objects.
    pub image: String,
    /// The properties.
    pub properties: Vec<Property>,
    /// The images that the bundle uses.
    pub related_images: Vec<RelatedImage>,
}

/// A property: a type, and a value whose structure depends on the type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Property {
    /// The type, such as `olm.gvk`.
    pub kind: String,
    /// The value.
    pub value: Value,
}

/// An image that a bundle uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RelatedImage {
    /// The name; empty for images that were found in the bundle.
    pub name: String,
    /// The image reference.
    pub image: String,
}

/// The deprecations of a package.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deprecations {
    /// The name of the package.
    pub package: String,
    /// The deprecated objects; `None` if the field is missing or null.
    pub entries: Option<Vec<Deprecation>>,
}

/// A deprecated package, channel or bundle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deprecation {
    /// The schema of the object.
    pub schema: String,
    /// The name of the object; empty for the package.
    pub name: String,
    /// The message for users.
    pub message: String,
}

/// A document with the schema of another tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Other {
    /// The schema of the document.
    pub schema: String,
    /// The package of the document; may be empty.
    pub package: String,
    /// The document.
    pub document: Value,
}
