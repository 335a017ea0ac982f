//! The images that an operator uses, from its environment variables `RELATED_IMAGE_…`.

use serde_json::{Map, Value, json};

use super::GenerateError;

const PREFIX: &str = "RELATED_IMAGE_";

struct Image<'a> {
    name: String,
    image: &'a str,
    /// The name of the Deployment; with the name of the container if there are several.
    owner: String,
}

/// Returns the related images: first those in the base, then those of environment variables.
pub(super) fn related(spec: &Map<String, Value>, deployments: &[Value]) -> Result<Vec<Value>, GenerateError> {
    let written = spec.get("relatedImages").and_then(Value::as_array);
    let mut related = written.cloned().unwrap_or_default();
    let found = images(deployments)?;
    for (index, image) in found.iter().enumerate() {
        let named_alike = found.iter().filter(|other| other.name == image.name).count();
        let first = found.iter().position(|other| other.image == image.image);
        let is_repeated = found.iter().filter(|other| other.image == image.image).count() > 1;
        let name = match (is_repeated, named_alike > 1) {
            // An image is listed once. It has no name if several variables contain it.
            (true, _) if first != Some(index) => continue,
            (true, _) => String::new(),
            (false, true) => format!("{}-{}", image.owner, image.name),
            (false, false) => image.name.clone(),
        };
        let is_written = |other: &Value| other.get("image").and_then(Value::as_str) == Some(image.image);
        if !written.into_iter().flatten().any(is_written) {
            related.push(json!({"image": image.image, "name": name}));
        }
    }
    Ok(related)
}

fn images(deployments: &[Value]) -> Result<Vec<Image<'_>>, GenerateError> {
    let mut images: Vec<Image<'_>> = Vec::new();
    for deployment in deployments {
        let deployment_name = apimachinery::object::name(deployment);
        let containers = deployment.pointer("/spec/template/spec/containers");
        let containers = containers
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        for container in containers {
            let text = |value: &'_ Value, field: &str| {
                let text = value.get(field).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            };
            let owner = match containers.len() {
                0 | 1 => deployment_name.to_owned(),
                _ => format!("{deployment_name}-{}", text(container, "name")),
            };
            let variables = container.get("env").and_then(Value::as_array);
            for variable in variables.into_iter().flatten() {
                let variable_name = text(variable, "name");
                let Some(name) = variable_name.strip_prefix(PREFIX) else {
                    continue;
                };
                if variable.get("valueFrom").is_some_and(|source| !source.is_null()) {
                    return Err(GenerateError::ImageFromReference(variable_name));
                }
                let name = name.replace('_', "-").to_lowercase();
                let image = variable.get("value").and_then(Value::as_str).unwrap_or_default();
                if !images
                    .iter()
                    .any(|known| known.name == name && known.image == image)
                {
                    let owner = owner.clone();
                    images.push(Image { name, image, owner });
                }
            }
        }
    }
    Ok(images)
}
