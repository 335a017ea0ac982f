//! Pulls images from a registry: digests, manifests and the files of their layers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Component, Path};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::LOCATION;
use http::{Method, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::Value;

use super::{RegistryError, Repository};
use crate::oci::digest;

/// The media types of manifests: of one platform, and of several.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";
const ANYTHING: &str = "*/*";

/// The maximum size of a manifest, in bytes.
const MANIFEST_MAX: usize = 4 << 20;
/// The maximum size of a compressed layer, and of all files of an image, in bytes.
const FILES_MAX: usize = 64 << 20;
/// The maximum number of redirects, which registries use for the storage of their blobs.
const REDIRECTS_MAX: usize = 5;
/// The prefix of a file that deletes a file of an earlier layer.
const WHITEOUT: &str = ".wh.";

impl Repository {
    /// Returns the digest of the image that the tag names.
    pub(crate) async fn resolve(&mut self) -> Result<String, RegistryError> {
        let tag = self.reference.tag.clone();
        Ok(self.manifest(&tag).await?.0)
    }

    /// Returns the files of the image that the tag names, by path. For an image with several platforms, the first is
    /// used.
    pub(crate) async fn pull(&mut self) -> Result<BTreeMap<String, Vec<u8>>, RegistryError> {
        let tag = self.reference.tag.clone();
        let (_, mut manifest) = self.manifest(&tag).await?;
        if let Some(platform) = manifest.pointer("/manifests/0/digest").and_then(Value::as_str) {
            let platform = platform.to_owned();
            manifest = self.manifest(&platform).await?.1;
        }
        let layers = manifest["layers"].as_array().cloned().unwrap_or_default();
        let mut files = BTreeMap::new();
        for layer in layers {
            let named = layer["digest"].as_str().unwrap_or_default();
            let kind = layer["mediaType"].as_str().unwrap_or_default();
            let blob = self.blob(named, FILES_MAX, "layer").await?;
            let unpacked = match kind {
                kind if kind.ends_with("gzip") => unpack(GzDecoder::new(blob.as_ref()), &mut files),
                kind if kind.ends_with("tar") => unpack(blob.as_ref(), &mut files),
                kind => Err(format!("the media type {kind} is not supported")),
            };
            unpacked.map_err(|reason| self.invalid("layer", reason))?;
        }
        Ok(files)
    }

    /// Returns the platforms of the image, as operating systems and architectures.
    pub(crate) async fn platforms(&mut self) -> Result<BTreeSet<(String, String)>, RegistryError> {
        let tag = self.reference.tag.clone();
        let (_, manifest) = self.manifest(&tag).await?;
        let platform = |value: &Value| {
            let part = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
            (part("os"), part("architecture"))
        };
        if let Some(manifests) = manifest["manifests"].as_array() {
            let platforms = manifests.iter().map(|manifest| platform(&manifest["platform"]));
            // Attestations have the platform unknown/unknown.
            return Ok(platforms.filter(|(os, _)| os != "unknown").collect());
        }
        let named = manifest.pointer("/config/digest").and_then(Value::as_str);
        let config = self.blob(named.unwrap_or_default(), MANIFEST_MAX, "configuration");
        let config = config.await?;
        let config = serde_json::from_slice(&config);
        let config = config.map_err(|error| self.invalid("configuration", error.to_string()))?;
        Ok(BTreeSet::from([platform(&config)]))
    }

    /// Reads a manifest by tag or digest, and also returns its digest.
    async fn manifest(&mut self, name: &str) -> Result<(String, Value), RegistryError> {
        let url = self.url(&format!("/manifests/{name}"));
        let body = self.read(&url, MANIFESTS, MANIFEST_MAX, "manifest").await?;
        let found = digest(&body);
        if name.starts_with("sha256:") && name != found {
            return Err(self.invalid("manifest", format!("its digest is not {name}")));
        }
        let manifest = serde_json::from_slice(&body);
        let manifest = manifest.map_err(|error| self.invalid("manifest", error.to_string()))?;
        Ok((found, manifest))
    }

    /// Reads a blob by its digest, which is checked.
    async fn blob(
        &mut self,
        named: &str,
        size_max: usize,
        what: &'static str,
    ) -> Result<Bytes, RegistryError> {
        let url = self.url(&format!("/blobs/{named}"));
        let blob = self.read(&url, ANYTHING, size_max, what).await?;
        match digest(&blob) == named {
            true => Ok(blob),
            false => Err(self.invalid(what, format!("its digest is not {named}"))),
        }
    }

    /// Reads a resource, following redirects.
    async fn read(
        &mut self,
        url: &str,
        accepted: &str,
        size_max: usize,
        what: &'static str,
    ) -> Result<Bytes, RegistryError> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.send(Method::GET, &url, Some(accepted), Bytes::new()).await?;
            if !answer.status().is_redirection() {
                return self.content(answer, size_max, what).await;
            }
            let location = answer.headers().get(LOCATION);
            let location = location.and_then(|value| value.to_str().ok());
            url = self.absolute(location.unwrap_or_default());
        }
        Err(self.invalid(what, "too many redirects".to_owned()))
    }

    async fn content(
        &self,
        answer: Response<Incoming>,
        size_max: usize,
        what: &'static str,
    ) -> Result<Bytes, RegistryError> {
        if !answer.status().is_success() {
            return Err(self.refusal(answer, what).await);
        }
        let body = Limited::new(answer.into_body(), size_max).collect().await;
        let body = body.map_err(|error| self.invalid(what, error.to_string()))?;
        Ok(body.to_bytes())
    }

    fn invalid(&self, what: &'static str, reason: String) -> RegistryError {
        RegistryError::Invalid {
            image: format!("{}:{}", self.reference.name, self.reference.tag),
            what,
            reason,
        }
    }
}

/// Returns the files of an archive by path.
///
/// # Errors
/// Returns the reason why the archive cannot be read, or that a path is outside of the archive.
pub(crate) fn files_of(archive: impl Read) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut files = BTreeMap::new();
    unpack(archive, &mut files)?;
    Ok(files)
}

/// Adds the files of a layer to those of earlier layers, and removes those that it deletes.
fn unpack(layer: impl Read, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    let mut archive = tar::Archive::new(layer.take(FILES_MAX as u64 * 2));
    let entries = archive.entries().map_err(|error| error.to_string())?;
    for entry in entries {
        let mut entry = entry.map_err(|error| error.to_string())?;
        let path = entry.path().map_err(|error| error.to_string())?;
        let path = relative(&path).ok_or_else(|| format!("the path {} leaves the image", path.display()))?;
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if let Some(deleted) = name.strip_prefix(WHITEOUT) {
            let deleted = format!("{directory}/{deleted}");
            let deleted = deleted.trim_start_matches('/');
            files.retain(|known, _| known != deleted && !known.starts_with(&format!("{deleted}/")));
            continue;
        }
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let total: usize = files.values().map(Vec::len).sum();
        let mut content = Vec::new();
        let mut limited = (&mut entry).take((FILES_MAX - total) as u64 + 1);
        let read = limited.read_to_end(&mut content);
        read.map_err(|error| error.to_string())?;
        if total + content.len() > FILES_MAX {
            return Err(format!("its files are larger than {FILES_MAX} bytes"));
        }
        files.insert(path, content);
    }
    Ok(())
}

/// Returns a path of an archive as `directory/file`, or `None` if it is outside of the archive.
fn relative(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(files: &[(&str, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            // The library itself rejects some paths that an attacker writes.
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            builder.append(&header, content.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn later_layers_replace_and_delete_files() {
        let mut files = BTreeMap::new();
        let first = layer(&[("manifests/a", "1"), ("./manifests/b", "2"), ("tests/c", "3")]);
        unpack(first.as_slice(), &mut files).unwrap();
        let second = layer(&[("/manifests/a", "4"), ("manifests/.wh.b", ""), (".wh.tests", "")]);
        unpack(second.as_slice(), &mut files).unwrap();
        let expected = BTreeMap::from([("manifests/a".to_owned(), b"4".to_vec())]);
        assert_eq!(files, expected);
    }

    #[test]
    fn paths_outside_of_the_image_are_refused() {
        let mut files = BTreeMap::new();
        let error = unpack(layer(&[("../a", "1")]).as_slice(), &mut files).unwrap_err();
        assert_eq!(error, "the path ../a leaves the image");
        assert!(unpack(&b"no archive at all, but some bytes"[..], &mut files).is_err());
    }
}
