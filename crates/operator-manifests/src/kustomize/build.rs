//! [`build`] renders a kustomize tree to the objects that `kubectl kustomize DIR` prints.
//!
//! The supported subset: resources (files and directories), components, patches (strategic and JSON 6902), namespace,
//! name prefix and suffix, labels, annotations, images, replicas, replacements, and the `nameReference` configurations.
//! Generators, Helm charts, remote bases and plugins return [`BuildError::Unsupported`], so that a caller can use
//! another program.
//!
//! The order of the transformations and the rules of name references are those of kustomize 5.

use serde_json::{Map, Value};

use super::kustomization::{Entry, ImageRule, Kustomization};
use super::reference::References;
use super::resource::Resource;
use super::{order, patch, replacement, transform};

/// The file names of a kustomization, in lookup order.
pub const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The maximum nesting of directories. A deeper nesting is a cycle.
const MAX_DEPTH: usize = 32;

/// An error of rendering a tree.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BuildError {
    /// A directory without a kustomization, or a missing file.
    #[error("{0} does not exist")]
    Missing(String),
    /// A file is not YAML, or its content has the wrong form.
    #[error("{path}: {reason}")]
    Invalid {
        /// The file, relative to the root.
        path: String,
        /// The problem.
        reason: String,
    },
    /// A field of kustomize that is not supported.
    #[error("{path} uses `{field}`, which is not supported")]
    Unsupported {
        /// The kustomization.
        path: String,
        /// The field, or the form of an entry.
        field: String,
    },
    /// Directories include each other.
    #[error("{0} contains itself")]
    Circle(String),
}

/// Changes of the rendered tree that are not written to its files.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Images by their name in the manifests, such as `controller`. They take precedence over the `images` of any
    /// kustomization.
    pub images: Vec<(String, String)>,
    /// The namespace of all objects.
    pub namespace: Option<String>,
}

/// Renders the kustomization in `directory`. Paths are relative to the root of `read`, with `/` as separator.
///
/// ```
/// use operator_manifests::kustomize::build::{Overrides, build};
/// let read = |path: &str| match path {
///     "config/kustomization.yaml" => Some("namePrefix: my-\nresources:\n- account.yaml\n".to_owned()),
///     "config/account.yaml" => Some("apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: manager\n".to_owned()),
///     _ => None,
/// };
/// let objects = build("config", &read, &Overrides::default()).unwrap();
/// assert_eq!(objects[0]["metadata"]["name"], "my-manager");
/// ```
///
/// # Errors
/// Returns an error if a file is missing or invalid, or uses an unsupported field.
pub fn build(
    directory: &str,
    read: &dyn Fn(&str) -> Option<String>,
    overrides: &Overrides,
) -> Result<Vec<Value>, BuildError> {
    let builder = Builder { read, overrides };
    let mut layer = builder.directory(&normalized("", directory), 0)?;
    let images: Vec<ImageRule> = overrides.images.iter().map(ImageRule::of).collect();
    transform::images(&mut layer.resources, &images);
    layer.references.resolve(&mut layer.resources)?;
    order::sort(&mut layer.resources);
    Ok(layer
        .resources
        .into_iter()
        .map(|resource| resource.value)
        .collect())
}

/// Replaces the images of pods in rendered objects, by the names of [`Overrides::images`].
pub fn set_images(objects: &mut [Value], images: &[(String, String)]) {
    let rules: Vec<ImageRule> = images.iter().map(ImageRule::of).collect();
    let mut resources: Vec<Resource> = objects.iter().cloned().map(Resource::new).collect();
    transform::images(&mut resources, &rules);
    for (object, resource) in objects.iter_mut().zip(resources) {
        *object = resource.value;
    }
}

/// The objects of a directory and of all directories that it includes, and the references between them.
#[derive(Default)]
struct Layer {
    resources: Vec<Resource>,
    references: References,
}

struct Builder<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
    overrides: &'a Overrides,
}

/// Returns true if an entry is the name of a file; `read` cannot distinguish files from directories.
fn is_file_name(path: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|end| path.ends_with(end))
}

// === impl Builder ===

impl Builder<'_> {
    fn directory(&self, directory: &str, depth: usize) -> Result<Layer, BuildError> {
        let (path, kustomization) = self.kustomization(directory, depth)?;
        let mut layer = Layer {
            resources: Vec::new(),
            references: References::default(),
        };
        self.accumulate(&mut layer, directory, &path, &kustomization.resources, depth)?;
        for component in &kustomization.components {
            self.component(&mut layer, &normalized(directory, component), depth + 1)?;
        }
        self.transform(&mut layer, directory, &path, &kustomization, depth)?;
        Ok(layer)
    }

    fn kustomization(&self, directory: &str, depth: usize) -> Result<(String, Kustomization), BuildError> {
        if depth > MAX_DEPTH {
            return Err(BuildError::Circle(directory.to_owned()));
        }
        let found = FILE_NAMES.iter().find_map(|name| {
            let path = normalized(directory, name);
            (self.read)(&path).map(|text| (path, text))
        });
        let (path, text) = found.ok_or_else(|| BuildError::Missing(normalized(directory, FILE_NAMES[0])))?;
        let kustomization = Kustomization::parse(&path, &text)?;
        Ok((path, kustomization))
    }

    fn accumulate(
        &self,
        layer: &mut Layer,
        directory: &str,
        path: &str,
        entries: &[String],
        depth: usize,
    ) -> Result<(), BuildError> {
        for entry in entries {
            if entry.contains("://") || entry.contains("?ref=") || entry.starts_with("git@") {
                return Err(BuildError::Unsupported {
                    path: path.to_owned(),
                    field: format!("resources: {entry}"),
                });
            }
            let target = normalized(directory, entry);
            match (self.read)(&target) {
                Some(text) => layer.add(&target, resources_of(&target, &text)?)?,
                None if is_file_name(&target) => return Err(BuildError::Missing(target)),
                None => {
                    let below = self.directory(&target, depth + 1)?;
                    layer.references.merge(below.references);
                    layer.add(&target, below.resources)?;
                }
            }
        }
        Ok(())
    }

    /// A component changes the existing objects instead of adding its own layer.
    fn component(&self, layer: &mut Layer, directory: &str, depth: usize) -> Result<(), BuildError> {
        let (path, kustomization) = self.kustomization(directory, depth)?;
        self.accumulate(layer, directory, &path, &kustomization.resources, depth)?;
        self.transform(layer, directory, &path, &kustomization, depth)
    }

    fn transform(
        &self,
        layer: &mut Layer,
        directory: &str,
        path: &str,
        kustomization: &Kustomization,
        depth: usize,
    ) -> Result<(), BuildError> {
        for file in &kustomization.configurations {
            let file = normalized(directory, file);
            layer.references.configure(&file, &self.text(&file)?)?;
        }
        let resources = &mut layer.resources;
        for rule in &kustomization.patches {
            let text = match &rule.body {
                Entry::Inline(text) => text.clone(),
                Entry::File(file) => self.text(&normalized(directory, file))?,
            };
            patch::apply(path, resources, rule.target.as_ref(), &text)?;
        }
        let namespace = match (depth, &self.overrides.namespace) {
            (0, Some(namespace)) => Some(namespace),
            _ => kustomization.namespace.as_ref(),
        };
        if let Some(namespace) = namespace {
            transform::namespace(resources, namespace, &layer.references);
        }
        transform::rename(resources, &kustomization.name_prefix, &kustomization.name_suffix);
        for labels in &kustomization.labels {
            transform::labels(resources, labels);
        }
        transform::annotations(resources, &kustomization.annotations);
        transform::replicas(resources, &kustomization.replicas);
        let images: Vec<ImageRule> = kustomization.images.iter().map(|rule| self.image(rule)).collect();
        transform::images(resources, &images);
        for rule in &kustomization.replacements {
            match rule {
                Entry::File(file) => {
                    let file = normalized(directory, file);
                    replacement::apply_file(&file, resources, &self.text(&file)?)?;
                }
                Entry::Inline(rule) => replacement::apply(path, resources, rule)?,
            }
        }
        Ok(())
    }

    fn image(&self, rule: &ImageRule) -> ImageRule {
        let named = self.overrides.images.iter().find(|(name, _)| *name == rule.name);
        named.map_or_else(|| rule.clone(), ImageRule::of)
    }

    fn text(&self, path: &str) -> Result<String, BuildError> {
        (self.read)(path).ok_or_else(|| BuildError::Missing(path.to_owned()))
    }
}

// === impl Layer ===

impl Layer {
    fn add(&mut self, path: &str, resources: Vec<Resource>) -> Result<(), BuildError> {
        for resource in resources {
            if let Some(twin) = self.resources.iter().find(|there| there.is(&resource)) {
                return Err(invalid(path, format!("{} is there already", twin.describe())));
            }
            self.resources.push(resource);
        }
        Ok(())
    }
}

pub(super) fn invalid(path: &str, reason: impl Into<String>) -> BuildError {
    BuildError::Invalid {
        path: path.to_owned(),
        reason: reason.into(),
    }
}

/// Returns the documents of a YAML file, except for empty ones. Only `true` and `false` are booleans, as in kustomize.
pub(super) fn documents(path: &str, text: &str) -> Result<Vec<Value>, BuildError> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| invalid(path, apimachinery::yaml::summary(&error)))?;
    let kept = documents.into_iter().filter(|document| !document.is_null());
    Ok(kept.collect())
}

fn resources_of(path: &str, text: &str) -> Result<Vec<Resource>, BuildError> {
    let mut resources = Vec::new();
    for document in documents(path, text)? {
        let items = match document.get("items").and_then(Value::as_array) {
            Some(items)
                if document["kind"]
                    .as_str()
                    .is_some_and(|kind| kind.ends_with("List")) =>
            {
                items.clone()
            }
            _ => vec![document],
        };
        for item in items {
            let named = |pointer| {
                item.pointer(pointer)
                    .and_then(Value::as_str)
                    .is_some_and(|text| !text.is_empty())
            };
            for (pointer, field) in [
                ("/apiVersion", "apiVersion"),
                ("/kind", "kind"),
                ("/metadata/name", "metadata.name"),
            ] {
                if !named(pointer) {
                    return Err(invalid(path, format!("an object has no `{field}`")));
                }
            }
            resources.push(Resource::new(item));
        }
    }
    Ok(resources)
}

/// Resolves `entry` relative to `directory`, without `.` and `..`.
pub(super) fn normalized(directory: &str, entry: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in directory.split('/').chain(entry.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

/// Returns the map at a key, created if missing; `None` if the key holds another type.
pub(super) fn map_at<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Map<String, Value>> {
    let slot = value.as_object_mut()?.entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut()
}

/// Calls `visit` with every value at `path`. Lists on the path are traversed.
pub(super) fn visit(value: &mut Value, path: &[&str], visitor: &mut dyn FnMut(&mut Value)) {
    if let Value::Array(items) = value {
        for item in items {
            visit(item, path, visitor);
        }
        return;
    }
    match path.split_first() {
        None => visitor(value),
        Some((key, rest)) => {
            if let Some(next) = value.get_mut(*key) {
                visit(next, rest, visitor);
            }
        }
    }
}
