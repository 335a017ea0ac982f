//! Properties of bundles with a known structure.

use apimachinery::go::base64;
use serde_json::Value;

use super::Property;
use super::decode::Struct;

/// The type of the property with the package and the version of a bundle.
pub(crate) const PACKAGE: &str = "olm.package";
/// The type of the property with an object of a bundle that has no image.
pub(crate) const BUNDLE_OBJECT: &str = "olm.bundle.object";

/// The value of an `olm.package` property.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PackageVersion {
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) release: String,
}

/// Checks the values of all properties; returns those with type `olm.package`.
pub(crate) fn packages(properties: &[Property]) -> Result<Vec<PackageVersion>, String> {
    let mut packages = Vec::new();
    for (index, property) in properties.iter().enumerate() {
        let parsed = parse(property)
            .map_err(|error| format!("parse property[{index}] of type {:?}: {error}", property.kind))?;
        packages.extend(parsed);
    }
    Ok(packages)
}

fn parse(property: &Property) -> Result<Option<PackageVersion>, String> {
    let texts = |go_type: &'static str, names: &[&str]| -> Result<Vec<String>, String> {
        let Some(fields) = Struct::whole(&property.value, go_type)? else {
            return Ok(vec![String::new(); names.len()]);
        };
        names.iter().map(|name| fields.text(name)).collect()
    };
    match property.kind.as_str() {
        PACKAGE => {
            let texts = texts("property.Package", &["packageName", "version", "release"])?;
            let mut texts = texts.into_iter();
            let mut next = || texts.next().unwrap_or_default();
            return Ok(Some(PackageVersion {
                package: next(),
                version: next(),
                release: next(),
            }));
        }
        "olm.package.required" => {
            texts("property.PackageRequired", &["packageName", "versionRange"])?;
        }
        "olm.gvk" => {
            texts("property.GVK", &["group", "kind", "version"])?;
        }
        "olm.gvk.required" => {
            texts("property.GVKRequired", &["group", "kind", "version"])?;
        }
        "olm.csv.metadata" => csv_metadata(&property.value)?,
        BUNDLE_OBJECT => {
            object(&property.value)?;
        }
        _ => {}
    }
    Ok(None)
}

/// Checks the fields of `olm.csv.metadata` that all consumers read.
fn csv_metadata(value: &Value) -> Result<(), String> {
    let Some(fields) = Struct::whole(value, "property.CSVMetadata")? else {
        return Ok(());
    };
    for name in ["description", "displayName", "maturity", "minKubeVersion"] {
        fields.text(name)?;
    }
    fields.texts("keywords")?;
    fields.list("installModes", "[]v1alpha1.InstallMode")?;
    Ok(())
}

/// Decodes the object of an `olm.bundle.object` property; `None` if the property refers to a file or is empty.
pub(crate) fn object(value: &Value) -> Result<Option<Vec<u8>>, String> {
    let Some(fields) = Struct::whole(value, "property.BundleObject")? else {
        return Ok(None);
    };
    match fields.field("data") {
        None => Ok(None),
        Some(Value::String(text)) => decode_base64(text).map(Some),
        Some(other) => Err(fields.mismatch("data", other, "[]uint8")),
    }
}

/// Decodes base64 with the errors of Go's decoder.
pub(crate) fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    base64::decode(text).map_err(|position| format!("illegal base64 data at input byte {position}"))
}
