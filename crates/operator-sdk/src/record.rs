//! What was scaffolded, kept in the project: the commands, and the texts that they wrote in full, compressed.
//!
//! An upgrade needs the scaffold of the version that made the project, and no version has the templates of the others.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

/// Where the record is, relative to the root of the project.
pub(crate) const PATH: &str = ".operator-sdk/scaffold";

const HEADER: &str = "\
# What operator-sdk scaffolded here, for `operator-sdk upgrade`. Commit it; do not edit it.
# `files` is gzip of JSON, in base64: the texts as they were written, before you changed them.
";

/// Columns of base64.
const WIDTH: usize = 100;

/// More than this is no scaffold.
const LIMIT: u64 = 64 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// The version of the tool that wrote the files.
    pub(crate) version: String,
    /// The words of each command, without the name of the tool.
    pub(crate) commands: Vec<Vec<String>>,
    /// Paths and texts.
    pub(crate) files: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("{PATH} is damaged: {0}")]
    Damaged(String),
    #[error("cannot write {PATH}: {source}")]
    Write { source: io::Error },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: String,
    commands: Vec<Vec<String>>,
    files: String,
}

// === impl Record ===

impl Record {
    pub(crate) fn parse(text: &str) -> Result<Self, RecordError> {
        let damaged =
            |reason: String| RecordError::Damaged(reason.lines().next().unwrap_or_default().to_owned());
        let file: File = serde_saphyr::from_str(text).map_err(|error| damaged(error.to_string()))?;
        let packed: String = file.files.split_whitespace().collect();
        let bytes = BASE64_STANDARD
            .decode(packed)
            .map_err(|error| damaged(error.to_string()))?;
        let mut json = Vec::new();
        GzDecoder::new(bytes.as_slice())
            .take(LIMIT)
            .read_to_end(&mut json)
            .map_err(|error| damaged(error.to_string()))?;
        Ok(Self {
            version: file.version,
            commands: file.commands,
            files: serde_json::from_slice(&json).map_err(|error| damaged(error.to_string()))?,
        })
    }

    pub(crate) fn render(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let commands: String = self
            .commands
            .iter()
            .map(|words| {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                format!("- [{}]\n", words.join(", "))
            })
            .collect();
        let json = serde_json::to_vec(&self.files).unwrap_or_default();
        let packed = BASE64_STANDARD.encode(compress(&json));
        let mut lines = String::new();
        for (index, character) in packed.chars().enumerate() {
            if index % WIDTH == 0 {
                lines.push_str("\n  ");
            }
            lines.push(character);
        }
        format!(
            "{HEADER}version: {}\ncommands:\n{commands}files: |-{lines}\n",
            quoted(&self.version)
        )
    }
}

/// Writing to memory does not fail.
fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes);
    written.and_then(|()| encoder.finish()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let record = Record {
            version: "0.1.0".to_owned(),
            commands: vec![
                vec!["init".to_owned(), "--owner=A \"B\": #c".to_owned()],
                vec!["x".to_owned()],
            ],
            files: (0..50).map(|n| (format!("f{n}"), "text\n".repeat(n))).collect(),
        };
        assert_eq!(Record::parse(&record.render()).unwrap(), record);
        assert_eq!(record.render(), record.render());
    }

    #[test]
    fn damage_is_seen() {
        let good = Record::default().render();
        for text in [
            "",
            "version: 1",
            &good.replace("files: |-", "files: |-\n  AAAA"),
            &format!("{good}more: 1\n"),
        ] {
            assert!(
                matches!(Record::parse(text), Err(RecordError::Damaged(_))),
                "{text}"
            );
        }
    }
}
