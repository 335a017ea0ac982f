//! `generate bundle --use-image-digests`: replaces the tags of images by their digests, which registries resolve.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::oci::reference::Reference;
use crate::process::registry::Repository;
use crate::report::Report;

/// The prefix of environment variables with images.
const VARIABLE: &str = "RELATED_IMAGE_";

/// Replaces the images of a ClusterServiceVersion, and lists those of its containers in `relatedImages`.
pub(super) fn pin(csv: &mut Value, report: &Report) -> Result<(), Failure> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    visit(csv, &mut |image| {
        names.entry(image.clone()).or_default();
    });
    crate::run::block_on(async {
        for (name, pinned) in &mut names {
            *pinned = resolve(name).await?;
            if pinned != name {
                report.progress(&format!("{name} is {pinned}"));
            }
        }
        Ok::<_, Failure>(())
    })?;
    visit(csv, &mut |image| {
        if let Some(pinned) = names.get(image) {
            pinned.clone_into(image);
        }
    });
    relate(csv);
    Ok(())
}

/// Returns the image with a digest instead of its tag.
async fn resolve(image: &str) -> Result<String, Failure> {
    if image.contains('@') || image.is_empty() {
        return Ok(image.to_owned());
    }
    let reference = Reference::parse(image)?;
    let mut repository = Repository::open_to_pull(&reference, false)?;
    let digest = repository.resolve().await?;
    Ok(format!("{}@{digest}", reference.name))
}

/// Calls `change` with each image of the containers, of their variables and of the related images.
fn visit(csv: &mut Value, change: &mut impl FnMut(&mut String)) {
    let mut change = |value: Option<&mut Value>| {
        if let Some(Value::String(image)) = value {
            change(image);
        }
    };
    for container in containers(csv) {
        let variables = container.get_mut("env").and_then(Value::as_array_mut);
        for variable in variables.into_iter().flatten() {
            let name = variable["name"].as_str().unwrap_or_default();
            if name.starts_with(VARIABLE) {
                change(variable.get_mut("value"));
            }
        }
        change(container.get_mut("image"));
    }
    let related = csv
        .pointer_mut("/spec/relatedImages")
        .and_then(Value::as_array_mut);
    for entry in related.into_iter().flatten() {
        change(entry.get_mut("image"));
    }
}

/// Returns the containers of all Deployments.
fn containers(csv: &mut Value) -> Vec<&mut Value> {
    let deployments = csv
        .pointer_mut("/spec/install/spec/deployments")
        .and_then(Value::as_array_mut);
    let mut found = Vec::new();
    for deployment in deployments.into_iter().flatten() {
        let Some(Value::Object(pod)) = deployment.pointer_mut("/spec/template/spec") else {
            continue;
        };
        for (field, value) in pod {
            if matches!(field.as_str(), "containers" | "initContainers")
                && let Value::Array(containers) = value
            {
                found.extend(containers);
            }
        }
    }
    found
}

/// Adds the images of containers to the related images, unless they are already there, with the names of the
/// containers.
fn relate(csv: &mut Value) {
    let images: Vec<Value> = containers(csv)
        .into_iter()
        .map(|container| json!({"name": container["name"], "image": container["image"]}))
        .collect();
    let Some(spec) = csv.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let related = spec.entry("relatedImages").or_insert_with(|| json!([]));
    let Some(related) = related.as_array_mut() else {
        return;
    };
    for image in images {
        if !related.iter().any(|known| known["image"] == image["image"]) {
            related.push(image);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_images_are_visited_and_those_of_containers_related() {
        let mut csv = json!({"spec": {
            "install": {"spec": {"deployments": [{"spec": {"template": {"spec": {
                "initContainers": [{"name": "init", "image": "a:1"}],
                "containers": [{"name": "manager", "image": "b:1", "env": [
                    {"name": "RELATED_IMAGE_C", "value": "c:1"}, {"name": "OTHER", "value": "d:1"},
                ]}],
            }}}}]}},
            "relatedImages": [{"name": "c", "image": "c:1"}],
        }});
        visit(&mut csv, &mut |image| *image = image.replace(":1", "@sha256:0"));
        relate(&mut csv);
        let text = csv.to_string();
        assert!(
            !text.contains("a:1") && !text.contains("b:1") && !text.contains("c:1"),
            "{text}"
        );
        assert!(text.contains("d:1"), "{text}");
        let names: Vec<&str> = csv["spec"]["relatedImages"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|image| image["name"].as_str())
            .collect();
        assert_eq!(names, ["c", "manager", "init"]);
    }
}
