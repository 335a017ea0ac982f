//! [`Sources`], the Rust source of a project: locations of rules and types.
//!
//! The operator describes itself; this module adds files and lines. Files that are not valid Rust are skipped, because
//! the compiler reports them.

pub(crate) mod rbac;
pub(crate) mod syntax;
pub(crate) mod types;

use std::fmt;
use std::ops::Range;

use serde::Serialize;

use crate::project::Tree;

/// The sources under `src`.
pub(crate) struct Sources {
    files: Vec<SourceFile>,
}

/// One file.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
    /// `None` if the file is not valid Rust.
    pub(crate) syntax: Option<syn::File>,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) line: usize,
}

// === impl Sources ===

impl Sources {
    /// Reads the sources among the files of a project.
    pub(crate) fn of(tree: &Tree) -> Self {
        let sources = tree
            .files()
            .filter(|(path, _)| path.starts_with("src/") && path.ends_with(".rs"));
        let files = sources.map(|(path, text)| SourceFile {
            path: path.to_owned(),
            text: text.to_owned(),
            syntax: syntax::parse(text).ok(),
        });
        Self {
            files: files.collect(),
        }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter()
    }

    pub(crate) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

// === impl SourceFile ===

impl SourceFile {
    /// Returns the line of a byte.
    pub(crate) fn place(&self, byte: usize) -> Place {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        Place {
            file: self.path.clone(),
            line: 1 + before.matches('\n').count(),
        }
    }

    /// Returns the text before a byte on its line.
    pub(crate) fn indent(&self, byte: usize) -> &str {
        let before = self.text.get(..byte).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.get(start..).unwrap_or_default();
        let blank = line.len() - line.trim_start().len();
        line.get(..blank).unwrap_or_default()
    }
}

/// A byte range in a file.
pub(crate) type Bytes = Range<usize>;

// === impl Place ===

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.file, self.line)
    }
}
