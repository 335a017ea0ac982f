//! Container images as values: the files of one layer become the blobs of an OCI [`Image`]. Pure and reproducible: the
//! same files have the same digests.

pub(crate) mod elf;
pub(crate) mod reference;
mod tar;

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) use self::tar::{Archive, Entry};

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The user that the operator runs as: `nonroot` of the distroless images.
const USER: u32 = 65532;

/// The timestamp of all files, unless `SOURCE_DATE_EPOCH` is set.
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// A blob: content that is addressed by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    /// `sha256:` and 64 hexadecimal digits.
    pub(crate) digest: String,
    pub(crate) bytes: Vec<u8>,
}

/// The contents of the image of a program.
pub(crate) struct Contents<'a> {
    /// A static program for Linux.
    pub(crate) program: &'a [u8],
    /// The absolute path of the program in the image.
    pub(crate) entrypoint: &'a str,
    /// Additional files.
    pub(crate) files: Vec<AddedFile>,
    /// The architecture, as in `GOARCH`.
    pub(crate) architecture: &'a str,
    /// The creation time in RFC 3339. `None` is the beginning of 1970.
    pub(crate) created: Option<String>,
    pub(crate) labels: Vec<(String, String)>,
}

/// A file of an image in addition to its program.
pub(crate) struct AddedFile {
    /// The absolute path in the image.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) executable: bool,
}

/// An error of the contents of an image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContentsError {
    #[error("{0:?} is not the path of a file in an image")]
    Path(String),
    #[error("the image has another file at {0}")]
    Duplicate(String),
    #[error("cannot compress the image: {0}")]
    Compress(#[from] io::Error),
}

/// An image of one platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) architecture: String,
    pub(crate) config: Blob,
    pub(crate) layer: Blob,
    pub(crate) manifest: Blob,
}

// === impl Blob ===

impl Blob {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self {
            digest: digest(&bytes),
            bytes,
        }
    }

    fn of(value: &Value) -> Self {
        Self::new(value.to_string().into_bytes())
    }

    fn described(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": self.digest, "size": self.bytes.len()})
    }

    /// Returns the path of the blob in a layout.
    fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}

/// Returns `sha256:` and the hexadecimal digits of the hash.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

// === impl Image ===

impl Image {
    /// Creates an image with the program, the name of its user, `/tmp`, and the additional files.
    pub(crate) fn new(contents: &Contents<'_>) -> Result<Self, ContentsError> {
        let files = layer(contents)?;
        let directory = match contents.entrypoint.rsplit_once('/') {
            Some((directory, _)) if !directory.is_empty() => directory,
            _ => "/",
        };
        let run = json!({
            "User": format!("{USER}:{USER}"),
            "Entrypoint": [contents.entrypoint],
            "WorkingDir": "/",
            "Env": [format!("PATH={directory}")],
        });
        let created = contents.created.as_deref();
        let image = Self::assemble(&files, contents.architecture, created, &run, &contents.labels)?;
        Ok(image)
    }

    /// Creates an image of files, without an entry point.
    pub(crate) fn of_files<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        created: Option<&str>,
        labels: &[(String, String)],
    ) -> std::io::Result<Self> {
        let mut archive = Archive::default();
        for (path, bytes) in files {
            archive.add(path, &Entry::file(bytes));
        }
        Self::assemble(&archive.finish(), "amd64", created, &json!({}), labels)
    }

    fn assemble(
        files: &[u8],
        architecture: &str,
        created: Option<&str>,
        run: &Value,
        labels: &[(String, String)],
    ) -> std::io::Result<Self> {
        let unpacked = digest(files);
        let layer = Blob::new(compress(files)?);
        let created = created.unwrap_or(EPOCH);
        let mut config = json!({
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": run,
            "rootfs": {"type": "layers", "diff_ids": [unpacked]},
            "history": [{"created": created, "created_by": "operator-sdk build"}],
        });
        for (key, value) in labels {
            config["config"]["Labels"][key] = json!(value);
        }
        let config = Blob::of(&config);
        let manifest = Blob::of(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.described(CONFIG),
            "layers": [layer.described(LAYER)],
        }));
        Ok(Self {
            architecture: architecture.to_owned(),
            config,
            layer,
            manifest,
        })
    }

    /// Returns the image as a tar archive of an OCI layout, which `docker load` and `kind load image-archive` also
    /// read.
    pub(crate) fn layout(&self, name: &str, tag: &str) -> Vec<u8> {
        let mut manifest = self.manifest.described(MANIFEST);
        manifest["platform"] = json!({"architecture": self.architecture, "os": "linux"});
        manifest["annotations"] = json!({
            "io.containerd.image.name": format!("{name}:{tag}"),
            "org.opencontainers.image.ref.name": tag,
        });
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
        let docker = json!([{
            "Config": self.config.path(),
            "RepoTags": [format!("{name}:{tag}")],
            "Layers": [self.layer.path()],
        }]);
        let mut archive = Archive::default();
        archive.add("oci-layout", &Entry::file(br#"{"imageLayoutVersion":"1.0.0"}"#));
        archive.add("index.json", &Entry::file(index.to_string().as_bytes()));
        archive.add("manifest.json", &Entry::file(docker.to_string().as_bytes()));
        for blob in [&self.manifest, &self.config, &self.layer] {
            archive.add(&blob.path(), &Entry::file(&blob.bytes));
        }
        archive.finish()
    }
}

/// Returns the file system of the image.
fn layer(contents: &Contents<'_>) -> Result<Vec<u8>, ContentsError> {
    let passwd =
        format!("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n");
    let group = format!("root:x:0:\nnonroot:x:{USER}:\n");
    let mut entries = BTreeMap::from([
        ("etc/".to_owned(), Entry::folder(0o755)),
        ("etc/group".to_owned(), Entry::file(group.as_bytes())),
        ("etc/passwd".to_owned(), Entry::file(passwd.as_bytes())),
        ("tmp/".to_owned(), Entry::folder(0o1777)),
    ]);
    add(
        &mut entries,
        contents.entrypoint,
        Entry::program(contents.program),
    )?;
    for file in &contents.files {
        let entry = if file.executable {
            Entry::program(&file.bytes)
        } else {
            Entry::file(&file.bytes)
        };
        add(&mut entries, &file.path, entry)?;
    }
    let mut archive = Archive::default();
    for (path, entry) in &entries {
        archive.add(path, entry);
    }
    Ok(archive.finish())
}

/// Adds a file with an absolute path, and its parent directories.
fn add<'a>(
    entries: &mut BTreeMap<String, Entry<'a>>,
    path: &str,
    entry: Entry<'a>,
) -> Result<(), ContentsError> {
    let invalid = || ContentsError::Path(path.to_owned());
    let relative = path.strip_prefix('/').ok_or_else(invalid)?;
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    if relative.len() > tar::LONGEST || !relative.split('/').all(is_part) {
        return Err(invalid());
    }
    let duplicate = |path: &str| ContentsError::Duplicate(format!("/{path}"));
    for (index, _) in relative.match_indices('/') {
        if let Some(file) = relative
            .get(..index)
            .filter(|parent| entries.contains_key(*parent))
        {
            return Err(duplicate(file));
        }
        let folder = relative.get(..=index).unwrap_or_default();
        entries.entry(folder.to_owned()).or_insert(Entry::folder(0o755));
    }
    let is_folder = entries.contains_key(&format!("{relative}/"));
    if is_folder || entries.insert(relative.to_owned(), entry).is_some() {
        return Err(duplicate(relative));
    }
    Ok(())
}

/// Compresses with gzip, without a name or a timestamp.
pub(crate) fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(program: &[u8]) -> Contents<'_> {
        Contents {
            program,
            entrypoint: "/manager",
            files: Vec::new(),
            architecture: "amd64",
            created: None,
            labels: vec![("a".to_owned(), "b".to_owned())],
        }
    }

    fn image(program: &[u8]) -> Image {
        Image::new(&contents(program)).unwrap()
    }

    #[test]
    fn the_same_program_gives_the_same_image() {
        assert_eq!(image(b"one"), image(b"one"));
        assert_ne!(image(b"one").manifest.digest, image(b"two").manifest.digest);
        assert_eq!(image(b"one").layout("op", "v1"), image(b"one").layout("op", "v1"));
    }

    #[test]
    fn everything_names_what_it_is_made_of() {
        let image = image(b"one");
        let manifest: Value = serde_json::from_slice(&image.manifest.bytes).unwrap();
        assert_eq!(manifest["config"]["digest"], image.config.digest.as_str());
        assert_eq!(manifest["layers"][0]["size"], image.layer.bytes.len());
        let config: Value = serde_json::from_slice(&image.config.bytes).unwrap();
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Labels"]["a"], "b");
        assert_eq!(
            config["rootfs"]["diff_ids"][0],
            digest(&layer(&contents(b"one")).unwrap())
        );
    }

    #[test]
    fn paths_of_files_are_absolute_and_distinct() {
        let with = |entrypoint, paths: &[&str]| {
            let files = paths.iter().map(|path| AddedFile {
                path: (*path).to_owned(),
                bytes: Vec::new(),
                executable: false,
            });
            let contents = Contents {
                entrypoint,
                files: files.collect(),
                ..contents(b"one")
            };
            layer(&contents).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(with("/usr/bin/a", &["/usr/bin/b", "/usr/c", "/tmp/d"]), Ok(()));
        let long = format!("/{}", "a".repeat(101));
        for path in ["", "/", "a", "/a/", "//a", "/../a", "/a/./b", &long] {
            let message = format!("{path:?} is not the path of a file in an image");
            assert_eq!(with("/m", &[path]), Err(message.clone()));
            assert_eq!(with(path, &[]), Err(message));
        }
        for (entrypoint, path, at) in [
            ("/m", "/m", "/m"),
            ("/m", "/m/a", "/m"),
            ("/m/a", "/m", "/m"),
            ("/m", "/etc/passwd", "/etc/passwd"),
            ("/tmp", "/a", "/tmp"),
        ] {
            let message = format!("the image has another file at {at}");
            assert_eq!(with(entrypoint, &[path]), Err(message));
        }
    }
}
