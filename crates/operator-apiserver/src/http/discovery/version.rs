//! `/version`, and hashes of storage versions.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::resource::Definition;

/// The Kubernetes version that the server reports.
pub(crate) const GIT_VERSION: &str = "v1.36.2";

/// Returns the document of `/version`.
pub(crate) fn info() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION, "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "go1.26", "compiler": "gc", "platform": "linux/amd64",
    })
}

/// Returns the hash of a storage version, which changes with the stored form of a resource.
pub(crate) fn storage_version_hash(definition: &Definition) -> String {
    let subject = &definition.subject;
    // A real server stores these kinds in a beta version.
    let version = match (subject.group.as_str(), subject.kind.as_str()) {
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy" | "MutatingAdmissionPolicyBinding")
        | ("apiextensions.k8s.io", "CustomResourceDefinition") => "v1beta1",
        _ => &definition.storage.version,
    };
    let text = format!("{}/{version}/{}", definition.storage.group, subject.kind);
    let digest = Sha256::digest(text.as_bytes());
    BASE64_STANDARD.encode(digest.get(..8).unwrap_or_default())
}
