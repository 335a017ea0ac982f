//! Volumes of Secrets and ConfigMaps. Their files are in the private directory of the pod. Arguments and environment
//! variables contain the path of that directory instead of the path in the container.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::environment::{CONFIG_MAP, SECRET};
use crate::object::Object;

/// A mounted volume of a Secret or a ConfigMap.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount<'a> {
    /// The path in the container.
    path: &'a str,
    /// The name of the volume.
    volume: &'a str,
    pub(super) kind: &'static str,
    /// The name of the object.
    pub(super) object: &'a str,
    pub(super) is_optional: bool,
    /// The keys, and the files that contain their values; empty means all keys.
    items: Vec<(&'a str, &'a str)>,
}

/// Returns the volumes of Secrets and ConfigMaps that a container mounts as directories.
pub(super) fn mounts<'a>(pod: &'a Value, container: &'a Value) -> Vec<Mount<'a>> {
    let mounted = container.items("/volumeMounts").iter();
    let directories = mounted.filter(|mount| mount.text("/subPath").is_empty());
    let found = directories.filter_map(|mount| {
        let name = mount.text("/name");
        let mut volumes = pod.items("/spec/volumes").iter();
        let volume = volumes.find(|volume| volume.text("/name") == name)?;
        let (kind, source, field) = match (volume.get("secret"), volume.get("configMap")) {
            (Some(source), _) => (SECRET, source, "/secretName"),
            (None, Some(source)) => (CONFIG_MAP, source, "/name"),
            (None, None) => return None,
        };
        let items = source.items("/items").iter();
        Some(Mount {
            path: mount.text("/mountPath").trim_end_matches('/'),
            volume: name,
            kind,
            object: source.text(field),
            is_optional: source.flag("/optional"),
            items: items
                .map(|item| (item.text("/key"), item.text("/path")))
                .collect(),
        })
    });
    found.collect()
}

impl Mount<'_> {
    /// Returns the directory that contains the files of the volume.
    fn directory(&self, sandbox: &Path) -> PathBuf {
        sandbox.join("volumes").join(self.volume)
    }

    /// Writes the files of the volume.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub(super) fn write(&self, sandbox: &Path, data: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
        let directory = self.directory(sandbox);
        let files: Vec<(&str, &str)> = match self.items.as_slice() {
            [] => data.keys().map(|key| (key.as_str(), key.as_str())).collect(),
            items => items.to_vec(),
        };
        make(&directory).map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
        for (key, file) in files {
            let path = directory.join(file);
            let is_inside = Path::new(file)
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
            let Some(content) = data.get(key).filter(|_| is_inside) else {
                return Err(format!("references non-existent config key: {key}"));
            };
            let written = path
                .parent()
                .map_or(Ok(()), make)
                .and_then(|()| write(&path, content));
            written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Replaces the path in the container by the local directory, in an argument such as `--flag=/path/file` or the
    /// value of a variable.
    pub(super) fn translate(&self, sandbox: &Path, text: &str) -> String {
        let (flag, value) = match text.split_once('=') {
            Some((flag, value)) if !text.starts_with('/') => (Some(flag), value),
            _ => (None, text),
        };
        let rest = value.strip_prefix(self.path);
        let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
            return text.to_owned();
        };
        let path = format!("{}{rest}", self.directory(sandbox).display());
        flag.map_or(path.clone(), |flag| format!("{flag}={path}"))
    }
}

fn make(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    io::Write::write_all(&mut file, content)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_of_volumes_are_in_the_directory_of_the_pod() {
        let pod = json!({"spec": {"volumes": [
            {"name": "cert", "secret": {"secretName": "web-cert", "items": [{"key": "crt", "path": "tls.crt"}]}},
            {"name": "empty", "emptyDir": {}},
        ]}});
        let container = json!({"volumeMounts": [
            {"name": "cert", "mountPath": "/certs/"}, {"name": "empty", "mountPath": "/tmp"},
        ]});
        let mounts = mounts(&pod, &container);
        let [mount] = mounts.as_slice() else {
            panic!("{mounts:?}");
        };
        assert_eq!((mount.kind, mount.object), (SECRET, "web-cert"));
        let sandbox = tempfile::tempdir().unwrap();
        let data = BTreeMap::from([
            ("crt".to_owned(), b"C".to_vec()),
            ("key".to_owned(), b"K".to_vec()),
        ]);
        mount.write(sandbox.path(), &data).unwrap();
        let directory = sandbox.path().join("volumes/cert");
        assert_eq!(fs::read(directory.join("tls.crt")).unwrap(), b"C");
        assert!(!directory.join("key").exists());
        let error = mount.write(sandbox.path(), &BTreeMap::new()).unwrap_err();
        assert_eq!(error, "references non-existent config key: crt");

        let directory = directory.display();
        for (text, expected) in [
            ("--path=/certs", format!("--path={directory}")),
            ("/certs/tls.crt", format!("{directory}/tls.crt")),
            ("--path=/certs2", "--path=/certs2".to_owned()),
            ("--url=http://web/certs", "--url=http://web/certs".to_owned()),
        ] {
            assert_eq!(mount.translate(sandbox.path(), text), expected);
        }
    }

    #[test]
    fn a_volume_has_no_files_outside_of_its_directory() {
        let pod = json!({"spec": {"volumes": [
            {"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "../../k"}]}},
        ]}});
        let container = json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]});
        let sandbox = tempfile::tempdir().unwrap();
        let data = BTreeMap::from([("k".to_owned(), Vec::new())]);
        assert!(mounts(&pod, &container)[0].write(sandbox.path(), &data).is_err());
        assert!(!sandbox.path().join("k").exists());
    }
}
