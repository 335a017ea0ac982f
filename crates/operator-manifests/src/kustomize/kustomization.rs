//! [`Kustomization`], a parsed `kustomization.yaml`. Unknown fields are rejected by name.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::build::{BuildError, documents, invalid};
use super::replacement::Replacement;

/// The content of a kustomization.
#[derive(Debug, Default)]
pub(super) struct Kustomization {
    pub(super) resources: Vec<String>,
    pub(super) components: Vec<String>,
    pub(super) configurations: Vec<String>,
    pub(super) patches: Vec<PatchRule>,
    pub(super) namespace: Option<String>,
    pub(super) name_prefix: String,
    pub(super) name_suffix: String,
    pub(super) labels: Vec<LabelRule>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) replicas: Vec<ReplicaRule>,
    pub(super) images: Vec<ImageRule>,
    pub(super) replacements: Vec<Entry<Replacement>>,
}

/// A patch that is inline or in a named file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry<T> {
    Inline(T),
    File(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PatchRule {
    pub(super) body: Entry<String>,
    pub(super) target: Option<Selector>,
}

/// A selector of objects. Strings are regular expressions for the whole value in the same fields as in kustomize.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Selector {
    pub(super) group: Option<String>,
    pub(super) version: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) label_selector: Option<String>,
    pub(super) annotation_selector: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LabelRule {
    pub(super) pairs: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) include_selectors: bool,
    #[serde(default)]
    pub(super) include_templates: bool,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplicaRule {
    pub(super) name: String,
    pub(super) count: i64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ImageRule {
    pub(super) name: String,
    pub(super) new_name: Option<String>,
    pub(super) new_tag: Option<Scalar>,
    pub(super) digest: Option<String>,
}

/// A tag that may be written as a number.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub(super) enum Scalar {
    Text(String),
    Number(serde_json::Number),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPatch {
    path: Option<String>,
    patch: Option<String>,
    target: Option<Selector>,
    // Accepted and ignored, because this implementation does not restrict what the options allow.
    #[serde(default, rename = "options")]
    _options: Option<Value>,
}

// === impl ImageRule ===

impl ImageRule {
    /// Returns the rule that replaces every image of a name.
    pub(super) fn of((name, image): &(String, String)) -> Self {
        let (repository, digest) = match image.split_once('@') {
            Some((repository, digest)) => (repository, Some(digest.to_owned())),
            None => (image.as_str(), None),
        };
        let (repository, tag) = split_tag(repository);
        Self {
            name: name.clone(),
            new_name: Some(repository.to_owned()),
            new_tag: tag.map(|tag| Scalar::Text(tag.to_owned())),
            digest,
        }
    }
}

/// Returns the repository and the tag of an image without a digest. A colon before a slash belongs to a port.
pub(super) fn split_tag(image: &str) -> (&str, Option<&str>) {
    match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (image, None),
    }
}

// === impl Scalar ===

impl Scalar {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

// === impl Kustomization ===

impl Kustomization {
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, BuildError> {
        let mut documents = documents(path, text)?;
        let fields = match (documents.pop(), documents.is_empty()) {
            (None, _) => Map::new(),
            (Some(Value::Object(fields)), true) => fields,
            _ => return Err(invalid(path, "it is not one mapping")),
        };
        let mut kustomization = Self::default();
        for (field, value) in fields {
            if !value.is_null() {
                kustomization.take(path, &field, value)?;
            }
        }
        Ok(kustomization)
    }

    fn take(&mut self, path: &str, field: &str, value: Value) -> Result<(), BuildError> {
        let read = Reader { path, field };
        match field {
            "apiVersion" | "kind" | "metadata" | "buildMetadata" | "sortOptions" => {}
            "resources" => self.resources.append(&mut read.value(value)?),
            "bases" => self.resources.append(&mut read.value(value)?),
            "components" => self.components = read.value(value)?,
            "configurations" => self.configurations = read.value(value)?,
            "namespace" => {
                self.namespace = Some(read.value::<String>(value)?).filter(|text| !text.is_empty());
            }
            "namePrefix" => self.name_prefix = read.value(value)?,
            "nameSuffix" => self.name_suffix = read.value(value)?,
            "labels" => self.labels.append(&mut read.value(value)?),
            "commonLabels" => self.labels.push(LabelRule {
                pairs: read.value(value)?,
                include_selectors: true,
                include_templates: true,
            }),
            "commonAnnotations" => self.annotations = read.value(value)?,
            "replicas" => self.replicas = read.value(value)?,
            "images" => self.images = read.value(value)?,
            "patches" | "patchesJson6902" => {
                for patch in read.value::<Vec<RawPatch>>(value)? {
                    self.patches.push(read.patch(patch)?);
                }
            }
            "patchesStrategicMerge" => {
                let entries: Vec<String> = read.value(value)?;
                self.patches.extend(entries.into_iter().map(|entry| PatchRule {
                    body: if entry.contains('\n') {
                        Entry::Inline(entry)
                    } else {
                        Entry::File(entry)
                    },
                    target: None,
                }));
            }
            "replacements" => {
                for entry in read.value::<Vec<Value>>(value)? {
                    let file = entry.get("path").and_then(Value::as_str).map(str::to_owned);
                    self.replacements.push(match file {
                        Some(file) => Entry::File(file),
                        None => Entry::Inline(read.value(entry)?),
                    });
                }
            }
            _ => {
                return Err(BuildError::Unsupported {
                    path: path.to_owned(),
                    field: field.to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// Reads the value of a field, and returns an error with its name if it has another form.
struct Reader<'a> {
    path: &'a str,
    field: &'a str,
}

impl Reader<'_> {
    fn value<T: DeserializeOwned>(&self, value: Value) -> Result<T, BuildError> {
        serde_json::from_value(value)
            .map_err(|error| invalid(self.path, format!("`{}`: {error}", self.field)))
    }

    fn patch(&self, patch: RawPatch) -> Result<PatchRule, BuildError> {
        let body = match (patch.patch, patch.path) {
            (Some(text), None) => Entry::Inline(text),
            (None, Some(file)) => Entry::File(file),
            _ => {
                let reason = format!("`{}`: an entry needs either `patch` or `path`", self.field);
                return Err(invalid(self.path, reason));
            }
        };
        Ok(PatchRule {
            body,
            target: patch.target,
        })
    }
}
