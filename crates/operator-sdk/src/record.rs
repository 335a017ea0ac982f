//! [`Record`], the record of the scaffold in a project: the commands, and the files as they were written.
//!
//! An upgrade needs the scaffold of the earlier version, because the tool does not contain the templates of other
//! versions. Each scaffolded file has its own file in the record, so that version control can merge changes.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use serde::Deserialize;

use crate::file;

/// The directory of all files that the tool stores in a project.
const DIRECTORY: &str = ".operator-sdk";

/// The file with the commands, relative to the root of the project.
pub(crate) const PATH: &str = ".operator-sdk/commands.yaml";

/// The directory of the scaffolded files.
const FILES: &str = ".operator-sdk/base/";

/// The record of earlier versions, which is a single file.
const OLD_PATH: &str = ".operator-sdk/scaffold";

const HEADER: &str = "\
# The commands that scaffolded this project, and in base/ the files as they were written, before you changed them.
# `operator-sdk upgrade` needs both. Commit them; do not edit them.
";

/// Maximum size of the files of a record.
const LIMIT: u64 = 64 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// The version of the tool that wrote the files.
    pub(crate) version: String,
    /// The arguments of each command, without the name of the tool.
    pub(crate) commands: Vec<Vec<String>>,
    /// The texts of the files, by path.
    pub(crate) files: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("{path} is damaged: {reason}")]
    Damaged { path: &'static str, reason: String },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Commands {
    version: String,
    commands: Vec<Vec<String>>,
}

/// The record of earlier versions. `files` is gzipped JSON in base64.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OldRecord {
    version: String,
    commands: Vec<Vec<String>>,
    files: String,
}

// === impl Record ===

impl Record {
    /// Reads the record of the project in `root`. Returns `None` if the project has none.
    pub(crate) fn read(root: &Path) -> Result<Option<Self>, RecordError> {
        let Some(text) = read(root, PATH)? else {
            return read(root, OLD_PATH)?.map(|text| old(&text)).transpose();
        };
        let commands: Commands = serde_saphyr::from_str(&text).map_err(|error| damaged(PATH, &error))?;
        Ok(Some(Self {
            version: commands.version,
            commands: commands.commands,
            files: read_files(root)?,
        }))
    }

    /// Returns the files of the record: their paths in the project, and their texts.
    pub(crate) fn render(&self) -> BTreeMap<String, String> {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let commands: String = self
            .commands
            .iter()
            .map(|words| {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                format!("- [{}]\n", words.join(", "))
            })
            .collect();
        let head = format!(
            "{HEADER}version: {}\ncommands:\n{commands}",
            quoted(&self.version)
        );
        let files = self.files.iter();
        files
            .map(|(path, text)| (format!("{FILES}{path}"), text.clone()))
            .chain([(PATH.to_owned(), head)])
            .collect()
    }
}

/// Returns the files of the record in `root` on disk, including those of earlier versions.
pub(crate) fn on_disk(root: &Path) -> Result<BTreeMap<String, String>, RecordError> {
    let mut files: BTreeMap<String, String> = read_files(root)?
        .into_iter()
        .map(|(path, text)| (format!("{FILES}{path}"), text))
        .collect();
    for path in [PATH, OLD_PATH] {
        if let Some(text) = read(root, path)? {
            files.insert(path.to_owned(), text);
        }
    }
    Ok(files)
}

/// Returns true if a path of the project belongs to the record.
pub(crate) fn contains(path: &str) -> bool {
    path.strip_prefix(DIRECTORY)
        .is_some_and(|rest| rest.starts_with('/'))
}

fn damaged(path: &'static str, error: &dyn std::fmt::Display) -> RecordError {
    RecordError::Damaged {
        path,
        reason: apimachinery::yaml::summary(error),
    }
}

fn read(root: &Path, path: &str) -> Result<Option<String>, RecordError> {
    let path = root.join(path);
    match file::read_text(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RecordError::Read { path, source }),
    }
}

fn read_files(root: &Path) -> Result<BTreeMap<String, String>, RecordError> {
    let base = root.join(FILES);
    let mut files = BTreeMap::new();
    let mut folders = vec![base.clone()];
    while let Some(folder) = folders.pop() {
        let failed = |source| RecordError::Read {
            path: folder.clone(),
            source,
        };
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(path);
            } else if let Ok(name) = path.strip_prefix(&base) {
                let text = file::read_text(&path).map_err(|source| RecordError::Read {
                    path: path.clone(),
                    source,
                })?;
                files.insert(name.to_string_lossy().into_owned(), text);
            }
        }
    }
    Ok(files)
}

/// Parses the record of an earlier version.
fn old(text: &str) -> Result<Record, RecordError> {
    let file: OldRecord = serde_saphyr::from_str(text).map_err(|error| damaged(OLD_PATH, &error))?;
    let packed: String = file.files.split_whitespace().collect();
    let bytes = BASE64_STANDARD
        .decode(packed)
        .map_err(|error| damaged(OLD_PATH, &error))?;
    let mut json = Vec::new();
    GzDecoder::new(bytes.as_slice())
        .take(LIMIT)
        .read_to_end(&mut json)
        .map_err(|error| damaged(OLD_PATH, &error))?;
    Ok(Record {
        version: file.version,
        commands: file.commands,
        files: serde_json::from_slice(&json).map_err(|error| damaged(OLD_PATH, &error))?,
    })
}
