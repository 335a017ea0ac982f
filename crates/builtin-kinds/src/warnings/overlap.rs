//! Warnings about overlapping files of a volume.

use apimachinery::go::quote;
use serde_json::Value;

use crate::tree::{at, entries, list, text};

/// The maximum number of files of one volume that are compared with each other.
const COMPARED_FILES: usize = 500;
/// The maximum number of reported overlaps of one volume.
const REPORTED: usize = 100;

/// A file of a volume, with the source that the warning shows.
struct File<'a> {
    path: &'a str,
    source: String,
}

/// Warns about volumes in which two files have the same path, or one file has the path of another file's directory.
pub(super) fn warnings(warnings: &mut Vec<String>, volumes: &[Value]) {
    for volume in volumes {
        let name = quote(text(volume, &["name"]));
        for (field, kind, key) in [
            ("configMap", "ConfigMap", Some("name")),
            ("secret", "Secret", Some("secretName")),
            ("downwardAPI", "DownwardAPI", None),
        ] {
            let source = at(volume, &[field]);
            let shown = key.map_or_else(
                || kind.to_owned(),
                |key| format!("{kind} {}", quote(text(source, &[key]))),
            );
            let files = list(source, &["items"]).iter().map(|item| File {
                path: text(item, &["path"]),
                source: String::new(),
            });
            for (file, other) in overlaps(files) {
                let (file, other) = (quote(file.path), quote(other.path));
                warnings.push(format!(
                    "volume {name} ({shown}): overlapping paths: {file} with {other}"
                ));
            }
        }
        projected(warnings, at(volume, &["projected"]), &name);
    }
}

fn projected(warnings: &mut Vec<String>, volume: &Value, name: &str) {
    let mut files = Vec::new();
    for source in list(volume, &["sources"]) {
        if entries(source, &[]).all(|(_, value)| value.is_null()) {
            warnings.push(format!("volume {name} (Projected) has no sources provided"));
        }
        for (field, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
            let projection = at(source, &[field]);
            let shown = format!("{kind} {}", quote(text(projection, &["name"])));
            files.extend(list(projection, &["items"]).iter().map(|item| File {
                path: text(item, &["path"]),
                source: shown.clone(),
            }));
        }
        files.extend(list(source, &["downwardAPI", "items"]).iter().map(|item| File {
            path: text(item, &["path"]),
            source: "DownwardAPI".to_owned(),
        }));
        if !at(source, &["serviceAccountToken"]).is_null() {
            files.push(File {
                path: text(source, &["serviceAccountToken", "path"]),
                source: "ServiceAccountToken".to_owned(),
            });
        }
        let bundle = at(source, &["clusterTrustBundle"]);
        if !bundle.is_null() {
            let (kind, key) = match at(bundle, &["name"]).is_null() {
                true => ("SignerName", "signerName"),
                false => ("ClusterTrustBundle", "name"),
            };
            files.push(File {
                path: text(bundle, &["path"]),
                source: format!("{kind} {}", quote(text(bundle, &[key]))),
            });
        }
    }
    for (file, other) in overlaps(files.into_iter()) {
        warnings.push(format!(
            "volume {name} (Projected): overlapping paths: {} ({}) with {} ({})",
            quote(file.path),
            file.source,
            quote(other.path),
            other.source
        ));
    }
}

/// Returns each file together with an earlier file that it overlaps.
fn overlaps<'a>(files: impl Iterator<Item = File<'a>>) -> Vec<(File<'a>, File<'a>)> {
    let files: Vec<File<'a>> = files
        .filter(|file| !file.path.is_empty())
        .take(COMPARED_FILES)
        .collect();
    let mut found = Vec::new();
    for (index, file) in files.iter().enumerate() {
        for other in files.iter().take(index) {
            if is_below(file.path, other.path) || is_below(other.path, file.path) {
                let copy = |file: &File<'a>| File {
                    path: file.path,
                    source: file.source.clone(),
                };
                found.push((copy(file), copy(other)));
                if found.len() >= REPORTED {
                    return found;
                }
            }
        }
    }
    found
}

/// Returns true if the paths are equal, or the first path is in the second one as a directory.
fn is_below(path: &str, directory: &str) -> bool {
    let (path, directory) = (path.trim_end_matches('/'), directory.trim_end_matches('/'));
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
