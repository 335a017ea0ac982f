//! `/version`, and the order of version names.

use std::cmp::Reverse;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::VersionPriority;
use crate::resource::Definition;

/// The version that the server answers as.
pub(crate) const GIT_VERSION: &str = "v1.36.2";

/// The answer of `/version`.
pub(crate) fn info() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION, "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "go1.26", "compiler": "gc", "platform": "linux/amd64",
    })
}

/// Changes when the stored form of a resource does: the beginning of a digest of its storage version.
pub(crate) fn storage_version_hash(definition: &Definition) -> String {
    let subject = &definition.subject;
    let text = format!(
        "{}/{}/{}",
        definition.storage.group, definition.storage.version, subject.kind
    );
    let digest = Sha256::digest(text.as_bytes());
    BASE64_STANDARD.encode(digest.get(..8).unwrap_or_default())
}

/// The sort key of a version name.
pub(crate) fn version_priority(name: &str) -> VersionPriority {
    parse(name).unwrap_or((3, Reverse(0), Reverse(0), name.to_owned()))
}

fn parse(name: &str) -> Option<VersionPriority> {
    let rest = name.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, suffix) = rest.split_at_checked(digits)?;
    let major = major.parse().ok()?;
    if suffix.is_empty() {
        return Some((0, Reverse(major), Reverse(0), String::new()));
    }
    let (class, minor) = match suffix.strip_prefix("beta") {
        Some(minor) => (1, minor),
        None => (2, suffix.strip_prefix("alpha")?),
    };
    Some((class, Reverse(major), Reverse(minor.parse().ok()?), String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_newer_before_older() {
        let mut names = [
            "foo1",
            "v1alpha1",
            "v10",
            "v1beta2",
            "v2",
            "v11alpha2",
            "v1beta10",
            "foo10",
        ];
        names.sort_by_key(|name| version_priority(name));
        let want = [
            "v10",
            "v2",
            "v1beta10",
            "v1beta2",
            "v11alpha2",
            "v1alpha1",
            "foo1",
            "foo10",
        ];
        assert_eq!(names, want);
    }
}
