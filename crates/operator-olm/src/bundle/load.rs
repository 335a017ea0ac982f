//! Loads a bundle, in the order and with the errors of the Go programs.

use std::collections::BTreeMap;

use apimachinery::yaml::Document;
use serde_json::Value;

use super::{Annotations, Bundle, LoadError, Size, decode, document, list, shape, text};
use crate::document::Manifest;
use crate::files::{Files, join};

const DEFAULT_ANNOTATIONS: &str = "metadata/annotations.yaml";

/// Finds the labels: in `metadata/annotations.yaml`, or else in the first file with labels at any depth.
pub(super) fn annotations(files: &Files) -> Result<Annotations, LoadError> {
    if let Some(content) = files.content(DEFAULT_ANNOTATIONS) {
        let found = read_annotations(DEFAULT_ANNOTATIONS, content).map_err(|error| LoadError {
            message: format!(
                "error unmarshalling potential bundle metadata {}: {}",
                files.shown(DEFAULT_ANNOTATIONS),
                error.message
            ),
            ..error
        })?;
        if !found.values.is_empty() {
            return Ok(found);
        }
    }
    let others = files.iter().filter(|(path, _)| !path.starts_with('.'));
    others
        .filter_map(|(path, content)| read_annotations(path, content).ok())
        .find(|found| !found.values.is_empty())
        .ok_or_else(|| LoadError::new(format!("metadata not found in {}", files.root())))
}

/// Reads the labels of a file.
pub(crate) fn read_annotations(path: &str, content: &[u8]) -> Result<Annotations, LoadError> {
    let document = document::first(content)
        .map_err(|error| LoadError::at(path, format!("error converting YAML to JSON: {error}")))?
        .unwrap_or_default();
    let decoded = decode::decode(shape::ANNOTATIONS, &document.value)
        .map_err(|error| LoadError::decode(path, "", error))?;
    let values = decoded.get("annotations").and_then(Value::as_object);
    let values = values.into_iter().flatten();
    Ok(Annotations {
        path: path.to_owned(),
        values: values
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect(),
        document,
    })
}

/// Returns the ClusterServiceVersions at any depth below a directory, by path. Most other files are not parsed for that.
pub(super) fn csvs(files: &Files, dir: &str) -> BTreeMap<String, Document> {
    let below = files.iter().filter(|(path, _)| below(dir, path).is_some());
    let found = below
        .filter(|(_, content)| may_be_csv(content))
        .filter_map(|(path, content)| {
            let document = document::first(content).ok().flatten()?;
            (text(&document.value, "/kind") == "ClusterServiceVersion").then(|| (path.to_owned(), document))
        });
    found.collect()
}

/// Returns true if a file has the name of the kind, or an escape sequence that may be a part of it.
fn may_be_csv(content: &[u8]) -> bool {
    const KIND: &[u8] = b"ClusterServiceVersion";
    content.contains(&b'\\') || content.windows(KIND.len()).any(|part| part == KIND)
}

/// Loads the objects of a manifests directory.
pub(super) fn bundle(
    files: &Files,
    annotations: Annotations,
    dir: String,
    mut csvs: BTreeMap<String, Document>,
) -> Result<Bundle, LoadError> {
    let shown = files.shown(&dir);
    // Every directory with a ClusterServiceVersion at any depth is loaded; the last one is used.
    let mut errors = Vec::new();
    let mut found_csv = false;
    let mut bundle = None;
    let paths: Vec<String> = csvs.keys().cloned().collect();
    for path in &paths {
        let below = below(&dir, path).unwrap_or_default();
        if below.split('/').any(|part| part.starts_with('.')) {
            continue;
        }
        found_csv = true;
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        match directory(files, parent, &mut csvs) {
            Ok(loaded) => bundle = Some(loaded),
            Err(Failure::Partial(error)) => {
                bundle = Some(Directory::default());
                errors.push(error);
            }
            Err(Failure::Nothing(error)) => {
                errors.push(error);
                errors.push(LoadError::new("no bundle csv found"));
            }
        }
    }
    if !found_csv {
        errors.push(LoadError::new(format!(
            "unable to find a csv in bundle directory {shown}"
        )));
    } else if bundle.is_none() {
        errors.push(LoadError::new(format!(
            "unable to load bundle from directory {shown}"
        )));
    }
    let csv = bundle.as_ref().and_then(|loaded| loaded.csv.clone());
    match (bundle, csv) {
        (Some(loaded), Some((csv_index, csv))) if errors.is_empty() => {
            let metadata = Metadata::read(files, &annotations.path);
            Ok(Bundle {
                root: files.root().to_owned(),
                dependencies: metadata.file_with("dependencies"),
                properties: metadata.file_with("properties"),
                ignored: metadata.ignored(),
                annotations,
                manifests_dir: dir,
                manifests: loaded.manifests,
                csv_index,
                csv,
                crds: loaded.crds,
                size: loaded.size,
            })
        }
        _ => Err(aggregate(&errors)),
    }
}

fn below<'a>(dir: &str, path: &'a str) -> Option<&'a str> {
    if dir.is_empty() {
        return Some(path);
    }
    path.strip_prefix(dir)?.strip_prefix('/')
}

/// Joins errors like `utilerrors.NewAggregate`: without duplicates, and in brackets if there are several.
fn aggregate(errors: &[LoadError]) -> LoadError {
    let mut messages: Vec<&str> = Vec::new();
    for error in errors {
        if !messages.contains(&error.message.as_str()) {
            messages.push(&error.message);
        }
    }
    let message = match messages.as_slice() {
        [one] => (*one).to_owned(),
        several => format!("[{}]", several.join(", ")),
    };
    let first = errors.iter().find(|error| error.path.is_some());
    LoadError {
        message,
        path: first.and_then(|error| error.path.clone()),
        pointer: first.map(|error| error.pointer.clone()).unwrap_or_default(),
    }
}

#[derive(Default)]
struct Directory {
    manifests: Vec<Manifest>,
    csv: Option<(usize, Value)>,
    crds: Vec<(usize, Value)>,
    size: Size,
}

enum Failure {
    /// Objects are missing, but the bundle was loaded.
    Partial(LoadError),
    /// The bundle could not be loaded.
    Nothing(LoadError),
}

/// Loads the objects of a directory. The parsed ClusterServiceVersions in it are taken.
fn directory(files: &Files, dir: &str, csvs: &mut BTreeMap<String, Document>) -> Result<Directory, Failure> {
    let mut loaded = Directory::default();
    let mut errors: Vec<LoadError> = Vec::new();
    for (name, content) in files.list(dir) {
        let path = join(dir, name);
        let shown = files.shown(&path);
        let Some(content) = content else {
            errors.push(LoadError::at(
                &path,
                format!("bundle manifests dir contains directory: {shown}"),
            ));
            continue;
        };
        if name.starts_with('.') {
            errors.push(LoadError::at(
                &path,
                format!("bundle manifests dir has hidden file: {shown}"),
            ));
            continue;
        }
        loaded.size.add(content);
        let parsed = match csvs.remove(&path) {
            Some(document) => Ok(document),
            None => object(content),
        };
        match parsed {
            Err(reason) => {
                errors.push(LoadError::at(&path, format!("unable to decode object: {reason}")));
            }
            Ok(document) => {
                add(&mut loaded, name, path, document).map_err(|error| Failure::Nothing(loading(error)))?;
            }
        }
    }
    if errors.is_empty() {
        Ok(loaded)
    } else {
        Err(Failure::Partial(loading(aggregate(&errors))))
    }
}

fn loading(error: LoadError) -> LoadError {
    LoadError {
        message: format!("error loading objs in directory: {}", error.message),
        ..error
    }
}

/// Decodes the first document of a file as an object with a kind.
fn object(content: &[u8]) -> Result<Document, String> {
    let document = document::first(content)
        .map_err(|error| format!("error converting YAML to JSON: {error}"))?
        .ok_or("EOF")?;
    let decoding = "error unmarshaling JSON: while decoding JSON:";
    let found = match &document.value {
        Value::Object(_) if !text(&document.value, "/kind").is_empty() => return Ok(document),
        Value::Object(_) | Value::Null => {
            let json = apimachinery::json::to_string(&document.value);
            return Err(format!("{decoding} Object 'Kind' is missing in '{json}'"));
        }
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
    };
    Err(format!(
        "{decoding} json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
    ))
}

fn add(loaded: &mut Directory, name: &str, path: String, document: Document) -> Result<(), LoadError> {
    let manifest = Manifest { path, document };
    let index = loaded.manifests.len();
    match manifest.kind() {
        "ClusterServiceVersion" => {
            if loaded.csv.is_some() {
                return Err(LoadError::at(
                    &manifest.path,
                    "invalid bundle: contains multiple CSVs",
                ));
            }
            let before = format!("unable to parse CSV {name}: ");
            let csv = decode::decode(shape::CSV, manifest.value())
                .map_err(|error| LoadError::decode(&manifest.path, &before, error))?;
            loaded.csv = Some((index, csv));
        }
        "CustomResourceDefinition" => {
            let shape = match manifest.api_version() {
                "apiextensions.k8s.io/v1" => shape::CRD,
                "apiextensions.k8s.io/v1beta1" => shape::OLD_CRD,
                other => {
                    let message = format!("unsupported CRD version {other} for {name}");
                    return Err(LoadError::at(&manifest.path, message));
                }
            };
            let before = format!("unable to parse CRD {name}: ");
            let crd = decode::decode(shape, manifest.value())
                .map_err(|error| LoadError::decode(&manifest.path, &before, error))?;
            loaded.crds.push((index, crd));
        }
        _ => {}
    }
    loaded.manifests.push(manifest);
    Ok(())
}

/// The parsed files of the directory of the labels.
struct Metadata<'a> {
    directory: &'a str,
    /// The file with the labels.
    labels: &'a str,
    /// The documents by path, without files that are empty.
    documents: BTreeMap<String, Result<Document, String>>,
}

impl<'a> Metadata<'a> {
    fn read(files: &Files, labels: &'a str) -> Self {
        let (directory, _) = labels.rsplit_once('/').unwrap_or_default();
        let documents = files.list(directory).filter_map(|(name, content)| {
            let document = document::first(content?).transpose()?;
            Some((join(directory, name), document))
        });
        Self {
            directory,
            labels,
            documents: documents.collect(),
        }
    }

    /// Returns the first file that has items in a list. Files that cannot be read are ignored.
    fn file_with(&self, name: &str) -> Option<Manifest> {
        self.documents.iter().find_map(|(path, document)| {
            let document = document.as_ref().ok()?;
            (path != self.labels && has_items(document, name)).then(|| Manifest {
                path: path.clone(),
                document: document.clone(),
            })
        })
    }

    /// Returns the files for dependencies and properties that have none, with the reasons.
    fn ignored(&self) -> Vec<(Manifest, String)> {
        let ignored = ["dependencies", "properties"].into_iter().filter_map(|name| {
            let path = join(self.directory, &format!("{name}.yaml"));
            let (document, reason) = match self.documents.get(&path)? {
                Err(reason) => (Document::default(), reason.clone()),
                Ok(document) if has_items(document, name) => return None,
                Ok(document) => (document.clone(), format!("it has no list `{name}`")),
            };
            Some((Manifest { path, document }, reason))
        });
        ignored.collect()
    }
}

fn has_items(document: &Document, name: &str) -> bool {
    !list(&document.value, &format!("/{name}")).is_empty()
}
