//! Renders a bundle as the `olm.bundle` document of a catalog: [`render`].

use std::collections::BTreeMap;

use apimachinery::go;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::bundle::{Bundle, list, text};
use crate::catalog::{self, Property, RelatedImage};

/// Renders a bundle. If `image` is empty, the document contains the objects, so that OLM needs no image.
///
/// # Errors
/// Returns an error if the bundle does not define a kind that it owns, or if a name or property is invalid.
pub fn render(bundle: &Bundle, image: &str) -> Result<catalog::Bundle, String> {
    check_texts(bundle)?;
    let provided = provided(bundle);
    check_owned(bundle, &provided)?;
    let mut properties = Properties::default();
    // The package and its version come from the annotations and the ClusterServiceVersion.
    let written = bundle.properties().iter();
    for value in written.filter(|value| text(value, "/type") != "olm.package") {
        properties.add(
            text(value, "/type"),
            value.get("value").cloned().unwrap_or_default(),
        );
    }
    if let Some(annotation) = bundle.csv_annotation("olm.properties") {
        let written: Value = serde_json::from_str(annotation)
            .map_err(|error| format!("failed to unmarshal properties annotation: {error}"))?;
        for value in list(&written, "") {
            properties.add(
                text(value, "/type"),
                value.get("value").cloned().unwrap_or_default(),
            );
        }
    }
    for kind in provided {
        properties.add("olm.gvk", kind.gvk());
    }
    for kind in required(bundle).map_err(|error| get_properties(bundle, &error))? {
        properties.add("olm.gvk.required", kind.gvk());
    }
    let written = bundle.dependencies().iter().map(|dependency| Property {
        kind: text(dependency, "/type").to_owned(),
        value: dependency.get("value").cloned().unwrap_or_default(),
    });
    let dependencies: Vec<Property> = written.collect();
    // A dependency has the form of the property that provides it.
    catalog::check_properties(&dependencies).map_err(|error| get_properties(bundle, &error))?;
    for Property { kind, value } in dependencies {
        let part = |name: &str| text(&value, &format!("/{name}")).to_owned();
        match kind.as_str() {
            "olm.gvk" => {
                let value = json!({"group": part("group"), "kind": part("kind"), "version": part("version")});
                properties.add("olm.gvk.required", value);
            }
            "olm.package" => {
                let value = json!({"packageName": part("packageName"), "versionRange": part("version")});
                properties.add("olm.package.required", value);
            }
            other => properties.add(other, value),
        }
    }
    if !properties.has("olm.package") {
        let version = text(bundle.csv_manifest().value(), "/spec/version");
        let package = bundle.annotations.package();
        let mut value = json!({"packageName": package, "version": version});
        let release = text(bundle.csv_manifest().value(), "/spec/release");
        if !release.is_empty() {
            value["release"] = release.into();
        }
        properties.add("olm.package", value);
    }
    let mut properties = properties.sorted();
    catalog::check_properties(&properties).map_err(|error| get_properties(bundle, &error))?;
    let mut objects: Vec<String> = bundle
        .manifests
        .iter()
        .map(|manifest| STANDARD.encode(go::json(manifest.value())))
        .collect();
    objects.sort_unstable();
    properties.extend(objects.into_iter().map(|data| Property {
        kind: "olm.bundle.object".to_owned(),
        value: json!({"data": data}),
    }));
    Ok(catalog::Bundle {
        name: bundle.name().to_owned(),
        package: bundle.annotations.package().to_owned(),
        image: image.to_owned(),
        properties,
        related_images: related_images(bundle, image),
    })
}

fn get_properties(bundle: &Bundle, error: &str) -> String {
    format!("get properties for bundle {}: {error}", go::quote(bundle.name()))
}

/// A kind that a bundle provides or requires.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    plural: &'a str,
}

impl<'a> Kind<'a> {
    /// Parses an entry of a ClusterServiceVersion's CRDs, which has the name `plural.group`.
    fn of_definition(entry: &'a Value) -> Result<Self, String> {
        let name = text(entry, "/name");
        let (plural, group) = name
            .split_once('.')
            .ok_or_else(|| format!("couldn't parse plural.group from crd name: {name}"))?;
        let (version, kind) = (text(entry, "/version"), text(entry, "/kind"));
        Ok(Self {
            group,
            version,
            kind,
            plural,
        })
    }

    fn of_service(entry: &'a Value) -> Self {
        Self {
            group: text(entry, "/group"),
            version: text(entry, "/version"),
            kind: text(entry, "/kind"),
            plural: text(entry, "/name"),
        }
    }

    fn gvk(&self) -> Value {
        json!({"group": self.group, "kind": self.kind, "version": self.version})
    }

    fn show(&self) -> String {
        format!("{}/{}/{} ({})", self.group, self.version, self.kind, self.plural)
    }
}

fn provided(bundle: &Bundle) -> Vec<Kind<'_>> {
    let mut kinds = Vec::new();
    for (_, definition) in &bundle.crds {
        let versions = list(definition, "/spec/versions").iter();
        let mut versions: Vec<&str> = versions.map(|version| text(version, "/name")).collect();
        // The older field of v1beta1.
        let single = text(definition, "/spec/version");
        if versions.is_empty() && !single.is_empty() {
            versions.push(single);
        }
        kinds.extend(versions.into_iter().map(|version| Kind {
            group: text(definition, "/spec/group"),
            version,
            kind: text(definition, "/spec/names/kind"),
            plural: text(definition, "/spec/names/plural"),
        }));
    }
    let services = bundle.csv_list("/spec/apiservicedefinitions/owned");
    kinds.extend(services.iter().map(Kind::of_service));
    kinds.sort();
    kinds.dedup();
    kinds
}

fn required(bundle: &Bundle) -> Result<Vec<Kind<'_>>, String> {
    let definitions = bundle.csv_list("/spec/customresourcedefinitions/required");
    let mut kinds = definitions
        .iter()
        .map(Kind::of_definition)
        .collect::<Result<Vec<_>, _>>();
    if let Ok(kinds) = &mut kinds {
        let services = bundle.csv_list("/spec/apiservicedefinitions/required");
        kinds.extend(services.iter().map(Kind::of_service));
    }
    kinds.map_err(|error| format!("get required apis: {error}"))
}

fn check_owned(bundle: &Bundle, provided: &[Kind<'_>]) -> Result<(), String> {
    let fault = |error: String| {
        format!(
            "error checking provided apis in bundle {}: {error}",
            bundle.name()
        )
    };
    for entry in bundle.csv_list("/spec/customresourcedefinitions/owned") {
        let kind = Kind::of_definition(entry).map_err(fault)?;
        if !provided.contains(&kind) {
            let found: Vec<String> = provided
                .iter()
                .map(|kind| format!("{}:{{}}", kind.show()))
                .collect();
            let kind = kind.show();
            return Err(fault(format!(
                "couldn't find {kind} in bundle. found: map[{}]",
                found.join(" ")
            )));
        }
    }
    Ok(())
}

/// Rejects values of other types for some string fields. For other string fields, they are converted to strings.
fn check_texts(bundle: &Bundle) -> Result<(), String> {
    let csv = bundle.csv_manifest().value();
    let fault = |value: &Value, field: &str| {
        let kind = go::json_kind(value);
        format!("json: cannot unmarshal {kind} into Go struct field {field} of type string")
    };
    let is_wrong = |value: &&Value| !value.is_string() && !value.is_null();
    if let Some(name) = csv.pointer("/metadata/name").filter(is_wrong) {
        return Err(fault(name, "ObjectMeta.metadata.name"));
    }
    for map in ["annotations", "labels"] {
        let entries = csv
            .pointer(&format!("/metadata/{map}"))
            .and_then(Value::as_object);
        if let Some(value) = entries
            .into_iter()
            .flat_map(|entries| entries.values())
            .find(is_wrong)
        {
            return Err(fault(value, &format!("ObjectMeta.metadata.{map}")));
        }
    }
    if csv.get("spec").is_none() {
        return Err(format!(
            "error checking provided apis in bundle {}: error getting apiservice definitions: error unmarshaling into \
             object map: unexpected end of JSON input",
            bundle.name()
        ));
    }
    for deployment in list(csv, "/spec/install/spec/deployments") {
        for container in list(deployment, "/spec/template/spec/containers") {
            if let Some(image) = container.get("image").filter(is_wrong) {
                let field = "Container.Install.spec.Deployments.Spec.template.spec.containers.image";
                let name = go::quote(bundle.name());
                return Err(format!(
                    "get related images for bundle {name}: {}",
                    fault(image, field)
                ));
            }
        }
    }
    Ok(())
}

/// Properties without duplicates, by type and value.
#[derive(Default)]
struct Properties(BTreeMap<(String, String), Value>);

impl Properties {
    fn add(&mut self, kind: &str, value: Value) {
        self.0.insert((kind.to_owned(), value.to_string()), value);
    }

    fn has(&self, kind: &str) -> bool {
        self.0.keys().any(|(known, _)| known == kind)
    }

    fn sorted(self) -> Vec<Property> {
        let properties = self.0.into_iter();
        properties
            .map(|((kind, _), value)| Property { kind, value })
            .collect()
    }
}

/// Returns the images by reference: those in the ClusterServiceVersion, the bundle image, and those of containers.
fn related_images(bundle: &Bundle, image: &str) -> Vec<RelatedImage> {
    let mut images: BTreeMap<&str, &str> = BTreeMap::new();
    for related in bundle.csv_list("/spec/relatedImages") {
        images.insert(text(related, "/image"), text(related, "/name"));
    }
    if !image.is_empty() {
        images.entry(image).or_default();
    }
    for deployment in bundle.csv_list("/spec/install/spec/deployments") {
        for pointer in [
            "/spec/template/spec/containers",
            "/spec/template/spec/initContainers",
        ] {
            for container in list(deployment, pointer) {
                let image = text(container, "/image");
                if !image.is_empty() {
                    images.entry(image).or_default();
                }
            }
        }
    }
    let images = images.into_iter();
    images
        .map(|(image, name)| RelatedImage {
            name: name.to_owned(),
            image: image.to_owned(),
        })
        .collect()
}
