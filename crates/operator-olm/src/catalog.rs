//! File-based catalogs: packages, channels, bundles and deprecations as YAML or JSON streams.

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
/// Returns an error if the bundle has not exactly one property `olm.package`, or its version is not a semantic version.
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

/// Checks the form of properties whose type is known.
pub(crate) fn check_properties(properties: &[Property]) -> Result<(), String> {
    property::packages(properties).map(|_| ())
}

/// Schema of a package.
pub const SCHEMA_PACKAGE: &str = "olm.package";
/// Schema of a channel.
pub const SCHEMA_CHANNEL: &str = "olm.channel";
/// Schema of a bundle.
pub const SCHEMA_BUNDLE: &str = "olm.bundle";
/// Schema of the deprecations of a package.
pub const SCHEMA_DEPRECATIONS: &str = "olm.deprecations";

/// A catalog, or a part of one: all documents of its files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// Documents with schema `olm.package`.
    pub packages: Vec<Package>,
    /// Documents with schema `olm.channel`.
    pub channels: Vec<Channel>,
    /// Documents with schema `olm.bundle`.
    pub bundles: Vec<Bundle>,
    /// Documents with schema `olm.deprecations`.
    pub deprecations: Vec<Deprecations>,
    /// Documents with other schemas, which are kept unchanged.
    pub others: Vec<Other>,
}

/// A package.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Package {
    /// Name, a DNS label.
    pub name: String,
    /// Name of the default channel.
    pub default_channel: String,
    /// Icon.
    pub icon: Option<Icon>,
    /// Description in Markdown.
    pub description: String,
    /// Properties, for internal use of catalogs.
    pub properties: Vec<Property>,
}

/// The icon of a package.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Icon {
    /// The image, in base64.
    pub data: String,
    /// Its media type.
    pub media_type: String,
}

/// A channel: a graph of upgrades.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Channel {
    /// Name of the channel.
    pub name: String,
    /// Name of the package.
    pub package: String,
    /// Entries; `None` if the field is missing or null.
    pub entries: Option<Vec<Entry>>,
    /// Properties, for internal use of catalogs.
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
    /// Name of the bundle.
    pub name: String,
    /// Name of the bundle that it replaces.
    pub replaces: String,
    /// Names of bundles that are skipped.
    pub skips: Vec<String>,
    /// Range of versions that can be upgraded directly.
    pub skip_range: String,
}

/// A bundle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bundle {
    /// Name, that of the ClusterServiceVersion.
    pub name: String,
    /// Name of the package.
    pub package: String,
    /// Reference of the bundle image; empty if the bundle contains its objects.
    pub image: String,
    /// Properties.
    pub properties: Vec<Property>,
    /// Images that the bundle uses.
    pub related_images: Vec<RelatedImage>,
}

/// A property: a type and a value whose form depends on the type.
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
    /// Name; empty for images that were found in the bundle.
    pub name: String,
    /// Reference.
    pub image: String,
}

/// The deprecations of a package.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deprecations {
    /// Name of the package.
    pub package: String,
    /// Deprecated objects; `None` if the field is missing or null.
    pub entries: Option<Vec<Deprecation>>,
}

/// A deprecated package, channel or bundle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deprecation {
    /// Schema of the object.
    pub schema: String,
    /// Name of the object; empty for the package.
    pub name: String,
    /// Message to users.
    pub message: String,
}

/// A document with a schema of another tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Other {
    /// Schema of the document.
    pub schema: String,
    /// Package that the document belongs to; may be empty.
    pub package: String,
    /// The document.
    pub document: Value,
}
