//! Keys and certificates that survive a restart: files in the data directory, or only in memory.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The directory of the files, inside the data directory.
const DIRECTORY: &str = "pki";

/// The storage of a server's keys and certificates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyring {
    /// The directory; `None` keeps keys only in memory.
    directory: Option<PathBuf>,
}

impl Keyring {
    /// Returns the keyring of a data directory, which the caller must have locked.
    pub(crate) fn of(data_directory: &Path) -> Self {
        Self {
            directory: Some(data_directory.join(DIRECTORY)),
        }
    }

    /// Returns the value with this name; it is created and stored on the first call.
    ///
    /// The file is readable only by its owner, and is created atomically.
    pub(crate) fn keep(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<String, Error>,
    ) -> Result<String, Error> {
        let Some(directory) = &self.directory else {
            return make();
        };
        if let Some(text) = self.read(name)? {
            return Ok(text);
        }
        let path = directory.join(name);
        let text = make()?;
        write(directory, &path, &text).map_err(|error| unusable(&path, &error))?;
        Ok(text)
    }

    /// Returns the stored value with this name, if any.
    pub(crate) fn read(&self, name: &str) -> Result<Option<String>, Error> {
        let Some(directory) = &self.directory else {
            return Ok(None);
        };
        let path = directory.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(&path, &error)),
        }
    }
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::DataDirectory(format!("cannot store {}: {error}", path.display()))
}

fn write(directory: &Path, path: &Path, text: &str) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let part = path.with_extension("part");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&part, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn stored_keys_are_created_once() {
        let directory = tempfile::tempdir().unwrap();
        for text in ["first", "second"] {
            let keyring = Keyring::of(directory.path());
            assert_eq!(keyring.keep("a.key", || Ok(text.to_owned())).unwrap(), "first");
        }
        let mode = |path: &str| {
            let path = directory.path().join(path);
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode("pki"), mode("pki/a.key")), (0o700, 0o600));
        let memory = Keyring::default();
        assert_eq!(memory.keep("a.key", || Ok("third".to_owned())).unwrap(), "third");
    }
}
