//! registry+v1 bundles: the labels in `metadata/`, and the objects in `manifests/` ([`Bundle`]).

use std::collections::BTreeMap;

use apimachinery::yaml::Document;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::decode::{self, DecodeError};
use crate::document::{self, Manifest};
use crate::files::{self, Files};
use crate::shape;

mod load;
pub(crate) mod size;

pub(crate) use load::read_annotations;
pub use size::Size;

/// The prefix of the labels of a bundle.
const LABEL: &str = "operators.operatorframework.io.bundle.";

/// An error of loading a bundle, with the text of the Go program. Paths include the name of the bundle's directory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct LoadError {
    /// The error message.
    pub message: String,
    /// The file that causes the error, relative to the bundle, if there is one.
    pub path: Option<String>,
    /// The JSON pointer of the cause in the file.
    pub pointer: String,
}

impl LoadError {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            path: None,
            pointer: String::new(),
        }
    }

    fn at(path: &str, message: impl Into<String>) -> Self {
        Self {
            path: Some(path.to_owned()),
            ..Self::new(message)
        }
    }

    fn decode(path: &str, before: &str, error: DecodeError) -> Self {
        Self {
            pointer: error.pointer,
            ..Self::at(
                path,
                format!(
                    "{before}error unmarshaling JSON: while decoding JSON: {}",
                    error.message
                ),
            )
        }
    }
}

/// The type of the content of a manifests directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// A ClusterServiceVersion with related objects.
    RegistryV1,
    /// Objects without a ClusterServiceVersion.
    Plain,
    /// A Helm chart.
    Helm,
}

impl MediaType {
    /// Returns the value of the label `mediatype.v1`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RegistryV1 => "registry+v1",
            Self::Plain => "plain",
            Self::Helm => "helm",
        }
    }
}

/// The labels of a bundle, with the file that contains them.
#[derive(Clone, Debug, Default)]
pub struct Annotations {
    /// The file, relative to the bundle.
    pub path: String,
    /// The labels.
    pub values: BTreeMap<String, String>,
    /// The content of the file, with positions.
    pub document: Document,
}

impl Annotations {
    /// Returns the value of a label by the end of its name, such as `package.v1`.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.values.get(&format!("{LABEL}{name}")).map(String::as_str)
    }

    /// Returns the name of the package.
    pub fn package(&self) -> &str {
        self.label("package.v1").unwrap_or_default()
    }

    /// Returns the channels, which are written as a comma-separated list.
    pub fn channels(&self) -> Vec<&str> {
        let channels = self.label("channels.v1").unwrap_or_default().split(',');
        channels.filter(|channel| !channel.is_empty()).collect()
    }

    /// Returns the default channel, or an empty string.
    pub fn default_channel(&self) -> &str {
        self.label("channel.default.v1").unwrap_or_default()
    }
}

/// A bundle.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// The name of the directory in messages.
    pub root: String,
    /// The labels.
    pub annotations: Annotations,
    /// The manifests directory, relative to the bundle.
    pub manifests_dir: String,
    /// All objects in the manifests directory, including the ClusterServiceVersion, ordered by file name.
    pub manifests: Vec<Manifest>,
    /// The index of the ClusterServiceVersion among the manifests.
    csv_index: usize,
    /// The ClusterServiceVersion as decoded by its Go struct: without unknown fields and nulls, and with scalars
    /// converted to strings for string fields.
    pub csv: Value,
    /// The CustomResourceDefinitions as decoded by their Go structs, with the indexes of their manifests.
    pub crds: Vec<(usize, Value)>,
    /// The file with `dependencies`, `metadata/dependencies.yaml` by convention.
    pub dependencies: Option<Manifest>,
    /// The file with `properties`, `metadata/properties.yaml` by convention.
    pub properties: Option<Manifest>,
    /// The files for dependencies and properties that have none, with the reasons.
    pub ignored: Vec<(Manifest, String)>,
    /// The size of the manifests.
    pub size: Size,
}

impl Bundle {
    /// Returns the manifest of the ClusterServiceVersion as written.
    pub fn csv_manifest(&self) -> &Manifest {
        // The loader creates no bundle without a ClusterServiceVersion.
        &self.manifests[self.csv_index]
    }

    /// Returns the name of the bundle, which is `metadata.name` of the ClusterServiceVersion as written.
    pub fn name(&self) -> &str {
        self.csv_manifest().name()
    }

    /// Returns the name of the decoded ClusterServiceVersion.
    pub fn csv_name(&self) -> &str {
        text(&self.csv, "/metadata/name")
    }

    /// Returns the value at a JSON pointer of the decoded ClusterServiceVersion.
    pub fn csv_at(&self, pointer: &str) -> Option<&Value> {
        self.csv.pointer(pointer)
    }

    /// Returns the items of the list at a JSON pointer of the decoded ClusterServiceVersion.
    pub fn csv_list(&self, pointer: &str) -> &[Value] {
        list(&self.csv, pointer)
    }

    /// Returns the annotations of the decoded ClusterServiceVersion.
    pub fn csv_annotations(&self) -> Option<&Map<String, Value>> {
        self.csv.pointer("/metadata/annotations")?.as_object()
    }

    /// Returns an annotation of the decoded ClusterServiceVersion.
    pub fn csv_annotation(&self, name: &str) -> Option<&str> {
        self.csv_annotations()?.get(name)?.as_str()
    }

    /// Returns the dependencies.
    pub fn dependencies(&self) -> &[Value] {
        let file = self.dependencies.as_ref();
        file.map_or(&[], |file| list(file.value(), "/dependencies"))
    }

    /// Returns the properties.
    pub fn properties(&self) -> &[Value] {
        let file = self.properties.as_ref();
        file.map_or(&[], |file| list(file.value(), "/properties"))
    }
}

/// Returns the string at a JSON pointer; empty if it is missing.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the items of the list at a JSON pointer.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let items = value.pointer(pointer).and_then(Value::as_array);
    items.map_or(&[], Vec::as_slice)
}

/// Loads the bundle in a directory.
///
/// # Errors
/// Returns the error of the Go programs.
///
/// ```
/// let mut files = operator_olm::files::Files::new("bundle");
/// files.insert("metadata/annotations.yaml", b"annotations: {}".to_vec());
/// let error = operator_olm::bundle::load(&files).unwrap_err();
/// assert_eq!(error.to_string(), "metadata not found in bundle");
/// ```
pub fn load(files: &Files) -> Result<Bundle, LoadError> {
    let annotations = load::annotations(files)?;
    let manifests_dir = files::clean(annotations.label("manifests.v1").unwrap_or("manifests"));
    let csvs = load::csvs(files, &manifests_dir);
    media_type_with(files, &manifests_dir, |path| csvs.contains_key(path))?;
    load::bundle(files, annotations, manifests_dir, csvs)
}

/// Determines the media type of a manifests directory from its content.
///
/// # Errors
/// Returns an error if the directory has no files.
pub fn media_type(files: &Files, dir: &str) -> Result<MediaType, LoadError> {
    let csvs = load::csvs(files, dir);
    media_type_with(files, dir, |path| csvs.contains_key(path))
}

/// Determines the media type, given the paths of the ClusterServiceVersions.
pub(crate) fn media_type_with(
    files: &Files,
    dir: &str,
    is_csv: impl Fn(&str) -> bool,
) -> Result<MediaType, LoadError> {
    let mut manifests = files
        .list(dir)
        .filter(|(_, content)| content.is_some())
        .peekable();
    if manifests.peek().is_none() {
        let shown = files.shown(dir);
        return Err(LoadError::new(format!(
            "The directory {shown} contains no yaml files"
        )));
    }
    let chart = if dir.is_empty() {
        "Chart.yaml".to_owned()
    } else {
        format!("{dir}/Chart.yaml")
    };
    if files.content(&chart).is_some() {
        return Ok(MediaType::Helm);
    }
    Ok(if manifests.any(|(name, _)| is_csv(&files::join(dir, name))) {
        MediaType::RegistryV1
    } else {
        MediaType::Plain
    })
}
