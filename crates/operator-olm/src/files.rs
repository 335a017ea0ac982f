//! The files of a directory in memory, with limits on their number, depth and size: [`Files`].

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The maximum number of files and directories.
pub const ENTRIES_MAX: usize = 10_000;
/// The maximum depth of directories.
pub const DEPTH_MAX: usize = 16;
/// The maximum total size of all files, in bytes.
pub const BYTES_MAX: u64 = 64 << 20;

/// An error of reading a directory.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The operating system reported an error.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A symbolic link leads out of the directory or to a directory.
    #[error("{0} is a symbolic link that does not lead to a file in this directory")]
    Link(PathBuf),
    /// The entry is a device, socket or pipe.
    #[error("{0} is neither a file nor a directory")]
    Special(PathBuf),
    /// A limit is exceeded.
    #[error("{path} exceeds the limit of {limit}")]
    TooLarge {
        /// The directory.
        path: PathBuf,
        /// The limit, with its unit.
        limit: String,
    },
    /// A name is not UTF-8.
    #[error("the file name {0} is not valid UTF-8")]
    Name(PathBuf),
}

/// The files in a directory. Paths are relative to it and have `/` as the separator.
#[derive(Clone, Debug, Default)]
pub struct Files {
    root: String,
    entries: BTreeMap<String, Option<Vec<u8>>>,
}

impl Files {
    /// Creates an empty directory with the name `root` in messages.
    pub fn new(root: impl Into<String>) -> Self {
        Self {
            root: root.into(),
            entries: BTreeMap::new(),
        }
    }

    /// Adds a file, and its parent directories.
    pub fn insert(&mut self, path: &str, content: Vec<u8>) {
        let path = clean(path);
        self.insert_parents(&path);
        self.entries.insert(path, Some(content));
    }

    /// Adds a directory, and its parent directories.
    pub fn insert_dir(&mut self, path: &str) {
        let path = clean(path);
        self.insert_parents(&path);
        if !path.is_empty() {
            self.entries.entry(path).or_insert(None);
        }
    }

    fn insert_parents(&mut self, path: &str) {
        let slashes = path.match_indices('/').map(|(at, _)| at);
        for parent in slashes.filter_map(|at| path.get(..at)) {
            self.entries.entry(parent.to_owned()).or_insert(None);
        }
    }

    /// Returns the name of the directory in messages.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Formats a path for messages: it starts with the name of the directory, like Go's `filepath.Join`.
    pub fn shown(&self, path: &str) -> String {
        let (root, path) = (self.root.trim_end_matches('/'), clean(path));
        match (root.is_empty(), path.is_empty()) {
            (_, true) => self.root.clone(),
            (true, _) => path,
            (false, false) => format!("{root}/{path}"),
        }
    }

    /// Returns the content of a file.
    pub fn content(&self, path: &str) -> Option<&[u8]> {
        self.entries.get(path)?.as_deref()
    }

    /// Returns true if the path is a directory.
    pub fn is_dir(&self, path: &str) -> bool {
        path.is_empty() || matches!(self.entries.get(path), Some(None))
    }

    /// Returns all files in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.entries.iter();
        files.filter_map(|(path, content)| Some((path.as_str(), content.as_deref()?)))
    }

    /// Returns the entries of a directory, ordered by name. The content is `None` for a directory.
    pub fn list<'a>(&'a self, dir: &'a str) -> impl Iterator<Item = (&'a str, Option<&'a [u8]>)> {
        self.entries.iter().filter_map(move |(path, content)| {
            let rest = if dir.is_empty() {
                path.as_str()
            } else {
                path.strip_prefix(dir)?.strip_prefix('/')?
            };
            (!rest.contains('/')).then_some((rest, content.as_deref()))
        })
    }
}

/// Returns the path of an entry of a directory.
pub(crate) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() {
        name.to_owned()
    } else {
        format!("{dir}/{name}")
    }
}

/// Normalizes a relative path: removes empty parts, `.` and `..`. A `..` cannot leave the directory.
pub fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Reads a directory and its subdirectories.
///
/// # Errors
/// Returns a [`ReadError`] for an I/O error, an exceeded limit, a symbolic link that leads out of the directory, or a
/// special file.
pub fn read(dir: &Path) -> Result<Files, ReadError> {
    let mut files = Files::new(dir.display().to_string());
    let top = dir.canonicalize().map_err(|source| io(dir, source))?;
    let mut reader = Reader {
        dir,
        top: &top,
        bytes: 0,
        entries: 0,
    };
    reader.read("", 0, &mut files)?;
    Ok(files)
}

struct Reader<'a> {
    dir: &'a Path,
    top: &'a Path,
    bytes: u64,
    entries: usize,
}

impl Reader<'_> {
    fn read(&mut self, below: &str, depth: usize, files: &mut Files) -> Result<(), ReadError> {
        if depth > DEPTH_MAX {
            return Err(self.too_large(format!("{DEPTH_MAX} levels of directories")));
        }
        let here = self.top.join(below);
        for entry in fs::read_dir(&here).map_err(|source| io(&here, source))? {
            let entry = entry.map_err(|source| io(&here, source))?;
            let path = entry.path();
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                return Err(ReadError::Name(path));
            };
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(self.too_large(format!("{ENTRIES_MAX} files")));
            }
            let relative = if below.is_empty() {
                name
            } else {
                format!("{below}/{name}")
            };
            let kind = entry.file_type().map_err(|source| io(&path, source))?;
            if kind.is_dir() {
                files.insert_dir(&relative);
                self.read(&relative, depth + 1, files)?;
            } else if kind.is_file() {
                let content = self.content(&path)?;
                files.insert(&relative, content);
            } else if kind.is_symlink() {
                let target = path.canonicalize().map_err(|source| io(&path, source))?;
                if !target.starts_with(self.top) || !target.is_file() {
                    return Err(ReadError::Link(path));
                }
                let content = self.content(&target)?;
                files.insert(&relative, content);
            } else {
                return Err(ReadError::Special(path));
            }
        }
        Ok(())
    }

    fn content(&mut self, path: &Path) -> Result<Vec<u8>, ReadError> {
        let file = fs::File::open(path).map_err(|source| io(path, source))?;
        let mut content = Vec::new();
        let left = BYTES_MAX - self.bytes;
        let read = file.take(left + 1).read_to_end(&mut content);
        read.map_err(|source| io(path, source))?;
        self.bytes += content.len() as u64;
        if self.bytes > BYTES_MAX {
            return Err(self.too_large(format!("{} MiB", BYTES_MAX >> 20)));
        }
        Ok(content)
    }

    fn too_large(&self, limit: String) -> ReadError {
        ReadError::TooLarge {
            path: self.dir.to_owned(),
            limit,
        }
    }
}

fn io(path: &Path, source: std::io::Error) -> ReadError {
    ReadError::Io {
        path: path.to_owned(),
        source,
    }
}
