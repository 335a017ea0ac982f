//! The objects of bundles that contain their objects.

use serde_json::Value;

use super::{Bundle, property};

/// Returns the objects of a bundle from its `olm.bundle.object` properties; none if the bundle is in an image.
///
/// # Errors
/// Returns an error if a property is not the base64 of a JSON object.
pub fn objects(bundle: &Bundle) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    for property in &bundle.properties {
        if property.kind == property::BUNDLE_OBJECT
            && let Some(bytes) = property::object(&property.value)?
        {
            objects.push(serde_json::from_slice(&bytes).map_err(|error| error.to_string())?);
        }
    }
    Ok(objects)
}
